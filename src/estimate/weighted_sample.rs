//! Weighted states of a target: means, quantiles, equally weighted draws and a table of them.

use super::weighted_states::Values;
use super::{EqualDraws, LogZ, Quantities, Summary, WeightedStates};
use crate::{Error, Result};

/// A result that holds weighted states of its target, and therefore estimates more than log Z.
///
/// ```
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(1, 2.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(1)?, target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&path, kernel).schedule(Schedule::linear(20)?).run()?;
/// let (mean, error) = run.expectation(|x| x[0]);
/// let (upper, its_error) = run.quantile(|x| x[0], 0.95)?;
/// # assert!((mean - 2.0).abs() < 4.0 * error && (upper - 2.822).abs() < 4.0 * its_error);
/// let draws = run.draws(500, 1)?;
/// println!("{mean:.2} +- {error:.2}, 95% below {upper:.2} +- {its_error:.2}");
/// println!("{} draws, {} of them distinct", draws.states().len(), draws.distinct());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias("posterior", "samples", "importance sampling"))]
pub trait WeightedSample {
    /// The type of a state.
    type State;

    /// Returns the states, with their weights and the independent unit (such as a chain) to which each state belongs.
    /// The provided methods need nothing else.
    fn weighted_states(&self) -> WeightedStates<'_, Self::State>;

    /// Returns the self-normalised estimate of `E f(x)` under the target, `m = sum_i W_i f(x_i)` with normalised
    /// weights `W_i`, and its standard error
    ///
    /// `sqrt(n / (n - 1) sum_u (sum_{i in u} W_i (f(x_i) - m))^2)`
    ///
    /// over the n units u of positive weight, with n - 1 degrees of freedom. The units are chains, or families, islands
    /// or ladders of chains that interacted. If a unit's sum is clearly correlated with the sums of units before it, as
    /// if each state of a Markov chain were a unit, the error is multiplied by the root of the autocorrelation time.
    ///
    /// More chains reduce the error; more stages hardly do. The error is infinite for a single unit, and far too small
    /// if few units carry the weight. If all weights are 0, the estimate is NaN.
    fn expectation(&self, f: impl Fn(&Self::State) -> f64) -> (f64, f64) {
        Values::of(&self.weighted_states(), f).mean(|value| value)
    }

    /// Returns the quantile of `f(x)` at `p` under the target, and its standard error. The quantile is the least value
    /// q with `F(q) = sum_{f(x_i) <= q} W_i >= p`.
    ///
    /// The error is a quarter of the distance between the quantiles at `p - 2 s` and `p + 2 s`, where s is the larger of
    /// the standard errors of `F(q)` and of the weight below q (Woodruff 1952). If `p - 2 s` or `p + 2 s` lies outside
    /// (0, 1), or `F(q) = 1`, there are too few states for this quantile, and the error is infinite.
    ///
    /// A few weights beyond q do not show how large weights there are. If the effective number of the units beyond q is
    /// below 20, s is at least `sqrt(p (1 - p) sum_u W_u^2 / sum_u W_u)`, over the parts `W_u` of the units in the upper
    /// `5 (1 - p)` of the distribution; for p up to 1/2 in the lower `5 p`.
    ///
    /// # Errors
    /// A `p` outside (0, 1); a value that is not finite; no state of positive weight.
    fn quantile(&self, f: impl Fn(&Self::State) -> f64, p: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("p", p)?;
        Ok(Values::ascending(&self.weighted_states(), "f", f)?.quantile(p))
    }

    /// Returns `count` equally weighted draws by systematic resampling of the weights. Each state is drawn `count W_i`
    /// times in expectation, rounded up or down. If `count` exceeds the effective sample size, states are repeated.
    ///
    /// Draws are in the order of the states, with copies next to each other. Autocorrelation estimates, such as the
    /// effective sample sizes of ArviZ and posterior, then count the copies of a state as one.
    ///
    /// # Errors
    /// A `count` of 0 or above 2^30; no state of positive weight.
    fn draws(&self, count: usize, seed: u64) -> Result<EqualDraws<Self::State>>
    where
        Self::State: Clone,
    {
        EqualDraws::of(&self.weighted_states(), count, seed)
    }

