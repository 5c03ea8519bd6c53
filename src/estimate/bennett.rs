//! Bennett's acceptance ratio: log Z from runs in both directions.

use std::fmt;

use super::advice::{DRAWS_CAUSE, LITTLE, WORKS_CAUSE, gap_cause};
use super::effective_draws::{Correlation, squared_correlation};
use super::{Estimate, Warning, WorkUnit, check, log_z};
use crate::num::{WeightSums, largest, log_sigmoid, student_quantile};
use crate::{Error, Result};

/// An estimate of `log Z_K/Z_0` by Bennett's (1976) acceptance ratio, from forward and reverse chains.
///
/// The mean of the `n_F` forward weights is `Z_K/Z_0`, and the mean of the `n_R` reverse weights is `Z_0/Z_K`. With the
/// logistic function s and `M = log(n_F/n_R)`, the estimate is the root c of
///
/// `sum_F s(log w_F - c - M) = sum_R s(c + M + log w_R)`.
///
/// If the reverse chains begin at exact samples of the target, no other combination of both sets of weights has a
/// smaller asymptotic variance.
///
/// ```
/// use annealed::estimate::BennettEstimate;
///
/// // Two weights in each direction, which agree on Z_K/Z_0 = 3.
/// let forward = [3.0_f64.ln(); 2];
/// let reverse = [-(3.0_f64.ln()); 2];
/// let estimate = BennettEstimate::from_log_weights(&forward, &reverse)?;
/// assert!((estimate.value() - 3.0_f64.ln()).abs() < 1e-12);
/// assert!((estimate.overlap() - 1.0).abs() < 1e-12);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct BennettEstimate {
    value: f64,
    forward: Side,
    reverse: Side,
    overlap: f64,
    /// Estimates from the forward weights alone and from the reverse weights alone. The latter is an estimate of minus
    /// the value.
    one_sided: [Estimate; 2],
    /// Correlation of each direction's acceptances, if weights are ordered.
    #[cfg_attr(feature = "serde", serde(default))]
    correlations: [Option<Correlation>; 2],
    /// Distance of the weights from Crooks' relation in standard errors, by [`distance_from_crooks`]; `None` if it was not
    /// computed.
    from_crooks: Option<f64>,
    /// Unit of the works, if the estimate was made from works.
    unit: Option<WorkUnit>,
}

/// Effective sample size of the acceptances `s(..)` below which a warning appears.
pub(super) const FEW_ACCEPTANCES: f64 = 10.0;
/// Distance of a direction from the joint estimate, in the direction's standard errors, above which a warning appears.
/// With too few stages the two directions' estimates lie on either side of the joint estimate, which has the smallest
/// error. `docs/notes/warnings.md` has the level and the power of this test. It is also the limit for mean works on the
/// wrong side of the joint estimate.
const DIRECTIONS_APART: f64 = 5.0;
/// Level of the interval of one direction that excludes the joint estimate if works from elsewhere are doubted. Five
/// normal standard errors have this level, but an interval also allows for skewed weights.
const SURE: f64 = 0.999_999_4;
/// Distance from Crooks' relation, in standard errors, above which a warning appears.
const UNLIKE: f64 = 4.0;
/// Pareto shape of the weights above which they may have no variance.
const HEAVY: f64 = 0.5;
/// Number of weights other than the first one from which on equal arrays are no coincidence.
const COPIED: usize = 10;

/// Statistics of the acceptances `s(..)` of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Side {
    /// Variance of the mean acceptance, relative to the squared mean.
    variance: f64,
    effective_sample_size: f64,
}

impl BennettEstimate {
    /// Creates the estimate from forward log weights, for `Z_K/Z_0`, and reverse log weights, for `Z_0/Z_K`; `-inf` is
    /// a weight of zero. Their numbers may differ. Do not use weights of resampled runs: the estimate would be wrong.
    ///
    /// Give weights in the order in which they were drawn, one chain after the other. If weights are clearly correlated
    /// with weights before them, like the weights of one Markov chain or of chains that take turns, the error counts
    /// them as fewer independent weights, and the warning [`Autocorrelated`](Warning::Autocorrelated) appears. A
    /// correlation below five of its standard errors is not detected. Among fewer than 26 weights, no correlation is
    /// detected.
    ///
    /// # Errors
    /// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), for either direction; fewer than two
    /// chains in one; reverse weights that are the forward weights again, or their negatives; equal weights w in one
    /// direction, and equal weights other than 1/w in the other.
    pub fn from_log_weights(forward: &[f64], reverse: &[f64]) -> Result<Self> {
        check_pair(forward, reverse)?;
        let mut found = Self::of_independent(forward, reverse)?;
        let (margins, shift) = found.margins(forward, reverse);
        found.correlations = margins.each_ref().map(|margins| {
            let acceptances = margins.iter().map(|margin| log_sigmoid(*margin).exp());
            Correlation::clear(acceptances.collect())
        });
        let [one, other] = found.times();
        found = found.counted([one, other]);
        let time = one.max(other);
        found.from_crooks = Some(distance_from_crooks(&margins, time, shift));
        Ok(found)
    }

    /// Returns both directions on one axis: acceptances are `s(margin)`, and the sign of a reverse margin is the other one.
    /// Returns the origin of this axis, too.
    fn margins(&self, forward: &[f64], reverse: &[f64]) -> ([Vec<f64>; 2], f64) {
        let shift = self.value + (forward.len() as f64 / reverse.len() as f64).ln();
        let margins = [(forward, -shift), (reverse, shift)]
            .map(|(weights, shift)| Vec::from_iter(weights.iter().map(|w| w + shift)));
        (margins, shift)
    }

