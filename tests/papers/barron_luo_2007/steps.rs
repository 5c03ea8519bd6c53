//! Approximate diffusions, step by step: what a Langevin step leaves as it is, and what adaptive annealing tracks.

use annealed::drift::{DriftModifiedLangevin, DriftModifier};
use annealed::kernel::{Mala, NonFinite, Stage, Step, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Differentiable, Gaussian, GaussianMixture, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath, Intermediate, Stationary};
use annealed::testing;
use nalgebra::{DVector, dvector};
use proptest::prelude::*;
use rand::Rng;

use super::{bumps, log_normal, tempered};
use crate::random_models::{cases, gaussian, streams};

/// The log of `p(y) N(x; y + eps/2 grad log p(y), eps) / (p(x) N(y; x + eps/2 grad log p(x), eps))`.
fn log_ratio_of_moves<M: Differentiable<State = DVector<f64>>>(
    model: &M,
    x: &DVector<f64>,
    y: &DVector<f64>,
    variance: f64,
) -> f64 {
    let mean = |x: &DVector<f64>| x + model.gradient(x) * (0.5 * variance);
    let forward = log_normal(y, &mean(x), variance);
    let backward = log_normal(x, &mean(y), variance);
    model.log_density(y) - model.log_density(x) + backward - forward
}

/// The state that a kernel moves to from x at a model, and what it reports.
fn moved<M, K>(kernel: &K, model: &M, x: &DVector<f64>, seed: usize) -> (DVector<f64>, Step)
where
    M: Intermediate<State = DVector<f64>>,
    K: TransitionKernel<M>,
{
    let mut rng = streams(seed + 1).pop().unwrap();
    let (mut state, stage) = (x.clone(), Stage::new(1, model, model));
    let workspace = &mut K::Workspace::default();
    let step = kernel.step(stage, &mut state, workspace, &mut rng).unwrap();
    (state, step)
}

proptest! {
    #![proptest_config(cases(64))]

    /// Steps over a random tempered density and their Metropolis ratio: MALA accepts with probability `min(1, ratio)`,
    /// and the unadjusted step adds its log to the weight. Without the densities of the moves both would be others.
    #[test]
    fn langevin_steps_are_judged_by_the_ratio_of_their_moves(
        bumps in bumps(), gain in 0.5..4.0f64, beta in 0.0..1.0f64, x in -3.0..3.0f64,
        variance in 0.05..1.0f64, seed in 0..20usize,
    ) {
        let path = tempered(&bumps, gain);
        let model = path.at(beta);
        let x = dvector![x];
        let (y, unadjusted) = moved(&UnadjustedLangevin::new(variance).unwrap(), &model, &x, seed);
        let expected = log_ratio_of_moves(&model, &x, &y, variance);
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-9 * (1.0 + expected.abs());
        prop_assert!(near(unadjusted.correction, expected), "{} {expected}", unadjusted.correction);
        let (to, adjusted) = moved(&Mala::new(variance).unwrap(), &model, &x, seed);
        prop_assert!(to == y || to == x);
        let acceptance = adjusted.decisions.acceptance().unwrap();
        prop_assert!(near(acceptance, expected.exp().min(1.0)), "{acceptance} {expected}");
        prop_assert_eq!(adjusted.correction, 0.0);
        let of_densities = model.log_density(&y) - model.log_density(&x);
        prop_assert!((expected - of_densities).abs() < 1e-6 || !near(unadjusted.correction, of_densities));
    }
}

/// Unadjusted steps that leave their correction out.
#[derive(Debug)]
struct Uncorrected(UnadjustedLangevin);

impl<M> TransitionKernel<M> for Uncorrected
where
    M: Differentiable<State = DVector<f64>> + Intermediate,
{
    type Workspace = <UnadjustedLangevin as TransitionKernel<M>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut DVector<f64>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        self.0.step(stage, state, workspace, rng)?;
        Ok(Step::invariant())
    }
}

