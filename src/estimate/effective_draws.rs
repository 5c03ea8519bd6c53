//! Effective number of autocorrelated values.

/// Autocorrelation, times the root of the number of pairs, above which values count as correlated. It is about normal
/// for independent values, which exceed it in one of two million cases for each lag.
const CORRELATED: f64 = 5.0;
/// Number of standard errors by which the time of blocks exceeds a shorter time if it counts. There are few blocks, and
/// the variance of their means is skewed, so that independent values exceed 1 by it in about one of 2,000 cases.
const LONGER: f64 = 6.0;
/// Largest lag at which the correlation is computed, and so the largest number of interleaved chains that is found.
const MOST_LAGS: usize = 1_024;
/// Number of first values whose correlations are computed at all these lags.
const MOST_VALUES: usize = 8_192;
/// Largest number of means of successive values from which an autocorrelation time is computed.
const MOST_MEANS: usize = 20_000;
/// Number of the longest blocks in the longest chain.
const BLOCKS: usize = 20;
/// Factor by which the time of the longest blocks exceeds the time of blocks half as long if it still grows.
const GROWTH: f64 = 1.1;

/// Correlation of values with the values before them, in the same chain.
///
/// The first estimate of the autocorrelation time is the [initial sequence](initial_sequence). It stops too early if the
/// values of m chains take turns, because only values m apart are then correlated. Such values are recognised by their
/// autocorrelation: of either sign, it is largest at lag m. The m chains are then taken apart. The second estimate is
/// the variance of the means of blocks, times their length, over the variance of the values (batch means, Flegal and
/// Jones 2010). The lengths double up to a twentieth of the longest chain. The largest estimate counts, except for blocks whose
/// estimate exceeds the first one by less than six of its standard errors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Correlation {
    /// Number of values that are worth one independent value, 1 or more.
    pub(crate) time: f64,
    /// Number of chains whose values take turns; `None` if none do.
    pub(crate) interleaved: Option<usize>,
    /// Whether the time of blocks still grows by a tenth at the last doubling of their length. The time t of blocks of
    /// length b is then extrapolated to longer ones by `t(b) = time b / (b + constant)`.
    pub(crate) grows: bool,
    /// Whether values are correlated beyond chance.
    pub(crate) is_clear: bool,
}

impl Correlation {
    pub(crate) fn of(chains: &[Vec<f64>]) -> Self {
        // Ranks: a few large values would show correlations by chance.
        let ranks = Vec::from_iter(chains.iter().map(|chain| ranks(chain)));
        let interleaved = strongest_lag(&ranks);
        let apart = interleaved.unwrap_or(1);
        let mut parts = Vec::new();
        for first in 0..apart {
            let part = |chain: &Vec<f64>| -> Vec<f64> {
                chain.iter().skip(first).step_by(apart).copied().collect()
            };
            parts.extend(chains.iter().map(part).filter(|part| !part.is_empty()));
        }
        let (sequence, blocks) = (sequence_time(&parts), block_times(chains));
        let exceeds = |(count, time): (f64, f64), least: f64| {
            time > least * (1.0 + LONGER * (2.0 / count).sqrt())
        };
        let longer = blocks.iter().filter(|block| exceeds(**block, sequence));
        let growth = match blocks[..] {
            [longest, half, ..] if exceeds(longest, sequence) => longest.1 / half.1,
            _ => 1.0,
        };
        // At most a factor of ten: times that double have no limit.
        let limit = (growth > GROWTH).then(|| blocks[0].1 / (2.0 - growth).max(0.1));
        let of_ranks = block_times(&ranks);
        Self {
            time: longer.fold(limit.unwrap_or(sequence), |most, block| block.1.max(most)),
            interleaved: interleaved.filter(|&chains| chains > 1),
            grows: limit.is_some(),
            is_clear: interleaved.is_some() || of_ranks.iter().any(|block| exceeds(*block, 1.0)),
        }
    }

    /// Returns the correlation of one chain's values, if it is clear.
    pub(super) fn clear(values: Vec<f64>) -> Option<Self> {
        Some(Self::of(&[values])).filter(|found| found.is_clear)
    }
}

