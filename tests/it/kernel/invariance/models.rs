//! Models whose samples and constants are known exactly, written apart from the library's own.

use annealed::model::{Differentiable, FullConditionals, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate};
use nalgebra::{DVector, Matrix2, Vector2};
use rand::{Rng, RngExt};
use rand_distr::{Exp1, StandardNormal};

/// `log f(x) = constant + linear . x - x . precision x / 2` in two dimensions.
#[derive(Debug, Clone, Copy)]
pub struct Quadratic {
    constant: f64,
    linear: Vector2<f64>,
    precision: Matrix2<f64>,
}

impl Quadratic {
    pub fn new(constant: f64, mean: [f64; 2], covariance: [f64; 3]) -> Self {
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
pub struct TwoGaussians {
    parts: [Quadratic; 2],
}

impl TwoGaussians {
    pub fn new() -> Self {
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
#[derive(Debug, Clone)]
pub struct GaussianPair {
    base: AtBeta,
    target: AtBeta,
}

#[derive(Debug, Clone, Copy)]
pub struct AtBeta {
    beta: f64,
    model: Quadratic,
}

impl GaussianPair {
    pub fn new() -> Self {
        let at = |beta, model| AtBeta { beta, model };
        Self {
            base: at(0.0, Quadratic::new(0.3, [0.5, -0.5], [1.5, 0.3, 1.0])),
            target: at(1.0, Quadratic::new(-1.1, [-0.5, 0.4], [0.4, -0.2, 0.7])),
        }
    }

    pub fn log_ratio_of_normalizers(&self) -> f64 {
        self.target.model.log_normalizer() - self.base.model.log_normalizer()
    }
}

impl AnnealingPath for GaussianPair {
    type State = DVector<f64>;
    type Base = AtBeta;
    type At = AtBeta;

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
#[derive(Debug, Clone)]
pub struct HalfLine {
    base: Gamma,
}

#[derive(Debug, Clone, Copy)]
pub struct Gamma {
    beta: f64,
}

impl HalfLine {
    pub fn new() -> Self {
        Self {
            base: Gamma { beta: 0.0 },
        }
    }
}

impl AnnealingPath for HalfLine {
    type State = DVector<f64>;
    type Base = Gamma;
    type At = Gamma;

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