/// The largest score of four statistics that a kernel should not change, and the largest standard error.
fn worst<K>(kernel: &K, target: &GaussianMixture) -> (f64, f64)
where
    K: TransitionKernel<Stationary<GaussianMixture>>,
{
    let model = Stationary(target.clone());
    let statistics: [fn(&DVector<f64>) -> f64; 4] = [
        |_| 1.0,
        |x| x[0],
        |x| (x[1] + x[0]).powi(2).min(30.0),
        |x| (x[1] - x[0]).powi(2).min(30.0),
    ];
    let sample = |rng: &mut _| target.sample(rng);
    let checks = testing::invariances(&model, kernel, sample, statistics, 3, 8_000, 1).unwrap();
    let largest = |f: fn(&testing::Check) -> f64| checks.iter().map(f).fold(0.0, f64::max);
    (
        largest(|check| check.z().abs()),
        largest(|check| check.standard_error),
    )
}

proptest! {
    #![proptest_config(cases(6))]

    /// `w ~ pi` stays `w ~ pi` by MALA, and by unadjusted steps with their weights, on random mixtures; without the
    /// weights it does not.
    #[test]
    fn langevin_kernels_leave_mixtures_invariant(
        parts in prop::array::uniform2(gaussian(2)), share in 0.2..0.8f64
    ) {
        let [a, b] = parts;
        let target = GaussianMixture::new([(share, a), (1.0 - share, b)]).unwrap();
        let (z, error) = worst(&Mala::new(0.4).unwrap(), &target);
        prop_assert!(z < 4.0 && error < 0.1, "MALA {z} {error}");
        let (z, error) = worst(&UnadjustedLangevin::new(0.1).unwrap(), &target);
        prop_assert!(z < 4.0 && error < 0.1, "unadjusted {z} {error}");
        let (z, _) = worst(&Uncorrected(UnadjustedLangevin::new(6.0).unwrap()), &target);
        prop_assert!(z > 6.0, "uncorrected {z}");
    }
}

/// No drift modifier.
#[derive(Debug, Clone, Copy)]
struct Naive;

impl DriftModifier for Naive {
    fn modifier_into(&self, _beta: f64, _state: &DVector<f64>, modifier: &mut DVector<f64>) {
        modifier.fill(0.0);
    }
}

/// The variance after a stage between Gaussians of mean 0, where the noise has this variance and the kernel's own
/// code moves states along a line.
fn variance_after<D: DriftModifier>(
    path: &GaussianPath,
    modifier: D,
    betas: [f64; 2],
    noise: f64,
    before: f64,
) -> f64 {
    let kernel = DriftModifiedLangevin::new(modifier, noise).unwrap();
    let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
    let from = |x: f64| {
        let (mut state, mut rng) = (dvector![x], streams(1).remove(0));
        let stage = Stage::new(1, &left, &reached);
        kernel
            .step(stage, &mut state, &mut Default::default(), &mut rng)
            .unwrap();
        state[0]
    };
    let slope = from(1.0) - from(0.0);
    slope * slope * before + noise
}

/// The relative error of the variance after all stages, whose noise in all is `time`.
fn error_of_tracking<D: DriftModifier>(
    path: &GaussianPath,
    modifier: D,
    ends: [f64; 2],
    time: f64,
    stages: usize,
) -> f64 {
    let count = stages as f64;
    let step = |variance, k: usize| {
        let betas = [k as f64 / count, (k + 1) as f64 / count];
        variance_after(path, &modifier, betas, time / count, variance)
    };
    (0..stages).fold(ends[0], step) / ends[1] - 1.0
}

fn centred(variance: f64) -> Gaussian {
    Gaussian::isotropic(dvector![0.0], variance.sqrt()).unwrap()
}

