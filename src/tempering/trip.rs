//! Round trips: from the base to the target and back.

/// The current leg of a state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Leg {
    /// Not yet at the base in this round.
    #[default]
    Unknown,
    /// From the base to the target.
    Up,
    /// From the target to the base.
    Down,
}

/// The legs of the states of one ladder, by beta, and the number of its round trips.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Trips {
    pub(super) legs: Vec<Leg>,
    pub(super) round_trips: u64,
}

impl Trips {
    pub(super) fn new(betas: usize) -> Self {
        Self {
            legs: vec![Leg::default(); betas],
            round_trips: 0,
        }
    }

    pub(super) fn exchange(&mut self, lower: usize) {
        self.legs.swap(lower, lower + 1);
    }

    /// Updates the legs of the states that have reached the base and the target.
    pub(super) fn arrive(&mut self) {
        let [base, .., target] = &mut self.legs[..] else {
            return;
        };
        self.round_trips += u64::from(*base == Leg::Down);
        *base = Leg::Up;
        if *target == Leg::Up {
            *target = Leg::Down;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_begins_at_the_base_and_ends_there() {
        let mut trips = Trips::new(3);
        let mut swaps = |pairs: &[usize]| {
            pairs.iter().for_each(|&lower| trips.exchange(lower));
            trips.arrive();
            trips.round_trips
        };
        // The state that starts at the target comes down: no round trip, because it did not start at the base.
        assert_eq!(swaps(&[]), 0);
        assert_eq!(swaps(&[1]), 0);
        assert_eq!(swaps(&[0]), 0);
        // The first base state goes up and comes down.
        assert_eq!(swaps(&[1]), 0);
        assert_eq!(swaps(&[1]), 0);
        assert_eq!(swaps(&[0]), 1);
    }
}
