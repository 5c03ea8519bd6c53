//! A block of ladders: a population at each beta, whose chains exchange their states, and the statistics of exchanges.

use std::ops::Range;

use rand::{Rng, RngExt};

use super::runner::TemperingSettings;
use crate::kernel::{Decisions, NonFinite, Stage};
use crate::num::{Moments, WeightSums, log_sigmoid};
use crate::path::{AnnealingPath, Intermediate};
use crate::population::{Moves, Population};
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::schedule::Schedule;
use crate::work::Pulse;
use crate::{Error, Result};

/// Sums over the scans of a round, for two neighbouring betas j and j + 1 of one ladder.
///
/// Let `r(x) = log f_{j+1}(x) - log f_j(x)`, s the logistic function and c any number. Then
///
/// `log Z_{j+1}/Z_j = c + log E_j[s(r(x) - c)] - log E_{j+1}[s(c - r(x))]`.
///
/// This is Bennett's (1976) acceptance ratio. Its variance is smallest if c is `log Z_{j+1}/Z_j` itself; c is the
/// estimate of it from the round before.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct PairSums {
    forward: WeightSums,
    reverse: WeightSums,
    rejections: Moments,
}

/// The log ratio r of two neighbouring betas, at the state of the lower beta and at the state of the upper beta.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogRatios {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl LogRatios {
    /// Returns the probability of a swap, `min(1, exp(r(x_j) - r(x_{j+1})))`. If a state is off the support of its
    /// model, the swap is certain, except that two equal infinite ratios give 0.
    pub(super) fn acceptance(self) -> f64 {
        let difference = self.lower - self.upper;
        match difference.is_nan() {
            true => 0.0,
            false => difference.min(0.0).exp(),
        }
    }

    /// Returns whether the state at the lower beta is off the support of its model.
    fn lower_is_astray(self) -> bool {
        self.lower == f64::INFINITY
    }

    /// Returns whether the state at the upper beta is off the support of its model.
    pub(super) fn upper_is_astray(self) -> bool {
        self.upper == f64::NEG_INFINITY
    }
}

impl PairSums {
    /// Adds the log ratios of one scan. A state off the support of its own model is left out of the sums.
    pub(super) fn add(&mut self, c: f64, ratios: LogRatios) {
        if !ratios.lower_is_astray() {
            self.forward.add(log_sigmoid(ratios.lower - c));
        }
        if !ratios.upper_is_astray() {
            self.reverse.add(log_sigmoid(c - ratios.upper));
        }
        self.rejections.add(1.0 - ratios.acceptance());
    }

    /// Returns true if no sum, read from a file, counts more than `scans` scans.
    pub(super) fn fits(&self, scans: usize) -> bool {
        let fits = |count: u64| count <= scans as u64;
        fits(self.forward.count()) && fits(self.reverse.count()) && fits(self.rejections.count())
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.rejections.merge(&other.rejections);
    }

    pub(super) fn rejection(&self) -> f64 {
        self.rejections.mean()
    }

    /// Returns `log Z_{j+1}/Z_j`; infinite or NaN if no state of one model is possible under the other.
    pub(super) fn log_ratio(&self, c: f64) -> f64 {
        c + self.forward.log_mean() - self.reverse.log_mean()
    }

    /// Returns the influence of this ladder on the pooled log ratio. The influences of all ladders sum to 0.
    pub(super) fn influence(&self, all: &Self) -> f64 {
        let share = |part: &WeightSums, all: &WeightSums| (part.log_sum() - all.log_sum()).exp();
        share(&self.forward, &all.forward) - share(&self.reverse, &all.reverse)
    }
}

/// The direction of a state between base and target: away from the end that it reached last.
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

/// The [`Leg`] of the state at each beta of one ladder, and the number of the ladder's round trips.
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

/// The statistics of one ladder in a round.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Ladder<S> {
    pub(super) pairs: Vec<PairSums>,
    pub(super) trips: Trips,
    /// Sampled states at beta = 1.
    pub(super) samples: Vec<S>,
    /// Log densities at both ends of the path, of the states at all betas when a sample was kept; none on a path without
    /// ends.
    #[cfg_attr(feature = "checkpoint", serde(with = "crate::num::serial::log_values"))]
    pub(super) ends: Vec<f64>,
    /// Whether a state was off the support of its model.
    pub(super) astray: bool,
}

impl<S> Ladder<S> {
    /// Refuses statistics read from a file if no ladder can have them after `scans` scans of a round.
    pub(super) fn check(&self, plan: &Plan, scans: usize) -> Result<()> {
        let betas = plan.placed.schedule.betas().len();
        Error::check_dimension("pairs of neighbours", self.pairs.len(), betas - 1)?;
        Error::check_dimension("legs", self.trips.legs.len(), betas)?;
        let samples = plan.samples(scans);
        Error::check_dimension("samples", self.samples.len(), samples)?;
        if !self.ends.is_empty() {
            Error::check_dimension("log densities", self.ends.len(), 2 * betas * samples)?;
        }
        let fit = self.pairs.iter().all(|pair| pair.fits(scans));
        let fit = fit && self.trips.round_trips <= scans as u64;
        let expected = format!("at most {scans} of each");
        Error::check(
            fit,
            "pairs of neighbours",
            "sums of too many scans",
            expected,
        )
    }
}

