//! The exact drift modifier in one dimension, by quadrature, and the modifier of a product of densities.

use std::borrow::Borrow;

use nalgebra::DVector;

use crate::drift::DriftModifier;
use crate::num::largest;
use crate::path::{AnnealingPath, BetaDerivative, dimension};
use crate::schedule::{MidBetas, Schedule};
use crate::{Error, Result};

/// Maximum number of nodes of all tables together, which take 2 GiB.
const MAX_NODES: usize = 1 << 28;

/// The drift modifier of a path over one dimension,
///
/// `G_beta(x) = 1/p(x) integral_-inf^x (s - E s) p`, with `s = d/dbeta log f_beta`.
///
/// It is a table on an even grid at the middle of each stage, interpolated linearly between nodes and betas, and
/// constant outside them. The trapezoid rule runs on ratios of densities from both tails to the median, so nothing
/// underflows.
///
/// ```
/// use annealed::drift::{DriftModifiedLangevin, DriftModifier, QuadratureModifier};
/// use annealed::path::GaussianPath;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(1, 2.0), 0.5)?;
/// let path = GaussianPath::new(Gaussian::standard(1)?, target.clone())?;
/// let schedule = Schedule::linear(100)?;
/// let modifier = QuadratureModifier::new(&path, &schedule, (-8.0, 8.0), 1_601)?;
/// let closed_form = path.modifier(0.5, &DVector::from_element(1, 1.0))[0];
/// assert!((modifier.at(0.5, 1.0) - closed_form).abs() < 1e-2);
/// let kernel = DriftModifiedLangevin::new(modifier, 0.01)?;
/// let run = Ais::new(&path, kernel).schedule(schedule).chains(500).run()?;
/// assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias = "drift modifier")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct QuadratureModifier {
    grid: Grid,
    betas: MidBetas,
    /// The modifier at each node of the grid: one table for each beta.
    tables: Vec<Vec<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Grid {
    low: f64,
    spacing: f64,
    points: usize,
}

impl QuadratureModifier {
    /// Tabulates G of `path` for `schedule` at `points` nodes from `range.0` to `range.1`. The range should contain all
    /// but a negligible part of every `p_beta`.
    ///
    /// # Errors
    /// A path of more than one dimension; a range that is not finite and increasing; fewer than 3 points, or more than
    /// 2^28 in all tables together; a density that is NaN, `+inf`, or 0 at a node (keep the range within the support).
    ///
    /// # Panics
    /// A base of unknown dimension, such as a model of closures, if its models refuse states of dimension 1.
    pub fn new<P>(path: P, schedule: &Schedule, range: (f64, f64), points: usize) -> Result<Self>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: BetaDerivative,
    {
        Error::check_dimension("states of the path", dimension(&path), 1)?;
        path.check()?;
        let grid = Grid::new(range, points)?;
        let expected = format!("at most {MAX_NODES} for all {} stages", schedule.stages());
        let few = points.saturating_mul(schedule.stages()) <= MAX_NODES;
        Error::check(few, "points", points, expected)?;
        let betas = MidBetas::of(schedule);
        let tables = betas.betas().iter();
        let tables = tables.map(|&beta| grid.tabulate(&path.at(beta)));
        let tables = tables.collect::<Result<_>>()?;
        Ok(Self {
            grid,
            betas,
            tables,
        })
    }

    /// Returns `G_beta(x)`.
    pub fn at(&self, beta: f64, x: f64) -> f64 {
        let (left, right, part) = self.betas.around(beta);
        let before = self.grid.interpolate(&self.tables[left], x);
        if left == right {
            return before;
        }
        let after = self.grid.interpolate(&self.tables[right], x);
        before + part * (after - before)
    }
}

/// Moves only the first coordinate of a state, and panics if there is none.
impl DriftModifier for QuadratureModifier {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        assert!(
            !state.is_empty(),
            "a state of dimension 0 for a drift modifier of dimension 1"
        );
        modifier.fill(0.0);
        modifier[0] = self.at(beta, state[0]);
    }
}

impl Grid {
    fn new((low, high): (f64, f64), points: usize) -> Result<Self> {
        let spacing = (high - low) / (points as f64 - 1.0);
        Error::check_at_least("points", points, 3)?;
        let range = format!("{low} to {high}");
        let increasing = spacing.is_finite() && spacing > 0.0;
        Error::check(increasing, "range", range, "finite, increasing ends")?;
        Ok(Self {
            low,
            spacing,
            points,
        })
    }