    /// Returns the numbers of forward and of reverse weights that are worth one independent weight.
    fn times(&self) -> [f64; 2] {
        self.correlations
            .map(|found| found.map_or(1.0, |found| found.time))
    }

    /// Creates the estimate from works in `unit`, with the signs of physics: `W` is the work of a process from the
    /// first end to the second, and `W'` is the work of the reverse process, as measured in it. Then the mean of
    /// `exp(-W/kT)` is `exp(-dF/kT)`, the mean of `exp(-W'/kT)` is `exp(dF/kT)`, and `mean W >= dF >= -(mean W')`. The
    /// log weights are minus the works over kT, and the [value](Self::value) is `-dF/kT`. A work of `+inf` reaches a
    /// state that the other end excludes. [`from_log_weights`](Self::from_log_weights) explains the order of works.
    ///
    /// ```
    /// use annealed::estimate::{BennettEstimate, WorkUnit};
    ///
    /// // A particle is moved between two states whose free energies differ by about 3 kJ/mol.
    /// let forward = [4.1, 2.6, 5.3, 3.0, 4.4]; // kJ/mol
    /// let reverse = [-2.2, -1.0, -3.4, 0.3, -2.9];
    /// let found = BennettEstimate::from_works(&forward, &reverse, WorkUnit::KilojoulesPerMole(300.0))?;
    /// println!("{found}");
    /// let (difference, error) = found.free_energy();
    /// assert!((difference - 3.0).abs() < error && error < 1.0);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// Sources: Crooks (1999); Shirts, Bair, Hooker and Pande (2003).
    ///
    /// # Errors
    /// A temperature that is not above 0; a NaN or a work of `-inf`; works that are all `+inf`; and as
    /// [`from_log_weights`](Self::from_log_weights).
    pub fn from_works(forward: &[f64], reverse: &[f64], unit: WorkUnit) -> Result<Self> {
        let kt = unit.kt()?;
        let log_weights = |works: &[f64], name| -> Result<Vec<f64>> {
            let indexed = works.iter().copied().enumerate();
            let above = |work| work > f64::NEG_INFINITY;
            Error::check_each(name, "index", indexed, above, "numbers above -inf")?;
            let is_cut_off = !works.is_empty() && works.iter().all(|work| work.is_infinite());
            let expected = "finite ones: no process reached the other end";
            Error::check(!is_cut_off, name, "+inf for each work", expected)?;
            Ok(Vec::from_iter(works.iter().map(|work| -work / kt)))
        };
        let reverse = log_weights(reverse, "reverse works")?;
        let mut found = Self::from_log_weights(&log_weights(forward, "forward works")?, &reverse)?;
        found.unit = Some(unit);
        Ok(found)
    }

    /// Creates the estimate from independent weights.
    pub(crate) fn of_independent(forward: &[f64], reverse: &[f64]) -> Result<Self> {
        Self::of(forward, reverse, reverse.len() as f64, 0.0)
    }

    /// Creates the estimate of independent weights with a value that is off by at most `accuracy` in fewer steps.
    pub(crate) fn to_accuracy(forward: &[f64], reverse: &[f64], accuracy: f64) -> Result<Self> {
        Self::of(forward, reverse, reverse.len() as f64, accuracy)
    }

    /// Creates the estimate with reverse weights of autocorrelated chains. In the equation these weights count as
    /// `effective` independent draws. Their variance uses the effective number of draws of their acceptances. The part
    /// of this variance that a slow quantity explains, given by its values and the number of them that is worth one
    /// independent value, has that quantity's effective number instead.
    pub(crate) fn from_chains(
        forward: &[f64],
        reverse: &[Vec<f64>],
        effective: f64,
        slow: Option<(Vec<f64>, f64)>,
    ) -> Result<Self> {
        let returned = reverse.concat();
        let mut found = Self::of(forward, &returned, effective, 0.0)?;
        let shift = found.value + (forward.len() as f64 / effective).ln();
        let accepted = |w: &f64| log_sigmoid(shift + w).exp();
        let of_chain = |chain: &Vec<f64>| chain.iter().map(accepted).collect();
        let acceptances = Vec::from_iter(reverse.iter().map(of_chain));
        let correlation = Correlation::of(&acceptances);
        let longer = slow.map_or(0.0, |(values, time)| {
            let explained = squared_correlation(&acceptances.concat(), &values);
            explained * (time - correlation.time).max(0.0)
        });
        let time = correlation.time + longer;
        found.reverse.count_as(time);
        let (margins, shift) = found.margins(forward, &returned);
        found.from_crooks = Some(distance_from_crooks(&margins, time, shift));
        // The autocorrelation of one chain after the other is no reason to warn.
        let is_strange = correlation.interleaved.is_some() || correlation.grows;
        found.correlations[1] = is_strange.then_some(correlation);
        Ok(found)
    }

    /// Lets these numbers of autocorrelated weights of both directions count as one independent weight.
    pub(super) fn counted(mut self, [forward, reverse]: [f64; 2]) -> Self {
        self.forward.count_as(forward);
        self.reverse.count_as(reverse);
        self
    }

