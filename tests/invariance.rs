//! Every kernel leaves its model invariant (or corrects for it exactly), and gives unbiased
//! weights on coarse schedules; deliberately wrong kernels fail the same checks.
//!
//! A check compares averages over 10^5 chains with exact values and passes where every
//! `|z| < 4`. With correct code one z-score in 16,000 exceeds 4; there are about 250 here, and the
//! seeds are fixed.

use annealed::kernel::{
    CoordinateGibbs, Hmc, Increment, Mala, Mixture, NonFinite, PerfectTransitions, PersistentHmc,
    RandomWalkMetropolis, Repeat, Stage, Step, StepSize, Then, TransitionKernel,
    UnadjustedLangevin,
};
use annealed::model::{Differentiable, FullConditionals, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate};
use nalgebra::{DVector, Matrix2, Vector2};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Exp1, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const CHAINS: usize = 100_000;

// Models whose moments and constants are known, written apart from the library's own.

/// `log f(x) = constant + linear . x - x . precision x / 2` in two dimensions.
#[derive(Debug, Clone, Copy)]
struct Quadratic {
    constant: f64,
    linear: Vector2<f64>,
    precision: Matrix2<f64>,
}

impl Quadratic {
    fn new(constant: f64, mean: [f64; 2], covariance: [f64; 3]) -> Self {
        let [xx, xy, yy] = covariance;
        let precision = Matrix2::new(xx, xy, xy, yy).try_inverse().unwrap();
        Self {
            constant,
            linear: precision * Vector2::from(mean),
            precision,
        }
    }

    fn covariance(&self) -> Matrix2<f64> {
        self.precision.try_inverse().unwrap()
    }

    fn mean(&self) -> Vector2<f64> {
        self.covariance() * self.linear
    }

    fn log_normalizer(&self) -> f64 {
        let quadratic = 0.5 * self.linear.dot(&self.mean());
        let volume = std::f64::consts::TAU.ln() - 0.5 * self.precision.determinant().ln();
        self.constant + quadratic + volume
    }

    fn log_f(&self, x: Vector2<f64>) -> f64 {
        self.constant + self.linear.dot(&x) - 0.5 * x.dot(&(self.precision * x))
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Vector2<f64> {
        let root = self.covariance().cholesky().unwrap().l();
        self.mean() + root * Vector2::new(rng.sample(StandardNormal), rng.sample(StandardNormal))
    }

    /// Mean and variance of coordinate `index` given the other.
    fn conditional(&self, x: Vector2<f64>, index: usize) -> (f64, f64) {
        let precision = self.precision[(index, index)];
        let pull = self.linear[index] - self.precision[(index, 1 - index)] * x[1 - index];
        (pull / precision, 1.0 / precision)
    }
}

fn pair(x: &DVector<f64>) -> Vector2<f64> {
    Vector2::new(x[0], x[1])
}

/// Two correlated Gaussians of unequal weight: skewed, with two modes.
#[derive(Debug, Clone)]
struct TwoGaussians {
    parts: [Quadratic; 2],
}

impl TwoGaussians {
    fn new() -> Self {
        let part = |weight: f64, mean, covariance| {
            let mut part = Quadratic::new(0.0, mean, covariance);
            part.constant = weight.ln() - part.log_normalizer();
            part
        };
        Self {
            parts: [
                part(0.7, [-1.0, 0.0], [0.6, 0.35, 0.5]),
                part(0.3, [1.2, 1.5], [0.3, -0.1, 0.8]),
            ],
        }
    }

    /// Log densities of the parts.
    fn log_parts(&self, x: Vector2<f64>) -> [f64; 2] {
        self.parts.map(|part| part.log_f(x))
    }

    fn moments(&self) -> [f64; 6] {
        let mut moments = [0.0; 6];
        for part in &self.parts {
            let (weight, m, c) = (part.log_normalizer().exp(), part.mean(), part.covariance());
            let here = [
                m.x,
                m.y,
                m.x * m.x + c.m11,
                m.x * m.y + c.m12,
                m.y * m.y + c.m22,
                m.x.powi(3) + 3.0 * m.x * c.m11,
            ];
            for (sum, term) in moments.iter_mut().zip(here) {
                *sum += weight * term;
            }
        }
        moments
    }
}

/// The functions whose means `TwoGaussians::moments` gives.
fn statistics(x: &DVector<f64>) -> [f64; 6] {
    let (x, y) = (x[0], x[1]);
    [x, y, x * x, x * y, y * y, x * x * x]
}

fn log_sum_exp([a, b]: [f64; 2]) -> f64 {
    let top = a.max(b);
    top + ((a - top).exp() + (b - top).exp()).ln()
}

impl UnnormalizedModel for TwoGaussians {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        log_sum_exp(self.log_parts(pair(x)))
    }
}

