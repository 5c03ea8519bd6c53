//! Parts of warning texts that depend on the numbers in a warning.

use crate::error::short;

/// Overlap of two directions, or of two groups of states, below which a warning appears and the interval widens.
pub(super) const LITTLE: f64 = 0.03;

pub(super) fn gap_cause(forward: f64, reverse: f64, joint: f64) -> &'static str {
    if forward > reverse {
        "the samples are probably not from this target, or the kernel's reversal is wrong; check both"
    } else if (joint - forward).min(reverse - joint) > 0.25 * (reverse - forward) {
        "neither run agrees with both together: each has probably missed a region; use more stages, more chains or a \
         better mixing kernel"
    } else if joint - forward > reverse - joint {
        "the forward run has probably missed a region that the samples come from; use a base that covers the target, \
          more stages or a better mixing kernel"
    } else {
        "the reverse run has probably missed a part of the base; use more stages, more chains or a better mixing \
         kernel"
    }
}

/// The likely causes if the works of two directions exclude one another.
pub(super) const WORKS_CAUSE: &str = "the directions exclude one another, by the second law (mean W >= dF >= -(mean W')) \
     or by Crooks' relation: check the signs of the works, their units (over kT, or as stated) and offsets between the \
     directions; if these are right, each direction has missed a region: use slower processes, or more of them";

/// Cause of a gap between the draws of a fitted law and given draws.
pub(super) const DRAWS_CAUSE: &str = "beside exact draws of the fitted law, the given draws do not follow this density, or \
     have not reached all of it: check constants, units, the Jacobian of transformed \
     coordinates, and the warm-up";

/// Returns how autocorrelated values are ordered, and what to do.
pub(super) fn order(interleaved: Option<usize>, grows: bool) -> String {
    let chains = interleaved.map(|m| format!("most {m} apart, as if {m} chains took turns; "));
    let grows = if grows { "more in longer blocks; " } else { "" };
    let usual = "draw longer chains, or check that they do not stay in one part of the states";
    format!("{}{grows}{usual}", chains.unwrap_or_default())
}

/// Returns ways to a run whose chains follow its path.
pub(super) fn faster(may_fit: bool) -> &'static str {
    match may_fit {
        true => "challenge the run, let rounds over vectors fit a base (`.fitted()`)",
        false => "challenge the run",
    }
}

pub(super) fn shows(bound: Option<(f64, f64)>) -> String {
    match bound {
        Some((bound, confidence)) => {
            format!(
                "shows that this is too low (log Z is at least {bound:.3}, {})",
                sureness(confidence)
            )
        }
        None => "suggests that this is too low: its interval lies above, but may be too low itself"
            .to_owned(),
    }
}

/// Returns the names and scores of the simple models that score higher than an RBM. Base rates of 1/2 are not named,
/// because they are fair coins.
pub(super) fn simpler(rbm: f64, base_rate: f64, fair_coins: f64) -> String {
    let are_coins = (base_rate - fair_coins).abs() <= 1e-6 * fair_coins.abs();
    let models = [
        ("base rates", base_rate, !are_coins),
        ("fair coins", fair_coins, true),
    ];
    let better = models
        .iter()
        .filter(|(_, score, is_named)| *is_named && *score > rbm);
    let named: Vec<String> = better
        .map(|(name, score, _)| format!("{name} ({score:.3})"))
        .collect();
    named.join(" and ")
}

/// Returns the confidence of a bound as text, such as `with 95% confidence`.
pub(crate) fn sureness(confidence: f64) -> String {
    match confidence < 1.0 {
        true => format!("with {}% confidence", 100.0 * confidence),
        false => "for certain".to_owned(),
    }
}

/// Returns the advice to use `2 barrier + 1` betas, or an empty text if the ladder has that many or more.
pub(super) fn more_betas(barrier: f64, betas: usize) -> String {
    let wanted = (2.0 * barrier).ceil() + 1.0;
    match wanted > betas as f64 {
        true => format!("about {wanted} betas (the barrier is {barrier:.1}), "),
        false => String::new(),
    }
}

