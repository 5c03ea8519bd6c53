//! Gaussian visible units.

use std::f64::consts::TAU;

use nalgebra::DVector;
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::Moments;
use crate::random::StandardNormal;
use crate::rbm::harmonium::VisibleUnits;
use crate::{Error, Result};

/// Gaussian visible units with means `b` and standard deviations `sigma`, as in a Gaussian-Bernoulli RBM.
///
/// The log density is `-sum_i (v_i - b_i)^2 / (2 sigma_i^2)`, and the statistics are `v`. Given the hidden units, `v_i`
/// has mean `b_i + sigma_i^2 (W^T h)_i` and standard deviation `sigma_i`. For models with `h^T W (v / sigma)` (Hinton
/// 2012, section 13.2) or `h^T W (v / sigma^2)` (Cho, Ilin and Raiko 2011), divide column i of W by `sigma_i` or
/// `sigma_i^2`. Methods panic if the length of a state is not D.
///
/// ```
/// use annealed::harmonium::GaussianUnits;
/// use annealed::model::{NormalizedModel, UnnormalizedModel};
/// use annealed::nalgebra::dvector;
///
/// let units = GaussianUnits::new(dvector![0.0, 1.0], dvector![1.0, 2.0])?;
/// assert_eq!(units.log_density(&dvector![1.0, 3.0]), -1.0);
/// assert!((units.log_normalizer() - (2.0 * std::f64::consts::TAU).ln()).abs() < 1e-14);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianUnits {
    means: DVector<f64>,
    /// `1 / sigma^2`.
    precisions: DVector<f64>,
    /// Constant term of the log density: 0 for new units, changed by tilting and blending.
    constant: f64,
}

impl GaussianUnits {
    /// Creates units from means (D) and standard deviations (D).
    ///
    /// # Errors
    /// If there are no units, lengths differ, a mean is not finite, or a deviation's square is not finite and positive.
    pub fn new(means: DVector<f64>, deviations: DVector<f64>) -> Result<Self> {
        Error::check_not_empty("means", means.len())?;
        Error::check_dimension("deviations", deviations.len(), means.len())?;
        Error::check_finite("means", means.iter().copied())?;
        let usable = |deviation: f64| {
            let precision = (deviation * deviation).recip();
            deviation > 0.0 && precision > 0.0 && precision.is_finite()
        };
        let values = deviations.iter().copied().enumerate();
        let expected = "positive numbers with finite squares";
        Error::check_each("deviations", "index", values, usable, expected)?;
        Ok(Self {
            means,
            precisions: deviations.map(|deviation| (deviation * deviation).recip()),
            constant: 0.0,
        })
    }

    /// Creates units with the means and variances of the data. The variance of unit i is `(q_i + s m) / (N + s)`: `q_i`
    /// is its sum of squared deviations, m the mean variance of all units, and s the `smoothing`, such as 1.
    ///
    /// # Errors
    /// If `data` is empty, rows differ in length, an entry is not finite, a variance is 0, or `smoothing` is negative
    /// or infinite.
    pub fn from_data(data: &[DVector<f64>], smoothing: f64) -> Result<Self> {
        let expected = "a finite number of at least 0";
        let within = smoothing >= 0.0 && smoothing.is_finite();
        Error::check(within, "smoothing", smoothing, expected)?;
        Error::check_not_empty("data", data.len())?;
        let mut moments = vec![Moments::default(); data[0].len()];
        for row in data {
            check_row("row of data", row, moments.len())?;
            moments.iter_mut().zip(row).for_each(|(m, x)| m.add(*x));
        }
        let rows = data.len() as f64;
        let squares: Vec<f64> = moments
            .iter()
            .map(|m| m.variance() * (rows - 1.0))
            .collect();
        let mean_variance = squares.iter().sum::<f64>() / (rows * squares.len() as f64);
        let deviation = |sum: &f64| ((sum + smoothing * mean_variance) / (rows + smoothing)).sqrt();
        Self::new(
            DVector::from_iterator(moments.len(), moments.iter().map(Moments::mean)),
            DVector::from_iterator(squares.len(), squares.iter().map(deviation)),
        )
    }

    /// Returns the means `b` (D).
    pub fn means(&self) -> &DVector<f64> {
        &self.means
    }