    /// Returns a table with the mean, deviation and quantiles of each of `quantities` in a row, and log Z above.
    /// [`Priors`](crate::model::Priors) can be given as quantities; the rows are then the parameters.
    ///
    /// # Errors
    /// No quantity, or two of one name; a value that is not finite; no state of positive weight.
    fn summary<'q>(&self, quantities: impl Into<Quantities<'q, Self::State>>) -> Result<Summary>
    where
        Self: LogZ + Sized,
        Self::State: 'q,
    {
        Summary::of(&self.weighted_states(), self, &quantities.into())
    }
}

#[cfg(test)]
mod tests {
    use rand::seq::SliceRandom;

    use super::*;
    use crate::random::{Purpose, StandardNormal, stream};

    struct Sample {
        states: Vec<f64>,
        log_weights: Vec<f64>,
        units: Vec<usize>,
    }

    impl Sample {
        fn new(states: &[f64], weights: &[f64], units: &[usize]) -> Self {
            Self {
                states: states.to_vec(),
                log_weights: weights.iter().map(|w| w.ln() + 1e3).collect(),
                units: units.to_vec(),
            }
        }

        /// Returns draws from N(0, 1.5^2), weighted as a sample of N(0, 1). Each unit has one draw, `copies` times.
        fn normal(units: usize, copies: usize, seed: usize) -> Self {
            let (mut rng, normal) = (stream(1, Purpose::TESTING, seed), StandardNormal::get());
            let states = Vec::from_iter((0..units).map(|_| 1.5 * normal.draw(&mut rng)));
            let repeated = || (0..units * copies).map(|i| i / copies);
            Self {
                states: repeated().map(|i| states[i]).collect(),
                log_weights: repeated()
                    .map(|i| -0.5 * states[i].powi(2) * (1.0 - 1.0 / 2.25))
                    .collect(),
                units: repeated().collect(),
            }
        }
    }

    impl WeightedSample for Sample {
        type State = f64;

