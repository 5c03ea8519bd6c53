//! A decoder to bits, by a network with one hidden layer.

use nalgebra::{DMatrix, DVector};

use crate::error::demand_dimension;
use crate::learned::latent::{Decoder, TrainableDecoder};
use crate::learned::network::{Network, Units};
use crate::num::{sigmoid, softplus};
use crate::random::{Purpose, stream};
use crate::{Error, Result};

/// A decoder to independent bits, whose logits are `l(z) = W2 relu(W1 z + b1) + b2`:
///
/// `log p(x|z) = sum_i [x_i l_i(z) - log(1 + e^(l_i(z)))]`.
///
/// An entry of x between 0 and 1 counts as the expectation of a bit.
#[derive(Debug, Clone, PartialEq)]
pub struct BernoulliDecoder {
    network: Network,
    parameters: Vec<f64>,
}

impl BernoulliDecoder {
    /// A decoder from `latent` numbers through `hidden` units to `observed` bits. Its weights are
    /// random, uniform on `+- 1 / sqrt(inputs of the layer)`.
    ///
    /// # Errors
    /// A size of 0; more than 2^30 parameters.
    pub fn new(latent: usize, hidden: usize, observed: usize, seed: u64) -> Result<Self> {
        let network = checked_network(latent, hidden, observed)?;
        let parameters = network.initialize(&mut stream(seed, Purpose::DecoderWeights, 0));
        Ok(Self {
            network,
            parameters,
        })
    }

    /// The probability of a one for each bit.
    ///
    /// # Panics
    /// Where the length of z is not the latent dimension.
    pub fn probabilities(&self, z: &DVector<f64>) -> DVector<f64> {
        let (_, units) = self.pass(z);
        units.outputs.column(0).map(sigmoid)
    }

    /// The latent as a minibatch of one, and the units that it sets.
    fn pass(&self, z: &DVector<f64>) -> (DMatrix<f64>, Units) {
        demand_dimension("a latent state", z.len(), self.network.inputs);
        let latent = DMatrix::from_column_slice(z.len(), 1, z.as_slice());
        let mut units = Units::default();
        self.network.forward(&self.parameters, &latent, &mut units);
        (latent, units)
    }

    /// Derivatives of `scale log p(x|z)`: adds those in the parameters to `gradient`, if there is
    /// one, and returns those in the first `wanted` entries of z, with `log p(x|z)`.
    fn backward(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: Option<&mut [f64]>,
        wanted: usize,
    ) -> (DMatrix<f64>, f64) {
        let (latent, units) = self.pass(z);
        let mut by_logits = units.outputs.clone();
        for (derivative, x) in by_logits.iter_mut().zip(x.iter()) {
            *derivative = scale * (x - sigmoid(*derivative));
        }
        let (network, parameters) = (self.network, &self.parameters);
        let by_latent = network.backward(parameters, &latent, &units, &by_logits, gradient, wanted);
        (by_latent, log_probability(x, &units.outputs))
    }
}

/// `sum_i [x_i l_i - log(1 + e^(l_i))]`.
fn log_probability(x: &DVector<f64>, logits: &DMatrix<f64>) -> f64 {
    let terms = x.iter().zip(logits);
    terms.map(|(x, &logit)| x * logit - softplus(logit)).sum()
}

fn checked_network(latent: usize, hidden: usize, observed: usize) -> Result<Network> {
    Error::check_at_least("latent dimension", latent, 1)?;
    Error::check_at_least("hidden units", hidden, 1)?;
    Error::check_at_least("observed dimension", observed, 1)?;
    let network = Network {
        inputs: latent,
        hidden,
        outputs: observed,
    };
    network.check_size(1)?;
    Ok(network)
}

impl Decoder for BernoulliDecoder {
    fn latent_dimension(&self) -> usize {
        self.network.inputs
    }

    fn observed_dimension(&self) -> usize {
        self.network.outputs
    }

