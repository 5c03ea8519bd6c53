//! Bridge sampling: log Z from draws of the target that you already have.

use std::fmt;
use std::time::Instant;

use crate::estimate::repeated::check_repeated;
use crate::estimate::{BennettEstimate, LogZ, Mixing, Warning, effective_draws, write_headline};
use crate::model::{Fit, UnnormalizedModel, log_densities_of};
use crate::num::{exceeds, log_mean_exp, student_quantile};
use crate::random::{Purpose, StreamRng, stream};
use crate::work::caught_once;
use crate::{Error, Result};

/// Log Z from draws of the target by Stan, PyMC, nuts-rs or any other sampler (Meng and Wong 1996).
///
/// A distribution g, called the law, is fitted to the first half of each chain. Bennett's equation compares draws of g
/// with the second halves. Its root c estimates log Z of the target's density f:
///
/// `sum_g s(log f - log g - c - M) = e^-M sum_f s(c + M + log g - log f)`
///
/// There are as many draws of g as of f, and s is the logistic function. By the autocorrelation of log f, the draws of
/// f count as `e^-M` times as many independent draws. Then the halves change places, and Z is the mean of both
/// estimates. Errors allow for the autocorrelation of the acceptances and of the slowest coordinate, as far as the
/// acceptances depend on it, and for chains that disagree.
///
/// **It cannot detect a mode that the draws lack.** Use a [challenged](crate::adaptive::Challenge) run from the
/// fitted [law](Self::law) as a second witness:
///
/// ```
/// use annealed::bidirectional::BridgeSampling;
/// use annealed::model::StudentT;
/// use annealed::prelude::*;
/// # use rand::SeedableRng;
///
/// // Four chains of draws; here independent ones of a law whose log Z is known.
/// let target = Gaussian::isotropic(DVector::from_element(3, 2.0), 0.5)?;
/// # let rng = &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// let mut chain = || (0..1_000).map(|_| target.sample(rng)).collect();
/// let chains: [Vec<_>; 4] = [chain(), chain(), chain(), chain()];
///
/// let found = BridgeSampling::<StudentT>::new(&target, &chains, 1)?;
/// println!("{found}");
/// assert!((found.log_z() - target.log_normalizer()).abs() < 4.0 * found.standard_error());
///
/// let path = GeometricPath::new(found.law().clone(), &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Rounds::new(&path, kernel.clone()).budget(25_000).run()?;
/// let challenge = Challenge::new(&path, kernel, &run).run()?;
/// println!("{}", Agreement::new(&found, &challenge)?);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
#[doc(alias("evidence", "marginal likelihood", "bridgesampling", "Bayes factor"))]
pub struct BridgeSampling<L> {
    law: L,
    /// The estimates from the two halves of the draws.
    halves: [BennettEstimate; 2],
    log_z: f64,
    /// Shares of the two halves' estimates in the sum of both estimates of Z.
    shares: [f64; 2],
    effective_draws: f64,
    warnings: Vec<Warning>,
    evaluations: u64,
    seconds: f64,
}

/// Least number of draws in a half of a chain.
const FEWEST_IN_HALF: usize = 10;
/// Effective number of draws, in both halves together, below which a warning appears. Near 100, intervals are
/// still slightly too short (`docs/notes/draws.md`).
const FEW_DRAWS: f64 = 100.0;
/// Effective number of the slowest coordinate below which a warning appears if log f has [`LAGS`] times as many.
const SLOW: f64 = 400.0;
/// Ratio of the effective numbers of log f and of the slowest coordinate above which log f alone says too little. On a
/// correlated Gaussian, whose intervals are right, a random walk has up to 8.
const LAGS: f64 = 10.0;
/// Distance of the two halves' estimates, in standard errors of the difference, above which a warning appears.
const HALVES_APART: f64 = 3.0;

/// Half of each chain's draws, with the target's log densities at these draws.
struct Half<'d, S> {
    draws: Vec<&'d [S]>,
    log_densities: Vec<Vec<f64>>,
}

/// The coordinate in which the draws mix least.
struct Slowest {
    coordinate: usize,
    mixing: Mixing,
}

