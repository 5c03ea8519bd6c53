//! Models of statistical physics.

use std::f64::consts::PI;

use annealed::Result;
use annealed::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::advice::{Advice, Problem};
use super::exact::{enumerate, field_ring, kaufman, potts_torus, rotor_ring};
use super::sites::{Fair, HeatBath, Sites};

/// The Potts model on a square torus: equal neighbours gain `coupling` each. Two colours with a coupling of 2J are
/// the Ising model of coupling J, up to a constant.
struct Potts {
    values: u8,
    coupling: f64,
    /// Neighbours of each site: down, right, up, left.
    neighbours: Vec<[usize; 4]>,
}

impl Potts {
    fn new(side: usize, values: u8, coupling: f64) -> Self {
        let of_site = |site: usize| {
            let (i, j) = (site / side, site % side);
            let at = |i: usize, j: usize| i % side * side + j % side;
            [
                at(i + 1, j),
                at(i, j + 1),
                at(i + side - 1, j),
                at(i, j + side - 1),
            ]
        };
        Self {
            values,
            coupling,
            neighbours: (0..side * side).map(of_site).collect(),
        }
    }
}

impl UnnormalizedModel for Potts {
    type State = Vec<u8>;

    fn log_density(&self, state: &Vec<u8>) -> f64 {
        let sites = state.iter().zip(&self.neighbours);
        let equal = sites.map(|(value, [down, right, ..])| {
            usize::from(*value == state[*down]) + usize::from(*value == state[*right])
        });
        self.coupling * equal.sum::<usize>() as f64
    }
}

impl Sites for Potts {
    fn values(&self) -> u8 {
        self.values
    }

    fn log_at(&self, state: &[u8], site: usize, value: u8) -> f64 {
        let neighbours = self.neighbours[site].iter();
        self.coupling * neighbours.filter(|&&n| state[n] == value).count() as f64
    }
}

fn potts(advice: &Advice, exact: f64, target: Potts) -> Result<Problem> {
    let base = Fair {
        sites: target.neighbours.len(),
        values: target.values,
    };
    advice.follow(exact, GeometricPath::new(base, target), HeatBath)
}

/// Sets up the Ising model on a torus of 10 x 10 spins at the critical coupling (Onsager 1944; Kaufman 1949).
pub fn ising(advice: &Advice) -> Result<Problem> {
    let coupling = 0.5 * 2f64.sqrt().ln_1p();
    let target = Potts::new(10, 2, 2.0 * coupling);
    // A bond gains J if its spins are equal, and -J if they differ.
    let bonds = 200.0;
    potts(advice, kaufman(10, 10, coupling) + bonds * coupling, target)
}

/// Sets up the Potts model of three colours on a torus of 6 x 6 sites at its critical coupling (Potts 1952).
pub fn potts_three(advice: &Advice) -> Result<Problem> {
    let coupling = 3f64.sqrt().ln_1p();
    let target = Potts::new(6, 3, coupling);
    potts(advice, potts_torus(6, 3, coupling), target)
}

/// Sets up planar rotors on a ring of 16 sites at a coupling of 2 (Joyce 1967).
pub fn rotors(advice: &Advice) -> Result<Problem> {
    let likelihood = FunctionModel::new(|x: &DVector<f64>| {
        let next = x.iter().cycle().skip(1);
        2.0 * x.iter().zip(next).map(|(a, b)| (a - b).cos()).sum::<f64>()
    });
    let prior = UniformBox::new([(-PI, PI); 16])?;
    advice.walk(rotor_ring(16, 2.0), TemperedPath::new(prior, likelihood))
}

/// Sets up a scalar field on a ring of 16 sites with potential `(x^2 - 1)^2`, from N(0, I): two modes and walls.
pub fn scalar_field(advice: &Advice) -> Result<Problem> {
    const STIFFNESS: f64 = 2.0;
    let potential = |x: f64| (x * x - 1.0).powi(2);
    let target = FunctionModel::new(move |x: &DVector<f64>| {
        let next = x.iter().cycle().skip(1);
        let energy = |(a, b): (&f64, &f64)| 0.5 * STIFFNESS * (a - b).powi(2) + potential(*a);
        -x.iter().zip(next).map(energy).sum::<f64>()
    })
    .with_gradient(|x: &DVector<f64>| {
        DVector::from_fn(16, |i, _| {
            let around = x[(i + 15) % 16] + x[(i + 1) % 16];
            STIFFNESS * (around - 2.0 * x[i]) - 4.0 * x[i] * (x[i] * x[i] - 1.0)
        })
    });
    let exact = field_ring(16, STIFFNESS, 3.5, potential);
    advice.leap(exact, GeometricPath::new(Gaussian::standard(16)?, target))
}

/// The spin glass of Sherrington and Kirkpatrick (1975): `log f = 2 sum J_ij s_i s_j`, `J_ij ~ N(0, 1 / 16)`.
struct SpinGlass(DMatrix<f64>);

fn spin(value: u8) -> f64 {
    f64::from(value) * 2.0 - 1.0
}

impl UnnormalizedModel for SpinGlass {
    type State = Vec<u8>;

    fn log_density(&self, state: &Vec<u8>) -> f64 {
        let term = |site: usize| self.log_at(&state[..site], site, state[site]);
        (0..state.len()).map(term).sum()
    }
}

impl Sites for SpinGlass {
    fn values(&self) -> u8 {
        2
    }

    fn log_at(&self, state: &[u8], site: usize, value: u8) -> f64 {
        let couplings = self.0.column(site);
        let terms = couplings.iter().zip(state).map(|(j, &s)| j * spin(s));
        spin(value) * terms.sum::<f64>()
    }
}

pub fn spin_glass(advice: &Advice) -> Result<Problem> {
    const SPINS: usize = 16;
    const INVERSE_TEMPERATURE: f64 = 2.0;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1975);
    let scale = INVERSE_TEMPERATURE / (SPINS as f64).sqrt();
    let mut couplings = DMatrix::from_fn(SPINS, SPINS, |_, _| {
        scale * rng.sample::<f64, _>(StandardNormal)
    });
    couplings.fill_diagonal(0.0);
    couplings.fill_upper_triangle_with_lower_triangle();
    let target = SpinGlass(couplings);
    let exact = enumerate(SPINS, 2, |state| target.log_density(state));
    let base = Fair {
        sites: SPINS,
        values: 2,
    };
    advice.follow(exact, GeometricPath::new(base, target), HeatBath)
}
