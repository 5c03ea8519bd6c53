//! Comparison of several models of one data set: evidences relative to the best model, and posterior probabilities.

use std::fmt::{self, Display, Formatter};

use super::comparison::is_repetition;
use super::log_z::{decimals, figure_and_interval, is_skewed, table};
use super::sides::{Sides, weighted};
use super::{LogRatio, LogZ, Warning};
use crate::num::{log_add_exp, log_sum_exp};
use crate::{Error, Result};

/// A comparison of several models of one data set by their evidences Z: log Z, its difference from the best model's log
/// Z, and the posterior probability of each model.
///
/// ```
/// use annealed::estimate::ModelComparison;
/// use annealed::prelude::*;
///
/// // One measurement, 1.3 +- 0.5, of a quantity with a prior of mean 0 and of this deviation.
/// let likelihood = FunctionModel::of_slices(|x: &[f64]| {
///     -0.5 * ((x[0] - 1.3) / 0.5).powi(2) - (0.5 * std::f64::consts::TAU.sqrt()).ln()
/// });
/// let run = |deviation, seed| {
///     let prior = Gaussian::isotropic(DVector::zeros(1), deviation)?;
///     let path = TemperedPath::new(prior, &likelihood);
///     Ais::new(&path, RandomWalkMetropolis::new(0.7)?).schedule(Schedule::linear(50)?).seed(seed).run()
/// };
/// let (narrow, medium, wide) = (run(0.1, 1)?, run(1.0, 2)?, run(10.0, 3)?);
/// let comparison = ModelComparison::new([("narrow", &narrow), ("medium", &medium), ("wide", &wide)])?;
/// println!("{comparison}");
/// let best = &comparison.models[0];
/// assert_eq!(best.name, "medium");
/// assert!((best.probability - 0.7221).abs() < 4.0 * best.probability_error);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias(
    "Bayesian model averaging",
    "model averaging",
    "posterior model probabilities"
))]
#[must_use]
#[non_exhaustive]
pub struct ModelComparison {
    /// The models, the largest log Z first.
    pub models: Vec<ComparedModel>,
}

/// One model of a [`ModelComparison`].
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ComparedModel {
    /// Name of the model.
    pub name: String,
    /// Estimate of the model's log Z.
    pub log_z: f64,
    /// Standard error of `log_z`.
    pub standard_error: f64,
    /// 95% confidence interval of log Z.
    pub interval: (f64, f64),
    /// The log of this model's Z over the first model's Z, at most 0; `None` for the first model.
    pub from_best: Option<LogRatio>,
    /// Prior probability; the priors of all models sum to 1.
    pub prior: f64,
    /// Posterior probability; the probabilities of all models sum to 1.
    pub probability: f64,
    /// Standard error of `probability`. Near 0 and 1 the interval is more informative.
    pub probability_error: f64,
    /// 95% confidence interval of the posterior probability, within `[0, 1]`.
    pub probability_interval: (f64, f64),
    /// Warnings of the model's result.
    pub warnings: Vec<Warning>,
}