impl Slowest {
    /// Returns `None` if the law's states have no coordinates.
    fn of<L: Fit>(chains: &[Vec<L::State>]) -> Option<Self> {
        let count = L::coordinates(&chains[0][0]).len();
        let mixing = |coordinate| {
            let values = |chain: &Vec<L::State>| {
                Vec::from_iter(chain.iter().map(|draw| L::coordinates(draw)[coordinate]))
            };
            let mixing = Mixing::of(&Vec::from_iter(chains.iter().map(values)));
            Self { coordinate, mixing }
        };
        let least =
            |one: &Self, other: &Self| one.mixing.effective.total_cmp(&other.mixing.effective);
        (0..count).map(mixing).min_by(least)
    }
}

impl<S: Clone> Half<'_, S> {
    fn count(&self) -> usize {
        self.draws.iter().map(|draws| draws.len()).sum()
    }

    /// Returns the effective number of independent draws for the mean of log f.
    fn effective(&self) -> f64 {
        effective_draws(&self.log_densities)
    }

    /// Returns the distribution (law) fitted to the draws.
    fn law<L: Fit<State = S>>(&self) -> Result<L> {
        // `Fit` reads the sum of the weights as the number of independent draws.
        let weight = self.effective() / self.count() as f64;
        L::fit(&self.draws.concat(), &vec![weight; self.count()])
    }

    /// Returns Bennett's estimate of log Z from these draws and the same number of draws of `law`.
    fn estimate<L: Fit<State = S>>(
        &self,
        law: &L,
        target: &impl UnnormalizedModel<State = S>,
        slowest: Option<&Slowest>,
        rng: &mut StreamRng,
    ) -> Result<BennettEstimate> {
        let log_g = |state: &S| law.log_density(state) - law.log_normalizer();
        let states = Vec::from_iter((0..self.count()).map(|_| law.sample(rng)));
        let log_f = log_densities_of(target, &states);
        let of_law = states.iter().zip(log_f);
        let of_law = Vec::from_iter(of_law.map(|(state, log_f)| log_f - log_g(state)));
        let chains = self.draws.iter().zip(&self.log_densities);
        let of_target = chains.map(|(draws, log_f)| {
            let pairs = draws.iter().zip(log_f);
            pairs.map(|(state, log_f)| log_g(state) - log_f).collect()
        });
        let of_target = Vec::from_iter(of_target);
        let slowest = slowest.map(|slowest| {
            let draws = self.draws.iter().copied().flatten();
            let values = draws.map(|draw| L::coordinates(draw)[slowest.coordinate]);
            (values.collect(), slowest.mixing.time)
        });
        BennettEstimate::from_chains(&of_law, &of_target, self.effective(), slowest)
    }
}

impl<L: Fit<State: Clone>> BridgeSampling<L> {
    /// Estimates log Z of `target` from `chains`, each with its draws in the order in which they were drawn, without
    /// warm-up. The density is evaluated twice for each draw.
    ///
    /// # Errors
    /// No chain, or a chain of fewer than 20 draws; a draw at which the target has no density, or a NaN; draws that are
    /// given twice, as two chains or as the halves of one; draws to which no distribution of this family can be fitted,
    /// for example because one coordinate is computed from others.
    pub fn new<M>(target: &M, chains: &[Vec<L::State>], seed: u64) -> Result<Self>
    where
        M: UnnormalizedModel<State = L::State>,
    {
        let begun = Instant::now();
        Error::check_not_empty("chains", chains.len())?;
        for chain in chains {
            Error::check_at_least("draws of a chain", chain.len(), 2 * FEWEST_IN_HALF)?;
        }
        let draws: usize = chains.iter().map(Vec::len).sum();
        let made = caught_once(|| Self::of(target, chains, seed));
        let mut found = made.map_err(|message| Error::panicked(message, 0..chains.len()))??;
        found.evaluations = 2 * draws as u64;
        found.seconds = begun.elapsed().as_secs_f64();
        Ok(found)
    }

