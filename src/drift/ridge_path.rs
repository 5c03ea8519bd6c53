//! The path of a ridge superposition, a sum of functions of projections of the state, and the same path over vectors.

use nalgebra::{DMatrix, DVector};

use crate::drift::ridge::{RidgePrior, RidgeState};
use crate::drift::ridge_function::RidgeFunction;
use crate::model::{Differentiable, Gaussian, UnnormalizedModel};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, TemperedAt, TemperedPath};
use crate::{Error, Result};

/// The path to the objective `L(w) = 1/n sum_i f_i(x_i . w)` under a Gaussian, augmented with noisy projections z:
///
/// `log f_beta(w, z) = log N(w; 0, sigma0^2 I) + sum_i log N(z_i; x_i . w, delta^2) + beta gamma L(z)`,
///
/// with `L(z) = 1/n sum_i f_i(z_i)` and the gain gamma. [`RidgeGibbs`](crate::drift::RidgeGibbs) draws both
/// conditionals exactly. With z integrated out, the objective of w is the [`smoothed`](Self::smoothed) one, which tends
/// to L as delta tends to 0. Source: Barron and Luo (2007), with the factors 1/n and gamma that the slides omit in
/// places.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::drift::{RidgeGibbs, RidgePath, Sinusoid};
/// use annealed::estimate::LogZ;
/// use annealed::schedule::Schedule;
/// use nalgebra::dmatrix;
///
/// let wave = |amplitude| Sinusoid { amplitude, frequency: 2.0, phase: 0.0 };
/// let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
/// let path = RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3)?;
/// let run = Ais::new(&path, RidgeGibbs::augmented()).schedule(Schedule::linear(50)?).run()?;
/// assert!((run.log_z() - 1.880842).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias = "variable augmentation")]
#[derive(Debug, Clone)]
pub struct RidgePath<F> {
    prior: RidgePrior,
    functions: Vec<F>,
    gain: f64,
}

impl<F: RidgeFunction> RidgePath<F> {
    /// Creates the path for `design`, the matrix X with a row `x_i` for each function `f_i`, and for the gain gamma.
    /// The deviation sigma0 of w is `prior_deviation`, the deviation delta of the projections is `deviation`.
    ///
    /// # Errors
    /// Another number of functions than rows; a gain not finite and positive; an upper bound not finite; an error of
    /// [`RidgePrior::new`].
    pub fn new(
        design: DMatrix<f64>,
        functions: impl IntoIterator<Item = F>,
        gain: f64,
        prior_deviation: f64,
        deviation: f64,
    ) -> Result<Self> {
        let functions: Vec<F> = functions.into_iter().collect();
        Error::check_dimension("functions", functions.len(), design.nrows())?;
        Error::check_positive("gain", gain)?;
        let bounds = functions.iter().map(RidgeFunction::upper_bound);
        Error::check_finite("upper bounds", bounds)?;
        Ok(Self {
            prior: RidgePrior::new(design, prior_deviation, deviation)?,
            functions,
            gain,
        })
    }

    /// Returns the model that chains start from.
    pub fn base(&self) -> &RidgePrior {
        &self.prior
    }

    /// Returns the model at `beta` in `[0, 1]`.
    pub fn at(&self, beta: f64) -> RidgeAt<'_, F> {
        RidgeAt { path: self, beta }
    }

    /// Returns the functions `f_i`.
    pub fn functions(&self) -> &[F] {
        &self.functions
    }

    /// Returns the gain gamma at `beta = 1`.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Returns `L(z) = 1/n sum_i f_i(z_i)`.
    pub fn objective<'a>(&self, z: impl IntoIterator<Item = &'a f64>) -> f64 {
        let pairs = self.functions.iter().zip(z);
        pairs.map(|(f, &z)| f.value(z)).sum::<f64>() / self.functions.len() as f64
    }

    /// Returns the smoothed function `n/gamma log E exp(gamma/n f_i(u + delta xi))`, with xi a standard normal. It
    /// takes the place of `f_i` at `beta = 1` if z is integrated out.
    ///
    /// # Errors
    /// The errors of [`RidgePrior::log_smoothed`].
    ///
    /// # Panics
    /// An `index` beyond the last function.
    pub fn smoothed(&self, index: usize, u: f64) -> Result<f64> {
        let scale = self.gain / self.functions.len() as f64;
        Ok(self.prior.log_smoothed(&self.functions[index], u, scale)? / scale)
    }
}

impl<'p, F: RidgeFunction> AnnealingPath for &'p RidgePath<F> {
    type State = RidgeState;
    type Base = RidgePrior;
    type At = RidgeAt<'p, F>;

    fn base(&self) -> &RidgePrior {
        &self.prior
    }

    fn at(&self, beta: f64) -> RidgeAt<'p, F> {
        RidgePath::at(self, beta)
    }
}

