//! Bounds of several trajectories: the importance-weighted bound rises to log Z, and the jackknife takes its bias away.

use annealed::estimate::{importance_weighted_bound, jackknife};
use proptest::prelude::*;

use crate::random_models::cases;

/// Values that a log weight takes, with their probabilities.
type Law = Vec<(f64, f64)>;

/// A law of so many weights, no two of them near each other.
fn law(values: usize) -> impl Strategy<Value = Law> {
    let steps = prop::collection::vec((0.2..1.5f64, 0.1..1.0f64), values);
    steps.prop_map(|steps| {
        let total: f64 = steps.iter().map(|step| step.1).sum();
        let mut last = -1.0;
        let next = |(apart, share): (f64, f64)| {
            last += apart;
            (last, share / total)
        };
        steps.into_iter().map(next).collect()
    })
}

fn log_mean_weight(law: &Law) -> f64 {
    law.iter().map(|(x, p)| p * x.exp()).sum::<f64>().ln()
}

/// The mean of a statistic of k independent log weights.
fn mean(law: &Law, k: usize, statistic: &dyn Fn(&[f64]) -> f64) -> f64 {
    fn after(law: &Law, k: usize, drawn: &mut Vec<f64>, statistic: &dyn Fn(&[f64]) -> f64) -> f64 {
        if drawn.len() == k {
            return statistic(drawn);
        }
        let with = |&(x, p): &(f64, f64)| {
            drawn.push(x);
            let mean = p * after(law, k, drawn, statistic);
            drawn.pop();
            mean
        };
        law.iter().map(with).sum()
    }
    after(law, k, &mut Vec::new(), statistic)
}

/// Whether the means of a statistic of 1, 2, .. log weights rise towards the log of the mean weight, from below.
fn rises_to_log_z(law: &Law, statistic: &dyn Fn(&[f64]) -> f64) -> bool {
    let means: Vec<f64> = (1..=5).map(|k| mean(law, k, statistic)).collect();
    let rises = means.windows(2).all(|pair| pair[0] < pair[1] - 1e-9);
    rises && means.iter().all(|&bound| bound < log_mean_weight(law))
}

proptest! {
    #![proptest_config(cases(32))]

    /// `ELBO = L_1 <= L_k <= L_(k+1) <= log Z` with `L_k = E log (1/k) sum_i w_i` (Burda et al. 2016), by all draws of
    /// a discrete law. The mean of the log weights does not rise, and with twice the mean weight log Z is passed.
    #[test]
    fn the_importance_weighted_bound_rises_to_log_z(law in law(3)) {
        let bound = |w: &[f64]| importance_weighted_bound(w, w.len()).unwrap();
        let elbo: f64 = law.iter().map(|(x, p)| x * p).sum();
        prop_assert!((mean(&law, 1, &bound) - elbo).abs() < 1e-12);
        prop_assert!(rises_to_log_z(&law, &bound));
        let mean_log = |w: &[f64]| w.iter().sum::<f64>() / w.len() as f64;
        prop_assert!(!rises_to_log_z(&law, &mean_log));
        let twice = |w: &[f64]| bound(w) + 2f64.ln();
        prop_assert!(!rises_to_log_z(&law, &twice));
    }

    /// Two groups of k chains have the mean of their two bounds.
    #[test]
    fn groups_are_averaged(
        log_weights in prop::collection::vec(-5.0..5.0f64, 8), k in 1..=4usize, order in 0..=1usize
    ) {
        prop_assume!(order < k);
        let pair = &log_weights[..2 * k];
        for statistic in [
            |w: &[f64], k, _: usize| importance_weighted_bound(w, k).unwrap(),
            |w: &[f64], k, order| jackknife(w, k, order).unwrap(),
        ] {
            let halves = pair.chunks(k).map(|half| statistic(half, k, order)).sum::<f64>() / 2.0;
            prop_assert!((statistic(pair, k, order) - halves).abs() < 1e-12);
        }
    }
}

/// The mean over k independent draws of one of two log weights, by how many are the second.
fn mean_of_two(law: &Law, k: usize, statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let [(low, p), (high, q)] = law[..] else {
        panic!("two values")
    };
    let mut log_ways = 0.0;
    let of_count = |count: usize| {
        let mut drawn = vec![high; count];
        drawn.resize(k, low);
        let log_probability = log_ways + count as f64 * q.ln() + (k - count) as f64 * p.ln();
        log_ways += ((k - count) as f64 / (count + 1) as f64).ln();
        log_probability.exp() * statistic(&drawn)
    };
    (0..=k).map(of_count).sum()
}

/// The coefficients of `1/k`, `1/k^2` and `1/k^3` in the bias of `L_k`, from the central moments of `w / E w`.
fn bias_of_bound(law: &Law) -> [f64; 3] {
    let log_z = log_mean_weight(law);
    let moment = |power| -> f64 {
        law.iter()
            .map(|(x, p)| p * ((x - log_z).exp() - 1.0).powi(power))
            .sum()
    };
    let [m2, m3, m4] = [2, 3, 4].map(moment);
    [
        -m2 / 2.0,
        m3 / 3.0 - 0.75 * m2 * m2,
        -(m4 - 3.0 * m2 * m2) / 4.0 + 2.0 * m3 * m2 - 2.5 * m2.powi(3),
    ]
}

/// `scale(k)` times the bias of a statistic, as k grows: from k and 2 k, where its error is of the order 1/k.
fn limit(
    law: &Law,
    k: usize,
    scale: impl Fn(f64) -> f64,
    statistic: impl Fn(&[f64]) -> f64,
) -> f64 {
    let log_z = log_mean_weight(law);
    let at = |k: usize| scale(k as f64) * (mean_of_two(law, k, &statistic) - log_z);
    2.0 * at(2 * k) - at(k)
}

proptest! {
    #![proptest_config(cases(16))]

    /// `k (L_k - log Z) -> -Var[w] / (2 E[w]^2)`; the jackknife of order 1 takes this term away and leaves the next
    /// one with the opposite sign, that of order 2 leaves the third (Nowozin 2018). With coefficients that fit
    /// another k the first term stays.
    #[test]
    fn the_jackknife_takes_the_bias_away_term_by_term(law in law(2)) {
        prop_assume!(law[1].0 - law[0].0 < 1.0);
        let [a, b, c] = bias_of_bound(&law);
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.05 * (a.abs() + b.abs() + c.abs());
        let of_order = |order| move |w: &[f64]| jackknife(w, w.len(), order).unwrap();
        prop_assert!(near(limit(&law, 40, |k| k, of_order(0)), a));
        let first = limit(&law, 40, |k| k * (k - 1.0), of_order(1));
        prop_assert!(near(first, -b), "{first} {}", -b);
        let second = limit(&law, 24, |k| (k - 1.0).powi(3), of_order(2));
        prop_assert!(near(second, c), "{second} {c}");
        // 2 L_k - L_(k-1) has the bias of L_k.
        let wrong = |w: &[f64]| {
            let corrected = jackknife(w, w.len(), 1).unwrap();
            let k = w.len() as f64;
            let bound = importance_weighted_bound(w, w.len()).unwrap();
            let left_out = (k * bound - corrected) / (k - 1.0);
            2.0 * bound - left_out
        };
        prop_assert!(near(limit(&law, 40, |k| k, wrong), a));
        prop_assert!(!near(limit(&law, 40, |k| k * (k - 1.0), wrong), -b));
    }
}