    fn of<M>(target: &M, chains: &[Vec<L::State>], seed: u64) -> Result<Self>
    where
        M: UnnormalizedModel<State = L::State>,
    {
        let mut log_densities = Vec::with_capacity(chains.len());
        for (chain, draws) in chains.iter().enumerate() {
            let found = log_densities_of(target, draws);
            if let Some(draw) = found.iter().position(|x| !x.is_finite()) {
                let value = format!(
                    "log density {} at draw {draw} of chain {chain}",
                    found[draw]
                );
                return Err(Error::invalid("draws", value, "draws of the target"));
            }
            log_densities.push(found);
        }
        check_repeated("chain", &log_densities)?;
        let of = |part: fn(usize) -> std::ops::Range<usize>| Half {
            draws: Vec::from_iter(chains.iter().map(|draws| &draws[part(draws.len())])),
            log_densities: (log_densities.iter())
                .map(|found| found[part(found.len())].to_vec())
                .collect(),
        };
        let (first, second) = (of(|n| 0..n / 2), of(|n| n / 2..n));
        let (of_first, of_second) = (first.law::<L>()?, second.law::<L>()?);
        let draws = chains.iter().map(Vec::len).sum();
        let slowest = Slowest::of::<L>(chains);
        let mut rng = stream(seed, Purpose::BRIDGE_SAMPLING, 0);
        let by_second = second.estimate(&of_first, target, slowest.as_ref(), &mut rng)?;
        let by_first = first.estimate(&of_second, target, slowest.as_ref(), &mut rng)?;
        let halves = [by_first, by_second];
        let values = halves.map(|half| half.value());
        let log_z = log_mean_exp(&values);
        let mut found = Self {
            law: of(|n| 0..n).law()?,
            halves,
            log_z,
            shares: values.map(|value| 0.5 * (value - log_z).exp()),
            effective_draws: first.effective() + second.effective(),
            warnings: Vec::new(),
            evaluations: 0,
            seconds: 0.0,
        };
        let size = |x: &f64| x.abs();
        let largest = log_densities.iter().flatten().map(size).fold(0.0, f64::max);
        found.warnings = found.reasons(draws, slowest, target.epsilon() * largest);
        Ok(found)
    }

    fn reasons(&self, draws: usize, slowest: Option<Slowest>, rounding_error: f64) -> Vec<Warning> {
        let [one, other] = self.halves.map(|half| half.value());
        let [error, its] = self.halves.map(|half| half.standard_error());
        let effective = self.effective_draws;
        let few = (effective < FEW_DRAWS).then_some(Warning::FewDraws { effective, draws });
        let slow = slowest.filter(|slowest| slowest.mixing.effective < SLOW.min(effective / LAGS));
        let slow = slow.map(|Slowest { coordinate, mixing }| Warning::SlowCoordinate {
            coordinate,
            effective: mixing.effective,
            of_log_density: effective,
            r_hat: mixing.r_hat,
        });
        // Estimates without an error still differ by rounding.
        let differ = exceeds(
            one.max(other),
            one.min(other) + HALVES_APART * error.hypot(its),
        );
        let differ = differ.then_some(Warning::HalvesDisagree { one, other });
        let foreign = self.halves.iter().find_map(BennettEstimate::foreign_draws);
        let rounding = Warning::rounding(rounding_error, self.standard_error());
        let mut found =
            Vec::from_iter([few, slow, differ, foreign, rounding].into_iter().flatten());
        for warning in self.halves.iter().flat_map(BennettEstimate::warnings) {
            // The draws alone may be far off if the law's tails differ from the target's.
            let is_gap = matches!(warning, Warning::ForwardReverseGap { .. });
            if !is_gap && found.iter().all(|other| other.name() != warning.name()) {
                found.push(warning);
            }
        }
        found
    }
}

impl<L> BridgeSampling<L> {
    /// Returns the law, the distribution fitted to all draws. It can serve as a base of annealed runs.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Adds the warning [`Divergences`](Warning::Divergences) if a Hamiltonian sampler reported divergent transitions, as
    /// `annealed_files::Draws::divergences` counts them.
    pub fn with_divergences(mut self, count: usize) -> Self {
        let warning = (count > 0).then_some(Warning::Divergences { count });
        self.warnings.extend(warning);
        self
    }