proptest! {
    #![proptest_config(cases(24))]

    /// `w ~ pi` becomes `pi exp(O(eps^2))` by one step with variance eps: a variance `s^2` becomes
    /// `s^2 + eps^2 / (4 s^2)` exactly. Half the drift leaves an error of the order eps.
    #[test]
    fn one_step_is_invariant_up_to_the_square_of_its_size(variance in 0.3..4.0f64, share in 0.001..0.3f64) {
        let noise = share * variance;
        let path = GaussianPath::new(centred(variance), centred(variance)).unwrap();
        let after = variance_after(&path, Naive, [0.5, 0.5], noise, variance);
        let expected = variance + noise * noise / (4.0 * variance);
        prop_assert!((after / expected - 1.0).abs() < 1e-12, "{after} {expected}");
        let wrong = (1.0 - 0.25 * noise / variance).powi(2) * variance + noise;
        prop_assert!((wrong / variance - 1.0).abs() > share / 4.0);
    }

    /// The law of `w_T` tracks `p_gamma` with an error of the order `gamma eps`: halved where the steps are. Without the
    /// modifier the error stays.
    #[test]
    fn the_error_of_tracking_falls_with_the_step(
        before in 0.3..3.0f64, ratio in 0.15..0.6f64, time in 0.2..1.0f64
    ) {
        let ends = [before, before * ratio];
        let path = GaussianPath::new(centred(ends[0]), centred(ends[1])).unwrap();
        let time = time * ends[1];
        let [coarse, fine] = [200, 400].map(|stages| error_of_tracking(&path, &path, ends, time, stages));
        prop_assume!(coarse.abs() > 1e-5);
        let halved = coarse / fine;
        prop_assert!((1.8..2.2).contains(&halved) && coarse.abs() < 0.02, "{coarse} {fine}");
        let [coarse, fine] = [200, 400].map(|stages| error_of_tracking(&path, Naive, ends, time, stages));
        prop_assert!((coarse / fine - 1.0).abs() < 0.1 && fine > 0.05, "naive {coarse} {fine}");
    }
}

/// The log of `int p(x) N(y; x + eps/2 grad log q(x), eps) dx / p(y)`: how a naive step towards q changes p at y.
fn naive_change<M: Differentiable<State = DVector<f64>>>(
    [p, q]: [&M; 2],
    y: &DVector<f64>,
    eps: f64,
) -> f64 {
    let width = 0.05 * eps.sqrt();
    let term = |i: i32| {
        let x = y.add_scalar(width * f64::from(i));
        let log_move = log_normal(y, &(&x + q.gradient(&x) * (0.5 * eps)), eps);
        (p.log_density(&x) - p.log_density(y) + log_move).exp()
    };
    let scale = (2.0 * std::f64::consts::PI * eps).sqrt();
    (width / scale * (-240..=240).map(term).sum::<f64>()).ln()
}

proptest! {
    #![proptest_config(cases(48))]

    /// A step whose drift is that of the gain `gamma + delta` takes `p_gamma` to
    /// `p_gamma exp(-(eps delta/2) [Laplacian L + grad L . grad log p_gamma])`, up to `O(eps^2)`. As printed, the exponent is
    /// `-eps delta [Laplacian L + gamma |grad L|^2]`, and is another.
    #[test]
    fn a_naive_step_misses_the_new_density_by_this_exponent(
        bumps in bumps(), gain in 0.5..4.0f64, beta in 0.1..0.9f64, y in -2.0..2.0f64
    ) {
        let delta = 0.1 * gain;
        let path = tempered(&bumps, gain);
        let (here, next, y) = (path.at(beta), path.at(beta + 0.1), dvector![y]);
        let change = |eps: f64| {
            let [naive, invariant] = [&next, &here].map(|q| naive_change([&here, q], &y, eps));
            (naive - invariant) / (eps * delta)
        };
        // The error is of the order eps: gone where extrapolated.
        let found = 2.0 * change(5e-4) - change(1e-3);
        let slope = |x: f64| bumps.gradient(&dvector![x])[0];
        let laplacian = (slope(y[0] + 1e-4) - slope(y[0] - 1e-4)) / 2e-4;
        let expected = -0.5 * (laplacian + slope(y[0]) * here.gradient(&y)[0]);
        let printed = -(laplacian + beta * gain * slope(y[0]).powi(2));
        let near = |value: f64| (found - value).abs() < 2e-3 * (1.0 + value.abs());
        prop_assert!(near(expected), "{found} {expected}");
        prop_assert!((expected - printed).abs() < 0.05 || !near(printed), "{found} {printed}");
    }
}

/// The variance function `sigma^2 = f(x)^-power` times a constant, at one over a log density.
#[derive(Debug, Clone, Copy)]
struct Uneven {
    power: f64,
    level: f64,
    /// The share of `grad log sigma^2` in the drift: 1 where it leaves the density invariant.
    share: f64,
}

impl Uneven {
    fn variance(
        self,
        model: &impl UnnormalizedModel<State = DVector<f64>>,
        x: &DVector<f64>,
    ) -> f64 {
        (self.power * (self.level - model.log_density(x))).exp()
    }

