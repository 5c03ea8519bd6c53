//! Problems with a known log Z, each with the path used in its literature. The library's tests own those that they need.

pub mod advice;
mod boltzmann;
#[path = "../../../tests/it/shared/bumps.rs"]
pub mod bumps;
mod evidence;
#[path = "../../../tests/it/shared/exact.rs"]
pub mod exact;
pub mod hierarchies;
#[path = "../../../tests/it/shared/latin.rs"]
pub mod latin;
mod lattices;
#[path = "../../../tests/it/shared/logistic.rs"]
pub mod logistic;
pub mod meter;
mod modes;
pub mod motion;
mod published;
pub mod regression;
pub mod rows;
#[path = "../../../tests/it/shared/scales.rs"]
pub mod scales;
pub mod seeds;
mod sequences;
mod shapes;
mod sites;
pub mod table;
pub mod targets;

use advice::{Advice, Problem};
pub use published::published;

/// A problem that is created on demand.
pub struct Entry {
    pub name: &'static str,
    /// How log Z is known, and who posed the problem.
    pub source: &'static str,
    pub make: fn(&Advice) -> annealed::Result<Problem>,
    /// Number of seeds in the full table.
    pub seeds: u64,
    /// Reason why the weights of a run cannot show its error; `None` for most problems.
    pub outside: Option<&'static str>,
}

type Make = fn(&Advice) -> annealed::Result<Problem>;

const fn entry(name: &'static str, source: &'static str, make: Make) -> Entry {
    Entry {
        name,
        source,
        make,
        seeds: 400,
        outside: None,
    }
}

impl Entry {
    const fn outside(self, reason: &'static str) -> Self {
        Self {
            outside: Some(reason),
            ..self
        }
    }

    const fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }
}

pub const ALL: [Entry; 30] = [
    entry("Gaussian, 10-d", "closed form", shapes::gaussian),
    entry("Laplace, 10-d", "closed form", shapes::laplace),
    entry("Gumbel, 5-d", "closed form", shapes::gumbel),
    entry("Student t, 10-d", "closed form", shapes::student),
    entry(
        "banana, 8-d",
        "closed form; Haario, Saksman and Tamminen 1999",
        shapes::banana,
    ),
    entry("funnel, 10-d", "closed form; Neal 2003", shapes::funnel)
        .outside("the neck holds a fifth of the mass and more, in so small a volume that few chains enter it"),
    entry(
        "many-well, 32-d",
        "quadrature; Noe et al. 2019, Midgley et al. 2023",
        modes::many_well,
    ),
    entry(
        "egg box",
        "quadrature; Feroz, Hobson and Bridges 2009",
        modes::eggbox,
    ),
    entry(
        "shells, 10-d",
        "quadrature; Feroz, Hobson and Bridges 2009",
        modes::shells,
    ),
    entry(
        "40 clusters",
        "closed form; Midgley et al. 2023",
        modes::clusters,
    ),
    entry(
        "two widths, 10-d",
        "closed form; Woodard, Schmidler and Huber 2009",
        modes::two_widths,
    )
    .outside("half of the mass is a narrow mode that nearly no chain finds"),
    entry(
        "spike in a ball, 10-d",
        "closed form; Skilling 2006, Salomone et al. 2018",
        modes::spike_in_ball,
    )
    .outside("a transition of the first order, beyond which no chain finds 90% of the mass"),
    entry("Ising 10 x 10", "Kaufman 1949", lattices::ising),
    entry(
        "Potts 6 x 6",
        "transfer matrix; Potts 1952",
        lattices::potts_three,
    ),
    entry(
        "rotors, 16-d",
        "Bessel functions; Joyce 1967",
        lattices::rotors,
    ),
    entry(
        "scalar field, 16-d",
        "transfer operator",
        lattices::scalar_field,
    ),
    entry(
        "spin glass, 16",
        "sum over 2^16; Sherrington and Kirkpatrick 1975",
        lattices::spin_glass,
    ),
    entry("RBM 16 x 8, random", "sum over 2^8", boltzmann::random_rbm),
    entry(
        "RBM 64 x 20, CD",
        "sum over 2^20; Hinton 2002",
        boltzmann::cd_rbm,
    ),
    entry(
        "RBM 64 x 20, PCD",
        "sum over 2^20; Tieleman 2008",
        boltzmann::pcd_rbm,
    ),
    entry(
        "Beta-Bernoulli",
        "closed form; Bayes 1763",
        evidence::beta_bernoulli,
    ),
    entry(
        "product of two",
        "quadrature; Surjanovic et al. 2023",
        evidence::product,
    ),
    entry(
        "shuttle, logistic",
        "quadrature; Dalal, Fowlkes and Hoadley 1989",
        evidence::shuttle,
    ),
    entry(
        "pines, regression",
        "closed form; Williams 1959, Friel and Pettitt 2008",
        evidence::pines,
    ),
    entry(
        "cement, spike and slab",
        "sum over 2^4; Hald 1952, George and McCulloch 1993",
        evidence::spike_and_slab,
    ),
    entry(
        "eight schools",
        "quadrature; Rubin 1981",
        hierarchies::eight_schools,
    ),
    entry(
        "coal mines, change",
        "sum over 112 years; Jarrett 1979, Raftery and Akman 1986",
        hierarchies::coal_mines,
    ),
    entry(
        "earthquakes, HMM",
        "forward recursion; Zucchini and MacDonald 2009",
        sequences::earthquakes,
    ),
    entry(
        "maize, mixture",
        "sum over 2^15; Darwin 1876, Fisher 1935",
        sequences::maize,
    ),
    entry(
        "Nile, level, 50-d",
        "Kalman filter; Cobb 1978, Durbin and Koopman 2001",
        sequences::nile,
    ),
];
