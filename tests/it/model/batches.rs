//! Several states at once: the same bits as one after another, by every route.

use std::sync::atomic::{AtomicUsize, Ordering};

use annealed::Error;
use annealed::ais::{Ais, Run};
use annealed::bidirectional::BridgeSampling;
use annealed::estimate::LogZ;
use annealed::kernel::{
    Either, Hmc, Metropolis, Mixture, Preconditioner, RandomWalkMetropolis, Repeat, Sequence,
    SymmetricProposal, TransitionKernel, Tunable,
};

use annealed::model::{
    Differentiable, Gaussian, JointPrior, NormalizedModel, Prior, Priors, UniformBox,
    UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GeometricPath, Stationary, TemperedPath};
use annealed::schedule::Schedule;
use annealed::testing::invariance;
use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector, dmatrix, dvector};
use rand::{Rng, RngExt};

/// A quartic well on the half plane `x_0 > -0.4`, which says NaN where `x_0` is above a bound.
struct Well {
    nan_above: f64,
    in_batches: bool,
    /// Error of log densities in batches.
    error: f64,
    /// The largest batches seen, of densities and of gradients.
    largest: [AtomicUsize; 2],
}

impl Well {
    fn new(in_batches: bool) -> Self {
        Self {
            nan_above: f64::INFINITY,
            in_batches,
            error: 0.0,
            largest: Default::default(),
        }
    }

    fn largest(&self) -> [usize; 2] {
        self.largest
            .each_ref()
            .map(|seen| seen.load(Ordering::Relaxed))
    }
}

impl UnnormalizedModel for Well {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        match x[0] {
            first if first < -0.4 => f64::NEG_INFINITY,
            first if first > self.nan_above => f64::NAN,
            _ => -x.iter().map(|x| 0.3 * x.powi(4) - x).sum::<f64>(),
        }
    }

    fn evaluates_batches(&self) -> bool {
        self.in_batches
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        self.largest[0].fetch_max(states.len(), Ordering::Relaxed);
        assert!(self.in_batches && states.len() == log_densities.len());
        for (log_density, state) in log_densities.iter_mut().zip(states) {
            *log_density = self.log_density(state) + self.error;
        }
    }
}

impl Differentiable for Well {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        for (g, x) in gradient.iter_mut().zip(x.iter()) {
            *g += scale * (1.0 - 1.2 * x.powi(3));
        }
        self.log_density(x)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        self.largest[1].fetch_max(states.nrows(), Ordering::Relaxed);
        assert!(self.in_batches && states.shape() == gradients.shape());
        for (row, log_density) in log_densities.iter_mut().enumerate() {
            let state = states.row(row).transpose();
            let mut gradient = gradients.row(row).transpose();
            *log_density = self.accumulate_gradient(&state, scale, &mut gradient) + self.error;
            gradients.set_row(row, &gradient.transpose());
        }
    }
}

fn run<P, K>(path: P, kernel: K) -> Result<Run<DVector<f64>>, Error>
where
    P: AnnealingPath<Base: NormalizedModel, State = DVector<f64>> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    Ais::new(path, kernel)
        .schedule(Schedule::linear(12)?)
        .chains(150)
        .block_size(60)
        .seed(5)
        .run()
}

/// All that a run found, as bits.
fn bits(run: &Run<DVector<f64>>) -> Vec<u64> {
    let stages = run.stages().iter();
    let acceptance = stages.map(|stage| stage.acceptance.unwrap_or(-1.0));
    let states = run.states().iter().flat_map(|x| x.iter().copied());
    let all = acceptance
        .chain(states)
        .chain(run.log_weights().iter().copied());
    all.map(f64::to_bits).collect()
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.6).unwrap()
}

fn hmc() -> Hmc {
    Hmc::new(0.35, 3).unwrap()
}

/// Compares runs that evaluate batches with runs that do not, for kernels by themselves and composed.
fn assert_same_bits<P>(single: P, batched: P)
where
    P: AnnealingPath<Base: NormalizedModel, State = DVector<f64>> + Send + Sync,
    P::At: Differentiable,
{
    macro_rules! assert_same {
        ($($kernel:expr),+) => {$(
            let [one, other] = [&single, &batched].map(|path| run(path, $kernel).unwrap());
            assert_eq!(bits(&one), bits(&other), "{}", stringify!($kernel));
        )+};
    }
    let shape = dmatrix![1.0, 0.3, 0.0; 0.3, 0.5, 0.1; 0.0, 0.1, 0.8];
    let dense = || Preconditioner::covariance(&shape).unwrap();
    let diagonal = || Preconditioner::deviations(dvector![1.0, 0.7, 0.9]).unwrap();
    assert_same!(
        walk(),
        hmc(),
        walk().preconditioned(dense()),
        hmc().preconditioned(dense()),
        hmc().preconditioned(diagonal()),
        Sequence(walk(), hmc()),
        Repeat::new(hmc(), 2).unwrap(),
        Mixture::new(0.4, walk(), hmc()).unwrap(),
        Either::<Hmc, RandomWalkMetropolis>::First(hmc())
    );
}

