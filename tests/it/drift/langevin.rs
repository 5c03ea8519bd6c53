//! Drift-modified Langevin: unbiased for any modifier, of small variance for the right one.
//!
//! A statistical test passes where `|z| < 4`, which one z-score in 16,000 exceeds with correct
//! code; the seeds are fixed.

use crate::shared;
use annealed::ais::{Ais, Run};
use annealed::drift::{
    BumpFeatures, DriftModifiedLangevin, DriftModifier, EnsembleModifier, Features,
    QuadratureModifier, SeparableModifier, ShiftMonitor,
};
use annealed::estimate::LogZ;
use annealed::kernel::{Mala, NonFinite, Stage, Step, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Differentiable, FunctionModel, Gaussian, NormalizedModel, Sampleable};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, Intermediate, TemperedPath};
use annealed::schedule::Schedule;
use annealed::testing;
use annealed::testing::Check;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::{Rng, RngExt};

/// `L(w) = exp(-(w+2)^2/.5) + 1.3 exp(-(w-2.5)^2/.5)` and its derivative.
fn two_bumps(w: f64) -> (f64, f64) {
    let left = (-(w + 2.0).powi(2) / 0.5).exp();
    let right = 1.3 * (-(w - 2.5).powi(2) / 0.5).exp();
    (
        left + right,
        -4.0 * (w + 2.0) * left - 4.0 * (w - 2.5) * right,
    )
}

/// `p0 = N(0, 4)` and `gamma sum_i L(w_i)` in `dimension` dimensions.
fn bumps(
    dimension: usize,
    gamma: f64,
) -> TemperedPath<Gaussian, impl Differentiable<State = DVector<f64>> + Clone + Send + Sync> {
    let value = move |w: &DVector<f64>| gamma * w.iter().map(|&w| two_bumps(w).0).sum::<f64>();
    let gradient = move |w: &DVector<f64>| w.map(|w| gamma * two_bumps(w).1);
    let base = Gaussian::isotropic(DVector::zeros(dimension), 2.0).unwrap();
    TemperedPath::new(
        base,
        shared::function(value).with_gradient(shared::gradient(gradient)),
    )
}

/// `log Z(4)` of the one-dimensional case, by quadrature.
const LOG_Z_4: f64 = 2.732123;

fn table(gamma: f64, steps: usize) -> QuadratureModifier {
    let path = bumps(1, gamma);
    let schedule = Schedule::linear(steps).unwrap();
    QuadratureModifier::new(&path, &schedule, (-14.0, 14.0), 2801).unwrap()
}

fn run<P, K>(path: P, kernel: K, steps: usize, chains: usize) -> Run<DVector<f64>>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let schedule = Schedule::linear(steps).unwrap();
    let ais = Ais::new(path, kernel).schedule(schedule).chains(chains);
    ais.seed(1).run().unwrap()
}

#[test]
fn the_modifier_lowers_the_variance_on_the_bumps_of_barron_and_luo() {
    let path = bumps(1, 4.0);
    let modified = DriftModifiedLangevin::new(table(4.0, 400), 0.01).unwrap();
    let adaptive = run(&path, modified, 400, 4_000);
    let error = (adaptive.log_z() - LOG_Z_4).abs();
    assert!(adaptive.estimate().var_log_weight() < 0.1);
    assert!(error < 0.02 && error < 4.0 * adaptive.standard_error());
    let naive = run(&path, UnadjustedLangevin::new(0.01).unwrap(), 400, 2_000);
    let mala = run(&path, Mala::new(0.01).unwrap(), 400, 2_000);
    for other in [naive, mala] {
        let variance = other.estimate().var_log_weight();
        assert!((1.2..2.0).contains(&variance), "{variance}");
    }
}

#[test]
fn a_separable_modifier_serves_eight_dimensions() {
    let path = bumps(8, 4.0);
    let table = table(4.0, 400);
    let modifier = SeparableModifier::new([&table; 8]);
    let adaptive = run(
        &path,
        DriftModifiedLangevin::new(modifier, 0.01).unwrap(),
        400,
        1_000,
    );
    assert!(adaptive.estimate().var_log_weight() < 0.9);
    let error = (adaptive.log_z() - 8.0 * LOG_Z_4).abs();
    assert!(error < 4.0 * adaptive.standard_error(), "{error}");
    assert!(adaptive.standard_error() < 0.05);
}