    /// Returns the standard deviations `sigma` (D).
    pub fn deviations(&self) -> DVector<f64> {
        self.precisions.map(|precision| precision.sqrt().recip())
    }
}

fn check_row(argument: &'static str, row: &DVector<f64>, units: usize) -> Result<()> {
    Error::check_dimension(argument, row.len(), units)?;
    Error::check_finite(argument, row.iter().copied())
}

impl UnnormalizedModel for GaussianUnits {
    type State = DVector<f64>;

    fn log_density(&self, visible: &DVector<f64>) -> f64 {
        demand_dimension("a state", visible.len(), self.units());
        let units = visible.iter().zip(&self.means).zip(&self.precisions);
        let squares = units.map(|((v, mean), precision)| precision * (v - mean).powi(2));
        self.constant - 0.5 * squares.sum::<f64>()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.units())
    }
}

impl NormalizedModel for GaussianUnits {
    fn log_normalizer(&self) -> f64 {
        let logs = self
            .precisions
            .iter()
            .map(|precision| (TAU / precision).ln());
        self.constant + 0.5 * logs.sum::<f64>()
    }
}

impl Sampleable for GaussianUnits {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let normal = StandardNormal::get();
        let draw = |mean: f64, precision: f64| mean + normal.draw(rng) / precision.sqrt();
        self.means.zip_map(&self.precisions, draw)
    }
}

impl VisibleUnits for GaussianUnits {
    fn units(&self) -> usize {
        self.means.len()
    }

    fn statistic_count(&self) -> usize {
        self.units()
    }

    fn statistics(&self, visible: &DVector<f64>) -> impl Iterator<Item = (usize, f64)> {
        visible.iter().copied().enumerate()
    }

    fn mean_statistics(&self) -> DVector<f64> {
        self.means.clone()
    }

    /// Completes the square for each unit, with mean b, precision p and field f:
    /// `-(p/2) (v - b)^2 + f v = -(p/2) (v - b - f/p)^2 + f b + f^2 / (2 p)`.
    fn tilted(&self, field: &DVector<f64>) -> Self {
        let shift = field.component_div(&self.precisions);
        Self {
            constant: self.constant + field.dot(&self.means) + 0.5 * field.dot(&shift),
            means: &self.means + shift,
            precisions: self.precisions.clone(),
        }
    }

    /// Blends the precisions of each unit to `p = (1 - t) p_0 + t p_1`, and lowers the constant by
    /// `(1 - t) t p_0 p_1 / p (b_1 - b_0)^2 / 2`, where `b_0` and `b_1` are the unit's means.
    fn blended(&self, other: &Self, t: f64) -> Self {
        let precisions = &self.precisions * (1.0 - t) + &other.precisions * t;
        let share = other.precisions.component_div(&precisions) * t;
        let distance = &other.means - &self.means;
        let shift = distance.component_mul(&share);
        let rest = distance.component_mul(&self.precisions) * (1.0 - t);
        Self {
            constant: (1.0 - t) * self.constant + t * other.constant - 0.5 * rest.dot(&shift),
            means: &self.means + shift,
            precisions,
        }
    }

    fn check_state(&self, argument: &'static str, visible: &DVector<f64>) -> Result<()> {
        check_row(argument, visible, self.units())
    }

    /// Moves the means and keeps the deviations.
    fn trained(&self, step: &DVector<f64>) -> Self {
        Self {
            constant: self.constant,
            ..self.tilted(step)
        }
    }
}

crate::num::serialize_as! {
    GaussianUnits as units {
        means: units.means.as_slice(),
        precisions: units.precisions.as_slice(),
        constant: units.constant,
    }
}
crate::num::deserialize_checked! {
    GaussianUnits { means: Vec<f64>, precisions: Vec<f64>, constant: f64 } =>
        GaussianUnits::read(means.into(), precisions.into(), constant)
}

#[cfg(feature = "serde")]
impl GaussianUnits {
    /// Creates units from saved fields, with exactly the saved bits.
    fn read(means: DVector<f64>, precisions: DVector<f64>, constant: f64) -> Result<Self> {
        Error::check_number("constant", constant)?;
        let deviations = precisions.map(|precision| precision.sqrt().recip());
        let units = Self::new(means, deviations)?;
        Ok(Self {
            precisions,
            constant,
            ..units
        })
    }
}
