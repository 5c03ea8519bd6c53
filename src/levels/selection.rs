//! The states of the shells that a result keeps.

use crate::num::WeightSums;

/// How many states the shells of an island are expected to leave, and how many they have left.
///
/// The numbers are those of systematic sampling: real numbers of states, laid end to end from a random [`offset`], leave one
/// wherever their sum passes a whole number. A state that stands for the number of states over the expected number kept
/// leaves all weighted sums unbiased.
pub(super) struct Selection {
    /// The expected number of states of each shell that is left.
    expected: std::vec::IntoIter<f64>,
    /// What is left of the sum beyond the last whole number.
    beyond: f64,
}

impl Selection {
    /// Of an island whose sum begins at an offset.
    pub(super) fn new(expected: Vec<f64>, beyond: f64) -> Self {
        Self {
            expected: expected.into_iter(),
            beyond,
        }
    }

    /// How many of the states of the next shell are kept, and the number of states that each of them stands for.
    pub(super) fn next(&mut self, states: usize) -> (usize, f64) {
        let most = states as f64;
        let expected = self.expected.next().map_or(0.0, |share| share.min(most));
        let sum = self.beyond + expected;
        self.beyond = sum.fract();
        ((sum as usize).min(states), most / expected)
    }
}

/// Where the sum of an island begins, given that of the first. Multiples of the golden ratio are spread most evenly, so that the
/// islands together keep about as many states of each shell as is expected.
pub(super) fn offset(first: f64, island: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    (first + GOLDEN * island as f64).fract()
}

/// The expected numbers of states of the shells of an island, `kept` in all, given the log weights that the shells had
/// in a first pass: half of them by weight, so that the kept states have about equal weights, and half evenly, for
/// shells that the first pass had too low.
pub(super) fn expected(kept: f64, log_weights: &[f64]) -> Vec<f64> {
    let weights = WeightSums::of(log_weights);
    let even = 1.0 / log_weights.len() as f64;
    let by_weight = |&log_weight: &f64| match weights.log_sum() {
        f64::NEG_INFINITY => even,
        _ => weights.share(log_weight),
    };
    let shares = log_weights.iter().map(by_weight);
    shares.map(|share| kept * 0.5 * (share + even)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn islands_together_keep_what_is_expected() {
        for (islands, kept) in [
            (32, 10_000),
            (7, 5),
            (30_000, 10_000),
            (20_000, 10_000),
            (1, 3),
        ] {
            let shares = [f64::NEG_INFINITY, -3.0, 2.0, 0.0, -900.0];
            let each = f64::from(kept) / f64::from(islands);
            let expected = expected(each, &shares);
            assert!((expected.iter().sum::<f64>() - each).abs() < 1e-9 * each);
            let mut numbers = [0; 5];
            for island in 0..islands {
                let mut selection = Selection::new(expected.clone(), offset(0.4, island as usize));
                for number in &mut numbers {
                    let (count, stands_for) = selection.next(1_000);
                    assert!(stands_for >= 1.0);
                    *number += count;
                }
            }
            assert!(numbers.iter().sum::<usize>().abs_diff(kept as usize) <= 2);
            for (number, expected) in numbers.iter().zip(expected) {
                let expected = expected * f64::from(islands);
                assert!((*number as f64 - expected).abs() <= 2.0);
            }
        }
    }

    #[test]
    fn a_shell_of_few_states_gives_no_more_than_these() {
        let mut selection = Selection::new(vec![7.5, 7.5, 0.0], 0.999_999_999_999_999_9);
        assert_eq!(selection.next(5), (5, 1.0));
        assert_eq!(selection.next(0).0, 0);
        assert_eq!(selection.next(10).0, 0);
    }
}