/// The augmented model at one beta of a [`RidgePath`].
#[derive(Debug)]
pub struct RidgeAt<'p, F> {
    path: &'p RidgePath<F>,
    beta: f64,
}

crate::num::copy! { for ['a, F] RidgeAt<'a, F> }

impl<'p, F> RidgeAt<'p, F> {
    /// Returns the path.
    pub fn path(&self) -> &'p RidgePath<F> {
        self.path
    }

    /// Returns `beta gamma / n`, the factor of each function in the log density.
    pub fn scale(&self) -> f64 {
        self.beta * self.path.gain / self.path.functions.len() as f64
    }
}

impl<F: RidgeFunction> UnnormalizedModel for RidgeAt<'_, F> {
    type State = RidgeState;

    fn log_density(&self, state: &RidgeState) -> f64 {
        let objective = self.path.objective(&state.z);
        self.path.prior.log_density(state) + self.beta * self.path.gain * objective
    }
}

impl<F: RidgeFunction> Intermediate for RidgeAt<'_, F> {
    fn beta(&self) -> f64 {
        self.beta
    }

    /// Returns `(beta - beta') gamma L(z)`.
    fn log_ratio(&self, previous: &Self, state: &RidgeState) -> f64 {
        (self.beta - previous.beta) * self.beta_derivative(state)
    }

    fn log_ratio_given(&self, previous: &Self, state: &RidgeState, _: f64, _: Option<f64>) -> f64 {
        self.log_ratio(previous, state)
    }
}

impl<F: RidgeFunction> BetaDerivative for RidgeAt<'_, F> {
    /// Returns `gamma L(z)`.
    fn beta_derivative(&self, state: &RidgeState) -> f64 {
        self.path.gain * self.path.objective(&state.z)
    }
}

/// The objective `gamma L(z)` of a [`RidgePath`] over vectors `(w, z)` of `d + n` coordinates, w first. Its gradient
/// panics if a vector has fewer.
#[derive(Debug, Clone)]
pub struct RidgeObjective<F> {
    ridge: RidgePath<F>,
}

/// A [`RidgePath`] over vectors `(w, z)`, made by [`RidgePath::into_vectors`].
pub type RidgeVectorPath<F> = TemperedPath<Gaussian, RidgeObjective<F>>;

/// The model at one beta of a [`RidgeVectorPath`].
pub type RidgeVectorAt<'a, F> = TemperedAt<'a, Gaussian, RidgeObjective<F>>;

impl<F: RidgeFunction> RidgePath<F> {
    /// Returns the same path over vectors `(w, z)` of `d + n` coordinates, for kernels that follow gradients, such as
    /// [`DriftModifiedLangevin`](crate::drift::DriftModifiedLangevin) with a
    /// [`RidgeModifier`](crate::drift::RidgeModifier), and for [`RidgeGibbs`](crate::drift::RidgeGibbs).
    ///
    /// # Errors
    /// Deviations so far apart that the precision of `(w, z)` has no Cholesky factor.
    pub fn into_vectors(self) -> Result<RidgeVectorPath<F>> {
        let precision = precision(&self.prior);
        let mean = DVector::zeros(precision.nrows());
        let base = Gaussian::from_precision(mean, precision)?;
        Ok(TemperedPath::new(base, RidgeObjective { ridge: self }))
    }
}

fn precision(prior: &RidgePrior) -> DMatrix<f64> {
    let (n, d) = prior.design().shape();
    let [wide, narrow] = [prior.prior_deviation(), prior.deviation()].map(|s| s.powi(-2));
    let offsets = DMatrix::from_fn(n, d + n, |i, j| match j < d {
        true => -prior.design()[(i, j)],
        false => f64::from(j == d + i),
    });
    let mut precision = offsets.tr_mul(&offsets) * narrow;
    (0..d).for_each(|i| precision[(i, i)] += wide);
    precision
}

pub(super) fn ridge_at<'a, F>(model: &RidgeVectorAt<'a, F>) -> RidgeAt<'a, F> {
    RidgeAt {
        path: &model.path.likelihood().ridge,
        beta: model.beta,
    }
}

impl<F: RidgeFunction> UnnormalizedModel for RidgeObjective<F> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let d = self.ridge.prior.design().ncols();
        self.ridge.gain() * self.ridge.objective(state.iter().skip(d))
    }

    fn state_dimension(&self) -> Option<usize> {
        let (n, d) = self.ridge.prior.design().shape();
        Some(d + n)
    }
}

impl<F: RidgeFunction> Differentiable for RidgeObjective<F> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (n, d) = self.ridge.prior.design().shape();
        let slope = scale * self.ridge.gain() / n as f64;
        for (i, f) in self.ridge.functions().iter().enumerate() {
            gradient[d + i] += slope * f.derivative(state[d + i]);
        }
        self.log_density(state)
    }
}