/// Chains die on the geometric path, whose base reaches beyond the well; proposals leave it on the other.
#[test]
fn batches_give_the_bits_of_single_chains() {
    let base = || Gaussian::isotropic(DVector::from_element(3, 0.5), 1.0).unwrap();
    let [single, batched] =
        [false, true].map(|in_batches| GeometricPath::new(base(), Well::new(in_batches)));
    assert_same_bits(&single, &batched);
    let dead = run(&batched, walk()).unwrap();
    let dead = dead
        .log_weights()
        .iter()
        .filter(|w| w.is_infinite())
        .count();
    assert!((10..140).contains(&dead), "{dead} dead chains");
    assert_eq!(single.target().largest(), [0; 2]);
    let largest = batched.target().largest();
    assert!(largest.iter().all(|&chains| chains > 5), "{largest:?}");

    let prior = || UniformBox::new([(-1.0, 2.0), (-2.0, 2.0), (-2.0, 2.0)]);
    let prior = || prior().unwrap();
    let [single, batched] =
        [false, true].map(|in_batches| TemperedPath::new(prior(), Well::new(in_batches)));
    assert_same_bits(&single, &batched);
    let largest = batched.likelihood().largest();
    assert!(largest.iter().all(|&chains| chains > 5), "{largest:?}");
}

/// A likelihood of parameters with bounds, a joint prior among them.
#[test]
fn priors_hand_batches_to_their_likelihood() {
    let normal = Prior::normal(0.5, 1.0).unwrap();
    let laws = [
        normal.into(),
        Prior::gamma(2.0, 1.0).unwrap().into(),
        JointPrior::effects(normal, 1, Some(0), Some(1)).unwrap(),
    ];
    let priors = Priors::new(laws).unwrap();
    let path = |in_batches| {
        let likelihood = Priors::likelihood(&priors, Well::new(in_batches));
        TemperedPath::new(&priors, likelihood)
    };
    assert_same_bits(&path(false), &path(true));
    assert!(path(true).likelihood().evaluates_batches());

    let well = Well::new(true);
    let batched = TemperedPath::new(&priors, priors.likelihood(&well));
    _ = run(&batched, walk()).unwrap();
    _ = run(&batched, hmc()).unwrap();
    let largest = well.largest();
    assert!(largest.iter().all(|&chains| chains > 5), "{largest:?}");
}

/// Bridge sampling asks for all draws of a chain at once, and for all of the law.
#[test]
fn bridge_sampling_evaluates_batches() {
    let wave =
        |i: usize, j: usize| ((0.7 + 0.3 * j as f64) * i as f64 + 2.0 * j as f64).sin() + 0.7;
    let draw = |i| DVector::from_fn(3, |j, _| wave(i, j));
    let chains: [Vec<_>; 2] = [0, 1_000].map(|first| (first..first + 60).map(draw).collect());
    let [single, batched] = [false, true].map(|in_batches| {
        let well = Well::new(in_batches);
        let found = BridgeSampling::<Gaussian>::new(&well, &chains, 1).unwrap();
        (found.log_z().to_bits(), well.largest())
    });
    assert_eq!(single, (batched.0, [0, 0]));
    assert_eq!(batched.1, [60, 0]);
}

/// Else the tests above could pass without a batch.
#[test]
fn an_error_of_a_batch_moves_log_z() {
    for (error, expected) in [(0.0, 0.0), (0.25, 0.25)] {
        let mut well = Well::new(true);
        well.error = error;
        let base = Gaussian::isotropic(dvector![2.0, 0.0], 0.3).unwrap();
        let path = GeometricPath::new(base, well);
        let right = GeometricPath::new(path.base().clone(), Well::new(false));
        let found = run(&path, walk()).unwrap().log_z() - run(&right, walk()).unwrap().log_z();
        assert!((found - expected).abs() < 1e-9, "{found}");
    }
}

