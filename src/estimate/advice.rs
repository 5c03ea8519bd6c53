//! Words of warnings that depend on their figures.

use crate::error::short;

pub(super) fn gap_cause(forward: f64, reverse: f64, joint: f64) -> &'static str {
    if forward > reverse {
        "the samples are probably not of this target, or the kernel's reversal is wrong"
    } else if (joint - forward).min(reverse - joint) > 0.25 * (reverse - forward) {
        "neither run agrees with both together: each has probably missed a part; use more stages, more chains or a better \
         mixing kernel"
    } else if joint - forward > reverse - joint {
        "the forward run has probably not found a region from which the samples come; use a base that covers the \
         target, more stages or a better mixing kernel"
    } else {
        "the reverse run has probably not found a part of the base; use more stages, more chains or a better mixing \
         kernel"
    }
}

pub(super) fn shows(bound: Option<(f64, f64)>) -> String {
    match bound {
        Some((bound, confidence)) => {
            format!("shows ({bound:.3} or more, {})", sureness(confidence))
        }
        None => "suggests by an interval above, which may be too low itself".to_owned(),
    }
}

/// Names the simple models that score higher than an RBM.
pub(super) fn simpler(rbm: f64, base_rate: f64, fair_coins: f64) -> String {
    let models = [
        ("its base-rate model", base_rate),
        ("fair coins", fair_coins),
    ];
    let better = models.iter().filter(|(_, score)| *score > rbm);
    let named: Vec<String> = better
        .map(|(name, score)| format!("{name} ({score:.3})"))
        .collect();
    named.join(" and ")
}

/// Returns the words for the confidence of a bound.
pub(crate) fn sureness(confidence: f64) -> String {
    match confidence < 1.0 {
        true => format!("with {}% confidence", 100.0 * confidence),
        false => "for certain".to_owned(),
    }
}

/// Returns the advice on the betas of a ladder that has fewer than twice the barrier.
pub(super) fn more_betas(barrier: f64, betas: usize) -> String {
    let wanted = (2.0 * barrier).ceil() + 1.0;
    match wanted > betas as f64 {
        true => format!("about {wanted} betas (the barrier is {barrier:.1}), "),
        false => String::new(),
    }
}

/// Returns advice on how to reach a standard error, which falls with the square root of the chains or scans.
pub(super) fn more(asked: f64, reached: f64, chains: Option<usize>, budget: Option<u64>) -> String {
    let times = (reached / asked).powi(2);
    let needed = times * chains.unwrap_or(1) as f64;
    if let Some(budget) = budget {
        let budget = short_count(budget as f64);
        format!("a budget of about {budget} evaluations would reach it")
    } else if !needed.is_finite() {
        "run more chains or ladders".to_owned()
    } else if chains.is_some() {
        let needed = short_count(needed);
        format!("about {needed} chains along these stages would reach it, or more stages")
    } else {
        let (rounds, ladders) = (times.log2().ceil().max(1.0), short_count(needed));
        format!("about {rounds} more rounds would reach it, or {ladders} times the ladders")
    }
}

/// Formats a count in two digits, rounded up; from 1e7 on as a power of ten.
fn short_count(count: f64) -> String {
    let unit = 10_f64.powf(count.log10().floor() - 1.0).max(1.0);
    short((count / unit).ceil() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_are_powers_of_ten() {
        let counts = [1.0, 12.3, 1_601.0, 9_999_999.0, 1.234e7, 1.5999e20];
        assert_eq!(
            counts.map(short_count),
            ["1", "13", "1700", "1e7", "1.3e7", "1.6e20"]
        );
    }
}