        fn weighted_states(&self) -> WeightedStates<'_, f64> {
            WeightedStates {
                states: &self.states,
                log_weights: self.log_weights.as_slice().into(),
                units: self.units.as_slice().into(),
            }
        }
    }

    #[test]
    fn figures_of_four_states() {
        let states = [3.0, 1.0, 9.0, 2.0];
        let sample = Sample::new(&states, &[2.0, 1.0, 0.0, 1.0], &[0, 1, 2, 1]);
        let (mean, error) = sample.expectation(|x| *x);
        // 3/2 + 1/4 + 2/4, and the parts 3/8 of unit 0 and -5/16 - 1/16 of unit 1.
        assert!((mean - 2.25).abs() < 1e-12, "{mean}");
        assert!(
            (error - (2.0 * 2.0 * 0.375f64.powi(2)).sqrt()).abs() < 1e-12,
            "{error}"
        );
        for (p, exact) in [(0.1, 1.0), (0.25, 1.0), (0.3, 2.0), (0.5, 2.0), (0.51, 3.0)] {
            assert_eq!(sample.quantile(|x| *x, p).unwrap().0, exact, "{p}");
        }
        // s = sqrt(2 (W_0^2 p^2 + ..)) = 1/2 at the median, beyond both ends.
        assert_eq!(sample.quantile(|x| *x, 0.5).unwrap().1, f64::INFINITY);
        let one_unit = Sample::new(&states, &[1.0; 4], &[0; 4]);
        assert_eq!(one_unit.expectation(|x| *x), (3.75, f64::INFINITY));
    }

    #[test]
    fn equal_weights_give_the_error_of_a_plain_mean() {
        // In a random order: in an ascending one they would be correlated.
        let mut states = Vec::from_iter((1..=100).map(f64::from));
        states.shuffle(&mut stream(1, Purpose::TESTING, 1));
        let units = Vec::from_iter(0..100);
        let sample = Sample::new(&states, &[1.0; 100], &units);
        let (mean, error) = sample.expectation(|x| *x);
        // Variance of 1..n over n - 1 is n (n + 1) / 12.
        assert!((mean - 50.5).abs() < 1e-12 && (error - (101f64 / 12.0).sqrt()).abs() < 1e-12);
        let (median, error) = sample.quantile(|x| *x, 0.5).unwrap();
        // s = .5 / sqrt(99) = .0503: a quarter of the distance between ranks 40 and 61.
        assert_eq!((median, error), (50.0, 5.25));
        assert!(sample.quantile(|x| *x, 0.005).unwrap().1 == f64::INFINITY);
    }

    #[test]
    fn bad_arguments_are_refused() {
        let sample = Sample::new(&[1.0, f64::NAN], &[1.0, 1.0], &[0, 1]);
        let text = |found: Result<(f64, f64)>| found.unwrap_err().to_string();
        assert!(text(sample.quantile(|_| 0.0, 1.0)).contains("p: got 1"));
        assert!(text(sample.quantile(|x| *x, 0.5)).contains("f = NaN"));
        let dead = Sample::new(&[1.0], &[0.0], &[0]);
        assert!(matches!(
            dead.quantile(|x| *x, 0.5),
            Err(Error::AllWeightsZero { chains: 1 })
        ));
        assert!(matches!(
            dead.draws(3, 1),
            Err(Error::AllWeightsZero { chains: 1 })
        ));
        let (mean, error) = dead.expectation(|x| *x);
        assert!(mean.is_nan() && error == f64::INFINITY);
        let uneven = Sample::new(&[1.0], &[1.0, 1.0], &[0]);
        assert!(matches!(
            uneven.draws(1, 1),
            Err(Error::DimensionMismatch { .. })
        ));
        for count in [0, usize::MAX] {
            let text = sample.draws(count, 1).unwrap_err().to_string();
            assert!(text.contains("draws: got"), "{text}");
        }
    }

    /// Checks that 92.5 to 97.5% of 1,000 intervals of 1.96 errors contain the value, for units of one state and of six
    /// equal states.
    #[test]
    fn intervals_of_means_and_quantiles_cover() {
        const SEEDS: usize = 1_000;
        let exact = [0.0, -1.644_853_627, 0.0, 1.644_853_627];
        for copies in [1, 6] {
            let mut covered = [0; 4];
            for seed in 0..SEEDS {
                let sample = Sample::normal(400, copies, seed);
                let quantile = |p| sample.quantile(|x| *x, p).unwrap();
                let found = [
                    sample.expectation(|x| *x),
                    quantile(0.05),
                    quantile(0.5),
                    quantile(0.95),
                ];
                for ((count, (value, error)), exact) in covered.iter_mut().zip(found).zip(exact) {
                    *count += usize::from((value - exact).abs() <= 1.96 * error);
                    assert!(error < 0.35, "{error}");
                }
            }
            assert!(
                covered.iter().all(|n| (925..975).contains(n)),
                "{covered:?}"
            );
        }
    }

    /// The error is infinite where the quantile is the largest state, or where a few large weights decide. Where it is
    /// finite, intervals hold.
    #[test]
    fn quantiles_at_the_edge_of_the_sample_have_no_error() {
        let exact = 2.326_347_874;
        for (units, spread) in [
            (60, 0.0),
            (200, 0.0),
            (1_000, 0.0),
            (60, 1.3),
            (400, 1.3),
            (1_000, 1.3),
        ] {
            let (mut finite, mut covered) = (0, 0);
            for seed in 0..400 {
                let (mut rng, normal) = (stream(3, Purpose::TESTING, seed), StandardNormal::get());
                let mut drawn =
                    |scale: f64| Vec::from_iter((0..units).map(|_| scale * normal.draw(&mut rng)));
                let sample = Sample {
                    states: drawn(1.0),
                    log_weights: drawn(spread),
                    units: Vec::from_iter(0..units),
                };
                for sign in [1.0, -1.0] {
                    let p = 0.5 + 0.49 * sign;
                    let (value, error) = sample.quantile(|x| *x, p).unwrap();
                    let largest = sample
                        .states
                        .iter()
                        .fold(f64::NEG_INFINITY, |a, x| a.max(x * sign));
                    assert!(
                        error > 0.0
                            && (error.is_infinite() || value * sign < largest || sign < 0.0)
                    );
                    finite += usize::from(error.is_finite());
                    covered += usize::from(
                        (value - exact * sign).abs() <= 1.96 * error && error.is_finite(),
                    );
                }
            }
            assert!(finite == 0 || units >= 400, "{finite} of {units}");
            // Of 400 heavy weights hardly any quantile has a finite error.
            let holds = finite < 50 || covered as f64 >= 0.9 * finite as f64;
            assert!(holds, "{covered} of {finite} of {units}");
        }
    }

    /// States of 32 chains that take turns, each a unit of its own. Errors of independent units would be 4.4 times too
    /// small.
    #[test]
    fn units_that_are_correlated_count_as_fewer() {
        let (mut held, mut longest) = ([0; 2], 0.0_f64);
        for seed in 0..100 {
            let (mut rng, normal) = (stream(2, Purpose::TESTING, seed), StandardNormal::get());
            let mut chains = [(); 32].map(|()| normal.draw(&mut rng));
            let step = |i: usize| {
                let x = &mut chains[i % 32];
                *x = 0.9 * *x + 0.19_f64.sqrt() * normal.draw(&mut rng);
                *x
            };
            let states = Vec::from_iter((0..9_600).map(step));
            let units = Vec::from_iter(0..9_600);
            let sample = Sample::new(&states, &[1.0; 9_600], &units);
            let found = [
                sample.expectation(|x| *x),
                sample.quantile(|x| *x, 0.5).unwrap(),
            ];
            for (held, (value, error)) in held.iter_mut().zip(found) {
                *held += usize::from(value.abs() <= 1.96 * error);
                longest = longest.max(error);
            }
        }
        // Exactly `sqrt(19 / 9600) = .044` for the mean.
        assert!(
            held.iter().all(|held| *held >= 88) && longest < 0.08,
            "{held:?}, {longest}"
        );
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [2.3, 0.0, 0.7, 1.0];
        let sample = Sample::new(&[0.0, 1.0, 2.0, 3.0], &weights, &[0, 1, 2, 3]);
        let mut counts = [0; 4];
        const SEEDS: u64 = 2_000;
        for seed in 0..SEEDS {
            let draws = sample.draws(6, seed).unwrap();
            let copies =
                [0.0, 1.0, 2.0, 3.0].map(|x| draws.states().iter().filter(|y| **y == x).count());
            for ((count, n), weight) in counts.iter_mut().zip(copies).zip(weights) {
                *count += n;
                assert!(
                    (n as f64 - 1.5 * weight).abs() < 1.0,
                    "{n} copies of {weight}"
                );
            }
            assert!(draws.states().is_sorted());
            assert_eq!(draws.distinct(), copies.iter().filter(|n| **n > 0).count());
            let squares: usize = copies.iter().map(|n| n * n).sum();
            assert_eq!(draws.effective_sample_size(), 36.0 / squares as f64);
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            // Rounding up or down has a variance of 1/4 at most.
            let error = (0.25 / SEEDS as f64).sqrt();
            assert!((count as f64 / SEEDS as f64 - 1.5 * weight).abs() <= 4.0 * error);
        }
        assert_eq!(sample.draws(1, 7).unwrap().effective_sample_size(), 1.0);
        let many = sample.draws(100_000, 7).unwrap();
        assert!((many.effective_sample_size() - 16.0 / 6.78).abs() < 1e-3);
    }
}