impl Sampleable for TwoGaussians {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let part = usize::from(rng.random::<f64>() < 0.3);
        let x = self.parts[part].draw(rng);
        DVector::from_column_slice(x.as_slice())
    }
}

impl Differentiable for TwoGaussians {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let x = pair(x);
        let logs = self.log_parts(x);
        let total = log_sum_exp(logs);
        for (part, log) in self.parts.iter().zip(logs) {
            let slope = part.linear - part.precision * x;
            for i in 0..2 {
                gradient[i] += scale * (log - total).exp() * slope[i];
            }
        }
        total
    }
}

impl FullConditionals for TwoGaussians {
    fn coordinates(&self) -> usize {
        2
    }

    fn sample_coordinate<R: Rng + ?Sized>(&self, x: &mut DVector<f64>, index: usize, rng: &mut R) {
        // Each part's weight given the other coordinate: its density there, integrated over
        // this one, is its value at the conditional mean times the conditional deviation.
        let laws = self.parts.map(|part| {
            let (mean, variance) = part.conditional(pair(x), index);
            let mut at_mean = pair(x);
            at_mean[index] = mean;
            (mean, variance, part.log_f(at_mean) + 0.5 * variance.ln())
        });
        let first = (laws[0].2 - log_sum_exp([laws[0].2, laws[1].2])).exp();
        let (mean, variance, _) = laws[usize::from(rng.random::<f64>() >= first)];
        x[index] = mean + variance.sqrt() * rng.sample::<f64, _>(StandardNormal);
    }
}

/// The geometric path between two unnormalised Gaussians that differ in all respects.
#[derive(Debug)]
struct GaussianPair {
    base: AtBeta,
    target: AtBeta,
}

#[derive(Debug, Clone, Copy)]
struct AtBeta {
    beta: f64,
    model: Quadratic,
}

impl GaussianPair {
    fn new() -> Self {
        let at = |beta, model| AtBeta { beta, model };
        Self {
            base: at(0.0, Quadratic::new(0.3, [0.5, -0.5], [1.5, 0.3, 1.0])),
            target: at(1.0, Quadratic::new(-1.1, [-0.5, 0.4], [0.4, -0.2, 0.7])),
        }
    }

    fn log_ratio_of_normalizers(&self) -> f64 {
        self.target.model.log_normalizer() - self.base.model.log_normalizer()
    }
}

impl AnnealingPath for GaussianPair {
    type State = DVector<f64>;
    type Base = AtBeta;
    type At<'a> = AtBeta;

    fn base(&self) -> &AtBeta {
        &self.base
    }

    fn at(&self, beta: f64) -> AtBeta {
        let (a, b) = (&self.base.model, &self.target.model);
        let model = Quadratic {
            constant: (1.0 - beta) * a.constant + beta * b.constant,
            linear: (1.0 - beta) * a.linear + beta * b.linear,
            precision: (1.0 - beta) * a.precision + beta * b.precision,
        };
        AtBeta { beta, model }
    }
}

impl UnnormalizedModel for AtBeta {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        self.model.log_f(pair(x))
    }
}

impl Intermediate for AtBeta {
    fn beta(&self) -> f64 {
        self.beta
    }
}

impl Sampleable for AtBeta {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        DVector::from_column_slice(self.model.draw(rng).as_slice())
    }
}

impl Differentiable for AtBeta {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let slope = self.model.linear - self.model.precision * pair(x);
        gradient[0] += scale * slope.x;
        gradient[1] += scale * slope.y;
        self.log_density(x)
    }
}

impl FullConditionals for AtBeta {
    fn coordinates(&self) -> usize {
        2
    }

