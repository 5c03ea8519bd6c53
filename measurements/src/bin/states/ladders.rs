//! `Mbar` of the states of tempered runs beside the run's own log Z, which sums over neighbours.

use std::error::Error;

use annealed::estimate::LogZ;
use annealed::kernel::{Invariant, NonFinite, RandomWalkMetropolis, Stage, Step, TransitionKernel};
use annealed::model::{FunctionModel, Gaussian};
use annealed::path::{AnnealingPath, GeometricPath, Intermediate};
use annealed::prelude::{DVector, Tempering};
use annealed::schedule::Schedule;
use annealed_measurements::problems::exact::{kaufman, log_integral};
use annealed_measurements::problems::seeds::over_seeds;
use rand::{Rng, RngExt};

use crate::replicas::{SIDE, SPINS, energy};

/// Rounds of a run, and the samples of its last round: the default number, and one at each time.
const ROUNDS: usize = 9;
const SAMPLES: [usize; 2] = [1_000, 8 << ROUNDS];
/// Betas of which a run has no states.
const FURTHER: [f64; 3] = [0.13, 0.37, 0.81];
/// Inverse temperature of the spins at beta = 1.
const COLDEST: f64 = 0.58;

/// Draws each spin of a lattice given its neighbours.
struct HeatBath;

impl<M: Intermediate<State = [i8; SPINS]>> TransitionKernel<M> for HeatBath {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        spins: &mut [i8; SPINS],
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        crate::replicas::move_spins(spins, stage.beta * COLDEST, rng);
        Ok(Step::invariant())
    }
}

impl<M: Intermediate<State = [i8; SPINS]>> Invariant<M> for HeatBath {}

/// Errors over standard errors, and 95% intervals that hold.
#[derive(Debug, Clone, Default)]
struct Sums {
    count: f64,
    squares: f64,
    ratios: f64,
    held: f64,
    warned: f64,
}

impl Sums {
    fn add(&mut self, found: &dyn LogZ, exact: f64) {
        let (error, (lower, upper)) = (found.log_z() - exact, found.interval());
        let far = |x: f64| x * x;
        self.count += 1.0;
        self.squares += far(error);
        self.ratios += far(error / found.standard_error());
        self.held += f64::from(u8::from(lower <= exact && exact <= upper));
        self.warned += f64::from(u8::from(!found.warnings().is_empty()));
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.squares += other.squares;
        self.ratios += other.ratios;
        self.held += other.held;
        self.warned += other.warned;
    }
}

const ROWS: [&str; 5] = [
    "the run's own",
    "`Mbar`, 1,000 samples",
    "`Mbar`, all states",
    "`Mbar` at further betas, 1,000 samples",
    "`Mbar` at further betas, all states",
];

/// Prints the rows of a path, whose log Z at each beta is known.
fn print<P, K>(
    name: &str,
    (path, kernel): (P, &K),
    (stages, seeds): (usize, u64),
    log_z: impl Fn(f64) -> f64 + Sync,
) -> Result<(), Box<dyn Error>>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
{
    let base = log_z(0.0);
    let found = over_seeds(seeds, |seed| {
        let mut rows = vec![Sums::default(); ROWS.len()];
        for (place, samples) in SAMPLES.into_iter().enumerate() {
            let run = Tempering::with_base_log_z(path.clone(), kernel, base)
                .schedule(Schedule::linear(stages)?)
                .rounds(ROUNDS)
                .samples(samples)
                .seed(seed)
                .threads(1)
                .run()?;
            if place == 0 {
                rows[0].add(&run, log_z(1.0));
            }
            let mbar = run.mbar(&path)?;
            let last = mbar.difference(stages, 0)?.shifted(base);
            rows[1 + place].add(&last, log_z(1.0));
            for beta in FURTHER {
                let at = mbar.weights_at(&run.log_densities_at(&path, beta)?)?;
                let found = at.log_z().clone().shifted(base);
                rows[3 + place].add(&found, log_z(beta));
            }
        }
        Ok(rows)
    })?;
    for (row, kind) in ROWS.into_iter().enumerate() {
        let mut all = Sums::default();
        found.iter().for_each(|rows| all.merge(&rows[row]));
        let share = |part: f64| 100.0 * part / all.count;
        println!(
            "| {name} | {kind} | {:.5} | {:.2} | {:.1}% of {} | {:.1}% |",
            (all.squares / all.count).sqrt(),
            (all.ratios / all.count).sqrt(),
            share(all.held),
            all.count,
            share(all.warned),
        );
    }
    Ok(())
}

/// Prints the table.
pub(crate) fn table(seeds: u64) -> Result<(), Box<dyn Error>> {
    println!(
        "| path | estimate of log Z | root mean square error | over standard error | intervals that hold | warned |"
    );
    println!("|---|---|--:|--:|--:|--:|");
    let well = |x: f64| -x.powi(4) + 6.0 * x * x + 0.5 * x;
    let target = FunctionModel::new(move |x: &DVector<f64>| well(x[0]));
    let path = GeometricPath::new(Gaussian::isotropic(DVector::zeros(1), 1.5)?, target);
    let blend = |beta: f64, x: f64| (1.0 - beta) * -0.5 * (x / 1.5).powi(2) + beta * well(x);
    let log_z = |beta: f64| log_integral(-12.0, 12.0, 8_000, |x| blend(beta, x));
    let walk = RandomWalkMetropolis::new(0.6)?;
    print("double well", (&path, &walk), (8, seeds), log_z)?;

    let away = Gaussian::isotropic(DVector::from_element(10, 1.0), 0.5)?;
    let path = GeometricPath::new(Gaussian::standard(10)?, away);
    // Precisions 1 and 4, means 0 and 1.
    let log_z = |beta: f64| {
        let precision = 1.0 + 3.0 * beta;
        let apart = 4.0 * beta * (1.0 - beta) / precision;
        5.0 * ((std::f64::consts::TAU / precision).ln() - apart)
    };
    print("ten normal coordinates", (&path, &walk), (8, seeds), log_z)?;

    let fair = FunctionModel::new(|_: &[i8; SPINS]| 0.0)
        .with_sampler(|rng| std::array::from_fn(|_| if rng.random() { 1 } else { -1 }))
        .with_log_normalizer(SPINS as f64 * 2f64.ln())?;
    let target = FunctionModel::new(|spins: &[i8; SPINS]| -COLDEST * energy(spins));
    let path = GeometricPath::new(fair, target);
    let log_z = |beta: f64| match beta {
        0.0 => SPINS as f64 * 2f64.ln(),
        _ => kaufman(SIDE, SIDE, beta * COLDEST),
    };
    print("16 x 16 spins", (&path, &HeatBath), (24, seeds), log_z)
}