    fn node(&self, index: usize) -> f64 {
        self.low + index as f64 * self.spacing
    }

    fn interpolate(&self, table: &[f64], x: f64) -> f64 {
        let last = self.points - 1;
        let position = ((x - self.low) / self.spacing).clamp(0.0, last as f64);
        let left = (position as usize).min(last - 1);
        table[left] + (position - left as f64) * (table[left + 1] - table[left])
    }

    fn tabulate(&self, model: &impl BetaDerivative<State = DVector<f64>>) -> Result<Vec<f64>> {
        let nodes = (0..self.points).map(|i| DVector::from_element(1, self.node(i)));
        let (log_density, derivative): (Vec<f64>, Vec<f64>) = nodes
            .map(|x| (model.log_density(&x), model.beta_derivative(&x)))
            .unzip();
        Error::check_finite("log density on the grid", log_density.iter().copied())?;
        Error::check_finite("beta derivative on the grid", derivative.iter().copied())?;
        let (mean, middle) = self.mean_and_median(&log_density, &derivative);
        let excess: Vec<f64> = derivative.iter().map(|s| s - mean).collect();
        let mut table = vec![0.0; self.points];
        let mut integrate = |from: usize, i: usize, sign: f64| {
            let ratio = (log_density[from] - log_density[i]).exp();
            let cell = 0.5 * self.spacing * (excess[from] * ratio + excess[i]);
            table[i] = table[from] * ratio + sign * cell;
        };
        (1..=middle).for_each(|i| integrate(i - 1, i, 1.0));
        let right = middle + 1..self.points - 1;
        right.rev().for_each(|i| integrate(i + 1, i, -1.0));
        Error::check_finite("drift modifier on the grid", table.iter().copied())?;
        Ok(table)
    }

    /// Returns `E s` by the trapezoid rule, and the node with half of the mass on its left.
    fn mean_and_median(&self, log_density: &[f64], derivative: &[f64]) -> (f64, usize) {
        let max = largest(log_density);
        let last = self.points - 1;
        let mass = |i: usize| {
            let weight = if i == 0 || i == last { 0.5 } else { 1.0 };
            weight * (log_density[i] - max).exp()
        };
        let total: f64 = (0..=last).map(mass).sum();
        let mean = (0..=last).map(|i| mass(i) * derivative[i]).sum::<f64>() / total;
        let mut left = 0.0;
        let median = (0..=last).find(|&i| {
            left += mass(i);
            left >= 0.5 * total
        });
        (mean, median.unwrap_or(last))
    }
}

crate::num::deserialize_checked! {
    QuadratureModifier { grid: Grid, betas: MidBetas, tables: Vec<Vec<f64>> } => self.checked()
}

#[cfg(feature = "serde")]
impl QuadratureModifier {
    fn checked(self) -> Result<Self> {
        let points = self.grid.points;
        let high = self.grid.node(points.saturating_sub(1));
        Grid::new((self.grid.low, high), points)?;
        Error::check_dimension("tables", self.tables.len(), self.betas.betas().len())?;
        for table in &self.tables {
            Error::check_dimension("table", table.len(), points)?;
            Error::check_finite("table", table.iter().copied())?;
        }
        Ok(self)
    }
}

/// The drift modifier of a path on which every `p_beta` is a product over coordinates. Coordinate i of G is the
/// modifier of factor i, owned or borrowed. Calls panic if the state has another number of coordinates.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SeparableModifier<B = QuadratureModifier> {
    factors: Vec<B>,
}

impl<B: Borrow<QuadratureModifier>> SeparableModifier<B> {
    /// Creates the product of these `factors`, in the order of the coordinates.
    pub fn new(factors: impl IntoIterator<Item = B>) -> Self {
        let factors = factors.into_iter().collect();
        Self { factors }
    }
}

impl<B: Borrow<QuadratureModifier>> DriftModifier for SeparableModifier<B> {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let (found, expected) = (state.len(), self.factors.len());
        assert!(
            found == expected,
            "a state of dimension {found} for a drift modifier of dimension {expected}"
        );
        for (i, factor) in self.factors.iter().enumerate() {
            modifier[i] = factor.borrow().at(beta, state[i]);
        }
    }
}

crate::num::deserialize_checked! {
    SeparableModifier<B> { factors: Vec<B> } => {
        crate::Error::check_not_empty("factors", factors.len()).map(|()| SeparableModifier { factors })
    }
}
