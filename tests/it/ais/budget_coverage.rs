//! Bias and coverage of runs that stop at a standard error: the table of `docs/long-runs.md`.
//!
//! `cargo test --release --features full --test it -- --ignored --nocapture until_an_error`

use annealed::ais::{Ais, Run, StoppedBy};
use annealed::estimate::LogZ;
use annealed::kernel::{RandomWalkMetropolis, TransitionKernel};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::population::Resampling;
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};

const SEEDS: u64 = 1_000;

/// Figures of many runs of one kind.
struct Many {
    chains: usize,
    bias: f64,
    spread: f64,
    stated: f64,
    coverage: f64,
}

/// Figures of one run.
struct Kept {
    chains: usize,
    error: f64,
    stated: f64,
    covers: bool,
}

impl Kept {
    fn of(run: &Run<DVector<f64>>, exact: f64) -> Self {
        Self {
            chains: run.chains(),
            error: run.log_z() - exact,
            stated: run.standard_error(),
            covers: run.interval().0 <= exact && exact <= run.interval().1,
        }
    }
}

impl Many {
    fn of(exact: f64, run: impl Fn(u64) -> Run<DVector<f64>>) -> Self {
        let runs: Vec<Kept> = (0..SEEDS).map(|seed| Kept::of(&run(seed), exact)).collect();
        let mean = |of: &dyn Fn(&Kept) -> f64| runs.iter().map(of).sum::<f64>() / SEEDS as f64;
        let bias = mean(&|run| run.error);
        Self {
            chains: mean(&|run| run.chains as f64) as usize,
            bias,
            spread: mean(&|run| (run.error - bias).powi(2)).sqrt(),
            stated: mean(&|run| run.stated),
            coverage: mean(&|run| f64::from(run.covers)),
        }
    }

    fn print(&self, name: &str) {
        let Self {
            chains,
            bias,
            spread,
            stated,
            coverage,
        } = self;
        let error = spread / (SEEDS as f64).sqrt();
        println!(
            "{name}: {chains} chains, bias {bias:+.4} ({error:.4}), spread {spread:.4}, stated {stated:.4}, \
             coverage {coverage:.3}"
        );
    }
}

fn compare<P, K>(name: &str, ais: &dyn Fn() -> Ais<'static, P, K>, exact: f64, error: f64)
where
    P: AnnealingPath<State = DVector<f64>> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let until = |seed| {
        ais()
            .seed(seed)
            .chains(1_000_000)
            .until_error(error)
            .run()
            .unwrap()
    };
    assert_eq!(until(0).stopped_by(), StoppedBy::StandardError);
    let until = Many::of(exact, until);
    let chains = until.chains.div_ceil(50) * 50;
    let fixed = Many::of(exact, |seed| {
        ais().seed(SEEDS + seed).chains(chains).run().unwrap()
    });
    until.print(&format!("{name}, until {error}"));
    fixed.print(&format!("{name}, as many chains"));
}

#[test]
#[ignore = "measures, for some minutes"]
fn intervals_of_runs_until_an_error_cover() {
    let walk = || RandomWalkMetropolis::new(0.5).unwrap();
    let target = Gaussian::isotropic(dvector![2.0, -1.0], 0.5).unwrap();
    let exact = target.log_normalizer();
    let shifted: &_ = Box::leak(Box::new(GeometricPath::new(
        Gaussian::standard(2).unwrap(),
        target,
    )));
    let annealed = || {
        let schedule = Schedule::linear(50).unwrap();
        Ais::new(shifted, walk()).schedule(schedule).block_size(50)
    };
    let resampled = || annealed().resampling(Resampling::every(5).unwrap());
    compare("shifted Gaussian", &annealed, exact, 0.1);
    compare("shifted Gaussian", &annealed, exact, 0.05);
    compare("resampled", &resampled, exact, 0.1);
    compare("resampled", &resampled, exact, 0.03);

    let wide = Gaussian::isotropic(DVector::zeros(2), 3.0).unwrap();
    let mode = |at, variance| Gaussian::isotropic(DVector::from_element(2, at), variance).unwrap();
    let modes = GaussianMixture::new([(0.7, mode(-2.0, 0.5)), (0.3, mode(2.0, 0.7))]).unwrap();
    let modes: &_ = Box::leak(Box::new(GeometricPath::new(wide, modes)));
    let modes = || {
        let schedule = Schedule::linear(50).unwrap();
        Ais::new(modes, walk()).schedule(schedule).block_size(50)
    };
    compare("two modes", &modes, 0.0, 0.1);
    compare("two modes", &modes, 0.0, 0.05);
}