/// The flux G p is `integral_-inf^x (s - E s) p`: that of a Gaussian path in closed form.
#[test]
fn quadrature_agrees_with_the_closed_form_far_into_the_tails() {
    let base = Gaussian::isotropic(dvector![0.5], 2.0).unwrap();
    let target = Gaussian::isotropic(dvector![-1.0], 0.7).unwrap();
    let path = GaussianPath::new(base, target).unwrap();
    let schedule = Schedule::linear(1).unwrap();
    let table = QuadratureModifier::new(&path, &schedule, (-60.0, 60.0), 120_001).unwrap();
    for x in [-50.0, -3.0, -0.4, 0.0, 1.0, 2.5, 50.0] {
        let exact = path.modifier(0.5, &dvector![x])[0];
        let error = (table.at(0.5, x) - exact).abs();
        assert!(
            error < 1e-3 * (1.0 + exact.abs()),
            "{x}: {error} of {exact}"
        );
    }
}

fn gaussian_pair() -> (GaussianPath, f64) {
    let base = Gaussian::new(dvector![0.3, 0.0], dmatrix![2.0, 0.4; 0.4, 1.0]).unwrap();
    let target = Gaussian::new(dvector![1.0, -0.8], dmatrix![0.5, -0.2; -0.2, 0.6]).unwrap();
    let log_ratio = target.log_normalizer() - base.log_normalizer();
    (GaussianPath::new(base, target).unwrap(), log_ratio)
}

#[test]
fn gaussians_in_closed_form_leave_no_variance() {
    let (path, _) = gaussian_pair();
    let variance = |steps: usize| {
        let kernel = DriftModifiedLangevin::new(&path, 1.0 / steps as f64).unwrap();
        let adaptive = run(&path, kernel, steps, 1_000);
        adaptive.estimate().var_log_weight()
    };
    let (coarse, fine) = (variance(50), variance(200));
    assert!(coarse < 0.05, "{coarse}");
    assert!(fine < coarse / 2.5, "{fine} after {coarse}");
}

/// A field that solves nothing.
#[derive(Clone, Copy)]
struct Wrong;

impl DriftModifier for Wrong {
    fn modifier_into(&self, beta: f64, x: &DVector<f64>, modifier: &mut DVector<f64>) {
        modifier[0] = (1.0 - beta) * x[1].sin() + 0.4;
        modifier[1] = 0.5 * x[0].cos() - 0.3 * beta * x[1];
    }
}

fn unbiased<K>(kernel: K, path: &GaussianPath, log_ratio: f64, steps: usize) -> Check
where
    K: TransitionKernel<<GaussianPath as AnnealingPath>::At> + Sync,
{
    let schedule = Schedule::linear(steps).unwrap();
    testing::unbiasedness(path, kernel, schedule, log_ratio, 20_000, 2).unwrap()
}

#[test]
fn coarse_schedules_are_unbiased_for_a_right_and_a_wrong_modifier() {
    let (path, log_ratio) = gaussian_pair();
    for steps in [1, 3, 10] {
        let right = DriftModifiedLangevin::new(&path, 0.3).unwrap();
        let wrong = DriftModifiedLangevin::new(Wrong, 0.3).unwrap();
        let bounded = right.clone().bounded(0.1).unwrap();
        for check in [
            unbiased(right, &path, log_ratio, steps),
            unbiased(wrong, &path, log_ratio, steps),
            unbiased(bounded, &path, log_ratio, steps),
        ] {
            assert!(check.passes() && check.standard_error < 0.03, "{check}");
        }
    }
}

/// The same step written out by its densities, with signs of G to get wrong.
#[derive(Clone, Copy)]
struct ByDensities<D> {
    modifier: D,
    variance: f64,
    /// In B; right: 1.
    backward_sign: f64,
    /// In the density of F, not in the move; right: -1.
    forward_sign: f64,
}

impl<M: Differentiable + Intermediate, D: DriftModifier> TransitionKernel<M> for ByDensities<D> {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        x: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let delta = stage.model.beta() - stage.previous.beta();
        let beta = 0.5 * (stage.model.beta() + stage.previous.beta());
        let mean = |x: &DVector<f64>, sign: f64| {
            let gradients = stage.model.gradient(x) + stage.previous.gradient(x);
            let shift = sign * delta * self.modifier.modifier(beta, x);
            x + 0.25 * self.variance * gradients + shift
        };
        // As the library draws it, so that both see the same noise.
        let noise = Gaussian::standard(x.len()).unwrap().sample(rng);
        let y = mean(x, -1.0) + self.variance.sqrt() * noise;
        let forward = (&y - mean(x, self.forward_sign)).norm_squared();
        let backward = (&*x - mean(&y, self.backward_sign)).norm_squared();
        let densities = stage.model.log_density(&y) - stage.model.log_density(x);
        *x = y;
        let proposals = (forward - backward) / (2.0 * self.variance);
        Ok(Step::corrected(densities + proposals))
    }
}

