//! Gaussian conditional densities with learned means and scales.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::error::demand_dimension;
use crate::kernel::fill_normal;
use crate::learned::network::{Network, Pass, Sizes, set_shape};
use crate::num::sigmoid;
use crate::{Error, Result};

/// Bounds on `log sigma`. Without them about half of all trainings end in a NaN.
const LOG_DEVIATION: (f64, f64) = (-4.0, 3.0);
/// Factor on the network's output `m(z)` in a gated mean.
pub(super) const JUMP: f64 = 5.0;
/// Bias of a gate. An untrained gate is mostly open, so that its transition nearly stays in place.
const GATE_BIAS: f64 = 2.0;

/// The form of the mean of a [`ConditionalGaussian`] given the state z. Here m, g and `log sigma` are outputs of a
/// network with one hidden layer of rectified units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mean {
    /// `W z + b`, without hidden units; `log sigma` is affine in z too. Such a transition cannot split a mode.
    Affine,
    /// `z + m(z)`.
    Residual {
        /// Number of hidden units.
        hidden: usize,
    },
    /// `s z + (1 - s) 5 m(z)` with a gate `s = sigmoid(g(z) + 2)` for each coordinate.
    Gated {
        /// Number of hidden units.
        hidden: usize,
    },
}

impl Mean {
    pub(super) fn sizes(self, dimension: usize, context: usize) -> Result<Sizes> {
        let (hidden, parts) = match self {
            Self::Affine => (0, 2_usize),
            Self::Residual { hidden } => (hidden, 2),
            Self::Gated { hidden } => (hidden, 3),
        };
        Error::check_at_least("dimension", dimension, 1)?;
        Error::check_at_least("hidden units", hidden, usize::from(self != Self::Affine))?;
        // A file may hold any sizes; the number of its parameters is checked next.
        Ok(Sizes {
            inputs: dimension.saturating_add(context),
            hidden,
            outputs: parts.saturating_mul(dimension),
        })
    }
}

/// A diagonal Gaussian `N(z'; mu(z), diag sigma(z)^2)` over `R^d` given z in `R^d`. The mean has a form of [`Mean`];
/// `log sigma` is clamped to `[-4, 3]`. Source: Huang et al. (2018).
///
/// The parameters are one flat vector: a layer's weights by columns, its biases, then the next layer. In
/// [`AmortizedTransitions`](super::AmortizedTransitions) the inputs are z, then the observation x.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionalGaussian {
    mean: Mean,
    dimension: usize,
    network: Network,
}

impl ConditionalGaussian {
    /// Creates a density with random weights, uniform on `+- 1 / sqrt(inputs of the layer)`.
    ///
    /// # Errors
    /// A dimension of 0; no hidden units although the mean needs some.
    pub fn new<R: Rng + ?Sized>(mean: Mean, dimension: usize, rng: &mut R) -> Result<Self> {
        Self::with_context(mean, dimension, 0, rng)
    }

    pub(super) fn with_context<R: Rng + ?Sized>(
        mean: Mean,
        dimension: usize,
        context: usize,
        rng: &mut R,
    ) -> Result<Self> {
        let sizes = mean.sizes(dimension, context)?;
        sizes.check_size(1)?;
        Ok(Self {
            mean,
            dimension,
            network: sizes.initialize(rng),
        })
    }

    /// Creates the density with these `parameters`.
    ///
    /// # Errors
    /// As [`new`](Self::new); another number of parameters than the mean needs; parameters that are not finite.
    pub fn from_parameters(mean: Mean, dimension: usize, parameters: Vec<f64>) -> Result<Self> {
        Self::from_parts(mean, dimension, 0, parameters)
    }

    fn from_parts(
        mean: Mean,
        dimension: usize,
        context: usize,
        parameters: Vec<f64>,
    ) -> Result<Self> {
        let sizes = mean.sizes(dimension, context)?;
        Ok(Self {
            mean,
            dimension,
            network: sizes.with_parameters(parameters)?,
        })
    }

    pub(super) fn given(&self, observation: &[f64]) -> Self {
        Self {
            network: self.network.given(observation),
            ..*self
        }
    }

    /// Returns the form of the mean.
    pub fn mean(&self) -> Mean {
        self.mean
    }

