//! The trend of log Z over the rounds, as text.

use std::fmt;

use super::rounds_run::Round;
use crate::estimate::write_value;

/// Most earlier rounds that are printed.
const SHOWN: usize = 4;
/// Distance of two rounds, in standard errors of their difference, beyond which log Z still moves.
const STEADY: f64 = 3.0;

/// The rounds, to be printed as a line on those before the last; as nothing where none of these has an error.
pub(super) struct Trend<'r>(pub(super) &'r [Round]);

/// Writes `\nearlier rounds: 4.710 +- 0.093 by 32 stages, 4.798 +- 0.041 by 64; steady`.
impl fmt::Display for Trend<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, earlier)) = self.0.split_last() else {
            return Ok(());
        };
        let known = earlier
            .iter()
            .filter(|round| round.standard_error.is_finite());
        let known: Vec<&Round> = known.collect();
        let Some(before) = known.last() else {
            return Ok(());
        };
        for (i, round) in known[known.len().saturating_sub(SHOWN)..]
            .iter()
            .enumerate()
        {
            f.write_str(if i == 0 { "\nearlier rounds: " } else { ", " })?;
            write_value(f, round.log_z, round.standard_error)?;
            write!(
                f,
                " by {}{}",
                round.stages,
                if i == 0 { " stages" } else { "" }
            )?;
        }
        let moved = last.log_z - before.log_z;
        let error = last.standard_error.hypot(before.standard_error);
        f.write_str(match moved {
            _ if moved.abs() <= STEADY * error => "; steady",
            _ if moved > 0.0 => "; still rising, more stages may raise it further",
            _ => "; still falling, more stages may lower it further",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(stages: usize, log_z: f64, standard_error: f64) -> Round {
        Round {
            stages,
            log_z,
            standard_error,
            barrier: 1.0,
            evaluations: 1,
            seconds: 0.0,
        }
    }

    #[test]
    fn what_earlier_rounds_gave_is_told_with_its_trend() {
        let first = round(9, 4.2, f64::INFINITY);
        let (one, two) = (round(16, 4.71, 0.093), round(32, 4.798, 0.041));
        let text = |rounds: &[Round]| Trend(rounds).to_string();
        assert_eq!(text(&[first, one]), "");
        assert_eq!(text(&[]), "");
        let last = |log_z| text(&[first, one, two, round(64, log_z, 0.02)]);
        assert_eq!(
            last(4.81),
            "\nearlier rounds: 4.710 +- 0.093 by 16 stages, 4.798 +- 0.041 by 32; steady"
        );
        assert!(last(5.2).contains("still rising") && last(4.5).contains("still falling"));
        let many: Vec<Round> = (0..9).map(|i| round(16 << i, 4.8, 0.1)).collect();
        assert_eq!(text(&many).matches("+-").count(), SHOWN);
    }
}