/// Returns the lag of the strongest autocorrelation of the values' ranks, of either sign; `None` if chance explains it.
/// If several lags are nearly as strong, it is the first of them.
fn strongest_lag(ranks: &[Vec<f64>]) -> Option<usize> {
    let mut left = MOST_VALUES;
    let first = Vec::from_iter(ranks.iter().map(|chain| {
        let taken = &chain[..chain.len().min(left)];
        left -= taken.len();
        taken.to_vec()
    }));
    let square = |chain: &Vec<f64>| chain.iter().map(|rank| rank * rank).collect();
    let squares = Vec::from_iter(first.iter().map(square));
    let (zeros, root) = (vec![0.0; first.len()], draws(&first).sqrt());
    // The sum of products over the root of the sum of their squares. It is NaN for equal values.
    let score = |lag| {
        let variance = autocovariance(&squares, &zeros, lag);
        root * autocovariance(&first, &zeros, lag).abs() / variance.sqrt()
    };
    let scores = Vec::from_iter((1..=MOST_LAGS.min(longest(&first) / 4)).map(score));
    let most = scores.iter().copied().fold(0.0, f64::max);
    let first = scores.iter().position(|score| *score >= 0.8 * most)?;
    (most > CORRELATED).then_some(first + 1)
}

/// Returns the autocorrelation time by the initial sequence, 1 or more. Means of a few successive values have the same
/// correlations, and bound the cost for long chains.
fn sequence_time(chains: &[Vec<f64>]) -> f64 {
    let mut means = block_means(chains, longest(chains).div_ceil(MOST_MEANS).max(1));
    means.retain(|chain| !chain.is_empty());
    // Of equal values the quotient is NaN, and their time is 1.
    (draws(chains) * spread(&means) / spread(chains) / initial_sequence(&means)).max(1.0)
}

/// Returns the number of blocks and their autocorrelation time, for lengths of the blocks from the longest to 2.
fn block_times(chains: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let doubled = std::iter::successors(Some(BLOCKS), |blocks| Some(2 * blocks));
    let lengths = doubled.map(|blocks| longest(chains) / blocks);
    let whole = spread(chains);
    let of = |block: usize| {
        let means = [block_means(chains, block).concat()];
        let count = means[0].len() as f64;
        let shrunk = spread(&means) / whole * count / (count - 1.0);
        (count, block as f64 * shrunk)
    };
    lengths.take_while(|&block| block > 1).map(of).collect()
}

fn block_means(chains: &[Vec<f64>], block: usize) -> Vec<Vec<f64>> {
    let means = |chain: &Vec<f64>| chain.chunks_exact(block).map(mean).collect();
    chains.iter().map(means).collect()
}

/// Returns the mean square distance of all values from their mean.
fn spread(chains: &[Vec<f64>]) -> f64 {
    let values = [chains.concat()];
    autocovariance(&values, &[mean(&values[0])], 0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn longest(chains: &[Vec<f64>]) -> usize {
    chains.iter().map(Vec::len).max().unwrap_or(0)
}

/// Returns the rank of each value, less the mean rank. Equal values share their mean rank.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |x: &f64| {
        let below = sorted.partition_point(|y| y < x);
        let last = sorted.partition_point(|y| y <= x);
        0.5 * (below + last) as f64 - 0.5 * values.len() as f64
    };
    values.iter().map(rank).collect()
}

/// Returns the number of independent draws whose mean is as precise as the mean of these draws, by their
/// [`Correlation`].
pub(crate) fn effective_draws(chains: &[Vec<f64>]) -> f64 {
    draws(chains) / Correlation::of(chains).time
}

/// How well chains mix in one quantity, by the ranks of its values. The halves of each chain count as chains, so that a
/// drift shows as well as chains that disagree (Vehtari et al. 2021).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mixing {
    /// Number of draws that are worth one independent draw.
    pub(crate) time: f64,
    /// The [effective number](effective_draws) of draws.
    pub(crate) effective: f64,
    /// R-hat, the root of the ratio of the variance V of all values to the mean variance W within the halves: 1 if all of
    /// them agree. NaN for equal values.
    pub(crate) r_hat: f64,
}