    fn of(forward: &[f64], reverse: &[f64], reverse_count: f64, accuracy: f64) -> Result<Self> {
        Error::check_at_least("forward chains", forward.len(), 2)?;
        Error::check_at_least("reverse chains", reverse.len(), 2)?;
        let (alive, returned) = (check(forward)?, check(reverse)?);
        let one_sided = [
            Estimate::from_log_weights(forward)?,
            Estimate::from_log_weights(reverse)?,
        ];
        // Computed relative to a middle value, so that a common offset costs no digits.
        let origin = 0.5 * (largest(&alive) - largest(&returned));
        let work = Work {
            log_ratio: (forward.len() as f64 / reverse_count).ln(),
            forward: forward.iter().map(|x| x - origin).collect(),
            reverse: reverse.iter().map(|x| x + origin).collect(),
        };
        let guesses = (largest(&alive) - origin, -(largest(&returned) + origin));
        let root = work.root(guesses, accuracy);
        Error::check_finite("value of Bennett's estimate", [origin + root])?;
        let (forward, reverse) = work.acceptances(root);
        Ok(Self {
            value: origin + root,
            overlap: work.overlap(root),
            forward: Side::of(&forward),
            reverse: Side::of(&reverse),
            one_sided,
            correlations: [None; 2],
            from_crooks: None,
            unit: None,
        })
    }

    /// Adds `constant` to the estimate. If the constant is `log Z_0`, the result estimates `log Z_K`.
    pub fn shifted(self, constant: f64) -> Self {
        let [forward, reverse] = self.one_sided;
        Self {
            value: self.value + constant,
            one_sided: [forward.shifted(constant), reverse.shifted(-constant)],
            ..self
        }
    }

    /// Returns the root c, plus the sum of all [`shifted`](Self::shifted) constants.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the standard error of [`value`](Self::value) in closed form: the root of `var_F(s) / (n_F mean_F(s)^2) +
    /// var_R(s) / (n_R mean_R(s)^2)`, with both acceptances s at the root c (Bennett 1976, eq. 10). If less than one
    /// chain is expected in the overlap, equal acceptances do not prove a small error. The error is then at least half
    /// the distance between the estimates from each direction's weights alone. [Autocorrelated](Self::from_log_weights)
    /// weights count as fewer.
    pub fn standard_error(&self) -> f64 {
        let closed = (self.forward.variance + self.reverse.variance).sqrt();
        let [forward, reverse] = &self.one_sided;
        let [one, other] = self.times();
        match self.overlap / one.max(other) * forward.chains().min(reverse.chains()) as f64 {
            met if met < 1.0 => closed.max(0.5 * self.one_sided_gap()),
            _ => closed,
        }
    }

    /// Returns the lower and upper bound of the 95% confidence interval, as [`interval_at`](Self::interval_at).
    pub fn interval(&self) -> (f64, f64) {
        self.bounds(0.95)
    }