    fn sample_coordinate<R: Rng + ?Sized>(&self, x: &mut DVector<f64>, index: usize, rng: &mut R) {
        let (mean, variance) = self.model.conditional(pair(x), index);
        x[index] = mean + variance.sqrt() * rng.sample::<f64, _>(StandardNormal);
    }
}

/// From `e^-x` to `x^2 e^-x` on the half line: a support with an edge. `Z_1 / Z_0 = 2`.
#[derive(Debug)]
struct HalfLine {
    base: Gamma,
}

#[derive(Debug, Clone, Copy)]
struct Gamma {
    beta: f64,
}

impl AnnealingPath for HalfLine {
    type State = DVector<f64>;
    type Base = Gamma;
    type At<'a> = Gamma;

    fn base(&self) -> &Gamma {
        &self.base
    }

    fn at(&self, beta: f64) -> Gamma {
        Gamma { beta }
    }
}

impl UnnormalizedModel for Gamma {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        if x[0] > 0.0 {
            2.0 * self.beta * x[0].ln() - x[0]
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl Intermediate for Gamma {
    fn beta(&self) -> f64 {
        self.beta
    }
}

impl Sampleable for Gamma {
    /// At beta = 0 only, where chains start.
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        DVector::from_element(1, rng.sample(Exp1))
    }
}

impl Differentiable for Gamma {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        // NaN off the support on purpose: no kernel may use it.
        let slope = if x[0] > 0.0 {
            2.0 * self.beta / x[0] - 1.0
        } else {
            f64::NAN
        };
        gradient[0] += scale * slope;
        self.log_density(x)
    }
}

// The two checks.

/// Mean and standard error, one value at a time (Welford).
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Average {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let difference = value - self.mean;
        self.mean += difference / self.count;
        self.squares += difference * (value - self.mean);
    }

    fn standard_error(&self) -> f64 {
        (self.squares / (self.count - 1.0) / self.count).sqrt()
    }

    fn z(&self, exact: f64) -> f64 {
        (self.mean - exact) / self.standard_error()
    }
}

/// Starts at exact samples of the two Gaussians, applies the kernel four times, and returns the
/// largest `|z|` of the mean of `e^correction` against 1 and of six weighted moments against
/// their exact values.
fn worst_invariance_z<K: TransitionKernel<TwoGaussians>>(kernel: &K, seed: u64) -> f64 {
    let stage = Stage::stationary(TwoGaussians::new());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut workspace = K::Workspace::default();
    let mut averages = [Average::default(); 7];
    for chain in 0..CHAINS {
        let mut state = stage.model.sample(&mut rng);
        let mut correction = 0.0;
        for _ in 0..4 {
            let step = kernel.step(&stage, chain, &mut state, &mut workspace, &mut rng);
            correction += step.unwrap().correction;
        }
        let weight = correction.exp();
        averages[6].push(weight);
        for (average, value) in averages.iter_mut().zip(statistics(&state)) {
            average.push(weight * value);
        }
    }
    let mut worst = (averages[6].mean - 1.0).abs() / averages[6].standard_error().max(1e-12);
    for (average, exact) in averages.iter().zip(stage.model.moments()) {
        assert!(
            average.standard_error() < 0.03,
            "{average:?}: too noisy to say anything"
        );
        worst = worst.max(average.z(exact).abs());
    }
    worst
}

/// The z-score of the mean weight against `Z_1 / Z_0` on `steps` equal stages, weights formed by
/// `increment`.
fn unbiasedness_z<'p, P, K>(path: &'p P, kernel: &K, steps: usize, log_z: f64, seed: u64) -> f64
where
    P: AnnealingPath,
    K: TransitionKernel<P::At<'p>>,
{
    let stages: Vec<_> = (1..=steps)
        .map(|k| {
            let beta = |k| k as f64 / steps as f64;
            Stage::new(k, path.at(beta(k - 1)), path.at(beta(k)))
        })
        .collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut workspace = K::Workspace::default();
    let mut weights = Average::default();
    for chain in 0..CHAINS {
        let mut state = path.base().sample(&mut rng);
        let mut log_weight = -log_z;
        for stage in &stages {
            if log_weight > f64::NEG_INFINITY {
                let increment =
                    kernel.increment(stage, chain, &mut state, &mut workspace, &mut rng);
                log_weight += increment.unwrap().log_weight;
            }
        }
        assert!(log_weight < f64::INFINITY, "log weight {log_weight}");
        weights.push(log_weight.exp());
    }
    assert!(
        weights.standard_error() < 0.03,
        "{weights:?}: too noisy to say anything"
    );
    weights.z(1.0)
}