/// Ladders that move together. There is a population for each beta; its chain c belongs to ladder c.
pub(crate) struct Ladders<P: AnnealingPath> {
    pub(super) scans: usize,
    pub(super) populations: Vec<Population<P>>,
    /// Random streams for the swaps, by ladder.
    pub(super) rngs: Vec<StreamRng>,
    pub(super) ladders: Vec<Ladder<P::State>>,
}

impl<P> Ladders<P>
where
    P: AnnealingPath<State: Clone>,
{
    /// Starts ladders at `starts`, or else at exact samples of the base.
    pub(super) fn start(
        path: &P,
        ladders: Range<usize>,
        plan: &Plan,
        starts: Option<Starts<P::State>>,
    ) -> Result<Self> {
        let betas = plan.placed.schedule.betas();
        let mut starts = starts.into_iter().flatten();
        let population = |(j, &beta): (usize, &f64)| {
            let (path, first, streams) = (path.clone(), ladders.start, plan.streams(j, &ladders));
            let population = match starts.next() {
                Some(states) => {
                    Population::from_states(path, beta, first, states, streams.to_vec())?
                }
                None => {
                    let stream = streams[0].clone();
                    let mut drawn = Population::start(path, first, ladders.len(), stream)?;
                    drawn.place_at(beta)?;
                    drawn
                }
            };
            Ok(population.at_stage(j))
        };
        let populations = betas.iter().enumerate().map(population);
        let ladder = Ladder {
            pairs: vec![PairSums::default(); betas.len() - 1],
            trips: Trips::new(betas.len()),
            samples: Vec::new(),
            ends: Vec::new(),
            astray: false,
        };
        Ok(Self {
            scans: 0,
            populations: populations.collect::<Result<_>>()?,
            rngs: plan.streams(betas.len(), &ladders).to_vec(),
            ladders: vec![ladder; ladders.len()],
        })
    }

    /// Moves the states at their betas; the states at the base are drawn anew.
    pub(super) fn move_states(
        &mut self,
        kernel: &dyn Moves<P::At>,
        pulse: &mut Pulse<'_>,
    ) -> Result<()> {
        for (j, population) in self.populations.iter_mut().enumerate() {
            pulse.at(population.place_at_hand());
            match j {
                0 => population.redraw(),
                _ => population.stay_by(kernel)?,
            }
        }
        Ok(())
    }

    /// Evaluates the log densities that decide on swaps of every second pair, from pair `parity` (0 or 1) on.
    pub(super) fn learn(&mut self, parity: usize, pulse: &mut Pulse<'_>) -> Result<()> {
        // With a random walk, weighing all pairs would cost a third more and reduce errors by at most a tenth.
        let pairs = (self.populations.len() - parity) / 2;
        for population in &mut self.populations[parity..parity + 2 * pairs] {
            pulse.at(population.place_at_hand());
            population.learn()?;
        }
        Ok(())
    }

    /// Adds the log ratios of every second pair of each ladder, from pair `parity` (0 or 1) on, to the sums. Swaps the
    /// states of a pair with its swap probability.
    pub(super) fn swap(&mut self, plan: &Plan, parity: usize, pulse: &mut Pulse<'_>) -> Result<()> {
        for ladder in 0..self.ladders.len() {
            for j in (parity..self.populations.len() - 1).step_by(2) {
                pulse.at(self.populations[j + 1].place_at_hand());
                self.swap_pair(ladder, j, plan)?;
            }
            self.ladders[ladder].trips.arrive();
        }
        Ok(())
    }

    fn swap_pair(&mut self, ladder: usize, j: usize, plan: &Plan) -> Result<()> {
        let (lower, upper) = self.populations.split_at_mut(j + 1);
        let (lower, upper) = (&mut lower[j], &mut upper[0]);
        let ratios = log_ratios(lower, upper, ladder).map_err(|fault| {
            let (chains, stage, beta) = upper.place_at_hand();
            let chain = upper.block().first_chain() + ladder;
            fault.of_model(upper.stage().model, (chain, stage, beta), chains)
        })?;
        let figures = &mut self.ladders[ladder];
        figures.pairs[j].add(plan.placed.guesses[j], ratios);
        // Each state above the base is the upper one of some pair, and a base sample off its support is an error.
        figures.astray |= ratios.upper_is_astray();
        if self.rngs[ladder].random::<f64>() < ratios.acceptance() {
            lower.block_mut().exchange(upper.block_mut(), ladder);
            figures.trips.exchange(j);
        }
        Ok(())
    }

    /// Keeps the states at beta = 1 as samples, and the log densities of all states at both ends of the path.
    pub(super) fn sample(&mut self, pulse: &mut Pulse<'_>) -> Result<()> {
        for population in &mut self.populations {
            pulse.at(population.place_at_hand());
            population.learn()?;
        }
        let target = &self.populations[self.populations.len() - 1];
        for (chain, ladder) in self.ladders.iter_mut().enumerate() {
            ladder.samples.push(target.block().states()[chain].clone());
            for population in &self.populations {
                // The model at the target needs both ends.
                let ends = population.block().ends(target.stage().model, chain);
                let both = ends.map(|ends| [ends.base, ends.target]);
                ladder.ends.extend(both.into_iter().flatten());
            }
        }
        Ok(())
    }

    pub(super) fn decisions(&self) -> Vec<Decisions> {
        let blocks = self.populations.iter().map(Population::block);
        blocks.map(|block| block.decisions()).collect()
    }

    /// Removes and returns all states.
    pub(super) fn take_ends(&mut self) -> Starts<P::State> {
        let blocks = self.populations.iter_mut().map(Population::block_mut);
        blocks
            .map(|block| block.take_states_and_log_weights().0)
            .collect()
    }
}