    /// Returns the interval `value +- t SE`, where t is Student's quantile. Its degrees of freedom follow from the
    /// effective sample sizes of both directions (Welch and Satterthwaite). If the [overlap](Self::overlap) is below
    /// 0.03, this interval is widened to include the intervals from each direction's weights alone, taken as
    /// independent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        Ok(self.bounds(level))
    }

    fn bounds(&self, level: f64) -> (f64, f64) {
        let t = student_quantile(0.5 + 0.5 * level, self.degrees_of_freedom());
        let half = t * self.standard_error();
        let (lower, upper) = (self.value - half, self.value + half);
        if !self.overlaps_little() {
            return (lower, upper);
        }
        let [(least, up), (down, greatest)] = self.one_sided.map(|alone| alone.bounds(level));
        (lower.min(least).min(-greatest), upper.max(up).max(-down))
    }

    /// Returns the free-energy difference dF, of the second end less that of the first, and its standard error. Both are
    /// in the unit of the [works](Self::from_works), or over kT for an estimate from log weights.
    pub fn free_energy(&self) -> (f64, f64) {
        (-self.value * self.kt(), self.standard_error() * self.kt())
    }

    /// Returns the 95% confidence interval of the [free-energy difference](Self::free_energy), in the same unit.
    pub fn free_energy_interval(&self) -> (f64, f64) {
        let (lower, upper) = self.interval();
        (-upper * self.kt(), -lower * self.kt())
    }

    fn kt(&self) -> f64 {
        self.unit.and_then(|unit| unit.kt().ok()).unwrap_or(1.0)
    }

    /// Returns the reasons to doubt the estimate:
    ///
    /// - [`ForwardReverseGap`](Warning::ForwardReverseGap) if the estimate from one direction's weights alone is far from
    ///   the value: by five of its standard errors for the runs of a [`Bridge`](crate::bidirectional::Bridge), or
    ///   outside its interval at the same level, 1 - 6e-7, for [weights](Self::from_log_weights) or works from another
    ///   program. For these it also appears if a mean work lies on the wrong side of dF (the second law) by five
    ///   standard errors, or if the log odds of the forward direction, which are `W - dF` by Crooks' relation, have
    ///   another slope than 1 by four standard errors.
    /// - [`LittleOverlap`](Warning::LittleOverlap) for an [`overlap`](Self::overlap) below 0.03, or an
    ///   [effective sample size](Self::effective_sample_size) below 10.
    /// - [`Autocorrelated`](Warning::Autocorrelated) if weights are correlated with weights before them.
    pub fn warnings(&self) -> Vec<Warning> {
        self.warnings_beyond(0.0)
    }

    /// Returns the [warnings](Self::warnings), for weights that have this error by rounding.
    pub(crate) fn warnings_beyond(&self, rounding_error: f64) -> Vec<Warning> {
        let (overlap, ess) = (self.overlap, self.effective_sample_size());
        let little = self.overlaps_little() || ess < FEW_ACCEPTANCES;
        let gap = self.gap(little, rounding_error).into_iter();
        let little = little.then_some(Warning::LittleOverlap {
            overlap,
            ess,
            groups: None,
        });
        let named = self.correlations.into_iter().flatten();
        let slowest = named.max_by(|one, other| one.time.total_cmp(&other.time));
        let correlated = slowest.map(|found| Warning::Autocorrelated {
            share: 1.0 / found.time,
            interleaved: found.interleaved,
            grows: found.grows,
        });
        gap.chain(little).chain(correlated).collect()
    }

    fn gap(&self, few_meet: bool, rounding_error: f64) -> Option<Warning> {
        // Weights without variance still differ by rounding.
        let rounding = rounding_error + 1e-9 * (1.0 + self.value.abs());
        let (mut is_far, mut breaks_law) = (false, false);
        let joint = [self.value, -self.value];
        for ((alone, joint), time) in self.one_sided.iter().zip(joint).zip(self.times()) {
            let side = match self.from_crooks {
                Some(_) => alone.reach_toward(joint, SURE),
                None => DIRECTIONS_APART * alone.standard_error(),
            };
            is_far |= (joint - alone.value()).abs() > rounding + time.sqrt() * side;
            // The mean log weight is minus the mean work.
            let variance = time * alone.var_log_weight() / alone.chains() as f64;
            let error = variance.sqrt().hypot(self.standard_error());
            breaks_law |= alone.mean_log_weight() - joint > rounding + DIRECTIONS_APART * error;
        }
        let [forward, reverse] = self.one_sided.map(|alone| alone.value());
        // Chance decides about Crooks' relation if acceptances are few.
        let is_unlike = |distance| distance > UNLIKE && !few_meet;
        let cause = match self.from_crooks {
            Some(distance) if is_far || breaks_law || is_unlike(distance) => WORKS_CAUSE,
            None if is_far => gap_cause(forward, -reverse, self.value),
            _ => return None,
        };
        let shown = |value: f64| self.unit.map_or(value, |_| -value * self.kt());
        Some(Warning::ForwardReverseGap {
            forward: shown(forward),
            reverse: shown(-reverse),
            joint: shown(self.value),
            cause: cause.to_owned(),
        })
    }

    /// Returns [`ForwardReverseGap`](Warning::ForwardReverseGap) if draws of the fitted law, which are exact, show that the
    /// given draws follow another density: by Crooks' relation, or because they exclude the joint estimate. The estimate
    /// from the law's draws may be off without a fault of the given draws if their weights have a heavy tail.
    pub(crate) fn foreign_draws(&self) -> Option<Warning> {
        let distance = self.from_crooks.unwrap_or(0.0);
        let few_meet = self.effective_sample_size() < FEW_ACCEPTANCES;
        let is_unlike = !few_meet && distance > DIRECTIONS_APART;
        let [of_law, of_draws] = &self.one_sided;
        let is_heavy = of_law.pareto_shape().is_some_and(|shape| shape > HEAVY);
        let side = of_law.reach_toward(self.value, SURE);
        let limit =
            side.hypot(DIRECTIONS_APART * self.standard_error()) + 1e-9 * (1.0 + self.value.abs());
        let excludes = !is_heavy && (self.value - of_law.value()).abs() > limit;
        (is_unlike || excludes).then(|| Warning::ForwardReverseGap {
            forward: of_law.value(),
            reverse: -of_draws.value(),
            joint: self.value,
            cause: DRAWS_CAUSE.to_owned(),
        })
    }

    /// Returns whether the interval is so skewed that the standard error misleads, as
    /// [`LogZ::is_skewed`](super::LogZ::is_skewed).
    pub(crate) fn is_skewed(&self) -> bool {
        log_z::is_skewed(self.value, self.interval())
    }

    /// Returns the forward weights' part of the variance of [`value`](Self::value).
    pub(crate) fn forward_variance(&self) -> f64 {
        self.forward.variance
    }

    /// Returns whether the [overlap](Self::overlap) is below 0.03.
    pub(crate) fn overlaps_little(&self) -> bool {
        self.overlap < LITTLE
    }

    pub(crate) fn degrees_of_freedom(&self) -> f64 {
        let total = (self.forward.variance + self.reverse.variance).powi(2);
        let parts = self.forward.satterthwaite() + self.reverse.satterthwaite();
        match parts > 0.0 {
            true => (total / parts).max(1.0),
            false => f64::MAX,
        }
    }

    /// Returns the distance between the estimates from each direction's weights alone.
    pub(super) fn one_sided_gap(&self) -> f64 {
        let [forward, reverse] = &self.one_sided;
        (forward.value() + reverse.value()).abs()
    }

    /// Returns the overlap `int 2 p q / (p + q)` of the path densities p and q of both directions: 1 if p and q are
    /// equal, 0 if they are disjoint.
    pub fn overlap(&self) -> f64 {
        self.overlap
    }

    /// Returns the effective sample size of the acceptances `s(..)`, in the direction in which it is smaller.
    /// [Autocorrelated](Self::from_log_weights) weights count as fewer.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        let reverse = self.reverse.effective_sample_size;
        self.forward.effective_sample_size.min(reverse)
    }
}

