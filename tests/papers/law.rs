//! The law of a random procedure, exactly, from its own code: every way in which its draws can come out.
//!
//! A procedure is run on scripted draws instead of random ones. Where it asks for 32 bits it makes an even
//! choice among so many as it is told; where it asks for 64 it draws a uniform number, on which its outcome depends by
//! thresholds. These are found by bisection, to the last bit of the number.

use std::convert::Infallible;

use rand::rand_core::TryRng;

/// The distance of two uniform numbers of 53 bits.
const ULP: f64 = 1.0 / (1_u64 << 53) as f64;

/// Outcomes and further draws after the draws that were made.
pub enum StandardLaw<S> {
    /// No further draw.
    Outcome(S),
    /// An even choice.
    Choice(Vec<Self>),
    /// A uniform number; each piece of `[0, 1)` with its end.
    Uniform(Vec<(f64, Self)>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Draw {
    Choice,
    Uniform,
}

/// Draws from `[0, 1)` that are given, and 1/2 for all further ones.
pub struct Script<'a> {
    given: &'a [f64],
    asked: Vec<Draw>,
}

impl Script<'_> {
    fn next(&mut self, draw: Draw) -> f64 {
        self.asked.push(draw);
        let place = self.asked.len() - 1;
        self.given.get(place).copied().unwrap_or(0.5)
    }
}

impl TryRng for Script<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next(Draw::Choice) * 2f64.powi(32)) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(((self.next(Draw::Uniform) / ULP) as u64) << 11)
    }

    fn try_fill_bytes(&mut self, _bytes: &mut [u8]) -> Result<(), Infallible> {
        unimplemented!("draws are words")
    }
}

/// The law of what the procedure returns, whose choices are among so many, or a divisor of it.
pub fn law<S: PartialEq>(
    choices: usize,
    procedure: impl Fn(&mut Script<'_>) -> S,
) -> StandardLaw<S> {
    Search { choices, procedure }.law_after(&[])
}

impl<S> StandardLaw<S> {
    /// Calls `visit` with each outcome and its probability, more than once with some.
    pub fn for_each(&self, visit: &mut impl FnMut(&S, f64)) {
        self.visit(1.0, visit);
    }

    fn visit(&self, probability: f64, visit: &mut impl FnMut(&S, f64)) {
        match self {
            Self::Outcome(outcome) => visit(outcome, probability),
            Self::Choice(laws) => {
                let each = probability / laws.len() as f64;
                laws.iter().for_each(|law| law.visit(each, visit));
            }
            Self::Uniform(pieces) => {
                let mut start = 0.0;
                for (end, law) in pieces {
                    law.visit(probability * (end - start), visit);
                    start = *end;
                }
            }
        }
    }
}

struct Search<F> {
    choices: usize,
    procedure: F,
}

/// Returns the uniform number that makes choice `i` of `choices`.
fn choice(i: usize, choices: usize) -> f64 {
    (i as f64 + 0.5) / choices as f64
}

impl<S: PartialEq, F: Fn(&mut Script<'_>) -> S> Search<F> {
    fn run(&self, given: &[f64]) -> (S, Vec<Draw>) {
        let asked = Vec::new();
        let mut script = Script { given, asked };
        ((self.procedure)(&mut script), script.asked)
    }

    /// The law given the first draws.
    fn law_after(&self, given: &[f64]) -> StandardLaw<S> {
        let (outcome, asked) = self.run(given);
        let with = |draw| self.law_after(&[given, &[draw]].concat());
        match asked.get(given.len()) {
            None => StandardLaw::Outcome(outcome),
            Some(Draw::Choice) => {
                let choices = 0..self.choices;
                StandardLaw::Choice(choices.map(|i| with(choice(i, self.choices))).collect())
            }
            Some(Draw::Uniform) => {
                let last = 1.0 - ULP;
                StandardLaw::Uniform(self.pieces(given, (0.0, with(0.0)), (last, with(last))))
            }
        }
    }

    /// The pieces between two values of the next draw, at which the laws are those given.
    fn pieces(
        &self,
        given: &[f64],
        low: (f64, StandardLaw<S>),
        high: (f64, StandardLaw<S>),
    ) -> Vec<(f64, StandardLaw<S>)> {
        let Some(tail) = difference(&low.1, &high.1) else {
            return vec![(high.0 + ULP, high.1)];
        };
        let with = |draw| self.run(&[given, &[draw], &tail].concat());
        let (mut left, mut right) = (low.0, high.0);
        let at_left = with(left);
        while right - left > ULP {
            let middle = (0.5 * (left + right) / ULP).floor() * ULP;
            if with(middle) == at_left {
                left = middle;
            } else {
                right = middle;
            }
        }
        let at = |draw| (draw, self.law_after(&[given, &[draw]].concat()));
        let mut pieces = self.pieces(given, low, at(left));
        pieces.extend(self.pieces(given, at(right), high));
        pieces
    }
}

/// Further draws on which the outcomes of two laws differ.
fn difference<S: PartialEq>(a: &StandardLaw<S>, b: &StandardLaw<S>) -> Option<Vec<f64>> {
    let then = |draw: f64, a, b| Some([&[draw][..], &difference(a, b)?].concat());
    match (a, b) {
        (StandardLaw::Outcome(a), StandardLaw::Outcome(b)) => (a != b).then(Vec::new),
        (StandardLaw::Choice(a), StandardLaw::Choice(b)) => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(i, (law_a, law_b))| then(choice(i, a.len()), law_a, law_b))
        }
        (StandardLaw::Uniform(a), StandardLaw::Uniform(b)) => {
            let mut start = 0.0;
            let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
            while let (Some((end_a, law_a)), Some((end_b, law_b))) = (a.peek(), b.peek()) {
                let end = end_a.min(*end_b);
                // Thresholds that differ by rounding alone are the same.
                if end - start > 64.0 * ULP
                    && let Some(draws) = then(0.5 * (start + end), law_a, law_b)
                {
                    return Some(draws);
                }
                start = end;
                a.next_if(|piece| piece.0 <= end);
                b.next_if(|piece| piece.0 <= end);
            }
            None
        }
        _ => Some(Vec::new()),
    }
}

/// A choice among three, thresholds that depend on earlier draws, and a draw without effect.
#[test]
fn the_law_of_a_small_program_is_found() {
    use rand::RngExt;
    let program = |rng: &mut Script<'_>| {
        let first: f64 = rng.random();
        let _unused: f64 = rng.random();
        let rungs = [0.2, 0.7];
        let which = rungs.iter().filter(|&&rung| first >= rung).count();
        let second = rng.random_range(0..3);
        (
            which,
            which == 1 && rng.random::<f64>() < 0.1 * f64::from(second),
        )
    };
    let mut found = std::collections::BTreeMap::new();
    law(3, program).for_each(&mut |&outcome, p| *found.entry(outcome).or_insert(0.0) += p);
    let expected = [
        ((0, false), 0.2),
        ((1, false), 0.45),
        ((1, true), 0.05),
        ((2, false), 0.3),
    ];
    assert_eq!(found.len(), 4);
    for (outcome, probability) in expected {
        assert!((found[&outcome] - probability).abs() < 1e-14, "{found:?}");
    }
}