impl Mixing {
    pub(crate) fn of(chains: &[Vec<f64>]) -> Self {
        let mut ranks = ranks(&chains.concat());
        let mut halves = Vec::new();
        for chain in chains {
            let rest = ranks.split_off(chain.len());
            let second = ranks.split_off(chain.len() / 2);
            halves.extend([ranks, second]);
            ranks = rest;
        }
        let means = Vec::from_iter(halves.iter().map(|half| mean(half)));
        let effective = effective_draws(&halves);
        Self {
            time: draws(&halves) / effective,
            effective,
            r_hat: (spread(&halves) / autocovariance(&halves, &means, 0)).sqrt(),
        }
    }
}

/// Returns the number of independent draws whose mean is as precise as the mean of these autocorrelated chains,
///
/// `N / tau`, `tau = 1 + 2 sum_t rho_t`, `rho_t = 1 - (W - mean_j c_j(t)) / V`,
///
/// with the autocovariances `c_j(t)` of each chain, the mean W of the chains' variances, and the variance V, which also
/// includes the distances between the m chains. Chains count by their shares of the N draws. Chains that disagree
/// therefore have few effective draws (Vehtari et al. 2021, Equations 10 and 11, for chains of equal lengths).
/// Correlations are summed in pairs until a pair is not positive; no pair counts more than an earlier one (Geyer 1992).
/// The result is at most the number of draws.
fn initial_sequence(chains: &[Vec<f64>]) -> f64 {
    let (count, total) = (chains.len() as f64, draws(chains));
    let n = total / count;
    let means = Vec::from_iter(chains.iter().map(|chain| mean(chain)));
    let within = autocovariance(chains, &means, 0) * n / (n - 1.0);
    let shared = |of: &dyn Fn(f64) -> f64| {
        let sums = chains.iter().zip(&means);
        let sums = sums.map(|(chain, mean)| chain.len() as f64 * of(*mean));
        sums.sum::<f64>() / total
    };
    let grand = shared(&|mean| mean);
    let squares = shared(&|mean| (mean - grand).powi(2));
    let between = squares * count / (count - 1.0).max(1.0);
    let variance = within * (n - 1.0) / n + between;
    // Equal draws, or chains of one draw, show no correlation.
    if variance.is_nan() || variance <= 0.0 {
        return total;
    }
    let correlation = |lag| {
        let covariance = autocovariance(chains, &means, lag) * n / (n - 1.0);
        1.0 - (within - covariance) / variance
    };
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for lag in (0..longest(chains).saturating_sub(1)).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair.is_nan() || pair <= 0.0 {
            break;
        }
        least = pair.min(least);
        sum += least;
    }
    total / (2.0 * sum - 1.0).max(1.0)
}

/// Returns the squared correlation of pairs of values; 0 if one of them is constant.
pub(super) fn squared_correlation(one: &[f64], other: &[f64]) -> f64 {
    let (mean_of_one, mean_of_other) = (mean(one), mean(other));
    let (mut products, mut squares, mut its) = (0.0, 0.0, 0.0);
    for (x, y) in one.iter().zip(other) {
        let (x, y) = (x - mean_of_one, y - mean_of_other);
        (products, squares, its) = (products + x * y, squares + x * x, its + y * y);
    }
    // The correlation with constant values is NaN.
    (products / squares * (products / its))
        .clamp(0.0, 1.0)
        .max(0.0)
}

/// Returns the number of draws of all chains.
fn draws(chains: &[Vec<f64>]) -> f64 {
    chains.iter().map(Vec::len).sum::<usize>() as f64
}

