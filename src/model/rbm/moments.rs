//! Moments of an RBM, exactly.

use nalgebra::{DMatrix, DVector};

use crate::error::{Error, Result};
use crate::model::rbm::elementwise::{add_scaled, logits_to_probabilities};
use crate::model::rbm::enumeration::{Enumeration, check_log_normalizer};
use crate::model::rbm::{BaseRate, Rbm, Scalar, sigmoid};

/// States this far in log probability below the likeliest are passed over: all of the `2^25` at
/// most together hold less than 1e-18.
const NEGLIGIBLE: f64 = -60.0;

/// The moments of an RBM as an exponential family: the gradient of `log Z` in `b`, `a` and `W`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RbmMoments {
    /// `E[v]` (D).
    pub visible: DVector<f64>,
    /// `E[h]` (M).
    pub hidden: DVector<f64>,
    /// `E[h v^T]` (M x D).
    pub interaction: DMatrix<f64>,
}

impl RbmMoments {
    /// `(1 - beta)` times these moments and `beta` times the others.
    ///
    /// # Errors
    /// Where the numbers of units differ.
    pub fn average(&self, other: &Self, beta: f64) -> Result<Self> {
        let (hidden, visible) = self.interaction.shape();
        other.check_shape(hidden, visible)?;
        Ok(Self {
            visible: &self.visible * (1.0 - beta) + &other.visible * beta,
            hidden: &self.hidden * (1.0 - beta) + &other.hidden * beta,
            interaction: &self.interaction * (1.0 - beta) + &other.interaction * beta,
        })
    }

    /// The largest difference between a moment and its counterpart; NaN where one is.
    ///
    /// # Panics
    /// Where the numbers of units differ.
    pub fn largest_difference(&self, other: &Self) -> f64 {
        let visible = (&self.visible - &other.visible).amax();
        let hidden = (&self.hidden - &other.hidden).amax();
        let interaction = (&self.interaction - &other.interaction).amax();
        visible.max(hidden).max(interaction)
    }