impl Side {
    fn of(acceptances: &WeightSums) -> Self {
        let n = acceptances.count() as f64;
        let effective_sample_size = acceptances.effective_sample_size();
        Self {
            // If all acceptances are equal, rounding may put their effective sample size above n.
            variance: ((n / effective_sample_size - 1.0) / (n - 1.0)).max(0.0),
            effective_sample_size,
        }
    }

    /// Lets `time` autocorrelated weights count as one independent weight.
    fn count_as(&mut self, time: f64) {
        self.variance *= time;
        self.effective_sample_size /= time;
    }

    fn satterthwaite(&self) -> f64 {
        self.variance.powi(2) / (self.effective_sample_size - 1.0).max(1.0)
    }
}

/// Refuses weights of both directions from which nothing right can follow.
fn check_pair(forward: &[f64], reverse: &[f64]) -> Result<()> {
    let varied = forward.iter().filter(|w| **w != forward[0]).count() >= COPIED;
    let (found, expected) = ("the forward ones again", "those of the reverse process");
    let is_own = !varied || forward != reverse;
    Error::check(is_own, "reverse works or weights", found, expected)?;
    let equal = |weights: &[f64]| weights.len() > 1 && weights.iter().all(|w| *w == weights[0]);
    let (true, true, [one, ..], [other, ..]) = (equal(forward), equal(reverse), forward, reverse)
    else {
        return Ok(());
    };
    let agree = (one + other).abs() <= 1e-9 * (1.0 + one.abs());
    let found = format!("{one} each forward and {other} each in reverse");
    let expected = "a sum of 0, or weights that vary";
    Error::check(agree, "log weights (minus works)", found, expected)
}

/// Returns how far weights are from Crooks' relation, in standard errors. By it, the log odds of the forward direction
/// are linear in the work, with the slope 1 (Shirts et al. 2003). This is the score test of the slope: the score over
/// the root of its information in logistic regression.
fn distance_from_crooks(margins: &[Vec<f64>; 2], time: f64, shift: f64) -> f64 {
    let mut sums = [0.0; 6];
    for (margins, sign) in margins.iter().zip([1.0, -1.0]) {
        for margin in margins.iter().filter(|margin| margin.is_finite()) {
            let [r, refused] = [*margin, -margin].map(|margin| log_sigmoid(margin).exp());
            let (w, r, x) = (r * refused, sign * r, sign * margin);
            let terms = [w, w * x, w * x * x, r, r * x, 1.0];
            (sums.iter_mut().zip(terms)).for_each(|(sum, term)| *sum += term);
        }
    }
    let [total, first, second, residual, product, count] = sums;
    // Works without variance still differ by rounding.
    let rounding = count * (1e-7 * (1.0 + shift.abs())).powi(2);
    let information = second - first * first / total + rounding;
    (product - residual * first / total).abs() / (time * information).sqrt()
}

/// Writes `dF = 1.471 +- 0.029 (kT; 95% interval .., overlap 0.71, ESS 733)` for works, or
/// `log Z_1/Z_0 = ..` for log weights, and any warnings.
impl fmt::Display for BennettEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, error) = self.free_energy();
        let mut figures = (value, error, self.free_energy_interval());
        if self.unit.is_none() {
            figures = (self.value, error, self.interval());
        }
        let texts = ("log Z_1/Z_0", "both directions");
        let (name, kind) = self.unit.map_or(texts, |unit| ("dF", unit.name()));
        write!(f, "{name} = ")?;
        log_z::write_figures(f, figures, self.is_skewed(), kind)?;
        let (overlap, ess) = (self.overlap, self.effective_sample_size());
        write!(f, ", overlap {overlap:.2}, ESS {ess:.0})")?;
        log_z::write_warnings(f, &self.warnings())
    }
}

struct Work {
    /// `M = log(n_F/n_R)`, where n_R is the number of independent reverse weights.
    log_ratio: f64,
    forward: Vec<f64>,
    reverse: Vec<f64>,
}

impl Work {
    fn acceptances(&self, c: f64) -> (WeightSums, WeightSums) {
        let shift = c + self.log_ratio;
        let forward = self.forward.iter().map(|w| log_sigmoid(w - shift));
        let reverse = self.reverse.iter().map(|w| log_sigmoid(shift + w));
        (WeightSums::of(forward), WeightSums::of(reverse))
    }

    /// Returns the root c up to `accuracy`. The search starts between the guesses `one` and `other`. To an accuracy of 0 it
    /// bisects, otherwise it is the Illinois method (Dowell and Jarratt 1971), which takes fewer steps.
    fn root(&self, (one, other): (f64, f64), accuracy: f64) -> f64 {
        // Autocorrelated draws count less in the sum: their number is scaled to the effective one.
        let count = (self.forward.len() as f64 / self.reverse.len() as f64).ln();
        let excess = |c| {
            let (forward, reverse) = self.acceptances(c);
            // Logarithms are compared, because both sums may underflow.
            forward.log_sum() - reverse.log_sum() - (count - self.log_ratio)
        };
        let (mut low, mut high) = (one.min(other), one.max(other));
        let mut margin = 1.0;
        while excess(low) < 0.0 {
            low -= margin;
            margin *= 2.0;
        }
        while excess(high) > 0.0 {
            high += margin;
            margin *= 2.0;
        }
        let (mut at_low, mut at_high, mut was_above) = (excess(low), excess(high), None);
        loop {
            let middle = 0.5 * (low + high);
            // No number lies between `low` and `high`, so the root is exact to the last digit.
            if high - low <= accuracy || middle <= low || middle >= high {
                return middle;
            }
            let secant = low + (high - low) * (at_low / (at_low - at_high));
            let is_inside = accuracy > 0.0 && low < secant && secant < high;
            let next = if is_inside { secant } else { middle };
            let found = excess(next);
            let is_above = found > 0.0;
            // An end that stays twice counts half, so that the next point lies on its side of the root.
            let factor = if was_above == Some(is_above) {
                0.5
            } else {
                1.0
            };
            match is_above {
                true => (low, at_low, at_high) = (next, found, factor * at_high),
                false => (high, at_high, at_low) = (next, found, factor * at_low),
            }
            was_above = Some(is_above);
        }
    }

