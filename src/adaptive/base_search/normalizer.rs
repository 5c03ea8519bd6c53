//! A comparison of a base's log normaliser with an estimate from its density and samples.

use super::find_modes::FindModes;
use crate::estimate::BennettEstimate;
use crate::model::{Fit, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::random::StreamRng;
use crate::{Error, Result};

/// Numbers of samples to which a distribution is fitted, tried in turn until it overlaps with the base. A covariance in
/// d dimensions fitted to n samples loses about `d^2 / 4n` nats: 1.3 for 50 and 500, and for 200 and 8,000.
const SAMPLE_COUNTS: [usize; 3] = [500, 2_000, 8_000];
/// Largest accepted distance of a log normaliser from Bennett's estimate, in the estimate's standard errors. If errors
/// are normal, a distance above 6 occurs by chance once in 500 million comparisons.
const MOST_STANDARD_ERRORS: f64 = 6.0;
/// Distance in nats that is accepted in addition, for rounding. It matters only if the standard error is about 0. It is
/// far below the half nat at which a log normaliser still counts as confirmed.
const ROUNDING_NATS: f64 = 0.01;
/// Largest tolerance in nats, six standard errors, at which the estimate can confirm a log normaliser. An error of half
/// a nat in it moves a run from the mixture, half of which is the own base, by at most .28 nats.
const LARGEST_TOLERANCE: f64 = 0.5;
/// Smallest overlap of the base and the fitted distribution, between 0 and 1, at which the estimate is used. Below an
/// overlap of .03 the standard error of Bennett's estimate is unreliable (`LittleOverlap`).
const LEAST_OVERLAP: f64 = 0.1;

/// Refuses a `log_normalizer` far from Bennett's estimate, which compares samples of `base` with samples of a
/// distribution fitted to other samples of `base`. Returns false if the samples cannot decide: no distribution overlaps
/// with the base, or six standard errors exceed [`LARGEST_TOLERANCE`] for every number of samples.
pub(in crate::adaptive) fn compare_normalizer<S: FindModes>(
    base: &impl Sampleable<State = S>,
    log_density: impl Fn(&S) -> f64,
    log_normalizer: f64,
    rng: &mut StreamRng,
) -> Result<bool> {
    for count in SAMPLE_COUNTS {
        let Some(found) = bennett(base, &log_density, count, rng) else {
            return Ok(false);
        };
        if found.overlap() < LEAST_OVERLAP {
            continue;
        }
        let (value, error) = (-found.value(), found.standard_error());
        let tolerance = MOST_STANDARD_ERRORS * error;
        // Even an imprecise estimate can refuse a value, but only a precise one can confirm it.
        let is_near = (value - log_normalizer).abs() <= tolerance + ROUNDING_NATS;
        let expected = format!(
            "about {value:.2}, as its density and samples show (base_log_z only sets where log Z is counted from)"
        );
        let checked = "log normalizer of the base";
        Error::check(is_near, checked, log_normalizer, expected)?;
        if tolerance <= LARGEST_TOLERANCE {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns an estimate of minus the log normaliser of `base`, from `count` samples of `base` and `count` samples of a
/// distribution fitted to other samples; `None` if none can be fitted.
fn bennett<S: FindModes>(
    base: &impl Sampleable<State = S>,
    log_density: &impl Fn(&S) -> f64,
    count: usize,
    rng: &mut StreamRng,
) -> Option<BennettEstimate> {
    let mut samples = || -> Vec<S> { (0..count).map(|_| base.sample(rng)).collect() };
    let law = S::Law::fit(&samples(), &vec![1.0; count]).ok()?;
    let compared = samples();
    let log_ratio = |state: &S| log_density(state) - law.log_density(state) + law.log_normalizer();
    let forward: Vec<f64> = compared.iter().map(|state| -log_ratio(state)).collect();
    let backward = (0..count).map(|_| log_ratio(&law.sample(rng)));
    // A NaN or infinite density is reported later, when chains meet it.
    BennettEstimate::of_independent(&forward, &Vec::from_iter(backward)).ok()
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector, dvector};
    use rand::Rng;

    use super::*;
    use crate::model::{Gaussian, GaussianMixture, StudentT, UniformBox};
    use crate::random::{Purpose, stream};

    type Vector = DVector<f64>;

    fn check<M>(base: &M, off: f64, seed: u64) -> Result<bool>
    where
        M: Sampleable<State = Vector> + NormalizedModel,
    {
        let log_density = |x: &Vector| base.log_density(x);
        let log_z = base.log_normalizer() + off;
        compare_normalizer(
            base,
            log_density,
            log_z,
            &mut stream(seed, Purpose::TESTING, 0),
        )
    }

    fn refused<M>(base: &M, off: f64) -> usize
    where
        M: Sampleable<State = Vector> + NormalizedModel,
    {
        (1..=50)
            .filter(|seed| check(base, off, *seed).is_err())
            .count()
    }

    /// A base with most of its mass in a narrow neck, like the prior of a centred hierarchy.
    #[derive(Debug)]
    struct Neck(Gaussian);

    impl UnnormalizedModel for Neck {
        type State = Vector;

        fn log_density(&self, x: &Vector) -> f64 {
            let others = x.iter().skip(1).map(|x| x * x).sum::<f64>();
            let scale = x[0].exp();
            -0.5 * x[0] * x[0] - 9.0 * x[0] - 0.5 * others / (scale * scale)
        }
    }

    impl Sampleable for Neck {
        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vector {
            let mut x = self.0.sample(rng);
            let scale = x[0].exp();
            x.iter_mut().skip(1).for_each(|x| *x *= scale);
            x
        }
    }

    impl NormalizedModel for Neck {
        fn log_normalizer(&self) -> f64 {
            5.0 * std::f64::consts::TAU.ln()
        }
    }

    #[test]
    fn normalisers_that_are_right_pass_and_others_are_refused() {
        let at = |mean, deviation| {
            Gaussian::isotropic(DVector::from_element(6, mean), deviation).unwrap()
        };
        let far = GaussianMixture::new([(0.2, at(-5.0, 1.0)), (0.8, at(5.0, 0.5))]).unwrap();
        let heavy = StudentT::new(at(1.0, 2.0), 1.0).unwrap();
        let edges = UniformBox::new(vec![(0.0, 3.0), (-1.0, 1.0)]).unwrap();
        let many = Gaussian::standard(40).unwrap();
        let neck = Neck(Gaussian::standard(10).unwrap());
        let right = [
            refused(&at(3.0, 100.0), 0.0),
            refused(&far, 0.0),
            refused(&heavy, 0.0),
            refused(&edges, 0.0),
            refused(&many, 0.0),
            refused(&neck, 0.0),
        ];
        assert_eq!(right, [0; 6]);
        let wrong = [
            refused(&at(3.0, 100.0), 0.5),
            refused(&edges, 0.7),
            refused(&many, -1.0),
        ];
        assert_eq!(wrong, [50; 3]);
    }

    /// Tests bases with independent coordinates, and an autoregression.
    #[test]
    fn many_dimensions_are_compared_as_far_as_samples_tell() {
        let chain = |dimension: usize| {
            let covariance = DMatrix::from_fn(dimension, dimension, |i, j| {
                0.9_f64.powi(i.abs_diff(j) as i32)
            });
            Gaussian::new(DVector::zeros(dimension), covariance).unwrap()
        };
        for base in [
            Gaussian::standard(51),
            Gaussian::standard(1_000),
            Ok(chain(100)),
        ] {
            let base = base.unwrap();
            for seed in 1..=3 {
                assert!(check(&base, 0.0, seed).unwrap());
                assert!(check(&base, -1.0, seed).is_err());
            }
        }
        assert!(!check(&chain(300), 100.0, 1).unwrap());
    }

    #[test]
    fn an_estimate_is_named() {
        let error = check(&Gaussian::standard(2).unwrap(), 1.0, 1).unwrap_err();
        let Error::InvalidArgument { expected, .. } = &error else {
            panic!("{error}");
        };
        assert!(expected.starts_with("about 1.8"), "{error}");
        assert!(check(&Gaussian::isotropic(dvector![0.0], 1.0).unwrap(), 0.0, 1).is_ok());
    }
}