#[test]
fn weights_are_those_of_the_two_densities() {
    let (path, log_ratio) = gaussian_pair();
    let check = |forward_sign| {
        let kernel = ByDensities {
            modifier: Wrong,
            variance: 0.3,
            backward_sign: 1.0,
            forward_sign,
        };
        unbiased(kernel, &path, log_ratio, 3)
    };
    let right = check(-1.0);
    let library = DriftModifiedLangevin::new(Wrong, 0.3).unwrap();
    let library = unbiased(library, &path, log_ratio, 3);
    assert!((library.mean - right.mean).abs() < 1e-9, "{library}");
    let biased = check(1.0);
    assert!(biased.z().abs() > 6.0, "{biased}");
}

/// B with the wrong sign is a probability density still, so that the weights stay unbiased; but
/// it is the reversal of the wrong flow, and their variance explodes.
#[test]
fn the_wrong_sign_in_the_backward_kernel_ruins_the_variance() {
    let path = bumps(1, 4.0);
    let table = table(4.0, 400);
    let variance = |backward_sign| {
        let kernel = ByDensities {
            modifier: &table,
            variance: 0.01,
            backward_sign,
            forward_sign: -1.0,
        };
        run(&path, kernel, 400, 500).estimate().var_log_weight()
    };
    let (right, wrong) = (variance(1.0), variance(-1.0));
    assert!(right < 0.15 && wrong > 20.0, "{right} {wrong}");
}

/// `p0` on the half line x > 0 (Exp(1)) and `L = -x`: `Z_1 = 1/2`. Proposals leave the support.
#[test]
fn a_bounded_support_costs_no_bias() {
    let density = |x: &DVector<f64>| if x[0] > 0.0 { -x[0] } else { f64::NEG_INFINITY };
    let exponential = shared::function(density)
        .with_gradient(shared::gradient(|_: &DVector<f64>| dvector![-1.0]))
        .with_sampler(shared::sampler(|rng: &mut dyn Rng| {
            dvector![rng.sample(rand_distr::Exp1)]
        }))
        .with_log_normalizer(0.0)
        .unwrap();
    let objective = shared::function(|x: &DVector<f64>| -x[0])
        .with_gradient(shared::gradient(|_: &DVector<f64>| dvector![-1.0]));
    let path = TemperedPath::new(exponential, objective);
    // p = Exp(1 + beta) shrinks towards 0: G = x / (1 + beta); and a wrong one that is not 0 there.
    let right = |beta: f64, x: f64| x / (1.0 + beta);
    let wrong = |_: f64, x: f64| 0.8 - 0.3 * x;
    for field in [right as fn(f64, f64) -> f64, wrong] {
        for steps in [1, 4] {
            let kernel = DriftModifiedLangevin::new(Field(field), 0.2).unwrap();
            let schedule = Schedule::linear(steps).unwrap();
            let check = testing::unbiasedness(&path, kernel, schedule, -2f64.ln(), 25_000, 3);
            let check = check.unwrap();
            assert!(check.passes() && check.standard_error < 0.03, "{check}");
        }
    }
}

#[derive(Clone, Copy)]
struct Field(fn(f64, f64) -> f64);

impl DriftModifier for Field {
    fn modifier_into(&self, beta: f64, x: &DVector<f64>, modifier: &mut DVector<f64>) {
        modifier[0] = (self.0)(beta, x[0]);
    }
}

#[test]
fn a_bound_that_bites_is_reported() {
    let path = bumps(1, 4.0);
    let table = table(4.0, 50);
    let warning = |bound: f64| {
        let kernel = DriftModifiedLangevin::new(&table, 0.08).unwrap();
        let kernel = kernel.bounded(bound).unwrap();
        let run = Ais::new(&path, kernel.clone())
            .schedule(Schedule::linear(50).unwrap())
            .recorder(ShiftMonitor::new(kernel))
            .chains(500)
            .run()
            .unwrap();
        run.recorder().warning()
    };
    assert_eq!(warning(1e6), None);
    let message = warning(0.05)
        .expect("shifts are longer than that")
        .to_string();
    assert!(message.contains("cut at stage"), "{message}");
}

