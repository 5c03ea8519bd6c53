//! Ladders between two scans, and what they leave of a round, as bytes.

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ladders::{Ladder, Ladders};
use super::round::{Ended, Outcome, Plan, Starts};
use super::trip::Trips;
use crate::ais::Population;
use crate::checkpoint::{Decoder, Encoder};
use crate::kernel::Workspace;
use crate::path::AnnealingPath;
use crate::random::{StreamRng, is_stuck};
use crate::{Error, Result};

impl<S> Ladder<S> {
    pub(super) fn encode(&self, encoder: &mut Encoder) -> Result<()>
    where
        S: Serialize,
    {
        encoder.put_list("pairs of neighbours", self.pairs.iter())?;
        encoder.put_list("legs", self.trips.legs.iter())?;
        encoder.put("round trips", &self.trips.round_trips)?;
        encoder.put_list("samples", self.samples.iter())?;
        encoder.put("states off the support", &self.astray)
    }

    /// Reads what a ladder left of a round in so many scans.
    ///
    /// # Errors
    /// Other numbers of betas or samples; counts above the number of scans.
    pub(super) fn decode(decoder: &mut Decoder<'_>, plan: &Plan<'_>, scans: usize) -> Result<Self>
    where
        S: DeserializeOwned,
    {
        let ladder = Self {
            pairs: decoder.take_list("pairs of neighbours", plan.schedule.steps())?,
            trips: Trips {
                legs: decoder.take_list("legs", plan.schedule.betas().len())?,
                round_trips: decoder.take("round trips")?,
            },
            samples: decoder.take_list("samples", plan.samples(scans))?,
            astray: decoder.take("states off the support")?,
        };
        let fit = ladder.pairs.iter().all(|pair| pair.fits(scans));
        let fit = fit && ladder.trips.round_trips <= scans as u64;
        let expected = format!("at most {scans} of each");
        Error::check(
            fit,
            "pairs of neighbours",
            "sums of too many scans",
            expected,
        )?;
        Ok(ladder)
    }
}

impl<'p, P, W> Ladders<'p, P, W>
where
    P: AnnealingPath<State: Clone>,
    W: Workspace,
{
    /// The ladders as bytes, after one scan or more.
    ///
    /// # Errors
    /// States or memories that the format cannot hold.
    pub(super) fn encode(&self) -> Result<Vec<u8>>
    where
        P::State: Serialize,
        W::Memory: Serialize,
    {
        let mut encoder = Encoder::default();
        encoder.put("scans", &self.scans)?;
        for population in &self.populations {
            population.encode(&mut encoder)?;
        }
        encoder.put_list("random streams of swaps", self.rngs.iter())?;
        for ladder in &self.ladders {
            ladder.encode(&mut encoder)?;
        }
        Ok(encoder.finish())
    }

    /// These ladders in the middle of a round, or where they start one.
    ///
    /// # Errors
    /// Bytes that are no such ladders.
    pub(super) fn decode(
        bytes: &[u8],
        path: &'p P,
        ladders: Range<usize>,
        plan: &Plan<'_>,
    ) -> Result<Self>
    where
        P::State: DeserializeOwned,
        W::Memory: DeserializeOwned,
    {
        let mut decoder = Decoder::new(bytes);
        let scans = decoder.take("scans")?;
        let expected = format!("less than {}", plan.scans);
        Error::check(scans < plan.scans, "scans", scans, expected)?;
        if scans == 0 {
            let starts = take_starts(&mut decoder, ladders.len(), plan)?;
            decoder.finish()?;
            return Self::start(path, ladders, plan, Some(starts));
        }
        let population = |(j, &beta): (usize, &f64)| {
            let population = Population::decode(&mut decoder, path, beta, &ladders)?;
            Ok(population.at_stage(j))
        };
        let betas = plan.schedule.betas().iter().enumerate();
        let populations = betas.map(population).collect::<Result<_>>()?;
        let rngs: Vec<StreamRng> = decoder.take_list("random streams of swaps", ladders.len())?;
        let moving = !rngs.iter().any(is_stuck);
        let expected = "bits that are not all 0";
        Error::check(moving, "random streams of swaps", "zeros", expected)?;
        let ladder = |_| Ladder::decode(&mut decoder, plan, scans);
        let all = ladders.clone().map(ladder).collect::<Result<_>>()?;
        decoder.finish()?;
        Ok(Self {
            first: ladders.start,
            scans,
            populations,
            rngs,
            ladders: all,
            at_hand: 0,
        })
    }
}

/// Where a block of ladders starts a round, as bytes.
///
/// # Errors
/// States or memories that the format cannot hold.
pub(super) fn encode_start<S: Serialize, M: Serialize>(starts: &Starts<S, M>) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.put("scans", &0)?;
    put_starts(&mut encoder, starts)?;
    Ok(encoder.finish())
}

fn put_starts<S: Serialize, M: Serialize>(
    encoder: &mut Encoder,
    starts: &Starts<S, M>,
) -> Result<()> {
    let mut betas = starts.iter();
    betas.try_for_each(|chains| encoder.put_list("states at a beta", chains.iter()))
}

fn take_starts<S: DeserializeOwned, M: DeserializeOwned>(
    decoder: &mut Decoder<'_>,
    ladders: usize,
    plan: &Plan<'_>,
) -> Result<Starts<S, M>> {
    let betas = plan.schedule.betas().iter();
    betas
        .map(|_| decoder.take_list("states at a beta", ladders))
        .collect()
}

impl<S, M> Ended<S, M> {
    /// The block as bytes.
    ///
    /// # Errors
    /// States or memories that the format cannot hold.
    pub(super) fn encode(&self) -> Result<Vec<u8>>
    where
        S: Serialize,
        M: Serialize,
    {
        let mut encoder = Encoder::default();
        for ladder in &self.outcome.ladders {
            ladder.encode(&mut encoder)?;
        }
        encoder.put_list("decisions", self.outcome.decisions.iter())?;
        put_starts(&mut encoder, &self.ends)?;
        Ok(encoder.finish())
    }

    /// A block of so many ladders.
    ///
    /// # Errors
    /// Bytes that are no such thing.
    pub(super) fn decode(bytes: &[u8], ladders: usize, plan: &Plan<'_>) -> Result<Self>
    where
        S: DeserializeOwned,
        M: DeserializeOwned,
    {
        let mut decoder = Decoder::new(bytes);
        let ladder = |_| Ladder::decode(&mut decoder, plan, plan.scans);
        let outcome = Outcome {
            ladders: (0..ladders).map(ladder).collect::<Result<_>>()?,
            decisions: decoder.take_list("decisions", plan.schedule.betas().len())?,
        };
        let ends = take_starts(&mut decoder, ladders, plan)?;
        decoder.finish()?;
        Ok(Self { outcome, ends })
    }
}