    pub(super) fn zeros(hidden: usize, visible: usize) -> Self {
        Self {
            visible: DVector::zeros(visible),
            hidden: DVector::zeros(hidden),
            interaction: DMatrix::zeros(hidden, visible),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.visible += &other.visible;
        self.hidden += &other.hidden;
        self.interaction += &other.interaction;
    }

    pub(super) fn scale(&mut self, factor: f64) {
        self.visible *= factor;
        self.hidden *= factor;
        self.interaction *= factor;
    }

    /// That there are as many of each as units, and that each pair of units has a distribution:
    /// `max(0, E[h] + E[v] - 1) <= E[h v] <= min(E[h], E[v])`, to 1e-6.
    pub(super) fn check(&self, hidden: usize, visible: usize) -> Result<()> {
        self.check_shape(hidden, visible)?;
        Error::check_finite("visible moments", self.visible.iter().copied())?;
        Error::check_finite("hidden moments", self.hidden.iter().copied())?;
        Error::check_finite("interaction", self.interaction.iter().copied())?;
        for (i, &v) in self.visible.iter().enumerate() {
            for (j, &h) in self.hidden.iter().enumerate() {
                let both = self.interaction[(j, i)];
                let least = both.min(h - both).min(v - both).min(1.0 - h - v + both);
                if least < -1e-6 {
                    return Err(Error::invalid(
                        "moments",
                        format!("E[h_{j}] = {h}, E[v_{i}] = {v}, E[h_{j} v_{i}] = {both}"),
                        "moments of a distribution over bits",
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_shape(&self, hidden: usize, visible: usize) -> Result<()> {
        Error::check_dimension("visible moments", self.visible.len(), visible)?;
        Error::check_dimension("hidden moments", self.hidden.len(), hidden)?;
        Error::check_dimension("rows of the interaction", self.interaction.nrows(), hidden)?;
        Error::check_dimension(
            "columns of the interaction",
            self.interaction.ncols(),
            visible,
        )
    }
}

impl<T: Scalar> BaseRate<T> {
    /// `E[v]`, `E[h] = 1/2` and their products.
    pub fn moments(&self) -> RbmMoments {
        let visible = self.visible_bias().map(|b| sigmoid(b.to_f64()));
        let hidden = DVector::from_element(self.hidden_units(), 0.5);
        RbmMoments {
            interaction: &hidden * visible.transpose(),
            visible,
            hidden,
        }
    }
}

/// Sums over the states of one task, in units of `exp(reference)`.
///
/// A vector holds `p(s) E[other units | s]` and, last, `p(s)`. It is added to the sum of each
/// enumerated unit that is on by way of a binary tree over the states, two additions a state
/// instead of one for each unit: in any two sibling subtrees a unit is on in exactly one.
struct Sums {
    reference: f64,
    /// A column for each enumerated unit, and last the sum over all states.
    columns: DMatrix<f64>,
    /// The complete subtrees that wait for their sibling, by level; `None` where they are empty.
    waiting: Vec<Option<Vec<f64>>>,
    visited: usize,
}

impl Sums {
    fn zeros(enumeration: &Enumeration) -> Self {
        let (units, others) = (enumeration.units(), enumeration.other_units());
        Self {
            reference: f64::NEG_INFINITY,
            columns: DMatrix::zeros(others + 1, units + 1),
            waiting: vec![None; units + 1],
            visited: 0,
        }
    }

    fn add(&mut self, state: usize, log_f: f64, activation: &[f64]) {
        if log_f > self.reference {
            self.rescale(log_f);
        }
        let mut subtree = self.leaf(log_f, activation);
        let mut level = 0;
        while self.visited >> level & 1 == 1 {
            let sibling = self.waiting[level].take();
            let on = if state >> level & 1 == 1 {
                &subtree
            } else {
                &sibling
            };
            add_to(&mut self.columns, level, on);
            subtree = joined(sibling, subtree);
            level += 1;
        }
        self.waiting[level] = subtree;
        self.visited += 1;
    }

    fn leaf(&self, log_f: f64, activation: &[f64]) -> Option<Vec<f64>> {
        if log_f - self.reference < NEGLIGIBLE {
            return None;
        }
        let p = (log_f - self.reference).exp();
        let mut leaf = Vec::with_capacity(activation.len() + 1);
        leaf.extend_from_slice(activation);
        logits_to_probabilities::<f64, false>(&mut leaf);
        leaf.iter_mut().for_each(|probability| *probability *= p);
        leaf.push(p);
        Some(leaf)
    }

    fn rescale(&mut self, reference: f64) {
        let factor = (self.reference - reference).exp();
        self.columns *= factor;
        for sum in self.waiting.iter_mut().flatten().flatten() {
            *sum *= factor;
        }
        self.reference = reference;
    }

    /// The whole tree's sum belongs to the units that the task's states share, and to all.
    fn finish(mut self, task: usize) -> Self {
        let units = self.columns.ncols() - 1;
        let level = self.visited.trailing_zeros() as usize;
        let whole = self.waiting[level].take();
        for unit in (level..units).filter(|unit| task >> (unit - level) & 1 == 1) {
            add_to(&mut self.columns, unit, &whole);
        }
        add_to(&mut self.columns, units, &whole);
        self
    }

    fn merge(&mut self, mut part: Self) {
        if part.reference > self.reference {
            self.rescale(part.reference);
        } else {
            part.rescale(self.reference);
        }
        self.columns += part.columns;
    }
}

fn add_to(columns: &mut DMatrix<f64>, column: usize, sum: &Option<Vec<f64>>) {
    if let Some(sum) = sum {
        add_scaled(columns.column_mut(column).as_mut_slice(), 1.0, sum);
    }
}

fn joined(left: Option<Vec<f64>>, right: Option<Vec<f64>>) -> Option<Vec<f64>> {
    match (left, right) {
        (Some(mut left), Some(right)) => {
            add_scaled(&mut left, 1.0, &right);
            Some(left)
        }
        (left, right) => left.or(right),
    }
}

impl<T: Scalar> Rbm<T> {
    /// `E[v]`, `E[h]` and `E[h v^T]`, exactly, by enumerating the smaller layer.
    ///
    /// # Errors
    /// As [`exact_log_normalizer`](Self::exact_log_normalizer).
    pub fn exact_moments(&self) -> Result<RbmMoments> {
        Ok(self.log_normalizer_and_moments()?.1)
    }

    /// `log Z` and its gradient in one enumeration.
    pub(super) fn log_normalizer_and_moments(&self) -> Result<(f64, RbmMoments)> {
        let enumeration = Enumeration::new(self)?;
        let mut total = Sums::zeros(&enumeration);
        let parts = enumeration.fold(
            || Sums::zeros(&enumeration),
            |sums, state, log_f, x| sums.add(state, log_f, x),
        );
        for (task, part) in parts.into_iter().enumerate() {
            total.merge(part.finish(task));
        }
        let (others, units) = (enumeration.other_units(), enumeration.units());
        let weight = total.columns[(others, units)];
        let log_normalizer = check_log_normalizer(total.reference + weight.ln())?;
        let moments = total.columns / weight;
        let other = moments.view((0, units), (others, 1)).column(0).into_owned();
        let enumerated = moments.row(others).columns(0, units).transpose();
        let products = moments.view((0, 0), (others, units)).into_owned();
        let (visible, hidden, interaction) = if enumeration.over_hidden {
            (other, enumerated, products.transpose())
        } else {
            (enumerated, other, products)
        };
        let moments = RbmMoments {
            visible,
            hidden,
            interaction,
        };
        Ok((log_normalizer, moments))
    }

    /// The mean `-(b.E[v] + a.E[h] + sum W . E[h v^T])` of this machine's energy under any
    /// distribution with these moments. With the moments s and s' of two machines, the symmetrised
    /// divergence between them is `E(s') - E(s) + E'(s) - E'(s')`.
    ///
    /// # Panics
    /// Where the moments are not those of a machine of this shape.
    pub fn mean_energy(&self, moments: &RbmMoments) -> f64 {
        let dot = |parameters: &[T], moments: &[f64]| -> f64 {
            assert_eq!(parameters.len(), moments.len(), "number of moments");
            let pairs = parameters.iter().zip(moments);
            pairs
                .map(|(parameter, moment)| parameter.to_f64() * moment)
                .sum()
        };
        -(dot(self.visible_bias().as_slice(), moments.visible.as_slice())
            + dot(self.hidden_bias().as_slice(), moments.hidden.as_slice())
            + dot(self.weights().as_slice(), moments.interaction.as_slice()))
    }
}
