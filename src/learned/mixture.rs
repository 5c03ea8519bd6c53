//! Mixtures of conditional densities as proposals.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::Rng;

use crate::learned::conditional::{ConditionalGaussian, Mean};
use crate::learned::network::Pass;
use crate::learned::noise::Noise;
use crate::num::{log_mean_exp, log_sum_exp};
use crate::{Error, Result};

/// A mixture of C conditional densities with equal shares, `q(z'|z) = 1/C sum_c N(z'; mu_c(z), diag sigma_c(z)^2)`: a
/// discrete mixture proposal (Huang et al. 2018).
///
/// A draw picks one component, but the weight uses the sum over all components. With the drawn component alone the
/// weight would be unbiased too, but vary more. The shares are not learned, since a draw has no derivative by them.
/// Unequal modes get their masses from several components in one mode, or from the components' dependence on z.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionalMixture {
    components: Vec<ConditionalGaussian>,
}

impl ConditionalMixture {
    /// Creates a mixture of `components` densities with random weights.
    ///
    /// # Errors
    /// No components; a dimension of 0; no hidden units although the mean needs some; more than 2^30 parameters.
    pub fn new<R: Rng + ?Sized>(
        mean: Mean,
        components: usize,
        dimension: usize,
        rng: &mut R,
    ) -> Result<Self> {
        Self::with_context(mean, components, dimension, 0, rng)
    }

    pub(super) fn with_context<R: Rng + ?Sized>(
        mean: Mean,
        components: usize,
        dimension: usize,
        context: usize,
        rng: &mut R,
    ) -> Result<Self> {
        mean.sizes(dimension, context)?.check_size(components)?;
        let component = |_| ConditionalGaussian::with_context(mean, dimension, context, rng);
        Self::from_components((0..components).map(component).collect::<Result<_>>()?)
    }

    /// Creates the mixture of these densities.
    ///
    /// # Errors
    /// No components; dimensions that differ.
    pub fn from_components(components: Vec<ConditionalGaussian>) -> Result<Self> {
        Error::check_not_empty("components", components.len())?;
        let (dimension, context) = (components[0].dimension(), components[0].context());
        for component in &components {
            Error::check_dimension("component", component.dimension(), dimension)?;
            let found = component.context();
            Error::check_dimension("observation of a component", found, context)?;
        }
        Ok(Self { components })
    }

    /// Returns the components.
    pub fn components(&self) -> &[ConditionalGaussian] {
        &self.components
    }

    /// Returns the dimension d of both states.
    pub fn dimension(&self) -> usize {
        self.components[0].dimension()
    }

    pub(super) fn context(&self) -> usize {
        self.components[0].context()
    }

    pub(super) fn parameters_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        let components = self.components.iter_mut();
        components.map(ConditionalGaussian::parameters_mut)
    }

    pub(super) fn given(&self, observation: &[f64]) -> Self {
        let fixed = |component: &ConditionalGaussian| component.given(observation);
        Self {
            components: self.components.iter().map(fixed).collect(),
        }
    }

    /// Returns `log q(state | given)`, normalised.
    ///
    /// # Panics
    /// A state of another length than d.
    pub fn log_density(&self, state: &DVector<f64>, given: &DVector<f64>) -> f64 {
        let components = self.components.iter();
        let terms: Vec<_> = components.map(|q| q.log_density(state, given)).collect();
        log_mean_exp(&terms)
    }

    /// Moves each column of `left` by the component that its noise selects.
    pub(super) fn forward(
        &self,
        left: &DMatrix<f64>,
        noise: &DMatrix<f64>,
        passes: &mut [Pass],
        reached: &mut DMatrix<f64>,
    ) {
        for (component, pass) in self.components.iter().zip(&mut *passes) {
            component.forward(left, pass);
        }
        for (j, noise) in noise.column_iter().enumerate() {
            let pass = &passes[drawn(noise)];
            for i in 0..pass.means.nrows() {
                let deviation = pass.log_deviations[(i, j)].exp();
                reached[(i, j)] = pass.means[(i, j)] + deviation * noise[i];
            }
        }
    }

    /// Backpropagates from the new states z', and from `-log q(z'|z)` with a weight for each column. Adds the
    /// parameters' derivatives to `gradient` and returns the derivatives by the old states z.
    pub(super) fn backward(
        &self,
        [left, reached]: [&DMatrix<f64>; 2],
        (noise, passes): (&DMatrix<f64>, &[Pass]),
        mut by_reached: DMatrix<f64>,
        (weights, law): (&[f64], Noise),
        gradient: &mut [Vec<f64>],
    ) -> DMatrix<f64> {
        let zeros = DMatrix::zeros(self.dimension(), left.ncols());
        let mut by_outputs = vec![[zeros.clone(), zeros.clone()]; passes.len()];
        for (j, &weight) in weights.iter().enumerate() {
            let (state, drawn) = (reached.column(j), drawn(noise.column(j)));
            let at = (state.as_slice(), drawn, weight, law);
            differentiate(passes, j, at, &mut by_reached, &mut by_outputs);
        }
        let mut by_left = zeros;
        for (c, component) in self.components.iter().enumerate() {
            let [means, deviations] = &by_outputs[c];
            by_left += component.backward(left, &passes[c], means, deviations, &mut gradient[c]);
        }
        by_left
    }
}

/// Differentiates `-log q` of column `j` by z', and by the means and `log sigma` of each component. z' itself depends
/// on the `drawn` component's means and `log sigma`.
fn differentiate(
    passes: &[Pass],
    j: usize,
    (state, drawn, weight, law): (&[f64], usize, f64, Noise),
    by_reached: &mut DMatrix<f64>,
    by_outputs: &mut [[DMatrix<f64>; 2]],
) {
    let terms = log_terms(passes, j, law, state);
    let total = log_sum_exp(&terms);
    for (c, pass) in passes.iter().enumerate() {
        let share = weight * (terms[c] - total).exp();
        let residuals = pass.residuals(j, state);
        let pull = share * law.pull(&residuals);
        for (i, e) in residuals.iter().enumerate() {
            let force = pull * e * (-pass.log_deviations[(i, j)]).exp();
            by_reached[(i, j)] += force;
            by_outputs[c][0][(i, j)] -= force;
            by_outputs[c][1][(i, j)] += share - pull * e * e;
        }
    }
    let (by_outputs, means) = (&mut by_outputs[drawn], &passes[drawn].means);
    for (i, x) in state[..means.nrows()].iter().enumerate() {
        let by_state = by_reached[(i, j)];
        by_outputs[0][(i, j)] += by_state;
        by_outputs[1][(i, j)] += by_state * (x - means[(i, j)]);
    }
}

/// Returns the index of the component that a column of noise selects: the column's last entry, below d normal numbers.
fn drawn(noise: DVectorView<'_, f64>) -> usize {
    noise[noise.len() - 1] as usize
}

/// Returns the log density of each component at `state`.
fn log_terms(passes: &[Pass], column: usize, law: Noise, state: &[f64]) -> Vec<f64> {
    let term =
        |pass: &Pass| law.log_density(&pass.residuals(column, state)) - pass.log_volume(column);
    passes.iter().map(term).collect()
}

/// Returns `log q(z'|z)` for one column, where z' is `state`.
pub(super) fn log_density(passes: &[Pass], column: usize, law: Noise, state: &[f64]) -> f64 {
    log_mean_exp(&log_terms(passes, column, law, state))
}

crate::num::serialize_as! { ConditionalMixture as q { components: q.components } }
crate::num::deserialize_checked! {
    ConditionalMixture { components: Vec<ConditionalGaussian> } => Self::from_components(components)
}