#[test]
fn bad_settings_and_fields_are_refused() {
    assert!(DriftModifiedLangevin::new(Wrong, -1.0).is_err());
    assert!(
        DriftModifiedLangevin::new(Wrong, 0.1)
            .unwrap()
            .bounded(0.0)
            .is_err()
    );
    let schedule = Schedule::linear(2).unwrap();
    let path = bumps(1, 1.0);
    for (range, points) in [((1.0, 1.0), 9), ((0.0, f64::NAN), 9), ((0.0, 1.0), 2)] {
        assert!(QuadratureModifier::new(&path, &schedule, range, points).is_err());
    }
    let huge = QuadratureModifier::new(&path, &schedule, (-1.0, 1.0), usize::MAX);
    assert!(huge.unwrap_err().to_string().contains("points"));
    let density = |x: &DVector<f64>| if x[0] > 0.0 { -x[0] } else { f64::NEG_INFINITY };
    let half = TemperedPath::new(
        Gaussian::standard(1).unwrap(),
        shared::function(density)
            .with_gradient(shared::gradient(|_: &DVector<f64>| dvector![-1.0])),
    );
    let refused = QuadratureModifier::new(&half, &schedule, (-1.0, 1.0), 9).unwrap_err();
    assert!(
        refused.to_string().contains("log density on the grid"),
        "{refused}"
    );
    let features = |dimension| BumpFeatures::new(dimension, &[], &[]).unwrap();
    let fit = |dimension, step_size, particles| {
        EnsembleModifier::fit(
            &path,
            features(dimension),
            &schedule,
            step_size,
            particles,
            1,
        )
    };
    assert!(fit(1, 0.1, 10).is_ok());
    assert!(
        fit(2, 0.1, 10)
            .unwrap_err()
            .to_string()
            .contains("features")
    );
    assert!(
        fit(1, 0.0, 10)
            .unwrap_err()
            .to_string()
            .contains("step size")
    );
    assert!(
        fit(1, 0.1, 3)
            .unwrap_err()
            .to_string()
            .contains("particles")
    );
    let nowhere = TemperedPath::new(
        Gaussian::standard(1).unwrap(),
        shared::function(|_: &DVector<f64>| f64::NAN)
            .with_gradient(shared::gradient(|_: &DVector<f64>| dvector![0.0])),
    );
    let message = EnsembleModifier::fit(&nowhere, features(1), &schedule, 0.1, 10, 1);
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains("log density is NaN in chain 0"),
        "{message}"
    );
    let kernel = DriftModifiedLangevin::new(Field(|_, _| f64::NAN), 0.1).unwrap();
    let message = Ais::new(&path, kernel).run().unwrap_err().to_string();
    assert!(message.contains("drift modifier is NaN"), "{message}");
}

#[test]
fn an_ensemble_learns_the_affine_field_between_gaussians() {
    let (path, log_ratio) = gaussian_pair();
    let schedule = Schedule::linear(100).unwrap();
    let features = BumpFeatures::new(2, &[], &[]).unwrap();
    let learned = EnsembleModifier::fit(&path, features, &schedule, 0.01, 200, 1).unwrap();
    assert!(learned.errors().all(|(_, share)| share < 1e-6));
    let x = dvector![0.7, -1.3];
    // Not the same field: G is a gradient here, along common axes there; but the same flux of p.
    let kernel = DriftModifiedLangevin::new(&learned, 0.01).unwrap();
    let adaptive = run(&path, kernel, 100, 1_000);
    assert!(adaptive.estimate().var_log_weight() < 0.03);
    assert!(adaptive.standard_error() < 0.01);
    assert!((adaptive.log_z_ratio() - log_ratio).abs() < 4.0 * adaptive.standard_error());
    assert!(learned.modifier(0.5, &x).norm() > 0.1);
}

/// 65 features in ten dimensions, of which every coordinate changes scale and place.
#[test]
fn an_ensemble_learns_in_ten_dimensions() {
    let mean = DVector::from_fn(10, |i, _| 0.3 * (i as f64 - 4.0));
    let factor = DMatrix::from_fn(10, 10, |i, j| {
        if i == j {
            0.6
        } else {
            0.05 * (i + j) as f64 / 9.0
        }
    });
    let covariance = &factor * factor.transpose();
    let target = Gaussian::new(mean, covariance).unwrap();
    let log_z = target.log_normalizer();
    let path = GaussianPath::new(Gaussian::standard(10).unwrap(), target).unwrap();
    let schedule = Schedule::linear(100).unwrap();
    let features = BumpFeatures::new(10, &[], &[]).unwrap();
    let learned = EnsembleModifier::fit(&path, features, &schedule, 0.01, 400, 1).unwrap();
    assert!(learned.errors().all(|(_, share)| share < 1e-3));
    let kernel = DriftModifiedLangevin::new(&learned, 0.01).unwrap();
    let adaptive = run(&path, kernel, 100, 500);
    let unmodified = run(&path, UnadjustedLangevin::new(0.01).unwrap(), 100, 500);
    let variance = |run: &Run<DVector<f64>>| run.estimate().var_log_weight();
    assert!(variance(&adaptive) < 0.5 && variance(&unmodified) > 5.0);
    let error = (adaptive.log_z() - log_z).abs();
    assert!(
        error < 4.0 * adaptive.standard_error() && adaptive.standard_error() < 0.05,
        "{error}"
    );
}