    /// Returns the mean of `E_F[2 s(log w - c)]` and `E_R[2 s(c + log w)]`, which are equal in expectation.
    fn overlap(&self, c: f64) -> f64 {
        let mean = |sum: f64, n: usize| sum / n as f64;
        let forward = self.forward.iter().map(|w| log_sigmoid(w - c).exp()).sum();
        let reverse = self.reverse.iter().map(|w| log_sigmoid(c + w).exp()).sum();
        // The sum may exceed 1 if the forward estimate is above the reverse one, by chance or by wrong samples.
        (mean(forward, self.forward.len()) + mean(reverse, self.reverse.len())).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, StandardNormal, StreamRng, stream};

    /// Log weights of draws of N(0, 1), with `log f_1 - log f_0 = -x^2 / 2`, and of its end N(0, 1/2) back. Successive
    /// draws have this correlation.
    fn weights(correlation: f64, rng: &mut StreamRng) -> [Vec<f64>; 2] {
        let normal = StandardNormal::get();
        let noise = (1.0 - correlation * correlation).sqrt();
        [(1.0, -0.5), (0.5, 0.5)].map(|(variance, factor): (f64, f64)| {
            let mut x = normal.draw(rng);
            let step = |_| {
                x = correlation * x + noise * normal.draw(rng);
                factor * variance * x * x
            };
            (0..2_000).map(step).collect()
        })
    }

    #[test]
    fn weights_of_one_chain_have_an_honest_error() {
        let exact = -0.5 * 2.0_f64.ln();
        for (correlation, is_correlated) in [(0.0, false), (0.9, true), (0.99, true)] {
            let (mut held, mut correlated) = (0, 0);
            for seed in 0..200 {
                let [forward, reverse] = weights(correlation, &mut stream(seed, Purpose::RUN, 0));
                let found = BennettEstimate::from_log_weights(&forward, &reverse).unwrap();
                let warned = |warning: &Warning| matches!(warning, Warning::Autocorrelated { .. });
                correlated += usize::from(found.warnings().iter().any(warned));
                let (lower, upper) = found.interval();
                held += usize::from((lower..=upper).contains(&exact));
                let naive = BennettEstimate::of_independent(&forward, &reverse).unwrap();
                assert_eq!(naive.value(), found.value());
            }
            // One of 200 may be correlated by chance.
            let expected = if is_correlated { 200..=200 } else { 0..=1 };
            assert!(
                expected.contains(&correlated),
                "{correlated} at {correlation}"
            );
            assert!(held >= 180, "{held} of 200 at {correlation}");
        }
    }

    #[test]
    fn equal_and_skewed_weights_are_not_taken_as_correlated() {
        let constant = BennettEstimate::from_log_weights(&[1.0; 1_000], &[-1.0; 500]).unwrap();
        assert!(constant.warnings().is_empty(), "{constant:?}");
        let normal = StandardNormal::get();
        for seed in 0..300 {
            let rng = &mut stream(seed, Purpose::RUN, 1);
            let mut works =
                |count| Vec::from_iter((0..count).map(|_| 3.0 * normal.draw(rng) - 4.5));
            let found = BennettEstimate::from_log_weights(&works(2_000), &works(20)).unwrap();
            assert_eq!(found.correlations, [None; 2], "{seed}");
        }
    }