impl ModelComparison {
    /// Compares models of equal prior probability, given by names and results. The results must be independent, so give
    /// each run its own seed.
    ///
    /// Model i has the posterior probability `p_i = pi_i Z_i / sum_j pi_j Z_j`, with prior probabilities `pi`. With
    /// standard errors `s` of log Z, the variance of `p_i` is, by the delta method,
    ///
    /// `p_i^2 ((1 - p_i)^2 s_i^2 + sum_{j != i} p_j^2 s_j^2)`.
    ///
    /// The interval comes from the log odds `log(p_i / (1 - p_i))`, the log ratio of `pi_i Z_i` and the sum R over all
    /// other models, joined as in [`LogRatio::new`]. If the interval of `log Z_j` reaches from `b_j` below the estimate
    /// to `a_j` above it, the interval of log R reaches from `sqrt(sum_j (q_j b_j)^2)` below to
    /// `log(1 + sqrt(sum_j (q_j (e^{a_j} - 1))^2))` above, with the shares `q_j = pi_j Z_j / R`. The upper errors are
    /// joined on the scale of R, because a model that is negligible by its estimate may not be negligible at the end of
    /// its interval. For two models this is the interval of [`LogRatio`].
    ///
    /// # Errors
    /// No model; two models of one name; a log Z that is not finite; an error or interval that is NaN; two results with
    /// the same estimate and the same error, as if one run were given twice.
    pub fn new<'r, N: Into<String>, Z: LogZ + ?Sized + 'r>(
        models: impl IntoIterator<Item = (N, &'r Z)>,
    ) -> Result<Self> {
        let models = models.into_iter();
        Self::with_priors(models.map(|(name, result)| (name, result, 1.0)))
    }

    /// Compares models with the given prior probabilities, as [`new`](Self::new) does with equal ones.
    ///
    /// ```
    /// # use annealed::estimate::{LogZ, ModelComparison};
    /// # fn compare(flat: &dyn LogZ, curved: &dyn LogZ) -> annealed::Result<()> {
    /// let comparison = ModelComparison::with_priors([("flat", flat, 0.9), ("curved", curved, 0.1)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new); prior probabilities that are negative, not finite, or all 0. They are scaled to a sum
    /// of 1.
    pub fn with_priors<'r, N: Into<String>, Z: LogZ + ?Sized + 'r>(
        models: impl IntoIterator<Item = (N, &'r Z, f64)>,
    ) -> Result<Self> {
        let of_name = |(name, result, prior): (N, _, f64)| (name.into(), result, prior);
        let mut models: Vec<(String, &Z, f64)> = models.into_iter().map(of_name).collect();
        check(&models)?;
        models.sort_by(|one, other| other.1.log_z().total_cmp(&one.1.log_z()));
        let total: f64 = models.iter().map(|(.., prior)| prior).sum();
        let weighed = |(_, result, prior): &(_, &Z, f64)| {
            let mut sides = Sides::of(*result);
            sides.value += (prior / total).ln();
            sides
        };
        let weighed: Vec<Sides> = models.iter().map(weighed).collect();
        let best = models[0].1;
        let compared = |(place, (name, result, prior)): (usize, (String, &Z, f64))| {
            let odds = Sides::log_odds(&weighed, place);
            let (lower, upper) = odds.interval();
            ComparedModel {
                name,
                log_z: result.log_z(),
                standard_error: result.standard_error(),
                interval: result.interval(),
                from_best: (place > 0).then(|| LogRatio::new(result, best)),
                prior: prior / total,
                probability: logistic(odds.value),
                probability_error: weighted(
                    // `p (1 - p)`, without cancellation if p is near 1.
                    logistic(odds.value) * logistic(-odds.value),
                    odds.error,
                ),
                probability_interval: (logistic(lower), logistic(upper)),
                warnings: result.warnings().to_vec(),
            }
        };
        Ok(Self {
            models: models.into_iter().enumerate().map(compared).collect(),
        })
    }
}

/// Refuses models that cannot be compared.
fn check<Z: LogZ + ?Sized>(models: &[(String, &Z, f64)]) -> Result<()> {
    Error::check_not_empty("models", models.len())?;
    let log_z = models
        .iter()
        .map(|(name, result, _)| (name, result.log_z()));
    Error::check_each("log Z", "model", log_z, f64::is_finite, "finite numbers")?;
    let sides = models.iter().flat_map(|(name, result, _)| {
        let sides = Sides::of(*result);
        [sides.error, sides.below, sides.above].map(|side| (name, side))
    });
    let expected = "an error of at least 0, and an interval around log Z";
    Error::check_each("error of log Z", "model", sides, |x| x >= 0.0, expected)?;
    let priors = models.iter().map(|(name, _, prior)| (name, *prior));
    let is_prior = |x: f64| x.is_finite() && x >= 0.0;
    let expected = "finite numbers of at least 0";
    Error::check_each("priors", "model", priors, is_prior, expected)?;
    let total: f64 = models.iter().map(|(.., prior)| prior).sum();
    Error::check_positive("sum of priors", total)?;
    for (place, (name, result, _)) in models.iter().enumerate() {
        for (earlier, other, _) in &models[..place] {
            let expected = "names that differ";
            Error::check(name != earlier, "models", format!("{name} twice"), expected)?;
            let expected = "independent results: runs of different seeds";
            let found = format!("one result as {earlier} and {name}");
            Error::check(!is_repetition(*other, *result), "models", found, expected)?;
        }
    }
    Ok(())
}

impl Sides {
    /// Returns the log odds of the term in `place` against the sum of all other terms. `terms` holds the logarithms of
    /// independent terms.
    fn log_odds(terms: &[Self], place: usize) -> Self {
        let others = terms
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        let others: Vec<&Self> = others.map(|(_, term)| term).collect();
        let odds = Self::difference(&terms[place], &Self::log_sum(&others));
        match odds.value.is_finite() {
            true => odds,
            // The odds are certain if this term is 0, or if all others are 0.
            false => Self {
                value: odds.value,
                ..Self::default()
            },
        }
    }

    /// Returns the log of a sum of independent terms, given by their logarithms. It is a convex function of these
    /// logarithms. A linear approximation gives a long enough lower side but too short an upper side, so the upper side
    /// is computed on the scale of the sum.
    fn log_sum(terms: &[&Self]) -> Self {
        let value = log_sum_exp(terms.iter().map(|term| term.value));
        let shares = terms.iter().map(|term| (term.value - value).exp());
        let shares: Vec<f64> = shares.collect();
        let joint = |side: fn(&Self) -> f64| {
            let parts = terms.iter().zip(&shares);
            let parts = parts.map(|(term, &share)| weighted(share, side(term)));
            parts.fold(0.0, f64::hypot)
        };
        // Logarithms of `(q_j (exp(a_j) - 1))^2`, where `exp(a_j)` may overflow.
        let rises = terms.iter().map(|term| {
            let rise = term.above + (-(-term.above).exp()).ln_1p();
            match term.value > f64::NEG_INFINITY {
                true => 2.0 * (term.value - value + rise),
                false => f64::NEG_INFINITY,
            }
        });
        Self {
            value,
            error: joint(|term| term.error),
            below: joint(|term| term.below),
            above: log_add_exp(0.0, 0.5 * log_sum_exp(rises)),
        }
    }
}

/// Returns the probability that has the given log odds.
fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

/// Writes an aligned table, a row for each model, and a line for each warning. A model with warnings is marked by `!`.
impl Display for ModelComparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEADER.map(String::from).to_vec()];
        rows.extend(self.models.iter().map(ComparedModel::cells));
        write!(f, "{}", table(&rows, false))?;
        let of_model = |model: &ComparedModel| {
            let mut warnings = model.warnings.iter();
            warnings.try_for_each(|warning| write!(f, "\nwarning: {}: {warning}", model.name))
        };
        self.models.iter().try_for_each(of_model)
    }
}

