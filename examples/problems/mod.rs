//! Problems with a known log Z, each with the path that its literature anneals along.

pub mod advice;
mod boltzmann;
mod boxes;
mod evidence;
mod exact;
mod hierarchies;
mod lattices;
mod logistic;
mod modes;
mod published;
mod sequences;
mod shapes;
mod sites;
pub mod table;

use advice::{Advice, Problem};
pub use published::published;

/// A problem's name, what makes it, and why it may fail without a word.
pub struct Entry {
    pub name: &'static str,
    pub make: fn(&Advice) -> annealed::Result<Problem>,
    /// Number of seeds of the full table.
    pub seeds: u64,
    /// The reason why nothing in the weights of a run can show its error, where there is one.
    pub outside: Option<&'static str>,
}

const fn entry(name: &'static str, make: fn(&Advice) -> annealed::Result<Problem>) -> Entry {
    Entry {
        name,
        make,
        seeds: 400,
        outside: None,
    }
}

const fn outside(
    name: &'static str,
    make: fn(&Advice) -> annealed::Result<Problem>,
    reason: &'static str,
) -> Entry {
    Entry {
        name,
        make,
        seeds: 400,
        outside: Some(reason),
    }
}

/// The thirty problems.
pub const ALL: [Entry; 30] = [
    entry("Gaussian, 10-d", shapes::gaussian),
    entry("Laplace, 10-d", shapes::laplace),
    entry("Gumbel, 5-d", shapes::gumbel),
    entry("Student t, 10-d", shapes::student),
    entry("banana, 8-d", shapes::banana),
    entry("funnel, 10-d", shapes::funnel),
    entry("many-well, 32-d", modes::many_well),
    entry("egg box", modes::eggbox),
    entry("shells, 10-d", modes::shells),
    entry("40 clusters", modes::clusters),
    outside(
        "two widths, 10-d",
        modes::two_widths,
        "a mode narrower than another is found by few chains",
    ),
    outside(
        "spike in a ball, 10-d",
        modes::spike_in_ball,
        "a transition of the first order: no chain finds the spike",
    ),
    entry("Ising 10 x 10", lattices::ising),
    entry("Potts 6 x 6", lattices::potts_three),
    entry("rotors, 16-d", lattices::rotors),
    entry("scalar field, 16-d", lattices::scalar_field),
    entry("spin glass, 16", lattices::spin_glass),
    entry("RBM 16 x 8, random", boltzmann::random_rbm),
    entry("RBM 64 x 20, CD", boltzmann::cd_rbm),
    entry("RBM 64 x 20, PCD", boltzmann::pcd_rbm),
    entry("Beta-Bernoulli", evidence::beta_bernoulli),
    entry("product of two", evidence::product),
    entry("shuttle, logistic", evidence::shuttle),
    entry("pines, regression", evidence::pines),
    entry("cement, spike and slab", evidence::spike_and_slab),
    entry("eight schools", hierarchies::eight_schools),
    entry("coal mines, change", hierarchies::coal_mines),
    entry("earthquakes, HMM", sequences::earthquakes),
    entry("maize, mixture", sequences::maize),
    entry("Nile, level, 50-d", sequences::nile),
];
