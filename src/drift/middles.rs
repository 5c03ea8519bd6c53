//! The middle betas of a schedule's stages, at which a drift modifier is tabulated.

use crate::schedule::Schedule;
#[cfg(any(feature = "serde", test))]
use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub(super) struct MidBetas {
    /// At least one, strictly increasing.
    betas: Vec<f64>,
}

impl MidBetas {
    pub(super) fn of(schedule: &Schedule) -> Self {
        let stages = schedule.betas().windows(2);
        let betas = stages.map(|ends| 0.5 * (ends[0] + ends[1])).collect();
        Self { betas }
    }

    #[cfg(any(feature = "serde", test))]
    fn new(betas: Vec<f64>) -> Result<Self> {
        let inside = betas.iter().all(|beta| (0.0..=1.0).contains(beta));
        let increasing = betas.windows(2).all(|pair| pair[0] < pair[1]);
        let fit = !betas.is_empty() && inside && increasing;
        let expected = "at least one, strictly increasing within [0, 1]";
        Error::check(fit, "betas of a modifier", format!("{betas:?}"), expected)?;
        Ok(Self { betas })
    }

    pub(super) fn betas(&self) -> &[f64] {
        &self.betas
    }

    /// Returns the indices left and right of `beta`, equal at a middle and beyond the ends. The third number is the
    /// part of the way from left to right, in `[0, 1)`.
    pub(super) fn around(&self, beta: f64) -> (usize, usize, f64) {
        let last = self.betas.len() - 1;
        let (low, high) = (self.betas[0], self.betas[last]);
        // Guesses first: most schedules are even, and a kernel asks for the middles themselves.
        let guess = (((beta - low) / (high - low) * last as f64).round() as usize).min(last);
        if self.betas[guess] == beta {
            return (guess, guess, 0.0);
        }
        let right = self.betas.partition_point(|&knot| knot < beta);
        if right == 0 || right > last || self.betas[right] == beta {
            let index = right.min(last);
            return (index, index, 0.0);
        }
        let left = right - 1;
        let part = (beta - self.betas[left]) / (self.betas[right] - self.betas[left]);
        (left, right, part)
    }
}

crate::num::deserialize_checked! { MidBetas as (betas: Vec<f64>) => Self::new(betas) }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_at_and_beyond_the_middles() {
        let uneven = MidBetas::new(vec![0.1, 0.2, 0.6, 0.9]).unwrap();
        assert_eq!(uneven.around(0.0), (0, 0, 0.0));
        assert_eq!(uneven.around(1.0), (3, 3, 0.0));
        for (index, &beta) in uneven.betas().iter().enumerate() {
            assert_eq!(uneven.around(beta), (index, index, 0.0));
        }
        let (left, right, part) = uneven.around(0.3);
        assert_eq!((left, right), (1, 2));
        assert!((part - 0.25).abs() < 1e-15);
        let one = MidBetas::new(vec![0.5]).unwrap();
        let around = [0.2, 0.5, 0.8].map(|beta| one.around(beta));
        assert_eq!(around, [(0, 0, 0.0); 3]);
        assert!(MidBetas::new(vec![]).is_err());
        assert!(MidBetas::new(vec![0.5, 0.5]).is_err());
        assert!(MidBetas::new(vec![0.5, f64::NAN]).is_err());
    }
}