/// A way to lower the standard error. All variants but `Budget` contain the run's number of chains, islands or ladders.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Remedy {
    /// More chains or more stages.
    Chains(usize),
    /// More chains but not more stages, because the error did not fall as the rounds used more stages.
    ChainsAlone(usize),
    Islands(usize),
    /// More ladders or more rounds.
    Ladders(usize),
    /// The budget that reaches the error asked for. `may_fit` is true if a fitted base may need far less.
    Budget {
        budget: u64,
        may_fit: bool,
    },
}

impl Remedy {
    /// Returns advice for a run whose standard error is the error asked for, multiplied by `times`.
    pub(crate) fn advice(self, times: f64) -> String {
        let square = times.powi(2);
        let enough = |count: usize| short_count(square * count as f64);
        match self {
            Self::Budget { budget, may_fit } => {
                let budget = short_count(budget as f64);
                let fitted = match may_fit {
                    true => "; fitted() may need far fewer",
                    false => "",
                };
                format!("a budget of about {budget} evaluations would reach it{fitted}")
            }
            _ if !square.is_finite() => "run more chains, islands or ladders".to_owned(),
            Self::Chains(chains) => format!(
                "about {} chains with the same stages would reach it; so would more stages",
                enough(chains)
            ),
            Self::ChainsAlone(chains) => format!(
                "about {} chains would reach it; a larger budget would not, because the error did not fall as the stages of \
                 the rounds grew",
                enough(chains)
            ),
            Self::Islands(islands) => format!("about {} islands would reach it", enough(islands)),
            Self::Ladders(ladders) => format!(
                "about {} more rounds would reach it, or {} ladders",
                // Each round has twice the scans of the round before, which halves the squared error.
                square.log2().ceil().max(1.0),
                enough(ladders)
            ),
        }
    }
}

/// Formats a count with two digits, rounded up; from 1e7 on in scientific notation.
fn short_count(count: f64) -> String {
    // At least 1, so that a count below 10 stays whole.
    let unit = 10_f64.powf(count.log10().floor() - 1.0).max(1.0);
    short((count / unit).ceil() * unit)
}

/// Returns the Pareto shape as an addition to a text.
pub(super) fn tail(k_hat: Option<f64>) -> String {
    k_hat.map_or(String::new(), |k_hat| format!(" (Pareto shape {k_hat:.2})"))
}

/// Returns the text of two directions, or of two groups of states, that hardly overlap, or have few draws that do.
pub(super) fn hardly_overlap(overlap: f64, ess: f64, groups: Option<&[Vec<usize>; 2]>) -> String {
    let is_little = overlap < LITTLE;
    match groups {
        None if !is_little => format!(
            "the two directions overlap ({overlap:.3}), but in about {ess:.0} effective samples only, too few to judge the error: \
             use more samples in both directions"
        ),
        Some([one, other]) if !is_little => format!(
            "the draws of states {one:?} overlap with the draws of states {other:?} ({overlap:.3}), but they are worth about \
             {ess:.0} independent draws there, too few to judge the error: add draws of these states"
        ),
        None => format!(
            "the two directions hardly overlap (overlap {overlap:.3}, {ess:.0} effective samples in it): use more stages, slower \
             processes or states between, or more samples in both directions"
        ),
        Some([one, other]) => format!(
            "the draws of states {one:?} hardly overlap with the draws of states {other:?} (overlap {overlap:.3}, {ess:.0} \
             effective draws): log Z between the two groups is hardly known; add states between them"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few draws of distributions that do overlap.
    #[test]
    fn few_draws_are_no_gap() {
        let groups = [vec![0], vec![1, 2]];
        for groups in [None, Some(&groups)] {
            let text = hardly_overlap(0.6, 5.0, groups);
            assert!(!text.contains("hardly") && text.contains("0.600"), "{text}");
            assert!(hardly_overlap(0.01, 50.0, groups).contains("hardly overlap"));
        }
    }

    #[test]
    fn large_counts_are_powers_of_ten() {
        let counts = [1.0, 12.3, 1_601.0, 9_999_999.0, 1.234e7, 1.5999e20];
        assert_eq!(
            counts.map(short_count),
            ["1", "13", "1700", "1e7", "1.3e7", "1.6e20"]
        );
    }
}
