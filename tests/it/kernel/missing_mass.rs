//! Unadjusted kernels whose moves overshoot miss weight that no forward chain meets, and say so.

use crate::shared;
use annealed::ais::Ais;
use annealed::drift::{DriftModifiedLangevin, QuadratureModifier};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{Mala, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Differentiable, Gaussian, GaussianMixture, NormalizedModel, Sampleable};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, TemperedPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};
use rand::{Rng, RngExt};

type State = DVector<f64>;

/// From the uniform law on (0, 1) to Beta(a, b), without its constant. The gradient diverges at the edges.
fn beta(
    a: f64,
    b: f64,
) -> TemperedPath<
    impl Differentiable<State = State> + NormalizedModel + Sampleable + Sync,
    impl Differentiable<State = State> + Sync,
> {
    let inside = |x: &State| 0.0 < x[0] && x[0] < 1.0;
    let uniform = move |x: &State| if inside(x) { 0.0 } else { f64::NEG_INFINITY };
    let prior = shared::function(uniform)
        .with_gradient(shared::gradient(|_: &State| dvector![0.0]))
        .with_sampler(shared::sampler(|rng: &mut dyn Rng| {
            dvector![rng.random::<f64>()]
        }))
        .with_log_normalizer(0.0)
        .unwrap();
    let likelihood = shared::function(move |x: &State| match inside(x) {
        true => (a - 1.0) * x[0].ln() + (b - 1.0) * (1.0 - x[0]).ln(),
        false => f64::NEG_INFINITY,
    });
    let slope = move |x: &State| dvector![(a - 1.0) / x[0] - (b - 1.0) / (1.0 - x[0])];
    TemperedPath::new(prior, likelihood.with_gradient(shared::gradient(slope)))
}

/// The shares that 20 runs find missing, 0 for a run that does not warn, and their estimates of log Z.
fn runs<P, K>(path: P, kernel: K, steps: usize, chains: usize) -> (Vec<f64>, Vec<f64>)
where
    P: AnnealingPath<State = State, Base: NormalizedModel> + Send + Sync,
    K: TransitionKernel<P::At> + Clone + Sync,
{
    let run = |seed| {
        let ais = Ais::new(&path, kernel.clone()).seed(seed).chains(chains);
        let run = ais
            .schedule(Schedule::linear(steps).unwrap())
            .run()
            .unwrap();
        let share = run.warnings().iter().find_map(|warning| match warning {
            Warning::MissingMass { share, .. } => Some(*share),
            _ => None,
        });
        (share.unwrap_or(0.0), run.log_z())
    };
    (0..20).map(run).unzip()
}

fn warned(shares: &[f64]) -> usize {
    shares.iter().filter(|share| **share > 0.0).count()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Beta(3, 9), `Z = 2! 8! / 11!`: the mean weight of the runs is .8 Z.
#[test]
fn at_an_edge_where_the_gradient_diverges_the_share_that_is_missing_is_stated() {
    let path = beta(3.0, 9.0);
    let kernel = UnadjustedLangevin::new(0.01).unwrap();
    let (shares, log_z) = runs(&path, kernel, 30, 1_000);
    let found = mean(log_z.iter().map(|log_z| 495.0 * log_z.exp()));
    let missing = mean(shares.iter().copied());
    assert_eq!(warned(&shares), 20);
    assert!(found < 0.9, "{found}");
    assert!((found + missing - 1.0).abs() < 0.12, "{found} {missing}");
    let (shares, _) = runs(&path, Mala::new(0.01).unwrap(), 30, 1_000);
    assert_eq!(warned(&shares), 0);
}

#[test]
fn runs_of_unadjusted_kernels_at_such_an_edge_warn() {
    let path = beta(20.0, 20.0);
    let (shares, _) = runs(&path, UnadjustedLangevin::new(0.003).unwrap(), 100, 1_000);
    assert!(warned(&shares) >= 18, "unadjusted: {shares:?}");
    let schedule = Schedule::linear(100).unwrap();
    let table = QuadratureModifier::new(&path, &schedule, (1e-4, 1.0 - 1e-4), 2_000).unwrap();
    let modified = DriftModifiedLangevin::new(&table, 0.003).unwrap();
    let (shares, _) = runs(&path, modified, 100, 1_000);
    assert!(warned(&shares) >= 18, "modified: {shares:?}");
}

/// Shifts that are long beside the noise: a proposal says little of where backward moves go.
#[test]
fn long_shifts_at_such_an_edge_are_seen() {
    let path = beta(51.0, 51.0);
    let schedule = Schedule::linear(40).unwrap();
    let table = QuadratureModifier::new(&path, &schedule, (1e-4, 1.0 - 1e-4), 2_000).unwrap();
    let kernel = DriftModifiedLangevin::new(&table, 0.0005).unwrap();
    let (shares, _) = runs(&path, kernel, 40, 4_000);
    assert!(warned(&shares) >= 16, "{shares:?}");
}

#[test]
fn coarse_unadjusted_steps_without_an_edge_do_not_warn() {
    let check = |name: &str, (shares, _): (Vec<f64>, Vec<f64>)| {
        assert_eq!(warned(&shares), 0, "{name}: {shares:?}");
    };
    let ula = |eps| UnadjustedLangevin::new(eps).unwrap();
    for (dimension, eps) in [(1, 0.7), (10, 0.1), (10, 0.4)] {
        let base = Gaussian::standard(dimension).unwrap();
        let target = Gaussian::isotropic(DVector::from_element(dimension, 0.5), 0.7).unwrap();
        let path = GeometricPath::new(base.clone(), target.clone());
        check("unadjusted", runs(&path, ula(eps), 20, 500));
        let path = GaussianPath::new(base, target).unwrap();
        let modified = DriftModifiedLangevin::new(&path, eps).unwrap();
        check("modified", runs(&path, modified, 5, 500));
    }
    let mode = |x: f64| Gaussian::isotropic(dvector![x, -x], 0.6).unwrap();
    let target = GaussianMixture::new([(0.3, mode(-1.5)), (0.7, mode(1.5))]).unwrap();
    let base = Gaussian::isotropic(dvector![0.0, 0.0], 2.0).unwrap();
    let path = GeometricPath::new(base, target);
    check("mixture", runs(&path, ula(0.2), 50, 500));
}