    /// Acceptances that a slow quantity explains in part have that part of its autocorrelation time.
    #[test]
    fn a_slow_quantity_lengthens_the_error() {
        let (mut rng, normal) = (stream(1, Purpose::RUN, 4), StandardNormal::get());
        let mut draws = || Vec::from_iter((0..4_000).map(|_| normal.draw(&mut rng)));
        let (forward, slow, other) = (draws(), draws(), draws());
        let sums = slow.iter().zip(&other).map(|(x, y)| 0.3 * (x + y));
        let reverse = [Vec::from_iter(sums)];
        let variance = |slow: Option<(Vec<f64>, f64)>| {
            let found = BennettEstimate::from_chains(&forward, &reverse, 4_000.0, slow);
            found.unwrap().reverse.variance
        };
        // Half of the variance has a time of 41 in place of about 1.
        let ratio = variance(Some((slow.clone(), 41.0))) / variance(None);
        assert!((18.0..24.0).contains(&ratio), "{ratio}");
        let ratio = variance(Some((draws(), 41.0))) / variance(None);
        assert!((1.0..1.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn many_weights_are_summed_up() {
        let [forward, reverse] = weights(0.95, &mut stream(0, Purpose::RUN, 2));
        let share = |copies: usize| {
            let [forward, reverse] = [&forward, &reverse].map(|weights| weights.repeat(copies));
            let found = BennettEstimate::from_log_weights(&forward, &reverse).unwrap();
            1.0 / found.times()[0].max(found.times()[1])
        };
        // Of 200,000 weights, ten at a time are summed up.
        let ratio = share(100) / share(5);
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
    }

    /// Works, over kT, of `dF = 2` by Crooks' relation. Each of some replicas gives a work in turn, and the works of a
    /// replica have this autocorrelation.
    fn works(
        [forward, reverse]: [usize; 2],
        deviation: f64,
        (replicas, correlation): (usize, f64),
        seed: u64,
    ) -> [Vec<f64>; 2] {
        let (mut rng, normal) = (stream(seed, Purpose::RUN, 3), StandardNormal::get());
        let noise = f64::sqrt(1.0 - correlation * correlation);
        [(forward, DIFFERENCE), (reverse, -DIFFERENCE)].map(|(count, difference)| {
            let mut state = Vec::from_iter((0..replicas).map(|_| normal.draw(&mut rng)));
            let step = |i| {
                let x: &mut f64 = &mut state[i % replicas];
                *x = correlation * *x + noise * normal.draw(&mut rng);
                difference + 0.5 * deviation * deviation + deviation * *x
            };
            (0..count).map(step).collect()
        })
    }

    const DIFFERENCE: f64 = 2.0;

    fn found(works: &[Vec<f64>; 2]) -> BennettEstimate {
        BennettEstimate::from_works(&works[0], &works[1], WorkUnit::Kt).unwrap()
    }

    fn names(found: &BennettEstimate) -> Vec<String> {
        found.warnings().iter().map(Warning::name).collect()
    }

    #[test]
    fn works_have_the_signs_and_the_unit_of_physics() {
        let works = works([2_000, 1_000], 1.5, (1, 0.0), 1);
        let plain = found(&works);
        let (difference, error) = plain.free_energy();
        assert!(
            (difference - DIFFERENCE).abs() < 4.0 * error && error < 0.06,
            "{plain}"
        );
        assert_eq!(plain.value(), -difference);
        let (lower, upper) = plain.free_energy_interval();
        assert!(lower < difference && difference < upper && plain.warnings().is_empty());
        let text = plain.to_string();
        assert!(
            text.starts_with(&format!("dF = {difference:.3} +- {error:.3} (kT; 95%")),
            "{text}"
        );
        for (unit, kt) in [
            (WorkUnit::KilojoulesPerMole(300.0), 2.494_338_785),
            (WorkUnit::KilocaloriesPerMole(300.0), 0.596_161_277),
        ] {
            let [forward, reverse] = works
                .each_ref()
                .map(|works| Vec::from_iter(works.iter().map(|w| w * kt)));
            let scaled = BennettEstimate::from_works(&forward, &reverse, unit).unwrap();
            assert!((scaled.value() - plain.value()).abs() < 1e-8, "{scaled}");
            assert!(
                (scaled.free_energy().0 / kt - difference).abs() < 1e-8,
                "{scaled}"
            );
            assert!(scaled.to_string().contains(unit.name()), "{scaled}");
        }
        let log_weights = works.map(|works| Vec::from_iter(works.iter().map(|w| -w)));
        let by_weights =
            BennettEstimate::from_log_weights(&log_weights[0], &log_weights[1]).unwrap();
        assert_eq!(by_weights.free_energy(), plain.free_energy());
        assert!(
            by_weights.to_string().starts_with("log Z_1/Z_0 = -"),
            "{by_weights}"
        );
    }

    /// Before, none of these had a warning, and some an overlap of 1.
    #[test]
    fn works_that_exclude_one_another_are_named() {
        type Fault = (&'static str, fn(f64) -> f64, fn(f64) -> f64);
        let faults: [Fault; 10] = [
            ("reverse in kJ/mol", |w| w, |w| 2.494 * w),
            ("forward in kJ/mol", |w| 2.494 * w, |w| w),
            ("both in kJ/mol", |w| 2.494 * w, |w| 2.494 * w),
            ("both in kcal/mol", |w| 0.596 * w, |w| 0.596 * w),
            ("forward by an offset", |w| w + 1.0, |w| w),
            ("reverse by an offset", |w| w, |w| w - 1.0),
            ("reverse negated", |w| w, |w| -w),
            ("forward negated", |w| -w, |w| w),
            ("both negated", |w| -w, |w| -w),
            (
                "log10",
                |w| w / std::f64::consts::LN_10,
                |w| w / std::f64::consts::LN_10,
            ),
        ];
        for (fault, forward, reverse) in faults {
            for seed in 0..20 {
                let [one, other] = works([1_000, 1_000], 1.0, (1, 0.0), seed);
                let wrong = [
                    one.into_iter().map(forward).collect(),
                    other.into_iter().map(reverse).collect(),
                ];
                let found = found(&wrong);
                let is_named = names(&found).contains(&"ForwardReverseGap".to_owned());
                assert!(is_named, "{fault}, {seed}: {found}");
            }
        }
        // Works of the forward process, once more as if they were those of the reverse one.
        let [forward, _] = works([500, 500], 1.0, (1, 0.0), 1);
        let again = BennettEstimate::from_works(&forward, &forward, WorkUnit::Kt);
        let text = again.unwrap_err().to_string();
        assert!(text.contains("forward ones again"), "{text}");
        let turned = Vec::from_iter(forward.iter().map(|w| -w));
        assert_eq!(names(&found(&[forward, turned])), ["ForwardReverseGap"]);
        let equal = BennettEstimate::from_works(&[3.0; 50], &[-2.0; 50], WorkUnit::Kt);
        let text = equal.unwrap_err().to_string();
        assert!(text.contains("-3 each forward and 2 each"), "{text}");
        let right = BennettEstimate::from_works(&[3.0; 50], &[-3.0; 20], WorkUnit::Kt).unwrap();
        assert!(
            right.free_energy() == (3.0, 0.0) && right.warnings().is_empty(),
            "{right}"
        );
        // One direction alone is equal.
        let found = found(&[vec![3.0; 50], works([2, 50], 1.0, (1, 0.0), 1)[1].clone()]);
        assert_eq!(names(&found), ["ForwardReverseGap"]);
    }

    #[test]
    fn bad_works_are_refused() {
        let refused = |forward: &[f64], unit| {
            let found = BennettEstimate::from_works(forward, &[1.0, 2.0], unit);
            found.unwrap_err().to_string()
        };
        assert!(
            refused(&[1.0, f64::NAN], WorkUnit::Kt).contains("forward works: got NaN at index 1")
        );
        let below = refused(&[f64::NEG_INFINITY, 1.0], WorkUnit::Kt);
        assert!(below.contains("forward works: got -inf"), "{below}");
        for kelvin in [0.0, -300.0, f64::NAN, f64::INFINITY] {
            let text = refused(&[1.0, 2.0], WorkUnit::KilojoulesPerMole(kelvin));
            assert!(text.contains("temperature: got"), "{text}");
        }
        assert!(refused(&[1.0], WorkUnit::Kt).contains("at least 2"));
        // No process reached the other end.
        for forward in [vec![f64::INFINITY; 2], vec![f64::INFINITY; 50]] {
            let text = refused(&forward, WorkUnit::Kt);
            assert!(text.contains("forward works"), "{text}");
        }
        assert!(
            BennettEstimate::from_works(&[f64::INFINITY, 1.0, 1.2], &[-0.5, -1.0], WorkUnit::Kt)
                .is_ok()
        );
    }

    /// Checks that at most 1% of right and independent works are named, for either reason.
    #[test]
    fn right_works_have_no_warning() {
        let (mut gaps, mut correlated, mut cells) = (0, 0, 0);
        for deviation in [0.3, 1.0, 2.0, 3.0] {
            for counts in [
                [50, 50],
                [200, 200],
                [1_000, 1_000],
                [100, 1_000],
                [20, 2_000],
            ] {
                for seed in 0..50 {
                    let found = found(&works(counts, deviation, (1, 0.0), seed));
                    let count = |name: &str| names(&found).iter().filter(|n| *n == name).count();
                    gaps += count("ForwardReverseGap");
                    correlated += count("Autocorrelated");
                    cells += 1;
                }
            }
        }
        assert!(
            100 * gaps <= cells && 100 * correlated <= cells,
            "{gaps}, {correlated} of {cells}"
        );
    }

    #[test]
    fn unequal_counts_have_honest_intervals() {
        for (counts, deviation) in [
            ([20, 2_000], 2.0),
            ([2_000, 20], 2.0),
            ([100, 2_000], 3.0),
            ([20, 2_000], 3.0),
            ([20, 2_000], 1.0),
        ] {
            let mut held = 0;
            for seed in 0..400 {
                let found = found(&works(counts, deviation, (1, 0.0), seed));
                let (lower, upper) = found.free_energy_interval();
                held += usize::from((lower..=upper).contains(&DIFFERENCE));
            }
            assert!((370..=392).contains(&held), "{counts:?}: {held} of 400");
        }
    }

    /// Returns how many of the results of interleaved works are warned, hold, are silent, silent and hold, silent and
    /// off by four errors.
    fn interleaved(counts: [usize; 2], seeds: u64) -> [usize; 5] {
        let mut sums = [0; 5];
        for replicas in [8, 32] {
            for correlation in [0.9, 0.97, 0.99, -0.9] {
                let mut cell = [0; 5];
                for seed in 0..seeds {
                    let found = found(&works(counts, 1.5, (replicas, correlation), seed));
                    let warned = names(&found).contains(&"Autocorrelated".to_owned());
                    let (lower, upper) = found.free_energy_interval();
                    let holds = (lower..=upper).contains(&DIFFERENCE);
                    let (difference, error) = found.free_energy();
                    let off = (difference - DIFFERENCE).abs() > 4.0 * error;
                    let figures = [warned, holds, !warned, !warned && holds, !warned && off];
                    cell.iter_mut()
                        .zip(figures)
                        .for_each(|(sum, is)| *sum += usize::from(is));
                }
                println!(
                    "works {counts:?}, {replicas} replicas, {correlation}: {cell:?} of {seeds}"
                );
                sums.iter_mut().zip(cell).for_each(|(sum, x)| *sum += x);
            }
        }
        sums
    }

    fn check_interleaved(counts: [usize; 2], seeds: u64) {
        let [_, held, silent, silent_held, off] = interleaved(counts, seeds);
        let all = 8 * seeds as usize;
        assert!(10 * held >= 9 * all, "{held} of {all} hold");
        assert!(
            10 * silent_held >= 9 * silent,
            "{silent_held} of {silent} hold"
        );
        assert!(100 * off <= all, "{off} of {all} are silent and off");
    }

    #[test]
    fn interleaved_works_are_named_and_counted_as_fewer() {
        check_interleaved([9_600, 4_800], 5);
    }

    #[test]
    #[ignore = "the whole experiment, with 40 seeds a cell"]
    fn interleaved_works_of_all_sizes() {
        for counts in [[2_400, 2_400], [9_600, 4_800], [48_000, 48_000]] {
            check_interleaved(counts, 40);
        }
    }
}