#[test]
fn an_ensemble_learns_bumps_and_says_how_well() {
    let path = bumps(1, 4.0);
    let schedule = Schedule::linear(400).unwrap();
    let centres = [dvector![-2.0], dvector![2.5]];
    let variance = |widths: &[f64]| {
        let features = BumpFeatures::new(1, &centres, widths).unwrap();
        let learned = EnsembleModifier::fit(&path, features, &schedule, 0.01, 500, 1).unwrap();
        let error = learned.errors().map(|(_, share)| share).sum::<f64>() / 400.0;
        let kernel = DriftModifiedLangevin::new(&learned, 0.01).unwrap();
        let adaptive = run(&path, kernel, 400, 1_000);
        let off = (adaptive.log_z() - LOG_Z_4).abs();
        assert!(off < 4.0 * adaptive.standard_error(), "{off}");
        (adaptive.estimate().var_log_weight(), error)
    };
    let none = variance(&[]);
    let several = variance(&[0.4, 0.7, 1.2, 2.0, 3.5]);
    println!("{none:?} {several:?}");
    assert!(
        several.0 < 0.4 && several.1 < 0.2 && several.1 < 0.5 * none.1,
        "{several:?} {none:?}"
    );
}

/// `div(p grad phi) / p = div(grad phi) + grad phi . grad log p`, with the divergence of each field
/// by central differences.
#[test]
fn features_generate_the_divergence_of_their_fields() {
    let centres = [dvector![0.3, -0.5, 1.0], dvector![-1.0, 0.2, 0.0]];
    let features = BumpFeatures::new(3, &centres, &[0.7, 1.6]).unwrap();
    let (x, gradient) = (dvector![0.4, 0.1, 0.6], dvector![-0.8, 0.5, 1.1]);
    let mut generated = vec![0.0; features.count()];
    features.generator_into(&x, &gradient, &mut generated);
    assert_eq!(features.count(), 3 + 6 + 4);
    for (j, generated) in generated.into_iter().enumerate() {
        let field = |x: &DVector<f64>| {
            let mut unit = DVector::zeros(features.count());
            unit[j] = 1.0;
            let mut field = DVector::zeros(3);
            features.field_into(&unit, x, &mut field);
            field
        };
        let step = 1e-5;
        let derivative = |i: usize| {
            let at = |sign: f64| {
                let mut moved = x.clone();
                moved[i] += sign * step;
                field(&moved)[i]
            };
            (at(1.0) - at(-1.0)) / (2.0 * step)
        };
        let exact = (0..3).map(derivative).sum::<f64>() + field(&x).dot(&gradient);
        assert!((generated - exact).abs() < 1e-8, "{j}: {generated} {exact}");
    }
    assert!(BumpFeatures::new(2, &centres, &[1.0]).is_err());
    assert!(BumpFeatures::new(3, &centres, &[0.0]).is_err());
}

#[test]
fn a_modifier_names_the_dimension_of_a_state_that_it_is_not_made_for() {
    let path = bumps(3, 4.0);
    let table = table(4.0, 10);
    for factors in [vec![&table; 2], vec![], vec![&table; 4]] {
        let expected = format!(
            "a state of dimension 3 for a drift modifier of dimension {}",
            factors.len()
        );
        let kernel = DriftModifiedLangevin::new(SeparableModifier::new(factors), 0.01).unwrap();
        let error = Ais::new(&path, kernel).run().unwrap_err().to_string();
        assert!(error.ends_with(&expected), "{error}");
    }
    let nowhere = FunctionModel::new(|_: &DVector<f64>| 0.0)
        .with_gradient(|_: &DVector<f64>| DVector::zeros(0))
        .with_sampler(|_| DVector::zeros(0))
        .with_log_normalizer(0.0)
        .unwrap();
    let path = GeometricPath::new(nowhere.clone(), nowhere);
    let kernel = DriftModifiedLangevin::new(&table, 0.01).unwrap();
    let error = Ais::new(&path, kernel).run().unwrap_err().to_string();
    let expected = "a state of dimension 0 for a drift modifier of dimension 1";
    assert!(error.ends_with(expected), "{error}");
}