    /// Returns the dimension d of both states.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn context(&self) -> usize {
        self.network.sizes.inputs - self.dimension
    }

    /// Returns all weights and biases. The last d are the biases of `log sigma`.
    pub fn parameters(&self) -> &[f64] {
        &self.network.parameters
    }

    pub(super) fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.network.parameters
    }

    /// Sets the last layer's parameters for the first d outputs: column 0 of `coefficients` holds the biases, the other
    /// columns the weights. All other parameters of the layer become 0.
    pub(super) fn set_mean_outputs(&mut self, coefficients: &DMatrix<f64>) {
        let Network { sizes, parameters } = &mut self.network;
        let first = parameters.len() - sizes.outputs * coefficients.ncols();
        let last = &mut parameters[first..];
        last.fill(0.0);
        let biases = std::iter::once(0);
        // A layer's biases come after its weights.
        let order = (1..coefficients.ncols()).chain(biases);
        for (column, layer) in order.zip(last.chunks_mut(sizes.outputs)) {
            let values = coefficients.column(column);
            layer[..self.dimension].copy_from_slice(values.as_slice());
        }
    }

    pub(super) fn set_deviations(&mut self, deviations: &DVector<f64>) {
        let parameters = &mut self.network.parameters;
        let first = parameters.len() - self.dimension;
        for (bias, deviation) in parameters[first..].iter_mut().zip(deviations) {
            // Inside the clamp, so that the gradient does not vanish.
            let (low, high) = (LOG_DEVIATION.0 + 0.01, LOG_DEVIATION.1 - 0.01);
            *bias = deviation.ln().clamp(low, high);
        }
    }

    /// Returns `log N(state; mu(given), diag sigma(given)^2)`, normalised.
    ///
    /// # Panics
    /// A state of another length than d.
    pub fn log_density(&self, state: &DVector<f64>, given: &DVector<f64>) -> f64 {
        demand_dimension("a state", state.len(), self.dimension);
        self.pass(given).log_density(0, state.as_slice())
    }

    /// Draws `mu + sigma eps` with `eps` standard normal.
    ///
    /// # Panics
    /// A `given` state of another length than d.
    pub fn sample<R: Rng + ?Sized>(&self, given: &DVector<f64>, rng: &mut R) -> DVector<f64> {
        let pass = self.pass(given);
        let mut noise = DVector::zeros(self.dimension);
        fill_normal(&mut noise, rng);
        let deviations = pass.log_deviations.column(0).map(f64::exp);
        pass.means.column(0) + deviations.component_mul(&noise)
    }

    fn pass(&self, given: &DVector<f64>) -> Pass {
        let inputs = self.network.sizes.inputs;
        demand_dimension("a given state", given.len(), inputs);
        let mut pass = Pass::default();
        let given = DMatrix::from_column_slice(inputs, 1, given.as_slice());
        self.forward(&given, &mut pass);
        pass
    }

    /// Writes means and log scales for each column of `given` to `pass`. A column is a state z, then an observation x.
    pub(super) fn forward(&self, given: &DMatrix<f64>, pass: &mut Pass) {
        let d = self.dimension;
        self.network.forward(given, &mut pass.units);
        let (means, log_deviations) = (&mut pass.means, &mut pass.log_deviations);
        set_shape(means, d, given.ncols());
        set_shape(log_deviations, d, given.ncols());
        let outputs = &pass.units.outputs;
        means.copy_from(&outputs.rows(0, d));
        match self.mean {
            Mean::Affine => {}
            Mean::Residual { .. } => *means += given.rows(0, d),
            Mean::Gated { .. } => {
                for (k, mean) in means.iter_mut().enumerate() {
                    let (i, j) = (k % d, k / d);
                    let gate = gate(outputs[(d + i, j)]);
                    *mean = gate * given[(i, j)] + (1.0 - gate) * JUMP * *mean;
                }
            }
        }
        let raw = outputs.rows(outputs.nrows() - d, d);
        log_deviations.zip_apply(&raw, |bounded, raw| {
            *bounded = raw.clamp(LOG_DEVIATION.0, LOG_DEVIATION.1);
        });
    }

    /// Backpropagates from the means and `log sigma`. Adds the parameters' derivatives, summed over the minibatch, to
    /// `gradient` and returns the derivatives by the states z.
    pub(super) fn backward(
        &self,
        given: &DMatrix<f64>,
        pass: &Pass,
        by_means: &DMatrix<f64>,
        by_log_deviations: &DMatrix<f64>,
        gradient: &mut [f64],
    ) -> DMatrix<f64> {
        let d = self.dimension;
        let outputs = &pass.units.outputs;
        let mut by_outputs = DMatrix::zeros(outputs.nrows(), given.ncols());
        let mut direct = DMatrix::zeros(d, given.ncols());
        by_outputs.rows_mut(0, d).copy_from(by_means);
        match self.mean {
            Mean::Affine => {}
            Mean::Residual { .. } => direct.copy_from(by_means),
            Mean::Gated { .. } => {
                for (k, by_mean) in by_means.iter().enumerate() {
                    let (i, j) = (k % d, k / d);
                    let gate = gate(outputs[(d + i, j)]);
                    let jump = JUMP * outputs[(i, j)];
                    by_outputs[(i, j)] = by_mean * (1.0 - gate) * JUMP;
                    by_outputs[(d + i, j)] = by_mean * (given[(i, j)] - jump) * gate * (1.0 - gate);
                    direct[k] = by_mean * gate;
                }
            }
        }
        let first = outputs.nrows() - d;
        for (k, &derivative) in by_log_deviations.iter().enumerate() {
            let (i, j) = (first + k % d, k / d);
            let raw = outputs[(i, j)];
            let free = LOG_DEVIATION.0 < raw && raw < LOG_DEVIATION.1;
            by_outputs[(i, j)] = if free { derivative } else { 0.0 };
        }
        let network = &self.network;
        direct + network.backward(given, &pass.units, &by_outputs, gradient, d)
    }
}