fn assert_invariant<K: TransitionKernel<TwoGaussians>>(kernel: &K, seed: u64) {
    let z = worst_invariance_z(kernel, seed);
    assert!(z < 4.0, "z = {z}");
}

fn assert_unbiased<K: TransitionKernel<AtBeta>>(kernel: &K, seed: u64) {
    let path = GaussianPair::new();
    for steps in [1, 2, 4, 10] {
        let log_z = path.log_ratio_of_normalizers();
        let z = unbiasedness_z(&path, kernel, steps, log_z, seed);
        assert!(z.abs() < 4.0, "K = {steps}: z = {z}");
    }
}

/// Both checks, each kernel at a step size coarse enough for mistakes to show.
macro_rules! kernels {
    ($($name:ident: $kernel:expr;)*) => {
        mod invariant {
            use super::*;
            $(#[test] fn $name() { assert_invariant(&$kernel, 1); })*
        }
        mod unbiased {
            use super::*;
            $(#[test] fn $name() { assert_unbiased(&$kernel, 2); })*
        }
    };
}

fn varying(start: f64, end: f64) -> StepSize {
    StepSize::knots([(0.0, start), (1.0, end)]).unwrap()
}

fn random_walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(varying(2.0, 1.2)).unwrap()
}

fn mala() -> Mala {
    Mala::new(varying(1.5, 0.9)).unwrap()
}

fn langevin() -> UnadjustedLangevin {
    UnadjustedLangevin::new(varying(0.5, 0.2)).unwrap()
}

fn hmc() -> Hmc {
    Hmc::new(varying(0.9, 0.8), 3).unwrap()
}

fn persistent_hmc() -> PersistentHmc {
    PersistentHmc::new(varying(1.0, 0.8), 1, 0.2).unwrap()
}

kernels! {
    random_walk_metropolis: random_walk();
    metropolis_adjusted_langevin: mala();
    unadjusted_langevin: langevin();
    hamiltonian: hmc();
    hamiltonian_with_persistent_momentum: persistent_hmc();
    hamiltonian_with_momentum_hardly_refreshed: PersistentHmc::new(0.8, 2, 0.01).unwrap();
    systematic_gibbs: CoordinateGibbs::systematic();
    random_scan_gibbs: CoordinateGibbs::random_scan();
    perfect_transitions: PerfectTransitions;
    langevin_then_random_walk: Then(langevin(), random_walk());
    random_walk_then_langevin: Then(random_walk(), langevin());
    repeated_langevin: Repeat::new(langevin(), 2).unwrap();
    repeated_persistent_hmc: Repeat::new(persistent_hmc(), 3).unwrap();
    mixture_of_langevin_and_gibbs:
        Mixture::new(0.6, langevin(), CoordinateGibbs::systematic()).unwrap();
    nested:
        Then(Mixture::new(0.5, persistent_hmc(), mala()).unwrap(), Repeat::new(langevin(), 1).unwrap());
}

fn half_line_z<K: TransitionKernel<Gamma>>(kernel: &K, steps: usize) -> f64 {
    let path = HalfLine {
        base: Gamma { beta: 0.0 },
    };
    unbiasedness_z(&path, kernel, steps, 2_f64.ln(), 3)
}

/// Proposals and trajectories that leave the support, and gradients that are NaN there.
#[test]
fn unbiased_on_a_bounded_support() {
    for steps in [1, 2, 5] {
        let z = [
            half_line_z(&RandomWalkMetropolis::new(1.5).unwrap(), steps),
            half_line_z(&Mala::new(0.8).unwrap(), steps),
            half_line_z(&UnadjustedLangevin::new(0.3).unwrap(), steps),
            half_line_z(&Hmc::new(0.7, 3).unwrap(), steps),
            half_line_z(&PersistentHmc::new(0.7, 2, 0.3).unwrap(), steps),
            half_line_z(&Then(langevin(), langevin()), steps),
        ];
        assert!(z.iter().all(|z| z.abs() < 4.0), "K = {steps}: {z:?}");
    }
}