const HEADER: [&str; 7] = [
    "model",
    "log Z",
    "95% interval",
    "from the best",
    "95% interval",
    "probability",
    "95% interval",
];

impl ComparedModel {
    fn cells(&self) -> Vec<String> {
        let mark = if self.warnings.is_empty() { "" } else { " !" };
        let figures = (self.log_z, self.standard_error, self.interval);
        let skewed = is_skewed(self.log_z, self.interval);
        let [log_z, interval] = figure_and_interval(figures, skewed);
        let from_best = self.from_best.as_ref().map(|ratio| {
            let figures = (ratio.value, ratio.standard_error, ratio.interval);
            figure_and_interval(figures, ratio.is_skewed())
        });
        let [from_best, interval_of_it] = from_best.unwrap_or_default();
        let digits = decimals(self.probability_error).min(6);
        let share = |p: f64| match p > 0.0 && p < 1e-3 {
            true => format!("{p:.1e}"),
            false => format!("{p:.digits$}"),
        };
        let (lower, upper) = self.probability_interval;
        vec![
            format!("{}{mark}", self.name),
            log_z,
            interval,
            from_best,
            interval_of_it,
            share(self.probability),
            format!("{} to {}", share(lower), share(upper)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// A result with a normal or a skewed interval.
    struct Found {
        log_z: f64,
        error: f64,
        /// Distances from the estimate to the lower and the upper end of the interval.
        sides: (f64, f64),
        warnings: Vec<Warning>,
    }

    impl Found {
        fn new(log_z: f64, error: f64) -> Self {
            Self {
                log_z,
                error,
                sides: (1.96 * error, 1.96 * error),
                warnings: Vec::new(),
            }
        }

        fn near(log_z: f64, error: f64, rng: &mut impl Rng) -> Self {
            Self::new(log_z + error * rng.sample::<f64, _>(StandardNormal), error)
        }
    }

    impl Display for Found {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.log_z)
        }
    }

    impl LogZ for Found {
        fn log_z(&self) -> f64 {
            self.log_z
        }

        fn standard_error(&self) -> f64 {
            self.error
        }

        fn interval_at(&self, _level: f64) -> Result<(f64, f64)> {
            Ok((self.log_z - self.sides.0, self.log_z + self.sides.1))
        }

        fn warnings(&self) -> &[Warning] {
            &self.warnings
        }

        fn evaluations(&self) -> u64 {
            0
        }

        fn seconds(&self) -> f64 {
            0.0
        }
    }

    fn compared(results: &[Found]) -> ModelComparison {
        let named = results.iter().enumerate();
        ModelComparison::new(named.map(|(place, result)| (place.to_string(), result))).unwrap()
    }

    /// Checks how often the interval contains the true probability, for standard errors of log Z of up to 2 nats, and
    /// of 4 nats for models that seem negligible.
    #[test]
    fn the_interval_of_a_probability_has_its_level() {
        const REPEATS: usize = 2_000;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for truth in [
            vec![(0.0, 0.1), (0.5, 0.1), (-3.0, 0.1)],
            vec![(0.0, 1.0); 3],
            vec![(0.0, 2.0); 3],
            vec![(0.0, 0.1), (-3.0, 1.0), (-3.0, 1.0)],
            vec![(0.0, 0.01), (1.0, 0.01), (2.0, 2.0)],
            vec![(0.0, 0.1), (-20.0, 4.0), (-20.0, 4.0)],
        ] {
            let mut held = vec![0; truth.len()];
            for _ in 0..REPEATS {
                let results = truth.iter().map(|&(z, s)| Found::near(z, s, &mut rng));
                for model in compared(&results.collect::<Vec<_>>()).models {
                    let place: usize = model.name.parse().unwrap();
                    let sum = log_sum_exp(truth.iter().map(|(log_z, _)| *log_z));
                    let exact = (truth[place].0 - sum).exp();
                    let (lower, upper) = model.probability_interval;
                    held[place] += usize::from(lower <= exact && exact <= upper);
                }
            }
            for held in held {
                let share = held as f64 / REPEATS as f64;
                assert!((0.93..0.98).contains(&share), "{truth:?}: {share}");
            }
        }
    }

    /// Compares the error with finite differences of the probabilities in each log Z.
    #[test]
    fn the_error_of_a_probability_follows_the_delta_method() {
        let (log_z, errors) = ([1.0, 0.2, -0.7], [0.03, 0.05, 0.02]);
        let at = |log_z: [f64; 3]| {
            let named = std::iter::zip(["a", "b", "c"], log_z.map(|log_z| Found::new(log_z, 0.0)));
            let named: Vec<(&str, Found)> = named.collect();
            let priors = [0.2, 0.5, 0.3];
            let models = named
                .iter()
                .zip(priors)
                .map(|((name, found), prior)| (*name, found, prior));
            let found = ModelComparison::with_priors(models).unwrap().models;
            ["a", "b", "c"].map(|name| {
                found
                    .iter()
                    .find(|model| model.name == name)
                    .unwrap()
                    .probability
            })
        };
        let results: [Found; 3] = std::array::from_fn(|i| Found::new(log_z[i], errors[i]));
        let models = [
            ("a", &results[0], 2.0),
            ("b", &results[1], 5.0),
            ("c", &results[2], 3.0),
        ];
        let comparison = ModelComparison::with_priors(models).unwrap();
        let exact = at(log_z);
        assert!(
            (exact[0]
                - 0.2 * 1f64.exp()
                    / (0.2 * 1f64.exp() + 0.5 * 0.2f64.exp() + 0.3 * (-0.7f64).exp()))
            .abs()
                < 1e-12
        );
        for (place, model) in comparison.models.iter().enumerate() {
            let slope = |j: usize| {
                let mut moved = log_z;
                moved[j] += 1e-6;
                (at(moved)[place] - exact[place]) / 1e-6
            };
            let variance: f64 = (0..3).map(|j| (slope(j) * errors[j]).powi(2)).sum();
            assert!((model.probability - exact[place]).abs() < 1e-12);
            assert!(
                (model.probability_error / variance.sqrt() - 1.0).abs() < 1e-4,
                "{place}"
            );
        }
    }

    /// For two models, the interval of the odds is the interval of their Bayes factor, even if it is skewed.
    #[test]
    fn two_models_have_the_interval_of_their_ratio() {
        let skewed = |log_z, below, above| Found {
            sides: (below, above),
            ..Found::new(log_z, 0.3)
        };
        for (one, other) in [
            (skewed(3.0, 0.2, 2.5), skewed(1.0, 0.4, 4.0)),
            (skewed(800.0, 0.2, 900.0), skewed(1.0, 30.0, 4.0)),
        ] {
            let comparison =
                ModelComparison::with_priors([("one", &one, 0.25), ("other", &other, 0.75)]);
            let best = &comparison.unwrap().models[0];
            let (lower, upper) = LogRatio::new(&one, &other).interval;
            let shift = (1f64 / 3.0).ln();
            assert!((best.probability_interval.0 - logistic(lower + shift)).abs() < 1e-12);
            assert!((best.probability_interval.1 - logistic(upper + shift)).abs() < 1e-12);
        }
    }

    #[test]
    fn certain_and_unknown_models_have_plain_probabilities() {
        let unknown = Found {
            sides: (f64::INFINITY, f64::INFINITY),
            ..Found::new(0.0, f64::INFINITY)
        };
        let alone = ModelComparison::new([("alone", &unknown)]).unwrap();
        let model = &alone.models[0];
        assert_eq!((model.probability, model.probability_error), (1.0, 0.0));
        assert_eq!(model.probability_interval, (1.0, 1.0));
        let known = Found::new(2.0, 0.1);
        let excluded =
            ModelComparison::with_priors([("known", &known, 0.0), ("unknown", &unknown, 3.0)]);
        let [first, second] = &excluded.unwrap().models[..] else {
            panic!()
        };
        assert_eq!((first.prior, first.probability_interval), (0.0, (0.0, 0.0)));
        assert_eq!(
            (second.prior, second.probability_interval),
            (1.0, (1.0, 1.0))
        );
        let both = ModelComparison::new([("known", &known), ("unknown", &unknown)]).unwrap();
        for model in &both.models {
            assert_eq!(model.probability_interval, (0.0, 1.0));
            assert_eq!(model.probability_error, f64::INFINITY);
        }
    }

    #[test]
    fn the_table_is_aligned_and_names_the_model_of_a_warning() {
        let mut heavy = Found {
            sides: (0.6, 2.0),
            ..Found::new(-16.0, 0.3)
        };
        heavy.warnings.push(Warning::HeavyTail { k_hat: 1.2 });
        let (wide, far) = (Found::new(-12.31, 0.02), Found::new(-40.0, 0.1));
        let models = [("heavy", &heavy), ("a wide prior", &wide), ("far", &far)];
        let text = ModelComparison::new(models).unwrap().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "model         log Z             95% interval        from the best     95% interval        \
                 probability  95% interval",
                "a wide prior  -12.310 +- 0.020  -12.349 to -12.271                                        \
                 0.976        0.844 to 0.986",
                "heavy !       -16.000           -16.600 to -14.000  -3.690            -4.291 to -1.690    \
                 0.024        0.014 to 0.156",
                "far           -40.000 +- 0.100  -40.196 to -39.804  -27.690 +- 0.102  -27.890 to -27.490  \
                 9.2e-13      7.2e-13 to 1.1e-12",
            ]
        );
        assert!(lines[4].starts_with("warning: heavy: "), "{}", lines[4]);
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let (one, other) = (Found::new(1.0, 0.1), Found::new(2.0, 0.1));
        let refused = |models: &[(&str, &Found, f64)]| {
            let models = models.iter().copied();
            ModelComparison::with_priors(models)
                .unwrap_err()
                .to_string()
        };
        let broken = Found::new(f64::NEG_INFINITY, 0.1);
        let unsure = Found::new(2.0, f64::NAN);
        for (message, expected) in [
            (refused(&[]), "at least one"),
            (refused(&[("a", &one, 1.0), ("a", &other, 1.0)]), "a twice"),
            (
                refused(&[("a", &one, 1.0), ("b", &one, 1.0)]),
                "one result as a and b",
            ),
            (
                refused(&[("a", &one, 1.0), ("b", &broken, 1.0)]),
                "-inf at model b",
            ),
            (
                refused(&[("a", &one, 1.0), ("b", &unsure, 1.0)]),
                "NaN at model b",
            ),
            (
                refused(&[("a", &one, -0.5), ("b", &other, 1.5)]),
                "-0.5 at model a",
            ),
            (
                refused(&[("a", &one, 0.0), ("b", &other, 0.0)]),
                "sum of priors",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
