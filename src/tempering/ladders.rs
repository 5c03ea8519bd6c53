//! A block of ladders: a population at each beta, whose chains exchange their states.

use std::ops::Range;

use rand::RngExt;

use super::pair::{LogRatios, PairSums};
use super::round::{Plan, Starts};
use super::trip::Trips;
use crate::kernel::{Decisions, NonFinite, Stage, Workspace};
use crate::path::{AnnealingPath, Intermediate};
use crate::population::{Moves, Population};
use crate::random::StreamRng;
use crate::work::Place;
use crate::{Error, Result};

/// The statistics of one ladder in a round.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Ladder<S> {
    /// Sums by pair of neighbours.
    pub(super) pairs: Vec<PairSums>,
    pub(super) trips: Trips,
    /// Sampled states at beta = 1.
    pub(super) samples: Vec<S>,
    /// Whether a state was off the support of its model.
    pub(super) astray: bool,
}

impl<S> Ladder<S> {
    /// Refuses statistics that no ladder has after `scans` scans of a round. Checks a file.
    pub(super) fn check(&self, plan: &Plan, scans: usize) -> Result<()> {
        let betas = plan.schedule.betas().len();
        Error::check_dimension("pairs of neighbours", self.pairs.len(), betas - 1)?;
        Error::check_dimension("legs", self.trips.legs.len(), betas)?;
        Error::check_dimension("samples", self.samples.len(), plan.samples(scans))?;
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

    pub(super) fn with_samples<T>(self, of: impl FnOnce(Vec<S>) -> Vec<T>) -> Ladder<T> {
        Ladder {
            pairs: self.pairs,
            trips: self.trips,
            samples: of(self.samples),
            astray: self.astray,
        }
    }
}

/// Ladders that move together. Chain c of each population belongs to ladder c.
pub(crate) struct Ladders<'p, P: AnnealingPath> {
    pub(super) first: usize,
    pub(super) scans: usize,
    pub(super) populations: Vec<Population<'p, P>>,
    /// Streams of the swaps, by ladder.
    pub(super) rngs: Vec<StreamRng>,
    pub(super) ladders: Vec<Ladder<P::State>>,
    /// Index of the beta at work, for the error of a panic.
    pub(super) at_hand: usize,
}

impl<'p, P> Ladders<'p, P>
where
    P: AnnealingPath<State: Clone>,
{
    /// Starts ladders at `starts`, or else at exact samples of the base.
    pub(super) fn start<W: Workspace>(
        path: &'p P,
        ladders: Range<usize>,
        plan: &Plan,
        starts: Option<Starts<P::State, W::Memory>>,
    ) -> Result<Self> {
        let betas = plan.schedule.betas();
        let first = ladders.start;
        let mut starts = starts.map(Vec::into_iter);
        let population = |(j, &beta): (usize, &f64)| {
            let streams = plan.streams(j, &ladders);
            let Some(ends) = starts.as_mut().and_then(Iterator::next) else {
                let stream = streams[0].clone();
                let mut population = Population::start(path, first, ladders.len(), stream)?;
                population.place_at(beta)?;
                return Ok(population.at_stage(j));
            };
            let (states, memories): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
            let mut population =
                Population::from_states(path, beta, first, states, streams.to_vec())?;
            population.set_memories::<W>(memories);
            Ok(population.at_stage(j))
        };
        let populations = betas.iter().enumerate().map(population);
        let ladder = Ladder {
            pairs: vec![PairSums::default(); betas.len() - 1],
            trips: Trips::new(betas.len()),
            samples: Vec::new(),
            astray: false,
        };
        Ok(Self {
            first,
            scans: 0,
            populations: populations.collect::<Result<_>>()?,
            rngs: plan.streams(betas.len(), &ladders).to_vec(),
            ladders: vec![ladder; ladders.len()],
            at_hand: 0,
        })
    }

    /// Runs the next scan: all states move at their betas, then every second pair may swap.
    pub(super) fn scan(&mut self, kernel: &dyn Moves<P::At<'p>>, plan: &Plan) -> Result<()> {
        for (j, population) in self.populations.iter_mut().enumerate() {
            self.at_hand = j;
            match j {
                0 => population.redraw(),
                _ => population.stay_by(kernel)?,
            }
        }
        let parity = self.scans % 2;
        let pairs = (self.populations.len() - parity) / 2;
        for j in parity..parity + 2 * pairs {
            self.at_hand = j;
            self.populations[j].learn()?;
        }
        for ladder in 0..self.ladders.len() {
            self.swap(ladder, plan, parity)?;
        }
        self.scans += 1;
        if plan.samples_after(self.scans) {
            let target = &self.populations[self.populations.len() - 1];
            for (ladder, state) in self.ladders.iter_mut().zip(target.block().states()) {
                ladder.samples.push(state.clone());
            }
        }
        Ok(())
    }

    /// Adds every second pair of a ladder to the sums, and swaps those that accept.
    fn swap(&mut self, ladder: usize, plan: &Plan, parity: usize) -> Result<()> {
        for j in (parity..self.populations.len() - 1).step_by(2) {
            self.at_hand = j + 1;
            let (lower, upper) = self.populations.split_at_mut(j + 1);
            let (lower, upper) = (&mut lower[j], &mut upper[0]);
            let ratios = log_ratios(lower, upper, ladder).map_err(|fault| {
                let place = (self.first + ladder, j + 1, plan.schedule.betas()[j + 1]);
                fault.of_model(upper.stage().model, place, upper.place_at_hand().0)
            })?;
            let figures = &mut self.ladders[ladder];
            figures.pairs[j].add(plan.log_ratios[j], ratios);
            figures.astray |= ratios.upper_is_astray();
            if self.rngs[ladder].random::<f64>() < ratios.acceptance() {
                lower.exchange(upper, ladder);
                figures.trips.exchange(j);
            }
        }
        self.ladders[ladder].trips.arrive();
        Ok(())
    }

    pub(super) fn decisions(&self) -> Vec<Decisions> {
        let blocks = self.populations.iter().map(Population::block);
        blocks.map(|block| block.decisions()).collect()
    }

    /// Takes out the states, with the kernel's memories.
    pub(super) fn take_ends<W: Workspace>(&mut self) -> Starts<P::State, W::Memory> {
        let populations = std::mem::take(&mut self.populations);
        populations
            .into_iter()
            .map(Population::into_states::<W>)
            .collect()
    }

    /// Returns the ladders at work, and the index and value of the beta at hand.
    pub(super) fn at_hand(&self) -> Place {
        let (ladders, _, beta) = self.populations[self.at_hand].place_at_hand();
        (ladders, self.at_hand, beta)
    }
}

/// Returns the log ratios of two neighbours in one ladder.
///
/// # Errors
/// A NaN; at the base also a `+inf` at its own sample, which only the upper model allows.
fn log_ratios<'p, P: AnnealingPath>(
    lower: &Population<'p, P>,
    upper: &Population<'p, P>,
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