    fn log_likelihood(&self, x: &DVector<f64>, z: &DVector<f64>) -> f64 {
        log_probability(x, &self.pass(z).1.outputs)
    }

    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (by_latent, log_likelihood) = self.backward(x, z, scale, None, z.len());
        *gradient += by_latent.column(0);
        log_likelihood
    }
}

impl TrainableDecoder for BernoulliDecoder {
    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn accumulate_parameter_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut [f64],
    ) {
        self.backward(x, z, scale, Some(gradient), 0);
    }
}

crate::num::serialize_as! {
    BernoulliDecoder as decoder {
        latent: decoder.network.inputs,
        hidden: decoder.network.hidden,
        observed: decoder.network.outputs,
        parameters: decoder.parameters,
    }
}
crate::num::deserialize_checked! {
    BernoulliDecoder { latent: usize, hidden: usize, observed: usize, parameters: Vec<f64> } =>
        checked_network(latent, hidden, observed).and_then(|network| {
            network.check_parameters(&parameters)?;
            Ok(Self { network, parameters })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::differences::{agree, share};
    use crate::learned::latent::Likelihood;
    use crate::model::{Differentiable, UnnormalizedModel};
    use nalgebra::dvector;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn gradients_agree_with_finite_differences(
            latent in 1usize..5,
            hidden in 1usize..8,
            observed in 1usize..9,
            seed in 0u64..1_000_000,
        ) {
            let decoder = BernoulliDecoder::new(latent, hidden, observed, seed).unwrap();
            let z = DVector::from_fn(latent, |i, _| 1.3 * (i as f64 + seed as f64).sin());
            let x = DVector::from_fn(observed, |i, _| (i % 2) as f64);
            let likelihood = Likelihood::new(&decoder, &x).unwrap();
            // A rectifier's kink within a step is rare, but not impossible.
            let agrees = agree(likelihood.gradient(&z).as_slice(), 1e-6, |i, step| {
                let mut moved = z.clone();
                moved[i] += step;
                likelihood.log_density(&moved)
            });
            prop_assert_eq!(share(&agrees), 1.0);

            let mut gradient = vec![0.0; decoder.parameters.len()];
            decoder.accumulate_parameter_gradient(&x, &z, 2.0, &mut gradient);
            let agrees = agree(&gradient, 1e-6, |i, step| {
                let mut moved = decoder.clone();
                moved.parameters[i] += step;
                2.0 * moved.log_likelihood(&x, &z)
            });
            prop_assert_eq!(share(&agrees), 1.0);
        }
    }

    #[test]
    fn probabilities_of_all_images_sum_to_one() {
        let decoder = BernoulliDecoder::new(2, 4, 3, 5).unwrap();
        let z = dvector![0.3, -1.2];
        let image = |bits: u32| DVector::from_fn(3, |i, _| f64::from(bits >> i & 1));
        let total: f64 = (0..8)
            .map(|bits| {
                Likelihood::new(&decoder, &image(bits))
                    .unwrap()
                    .log_density(&z)
                    .exp()
            })
            .sum();
        assert!((total - 1.0).abs() < 1e-14, "{total}");
        let expected = decoder.probabilities(&z);
        let ones: f64 = [1, 3, 5, 7]
            .map(|bits| decoder.log_likelihood(&image(bits), &z).exp())
            .iter()
            .sum();
        assert!((ones - expected[0]).abs() < 1e-14);
    }

    #[test]
    fn wrong_shapes_are_refused() {
        for (latent, hidden, observed) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
            assert!(BernoulliDecoder::new(latent, hidden, observed, 0).is_err());
        }
        let decoder = BernoulliDecoder::new(2, 4, 3, 5).unwrap();
        assert!(Likelihood::new(&decoder, &dvector![1.0]).is_err());
        assert!(Likelihood::new(&decoder, &dvector![1.0, 0.0, f64::NAN]).is_err());
    }
}