/// Returns the share of z in a gated mean.
pub(super) fn gate(output: f64) -> f64 {
    sigmoid(output + GATE_BIAS)
}

crate::num::serialize_as! {
    ConditionalGaussian as q {
        mean: q.mean, dimension: q.dimension, context: q.context(), parameters: q.parameters(),
    }
}
crate::num::deserialize_checked! {
    ConditionalGaussian {
        mean: Mean,
        dimension: usize,
        #[serde(default)]
        context: usize,
        parameters: Vec<f64>,
    } => Self::from_parts(mean, dimension, context, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::network::differences::{agree, share};
    use crate::num::Moments;
    use crate::random::{Purpose, stream};
    use proptest::prelude::*;

    impl ConditionalGaussian {
        /// Returns the least distance of a `log sigma` from the ends of its clamp, where q has a kink.
        pub(in crate::learned) fn distance_from_clamp(&self, pass: &Pass) -> f64 {
            let (low, high) = LOG_DEVIATION;
            let outputs = &pass.units.outputs;
            let raw = outputs.rows_range(outputs.nrows() - self.dimension..);
            let distances = raw.iter().map(|x| (x - low).abs().min((x - high).abs()));
            distances.fold(f64::INFINITY, f64::min)
        }
    }

    /// Returns a weighted sum of all means and log scales of a minibatch, whose derivatives the tests check.
    fn objective(conditional: &ConditionalGaussian, given: &DMatrix<f64>) -> f64 {
        let mut pass = Pass::default();
        conditional.forward(given, &mut pass);
        let by_means = weights(pass.means.shape(), 0.3);
        let by_log_deviations = weights(pass.means.shape(), 1.1);
        pass.means.dot(&by_means) + pass.log_deviations.dot(&by_log_deviations)
    }

    fn weights(shape: (usize, usize), phase: f64) -> DMatrix<f64> {
        DMatrix::from_fn(shape.0, shape.1, |i, j| {
            (phase + i as f64 + 2.3 * j as f64).sin()
        })
    }

    fn agreement(conditional: &ConditionalGaussian, given: &DMatrix<f64>) -> f64 {
        let mut pass = Pass::default();
        conditional.forward(given, &mut pass);
        let mut gradient = vec![0.0; conditional.parameters().len()];
        let [means, deviations] = [0.3, 1.1].map(|phase| weights(pass.means.shape(), phase));
        let by_given = conditional.backward(given, &pass, &means, &deviations, &mut gradient);
        let d = conditional.dimension;
        let by_parameters = agree(&gradient, 1e-6, |i, step| {
            let mut moved = conditional.clone();
            moved.parameters_mut()[i] += step;
            objective(&moved, given)
        });
        let by_inputs = agree(by_given.as_slice(), 1e-6, |k, step| {
            let mut moved = given.clone();
            moved[(k % d, k / d)] += step;
            objective(conditional, &moved)
        });
        share(&[by_parameters, by_inputs].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn gradients_agree_with_finite_differences(
            dimension in 1usize..8,
            context in 0usize..4,
            size in 1usize..9,
            hidden in 1usize..12,
            spread in 0.1f64..6.0,
            seed in 0u64..1_000_000,
        ) {
            let mut rng = stream(seed, Purpose::TRAINING, 0);
            for mean in [Mean::Affine, Mean::Residual { hidden }, Mean::Gated { hidden }] {
                let mut conditional =
                    ConditionalGaussian::with_context(mean, dimension, context, &mut rng).unwrap();
                // Some scales beyond the clamp.
                conditional.parameters_mut().iter_mut().for_each(|p| *p *= 1.0 + spread);
                let mut noise = DVector::zeros((dimension + context) * size);
                fill_normal(&mut noise, &mut rng);
                let noise = noise * spread;
                let given = DMatrix::from_column_slice(dimension + context, size, noise.as_slice());
                let agreement = agreement(&conditional, &given);
                prop_assert!(agreement > 0.97, "{mean:?}: {agreement}");
            }
        }
    }

    #[test]
    fn fixing_the_observation_changes_no_output() {
        let mut rng = stream(4, Purpose::RUN, 0);
        let hidden = 3;
        for mean in [
            Mean::Affine,
            Mean::Residual { hidden },
            Mean::Gated { hidden },
        ] {
            let conditional = ConditionalGaussian::with_context(mean, 2, 3, &mut rng).unwrap();
            let (z, x) = ([0.4, -1.1], [2.0, 0.0, -0.7]);
            let mut both = Pass::default();
            let stacked = DMatrix::from_column_slice(5, 1, &[z.as_slice(), &x].concat());
            conditional.forward(&stacked, &mut both);
            let (mut fixed, z) = (Pass::default(), DMatrix::from_column_slice(2, 1, &z));
            conditional.given(&x).forward(&z, &mut fixed);
            let apart = (&both.log_deviations - fixed.log_deviations).amax();
            let error = (&both.means - fixed.means).amax() + apart;
            assert!(error < 1e-14, "{mean:?}: {error}");
        }
    }

    #[test]
    fn samples_have_the_stated_density() {
        let mut rng = stream(3, Purpose::RUN, 0);
        let mean = Mean::Gated { hidden: 5 };
        let conditional = ConditionalGaussian::new(mean, 2, &mut rng).unwrap();
        let given = DVector::from_vec(vec![0.7, -1.3]);
        // E[g(x) / q(x)] = 1 for a normalised g on the same space.
        let other = ConditionalGaussian::new(mean, 2, &mut rng).unwrap();
        let ratio = |x: &DVector<f64>| {
            (other.log_density(x, &given) - conditional.log_density(x, &given)).exp()
        };
        let mut ratios = Moments::default();
        for _ in 0..20_000 {
            ratios.add(ratio(&conditional.sample(&given, &mut rng)));
        }
        let standard_error = (ratios.variance() / 20_000.0).sqrt();
        let error = ratios.mean() - 1.0;
        assert!(
            standard_error < 0.05 && error.abs() < 4.0 * standard_error,
            "{error}"
        );
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let mut rng = stream(0, Purpose::RUN, 0);
        assert!(ConditionalGaussian::new(Mean::Affine, 0, &mut rng).is_err());
        assert!(ConditionalGaussian::new(Mean::Gated { hidden: 0 }, 2, &mut rng).is_err());
        for parameters in [vec![0.0; 11], vec![f64::NAN; 12]] {
            assert!(ConditionalGaussian::from_parameters(Mean::Affine, 2, parameters).is_err());
        }
        assert!(ConditionalGaussian::from_parameters(Mean::Affine, 2, vec![0.0; 12]).is_ok());
    }
}