    /// Returns the effective number of independent draws for the mean of log f.
    #[doc(alias = "ess")]
    pub fn effective_draws(&self) -> f64 {
        self.effective_draws
    }

    /// Returns the overlap of the draws and the fitted law, the smaller of the two estimates' overlaps: 1 if draws and
    /// law agree, 0 if they are disjoint.
    pub fn overlap(&self) -> f64 {
        let [one, other] = self.halves.map(|half| half.overlap());
        one.min(other)
    }
}

/// Writes log Z with its interval and any warnings.
impl<L> fmt::Display for BridgeSampling<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (overlap, draws) = (self.overlap(), self.effective_draws);
        let details = format_args!(
            "overlap {overlap:.2}, {draws:.0} effective draws, unvisited modes not counted"
        );
        write_headline(f, self, "bridge sampling", details)
    }
}

impl<L> LogZ for BridgeSampling<L> {
    fn log_z(&self) -> f64 {
        self.log_z
    }

    /// Returns the root of `sum_i p_i^2 a_i^2 + (sum_i p_i b_i)^2`. Estimate i of the two has the share `p_i` in Z, the
    /// error `a_i` from the draws of its fitted law, and the error `b_i` from the given draws.
    ///
    /// The errors `b_i` add up without squares, because they are fully correlated: if the target belongs to the law's
    /// family, `b_1` and `b_2` both equal `e_1' F^-1 e_2` to first order, with the Fisher information F and the errors
    /// `e_i` of the halves' moments.
    fn standard_error(&self) -> f64 {
        let (mut of_laws, mut of_draws) = (0.0, 0.0);
        for (half, share) in self.halves.iter().zip(self.shares) {
            let forward = half.forward_variance();
            let rest = half.standard_error().powi(2) - forward;
            of_laws += share * share * forward;
            of_draws += share * rest.max(0.0).sqrt();
        }
        (of_laws + of_draws * of_draws).sqrt()
    }