    /// `log N(y; x + eps mu, eps sigma^2)` with `mu = sigma^2/2 grad (log f + log sigma^2)`.
    fn log_move(
        self,
        model: &impl Differentiable<State = DVector<f64>>,
        [x, y]: [&DVector<f64>; 2],
        eps: f64,
    ) -> f64 {
        let variance = self.variance(model, x);
        let drift = model.gradient(x) * (0.5 * variance * (1.0 - self.share * self.power));
        let scale = 2.0 * std::f64::consts::PI * eps * variance;
        log_normal(y, &(x + drift * eps), eps * variance) - 0.5 * scale.ln()
    }

    /// The log of `int f(x) N(y; x + eps mu, eps sigma^2) dx / f(y)`: how a step changes the density at y.
    fn change(
        self,
        model: &impl Differentiable<State = DVector<f64>>,
        y: &DVector<f64>,
        eps: f64,
    ) -> f64 {
        let width = 0.05 * (eps * self.variance(model, y)).sqrt();
        let term = |i: i32| {
            let x = y.add_scalar(width * f64::from(i));
            (model.log_density(&x) - model.log_density(y) + self.log_move(model, [&x, y], eps))
                .exp()
        };
        (width * (-240..=240).map(term).sum::<f64>()).ln()
    }
}

proptest! {
    #![proptest_config(cases(48))]

    /// `(mu, sigma^2)` with `mu = sigma^2/2 grad (log pi + log sigma^2)` takes `w ~ pi` to `pi exp(O(eps^2))`, from
    /// `(grad log pi / 2, 1)` to `(0, 1/pi)`: the change is a quarter at half of eps. Without `grad log sigma^2` in the
    /// drift it is a half.
    #[test]
    fn uneven_noise_leaves_a_density_up_to_the_square_of_the_step(
        bumps in bumps(), gain in 0.5..2.0f64, beta in 0.0..1.0f64, y in -2.0..2.0f64,
        power in prop_oneof![Just(0.0), Just(1.0), 0.2..1.0f64],
    ) {
        let path = tempered(&bumps, gain);
        let (model, y) = (path.at(beta), dvector![y]);
        let level = model.log_density(&y);
        let falls = |share: f64| {
            let [coarse, fine] = [2e-3, 1e-3].map(|eps| Uneven { power, level, share }.change(&model, &y, eps));
            (coarse, coarse / fine)
        };
        let (coarse, ratio) = falls(1.0);
        prop_assert!(coarse.abs() < 1e-3, "{coarse}");
        prop_assert!(coarse.abs() < 1e-6 || (3.0..5.5).contains(&ratio), "{coarse} {ratio}");
        let (coarse, ratio) = falls(0.0);
        prop_assert!(power == 0.0 || coarse.abs() < 1e-3 || (1.7..2.3).contains(&ratio), "{coarse} {ratio}");
    }

    /// The log weight of such a step is `sqrt(eps) sigma' (z^3 - 3 z)` to leading order, with the noise z: its variance
    /// over a run of `1/eps` steps does not vanish, unless sigma is constant.
    #[test]
    fn uneven_noise_costs_weight_at_any_step(
        bumps in bumps(), gain in 0.5..2.0f64, beta in 0.0..1.0f64, x in -2.0..2.0f64, z in -2.0..2.0f64,
        power in prop_oneof![Just(0.0), Just(1.0), 0.2..1.0f64],
    ) {
        let path = tempered(&bumps, gain);
        let (model, x) = (path.at(beta), dvector![x]);
        let step = Uneven { power, level: model.log_density(&x), share: 1.0 };
        let slope = model.gradient(&x)[0];
        let expected = -0.5 * power * slope * (z.powi(3) - 3.0 * z);
        let root = 1e-4f64;
        let y = &x + dvector![0.5 * slope * (1.0 - power) * root * root + root * z];
        let densities = model.log_density(&y) - model.log_density(&x);
        let eps = root * root;
        let log_weight = densities + step.log_move(&model, [&y, &x], eps) - step.log_move(&model, [&x, &y], eps);
        let found = log_weight / root;
        prop_assert!((found - expected).abs() < 0.02 * (1.0 + expected.abs()), "{found} {expected}");
    }
}