/// Returns `1/N sum_i (x_i - mean) (x_(i + lag) - mean)`, summed over the chains, which have N draws together.
fn autocovariance(chains: &[Vec<f64>], means: &[f64], lag: usize) -> f64 {
    let of_chain = |(chain, mean): (&Vec<f64>, &f64)| {
        let pairs = chain.iter().zip(chain.iter().skip(lag));
        pairs.map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>()
    };
    chains.iter().zip(means).map(of_chain).sum::<f64>() / draws(chains)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::random::{Purpose, StandardNormal, stream};

    fn autoregression(correlation: f64, length: usize, rng: &mut impl Rng) -> Vec<f64> {
        let normal = StandardNormal::get();
        let noise = (1.0 - correlation * correlation).sqrt();
        let mut x = normal.draw(rng);
        let step = |_| {
            x = correlation * x + noise * normal.draw(rng);
            x
        };
        (0..length).map(step).collect()
    }

    /// Returns the values of several autoregressions that take turns.
    fn interleaved(chains: usize, correlation: f64, length: usize, rng: &mut impl Rng) -> Vec<f64> {
        let chains = Vec::from_iter((0..chains).map(|_| autoregression(correlation, length, rng)));
        let steps = (0..length).flat_map(|step| chains.iter().map(move |chain| chain[step]));
        steps.collect()
    }

    /// The first pair of lags would give a time of 1, blocks of `sqrt(n)` values a time of 6.
    #[test]
    fn chains_that_take_turns_are_taken_apart() {
        for (chains, correlation, length) in [(8, 0.9, 2_000), (32, 0.97, 1_500), (300, 0.7, 200)] {
            let mut rng = stream(3, Purpose::TESTING, 0);
            let values = interleaved(chains, correlation, length, &mut rng);
            let found = Correlation::of(&[values]);
            assert_eq!(found.interleaved, Some(chains), "{found:?}");
            let exact = (1.0 + correlation) / (1.0 - correlation);
            assert!((found.time / exact - 1.0).abs() < 0.2, "{found:?}, {exact}");
        }
        // A chain whose next value lies on the other side: its mean is better than one of independent values.
        let mut rng = stream(4, Purpose::TESTING, 0);
        let found = Correlation::of(&[interleaved(8, -0.9, 2_000, &mut rng)]);
        assert!(
            found.interleaved == Some(8) && found.time == 1.0,
            "{found:?}"
        );
    }

    /// Long chains are measured by their own lengths, whatever the shortest chain is.
    #[test]
    fn a_short_chain_hides_nothing_in_others() {
        let mut rng = stream(7, Purpose::TESTING, 0);
        let turns = |rng: &mut _| interleaved(32, 0.97, 9_600 / 32, rng);
        let mut chains = Vec::from([(); 3].map(|()| turns(&mut rng)));
        let alone = Correlation::of(&chains);
        for length in [20, 100] {
            chains.truncate(3);
            chains.push(autoregression(0.0, length, &mut rng));
            let found = Correlation::of(&chains);
            assert_eq!(found.interleaved, Some(32), "{found:?}");
            assert!(
                (found.time / alone.time - 1.0).abs() < 0.2,
                "{found:?}, {alone:?}"
            );
        }
        // Slow blocks beside noise, of which no lag tells.
        let (slow, noise) = (
            autoregression(0.998, 20_000, &mut rng),
            autoregression(0.0, 20_000, &mut rng),
        );
        let values = Vec::from_iter(slow.iter().zip(noise).map(|(slow, x)| 0.17 * slow + x));
        let found = Correlation::of(&[values, autoregression(0.0, 20, &mut rng)]);
        assert!(found.is_clear && found.time > 5.0, "{found:?}");
    }

    /// A drift and chains apart show in R-hat and in the effective number; independent chains of ties have an R-hat of 1.
    #[test]
    fn mixing_sees_drifts_and_chains_apart() {
        let mut rng = stream(8, Purpose::TESTING, 0);
        let mut chains = Vec::from([(); 4].map(|()| autoregression(0.0, 500, &mut rng)));
        let right = Mixing::of(&chains);
        assert!(
            (right.r_hat - 1.0).abs() < 0.01 && right.effective > 1_500.0,
            "{right:?}"
        );
        let drifting = chains.iter().map(|chain| {
            let drift = chain.iter().enumerate().map(|(i, x)| x + 0.004 * i as f64);
            drift.collect()
        });
        let drifting = Mixing::of(&Vec::from_iter(drifting));
        assert!(
            drifting.r_hat > 1.05 && drifting.effective < 300.0,
            "{drifting:?}"
        );
        chains[1].iter_mut().for_each(|x| *x += 1.0);
        let apart = Mixing::of(&chains);
        assert!(apart.r_hat > 1.05 && apart.effective < 200.0, "{apart:?}");
        let mut ties = chains.clone();
        ties.iter_mut().flatten().for_each(|x| *x = 1.0);
        assert!(Mixing::of(&ties).effective == 2_000.0);
    }

    /// Correlations of .03 at each lag, over a thousand values: no single one shows.
    #[test]
    fn blocks_show_what_no_lag_shows() {
        let mut rng = stream(5, Purpose::TESTING, 0);
        let slow = autoregression(0.998, 20_000, &mut rng);
        let noise = autoregression(0.0, 20_000, &mut rng);
        let values = Vec::from_iter(slow.iter().zip(noise).map(|(slow, x)| 0.17 * slow + x));
        let found = Correlation::of(&[values]);
        assert!(
            found.is_clear && found.time > 5.0 && found.time < 80.0,
            "{found:?}"
        );
        // A drift: the longer the blocks, the more they differ.
        let noise = autoregression(0.0, 2_000, &mut rng);
        let drift = noise.iter().enumerate().map(|(i, x)| x + 0.001 * i as f64);
        let found = Correlation::of(&[drift.collect()]);
        assert!(found.is_clear && found.time > 100.0, "{found:?}");
    }

    #[test]
    fn independent_values_show_no_correlation() {
        let mut clear = 0;
        for seed in 0..1_000 {
            let mut rng = stream(seed, Purpose::TESTING, 6);
            let length = [40, 100, 400, 2_000][seed as usize % 4];
            let mut values = autoregression(0.0, length, &mut rng);
            if seed % 3 == 0 {
                // A few values far from all others.
                values
                    .iter_mut()
                    .for_each(|x| *x = f64::from(u8::from(*x > 2.3)));
            }
            clear += usize::from(Correlation::of(&[values]).is_clear);
        }
        assert!(clear <= 10, "{clear} of 1000");
    }

    /// An autoregression has `tau = (1 + rho) / (1 - rho)`.
    #[test]
    fn an_autoregression_is_worth_its_share() {
        for correlation in [0.0, 0.5, 0.9] {
            let mut rng = stream(1, Purpose::TESTING, 0);
            let chains = [(); 4].map(|()| autoregression(correlation, 5_000, &mut rng));
            let exact = 20_000.0 * (1.0 - correlation) / (1.0 + correlation);
            let found = effective_draws(&chains);
            assert!((found / exact - 1.0).abs() < 0.1, "{found}, {exact}");
        }
    }

    #[test]
    fn chains_that_disagree_are_worth_little() {
        let mut rng = stream(2, Purpose::TESTING, 0);
        let mut chains = [(); 4].map(|()| autoregression(0.0, 1_000, &mut rng));
        chains[0].iter_mut().for_each(|x| *x += 5.0);
        let found = effective_draws(&chains);
        assert!(found < 10.0, "{found}");
    }

    #[test]
    fn constant_draws_are_all_worth_something() {
        assert_eq!(effective_draws(&[vec![1.0; 10], vec![1.0; 12]]), 22.0);
    }

    /// A short chain adds the draws that it has, and takes none away.
    #[test]
    fn a_short_chain_counts_by_its_draws() {
        let mut rng = stream(3, Purpose::TESTING, 0);
        let mut chains = Vec::from([(); 3].map(|()| autoregression(0.5, 1_000, &mut rng)));
        let alone = effective_draws(&chains);
        for length in [20, 100] {
            chains.truncate(3);
            chains.push(autoregression(0.5, length, &mut rng));
            let found = effective_draws(&chains);
            assert!((found / alone - 1.0).abs() < 0.1, "{found}, {alone}");
        }
    }
}