    /// Returns the interval `log Z +- t SE`, with Student's quantile t for the smaller degrees of freedom of the two
    /// estimates. It is widened to contain the interval of an estimate whose draws hardly overlap with the fitted law.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        let [one, other] = self.halves.map(|half| half.degrees_of_freedom());
        let t = student_quantile(0.5 + 0.5 * level, one.min(other));
        let width = t * self.standard_error();
        let mut interval = (self.log_z - width, self.log_z + width);
        for half in self.halves.iter().filter(|half| half.overlaps_little()) {
            let (lower, upper) = half.interval_at(level)?;
            interval = (interval.0.min(lower), interval.1.max(upper));
        }
        Ok(interval)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of density evaluations, two for each draw.
    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector, dvector};

    use super::*;
    use crate::model::{
        Bernoulli, FunctionModel, Gaussian, GaussianMixture, NormalizedModel, Sampleable, StudentT,
    };

    type Vector = DVector<f64>;

    fn target() -> Gaussian {
        let covariance = DMatrix::from_row_slice(2, 2, &[1.0, 0.7, 0.7, 1.0]);
        Gaussian::new(dvector![1.0, -1.0], covariance).unwrap()
    }

    /// Returns chains of draws with the autocorrelation time `(1 + c) / (1 - c)`. The draw after x' is `mu + c (x' -
    /// mu) + (1 - c^2)^(1/2) e`, with noise e.
    fn chains(target: &Gaussian, correlation: f64, length: usize, seed: u64) -> Vec<Vec<Vector>> {
        let mut rng = stream(seed, Purpose::TESTING, 0);
        let noise = (1.0 - correlation * correlation).sqrt();
        let mut chain = || {
            let mut state = target.sample(&mut rng);
            let step = |_| {
                let fresh = target.sample(&mut rng) - target.mean();
                let kept = (&state - target.mean()) * correlation;
                state = target.mean() + kept + fresh * noise;
                state.clone()
            };
            Vec::from_iter((0..length).map(step))
        };
        Vec::from_iter((0..4).map(|_| chain()))
    }

    #[test]
    fn draws_given_twice_are_refused() {
        let mut given = chains(&target(), 0.5, 100, 1);
        let text = |given: &[Vec<Vector>]| {
            let found = BridgeSampling::<StudentT>::new(&target(), given, 1);
            found.unwrap_err().to_string()
        };
        let again = given[2].clone();
        given[1].extend_from_within(..);
        assert!(text(&given).contains("chain 1, which repeats its first 1/2"));
        given[1].truncate(100);
        given.push(again);
        assert!(text(&given).contains("the draws of chain 2 again as chain 4"));
    }

    /// A fourth coordinate that is computed from others, and a constant one.
    #[test]
    fn redundant_coordinates_are_refused() {
        let draws = |fourth: fn(&Vector) -> f64| {
            let of_chain = |chain: Vec<Vector>| {
                let draw = |x: Vector| dvector![x[0], x[1], fourth(&x)];
                Vec::from_iter(chain.into_iter().map(draw))
            };
            Vec::from_iter(chains(&target(), 0.5, 200, 1).into_iter().map(of_chain))
        };
        let model = FunctionModel::new(|x: &Vector| target().log_density(&dvector![x[0], x[1]]));
        let sum = BridgeSampling::<StudentT>::new(&model, &draws(|x| x[0] + x[1]), 1).unwrap_err();
        assert!(sum.to_string().contains("coordinates 0, 1, 2"), "{sum}");
        let constant = BridgeSampling::<Gaussian>::new(&model, &draws(|_| 3.0), 1).unwrap_err();
        assert!(
            constant.to_string().contains("coordinate 2 = 3"),
            "{constant}"
        );
    }

    fn found(correlation: f64, length: usize, seed: u64) -> BridgeSampling<StudentT> {
        let chains = chains(&target(), correlation, length, seed);
        BridgeSampling::new(&target(), &chains, seed).unwrap()
    }

    #[test]
    fn log_z_is_that_of_the_target() {
        let exact = target().log_normalizer();
        for seed in 1..=5 {
            let found = found(0.0, 500, seed);
            let (off, error) = (found.log_z() - exact, found.standard_error());
            assert!(off.abs() <= 4.0 * error && error < 0.02, "{found}");
            assert!(found.warnings().is_empty(), "{found}");
            assert_eq!(found.evaluations(), 4_000);
        }
    }

    /// Draws that are twice as wide, .7 times as wide, or shifted by half a deviation, do not follow the density. No right
    /// run of 200, whose draws count as 2,000 to 12 independent ones, gets the warning.
    #[test]
    fn draws_of_another_density_are_named() {
        let warns = |of: &Gaussian, correlation, length, seed| {
            let chains = chains(of, correlation, length, seed);
            let found = BridgeSampling::<StudentT>::new(&target(), &chains, seed).unwrap();
            found
                .warnings()
                .iter()
                .any(|w| w.name() == "ForwardReverseGap")
        };
        let wide = Gaussian::new(target().mean().clone(), target().covariance() * 4.0).unwrap();
        let shifted = Gaussian::new(dvector![1.5, -1.0], target().covariance()).unwrap();
        let narrow = Gaussian::new(target().mean().clone(), target().covariance() * 0.5).unwrap();
        assert!((1..=10).all(|seed| warns(&wide, 0.0, 500, seed)));
        assert!((1..=10).all(|seed| warns(&narrow, 0.5, 500, seed)));
        let shifted = (1..=10).filter(|seed| warns(&shifted, 0.5, 500, *seed));
        assert!(shifted.count() >= 8);
        for (correlation, length) in [(0.0, 500), (0.9, 500), (0.99, 500), (0.9, 50)] {
            let false_alarms = (1..=50).filter(|seed| warns(&target(), correlation, length, *seed));
            assert_eq!(false_alarms.count(), 0, "{correlation}");
        }
    }

    /// Errors that ignore the autocorrelation would give only 8 of 40 intervals that contain log Z.
    #[test]
    fn intervals_count_the_autocorrelation() {
        let exact = target().log_normalizer();
        let all = Vec::from_iter((1..=40).map(|seed| found(0.95, 1_500, seed)));
        let holds = |one: &&BridgeSampling<_>| {
            let (lower, upper) = one.interval();
            lower <= exact && exact <= upper
        };
        let held = all.iter().filter(holds).count();
        assert!(held >= 36, "{held} of 40");
        let effective = all.iter().map(BridgeSampling::effective_draws).sum::<f64>() / 40.0;
        // log f is quadratic: its autocorrelation is the square of the draws' autocorrelation.
        let exact = 6_000.0 * (1.0 - 0.95_f64.powi(2)) / (1.0 + 0.95_f64.powi(2));
        assert!(
            (effective / exact - 1.0).abs() < 0.1,
            "{effective}, {exact}"
        );
    }

    /// One array of draws, in which chains take turns, as ensemble samplers write them.
    fn interleaved(replicas: usize, correlation: f64, length: usize, seed: u64) -> Vec<Vector> {
        let four = |seed| chains(&target(), correlation, length, seed);
        let all =
            Vec::from_iter((0..replicas as u64 / 4).flat_map(|i| four(1_000 * (i + 1) + seed)));
        let steps = (0..length).flat_map(|step| all.iter().map(move |chain| chain[step].clone()));
        steps.collect()
    }

    /// Checks draws of 8 and 32 chains that take turns: 90% of the unwarned intervals hold, and 1% are silent and off
    /// by four errors.
    fn check_interleaved(length: usize, seeds: u64) {
        let exact = target().log_normalizer();
        let (mut all, mut held, mut silent, mut silent_held, mut off) = (0, 0, 0, 0, 0);
        for replicas in [8, 32] {
            for correlation in [0.9, 0.97, 0.99, -0.9] {
                let before = (held, silent, silent_held, off);
                for seed in 0..seeds {
                    let draws = interleaved(replicas, correlation, length / replicas, seed);
                    let found = BridgeSampling::<StudentT>::new(&target(), &[draws], seed).unwrap();
                    let (lower, upper) = found.interval();
                    let holds = usize::from(lower <= exact && exact <= upper);
                    let quiet = usize::from(found.warnings().is_empty());
                    let is_off = (found.log_z() - exact).abs() > 4.0 * found.standard_error();
                    (all, held, silent) = (all + 1, held + holds, silent + quiet);
                    silent_held += holds * quiet;
                    off += quiet * usize::from(is_off);
                }
                println!(
                    "draws {length}, {replicas} replicas, {correlation}: {} hold, {} silent, {} of them hold, {} off",
                    held - before.0,
                    silent - before.1,
                    silent_held - before.2,
                    off - before.3
                );
            }
        }
        assert!(10 * held >= 9 * all, "{held} of {all} hold");
        assert!(
            10 * silent_held >= 9 * silent,
            "{silent_held} of {silent} hold"
        );
        assert!(100 * off <= all, "{off} of {all} are silent and off");
    }

    #[test]
    fn interleaved_draws_are_named_and_counted_as_fewer() {
        let found = |seed| {
            let draws = interleaved(32, 0.9, 300, seed);
            BridgeSampling::<StudentT>::new(&target(), &[draws], seed).unwrap()
        };
        let named = |warning: &Warning| {
            matches!(
                warning,
                Warning::Autocorrelated {
                    interleaved: Some(32),
                    ..
                }
            )
        };
        assert!((0..5).all(|seed| found(seed).warnings().iter().any(named)));
        check_interleaved(9_600, 3);
    }

    #[test]
    #[ignore = "the whole experiment, with 40 seeds a cell"]
    fn interleaved_draws_of_all_sizes() {
        for length in [4_800, 9_600, 48_000] {
            check_interleaved(length, 40);
        }
    }

    #[test]
    fn draws_in_order_have_no_warning_of_it() {
        let named = |warning: &Warning| matches!(warning, Warning::Autocorrelated { .. });
        for (correlation, length) in [(0.0, 500), (0.5, 1_000), (0.9, 1_500)] {
            let warned = (0..60).filter(|seed| {
                let found = found(correlation, length, *seed);
                found.warnings().iter().any(named)
            });
            assert!(warned.count() <= 1, "{correlation}");
        }
    }

    #[test]
    fn bits_meet_independent_bits() {
        let on = |bits: &Vec<bool>, i: usize| f64::from(u8::from(bits[i]));
        let log_f = |bits: &Vec<bool>| on(bits, 0) * on(bits, 1) + 0.5 * on(bits, 2);
        let all = (0..8).map(|k| Vec::from_iter((0..3).map(|i| k >> i & 1 == 1)));
        let all: Vec<Vec<bool>> = all.collect();
        let z: f64 = all.iter().map(|bits| log_f(bits).exp()).sum();
        let mut rng = stream(1, Purpose::TESTING, 0);
        let mut draw = |_| {
            let law = all.iter().map(|bits| log_f(bits).exp() / z);
            all[crate::random::draw_index(law, 1.0, &mut rng)].clone()
        };
        let chains = [(); 4].map(|()| Vec::from_iter((0..1_000).map(&mut draw)));
        let target = FunctionModel::new(log_f);
        let found = BridgeSampling::<Bernoulli>::new(&target, &chains, 1).unwrap();
        let off = found.log_z() - z.ln();
        assert!(off.abs() <= 4.0 * found.standard_error(), "{found}");
        assert!(found.standard_error() < 0.02, "{found}");
    }

    #[test]
    fn few_draws_warn() {
        let warned = |found: &BridgeSampling<StudentT>| {
            let few = |warning: &Warning| matches!(warning, Warning::FewDraws { .. });
            found.warnings().iter().any(few)
        };
        assert!(warned(&found(0.95, 100, 1)) && !warned(&found(0.0, 100, 1)));
    }

    fn names<L>(found: &BridgeSampling<L>) -> Vec<String> {
        found.warnings().iter().map(Warning::name).collect()
    }

    /// The first halves of all chains are too narrow, and the second ones too wide.
    #[test]
    fn halves_of_different_laws_disagree() {
        let mut given = chains(&target(), 0.0, 500, 1);
        let scale = |x: &mut Vector, by: f64| *x = target().mean() + (&*x - target().mean()) * by;
        for chain in &mut given {
            let (first, second) = chain.split_at_mut(250);
            first.iter_mut().for_each(|x| scale(x, 0.6));
            second.iter_mut().for_each(|x| scale(x, 1.7));
        }
        let found = BridgeSampling::<StudentT>::new(&target(), &given, 1).unwrap();
        assert!(names(&found).contains(&"HalvesDisagree".into()), "{found}");
    }

    #[test]
    fn divergences_warn() {
        let found = || found(0.0, 100, 1);
        assert_eq!(names(&found().with_divergences(3)), ["Divergences"]);
        assert!(names(&found().with_divergences(0)).is_empty());
    }

    #[test]
    fn chains_in_two_modes_meet_a_law_over_both() {
        let mode = |mean: f64| Gaussian::isotropic(dvector![mean, mean], 1.0).unwrap();
        let target = GaussianMixture::new([(0.5, mode(-4.0)), (0.5, mode(4.0))]).unwrap();
        let low = chains(&mode(-4.0), 0.0, 500, 1);
        let mut split = chains(&mode(4.0), 0.0, 500, 2);
        split[..2].clone_from_slice(&low[..2]);
        let found = BridgeSampling::<StudentT>::new(&target, &split, 1).unwrap();
        assert!(
            found.log_z().abs() < 4.0 * found.standard_error(),
            "{found}"
        );
    }

    #[test]
    fn bad_draws_are_refused() {
        let refused = |chains: &[Vec<Vector>]| {
            let found = BridgeSampling::<StudentT>::new(&target(), chains, 1);
            found.err().map(|error| error.to_string()).unwrap()
        };
        assert!(refused(&[]).contains("chains"));
        assert!(refused(&[vec![dvector![0.0, 1.0]; 5]]).contains("draws of a chain"));
        assert!(refused(&[vec![dvector![0.0, 1.0]; 50]]).contains("vary"));
        let mut draws = chains(&target(), 0.0, 50, 1);
        draws[1][7][0] = f64::NAN;
        assert!(refused(&draws).contains("draw 7 of chain 1"));
        draws[1][7] = dvector![1.0];
        assert!(refused(&draws).contains("panic"));
    }
}