/// Returns the log ratios of two neighbours in one ladder.
///
/// # Errors
/// A NaN; at the base also a `+inf`, which means that the base has density 0 at its own sample.
fn log_ratios<P: AnnealingPath>(
    lower: &Population<P>,
    upper: &Population<P>,
    ladder: usize,
) -> Result<LogRatios, NonFinite> {
    let (previous, model) = (lower.stage().model, upper.stage().model);
    let stage = Stage::new(0, previous, model);
    let ratios = LogRatios {
        lower: lower.block().log_ratio(stage, ladder),
        upper: upper.block().log_ratio(stage, ladder),
    };
    if previous.beta() == 0.0 {
        NonFinite::check_log_density("log ratio", ratios.lower)?;
    }
    let nan = [ratios.lower, ratios.upper]
        .into_iter()
        .find(|r| r.is_nan());
    nan.map_or(Ok(ratios), |value| {
        Err(NonFinite::new("log ratio", value, "a number"))
    })
}

/// States by beta, then by ladder of a block.
pub(super) type Starts<S> = Vec<Vec<S>>;

/// The values that all ladders of a round share: betas, random streams and the distance between samples.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) placed: Placed,
    pub(super) scans: usize,
    /// Number of scans from one sample to the next.
    stride: usize,
    ladders: usize,
    /// Random streams by beta, then by ladder. The streams of the swaps come last.
    streams: Vec<StreamRng>,
}

impl Plan {
    /// Creates the plan of a round, whose streams have their own seed.
    pub(super) fn new(settings: &TemperingSettings, placed: Placed) -> Self {
        let round = placed.round;
        let mut seeds = stream(settings.seed, Purpose::TEMPERING_ROUNDS, 0);
        // Drawn from the beginning, so that a resumed run needs only the index of its round.
        let seed = (0..round).map(|_| seeds.next_u64()).next_back();
        let seed = seed.expect("rounds are counted from 1");
        let ladders = settings.ladders;
        let streams = successive(stream(seed, Purpose::TEMPERING, 0));
        let number = (placed.schedule.betas().len() + 1) * ladders;
        Self {
            placed,
            scans: settings.scans(round),
            stride: settings.stride(round),
            ladders,
            streams: streams.take(number).collect(),
        }
    }

    /// Returns whether the states at beta = 1 are kept as samples after `scans` scans.
    pub(super) fn samples_after(&self, scans: usize) -> bool {
        scans.is_multiple_of(self.stride)
    }

    pub(super) fn samples(&self, scans: usize) -> usize {
        scans / self.stride
    }

    /// Returns the streams of `ladders` at the beta of index `beta`. If the index is one beyond the last beta, returns
    /// the streams of their swaps.
    pub(super) fn streams(&self, beta: usize, ladders: &Range<usize>) -> &[StreamRng] {
        let first = beta * self.ladders;
        &self.streams[first + ladders.start..first + ladders.end]
    }
}

/// The betas of a round, chosen by the round before.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Placed {
    /// Index of the round, from 1.
    pub(super) round: usize,
    pub(super) schedule: Schedule,
    /// Guesses of `log Z_{j+1}/Z_j`, by pair of neighbours.
    pub(super) guesses: Vec<f64>,
}

impl Placed {
    pub(super) fn check(&self, settings: &TemperingSettings) -> Result<()> {
        let pairs = settings.schedule.stages();
        Error::check_dimension("pairs of neighbours", self.schedule.stages(), pairs)?;
        Error::check_dimension("guesses", self.guesses.len(), pairs)?;
        Error::check_finite("guesses", self.guesses.iter().copied())
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
