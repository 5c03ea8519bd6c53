//! A model of your own with its own state type: log Z of an Ising lattice by heat-bath updates, next to the exact value
//! from the transfer matrix. A recorder estimates the magnetisation along the path.
//!
//! ```text
//! cargo run --release --example ising
//! ```

use annealed::ais::Expectations;
use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::GeometricAt;
use annealed::prelude::*;
use rand::{Rng, RngExt};

const SIDE: usize = 8;
/// Coupling over temperature; the infinite lattice is critical at 0.4407.
const COUPLING: f64 = 0.44;

/// Spins on a square lattice with periodic boundaries.
#[derive(Debug, Clone)]
struct Lattice([[i8; SIDE]; SIDE]);

impl Lattice {
    fn sum_of_neighbors(&self, i: usize, j: usize) -> i8 {
        let (up, down) = ((i + SIDE - 1) % SIDE, (i + 1) % SIDE);
        let (left, right) = ((j + SIDE - 1) % SIDE, (j + 1) % SIDE);
        self.0[up][j] + self.0[down][j] + self.0[i][left] + self.0[i][right]
    }

    /// Returns the sum over bonds of the product of their spins.
    fn alignment(&self) -> i32 {
        let at = |i: usize, j: usize| i32::from(self.0[i % SIDE][j % SIDE]);
        let cells = (0..SIDE).flat_map(|i| (0..SIDE).map(move |j| (i, j)));
        cells
            .map(|(i, j)| at(i, j) * (at(i + 1, j) + at(i, j + 1)))
            .sum()
    }

    /// Returns the absolute value of the mean spin; 1 if all spins agree.
    fn magnetisation(&self) -> f64 {
        let sum: i32 = self.0.iter().flatten().map(|&spin| i32::from(spin)).sum();
        f64::from(sum.abs()) / (SIDE * SIDE) as f64
    }
}

/// The base: independent fair spins, `f = 1`, `Z = 2^(SIDE * SIDE)`.
struct FairSpins;

impl UnnormalizedModel for FairSpins {
    type State = Lattice;

    fn log_density(&self, _state: &Lattice) -> f64 {
        0.0
    }
}

impl NormalizedModel for FairSpins {
    fn log_normalizer(&self) -> f64 {
        (SIDE * SIDE) as f64 * 2f64.ln()
    }
}

impl Sampleable for FairSpins {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Lattice {
        let mut spin = || if rng.random() { 1 } else { -1 };
        Lattice(std::array::from_fn(|_| std::array::from_fn(|_| spin())))
    }
}

/// The target: `log f(s) = coupling * sum over bonds of s s'`.
struct Ising {
    coupling: f64,
}

impl UnnormalizedModel for Ising {
    type State = Lattice;

    fn log_density(&self, state: &Lattice) -> f64 {
        self.coupling * f64::from(state.alignment())
    }
}

/// A kernel that draws each spin in turn given its neighbours. The coupling at beta is `beta` times the target's.
struct HeatBath;

type IsingAt<'a> = GeometricAt<'a, FairSpins, Ising>;

impl TransitionKernel<IsingAt<'_>> for HeatBath {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, IsingAt<'_>>,
        state: &mut Lattice,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let coupling = stage.beta * stage.model.path().target().coupling;
        for i in 0..SIDE {
            for j in 0..SIDE {
                let field = coupling * f64::from(state.sum_of_neighbors(i, j));
                let up = 1.0 / (1.0 + (-2.0 * field).exp());
                state.0[i][j] = if rng.random::<f64>() < up { 1 } else { -1 };
            }
        }
        Ok(Step::invariant())
    }
}

/// Returns `log trace T^SIDE`, with `T(a, b)` the weight of a row a and its bonds to the next row b.
fn exact_log_z() -> f64 {
    let spin = |row: usize, j: usize| {
        if row >> (j % SIDE) & 1 == 1 {
            1.0
        } else {
            -1.0
        }
    };
    let transfer = DMatrix::from_fn(1 << SIDE, 1 << SIDE, |a, b| {
        let within = (0..SIDE).map(|j| spin(a, j) * spin(a, j + 1)).sum::<f64>();
        let between = (0..SIDE).map(|j| spin(a, j) * spin(b, j)).sum::<f64>();
        (COUPLING * (within + between)).exp()
    });
    transfer.pow(SIDE as u32).trace().ln()
}

fn main() -> annealed::Result<()> {
    let path = GeometricPath::new(FairSpins, Ising { coupling: COUPLING });
    let run = Ais::new(&path, HeatBath)
        .schedule(Schedule::linear(500)?)
        .chains(500)
        .seed(1)
        .recorder(Expectations::new(Lattice::magnetisation))
        .run()?;
    let exact = exact_log_z();
    println!("{run}\nexact: {exact:.3}");
    assert!((run.log_z() - exact).abs() <= 4.0 * run.standard_error());
    let (energy, error) = run.expectation(|state| -f64::from(state.alignment()));
    println!("mean energy, in units of the coupling: {energy:.2} +- {error:.2}");
    println!("magnetisation:");
    for (beta, mean, error) in run.recorder().estimates().skip(99).step_by(100) {
        println!("  coupling {:.3}: {mean:.3} +- {error:.3}", beta * COUPLING);
    }
    Ok(())
}