#[test]
fn errors_name_the_same_chain_stage_and_quantity() {
    let mut errors = 0;
    for nan_above in [0.8, 1.1, 1.4, 1.7, 2.0] {
        let outcome = |in_batches, by_gradients| {
            let mut well = Well::new(in_batches);
            well.nan_above = nan_above;
            let base = Gaussian::isotropic(DVector::from_element(3, 0.5), 0.4).unwrap();
            let path = GeometricPath::new(base, well);
            let found = match by_gradients {
                false => run(&path, walk()),
                true => run(&path, hmc()),
            };
            found.map(|run| bits(&run)).map_err(|e| e.to_string())
        };
        for by_gradients in [false, true] {
            let found = outcome(true, by_gradients);
            assert_eq!(found, outcome(false, by_gradients));
            errors += usize::from(found.is_err());
        }
    }
    assert!(errors > 5, "{errors} errors");
}

/// Chains as lanes: any number of states, in few and in many dimensions, near and so far that squares overflow.
#[test]
fn gaussians_have_the_same_bits_in_batches() {
    for dimension in [1, 2, 3, 7, 8, 11] {
        let wave = |i: usize, speed: f64| (speed * (i + 1) as f64).sin();
        let mean = DVector::from_fn(dimension, |i, _| wave(i, 0.7));
        let factor = DMatrix::from_fn(dimension, dimension, |i, j| wave(i + 7 * j, 1.3));
        let dense = &factor * factor.transpose() + DMatrix::identity(dimension, dimension);
        let diagonal = Gaussian::diagonal(mean.clone(), dense.diagonal()).unwrap();
        for model in [diagonal, Gaussian::new(mean, dense).unwrap()] {
            assert_eq!(model.evaluates_batches(), dimension < 8);
            for chains in [1, 5, 8, 19] {
                let mut states = DMatrix::from_fn(chains, dimension, |i, j| wave(i + 3 * j, 2.1));
                states[(chains / 2, 0)] = 1e200;
                states[(chains - 1, dimension - 1)] = if chains == 5 { f64::NAN } else { -2e200 };
                assert_same_values(&model, &states);
            }
        }
    }
}

fn assert_same_values(model: &impl Differentiable<State = DVector<f64>>, states: &DMatrix<f64>) {
    let rows: Vec<DVector<f64>> = states.row_iter().map(|row| row.transpose()).collect();
    let mut found = vec![1.0; rows.len()];
    model.log_densities(&rows, &mut found);
    let mut gradients = states.map(|x| 0.1 * x);
    let mut by_gradient = vec![1.0; rows.len()];
    let into = gradients.as_view_mut();
    model.accumulate_gradients(states.as_view(), 0.3, into, &mut by_gradient);
    let bits = |x: &f64| if x.is_nan() { 0 } else { x.to_bits() };
    for (chain, state) in rows.iter().enumerate() {
        assert_eq!(bits(&found[chain]), bits(&model.log_density(state)));
        let mut gradient = state.map(|x| 0.1 * x);
        let log_density = model.accumulate_gradient(state, 0.3, &mut gradient);
        assert_eq!(bits(&by_gradient[chain]), bits(&log_density));
        let row = gradients.row(chain);
        assert!(
            row.iter()
                .zip(gradient.iter())
                .all(|(a, b)| bits(a) == bits(b))
        );
    }
}

/// A proposal over a state that is no vector.
#[test]
fn any_state_may_be_evaluated_in_batches() {
    struct Shift;

    impl SymmetricProposal<f64> for Shift {
        fn propose<R: Rng + ?Sized>(&self, _: f64, state: &f64, proposal: &mut f64, rng: &mut R) {
            *proposal = state + rng.random::<f64>() - 0.5;
        }
    }

    struct Uniform;

    impl UnnormalizedModel for Uniform {
        type State = f64;

        fn log_density(&self, _: &f64) -> f64 {
            unreachable!("the batch is asked")
        }

        fn evaluates_batches(&self) -> bool {
            true
        }

        fn log_densities(&self, states: &[f64], log_densities: &mut [f64]) {
            for (log_density, x) in log_densities.iter_mut().zip(states) {
                let inside = (0.0..1.0).contains(x);
                *log_density = if inside { 0.0 } else { f64::NEG_INFINITY };
            }
        }
    }
    let model = Stationary(Uniform);
    let check = invariance(
        &model,
        &Metropolis(Shift),
        |rng| rng.random(),
        |x| x * x,
        4,
        4_000,
        3,
    );
    let error = check.unwrap().z();
    assert!(error.abs() < 4.0, "{error}");
}
