//! What a checkpoint of a tempered run holds.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ladders::{Ladder, Ladders};
use super::round::{Ended, Finished, Plan};
use super::rounds::EndedBlocks;
use super::runner::Tempering;
use super::settings::Settings;
use crate::ais::{Share, check_same};
use crate::checkpoint::{Decoder, Encoder, Piece, Pieces};
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// What a checkpoint holds that a run can go on from.
pub(super) struct Kept<S> {
    /// The last round that is finished.
    pub(super) last: Option<Finished<S>>,
    /// Wall time.
    pub(super) seconds: f64,
    /// Of the round that is not finished: of its finished blocks, and of those under way that fall to this process.
    pub(super) chain_steps: u64,
    pub(super) pieces: Pieces,
}

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self {
            last: None,
            seconds: 0.0,
            chain_steps: 0,
            pieces: Pieces::default(),
        }
    }
}

impl<S> Kept<S> {
    /// Reads and checks all of it, for a process with this share of the blocks.
    ///
    /// # Errors
    /// What no such run leaves; another run.
    pub(super) fn decode<'p, P, K>(
        payload: &[u8],
        run: &Tempering<'p, P, K>,
        fingerprint: u32,
        share: Share,
    ) -> Result<Self>
    where
        P: AnnealingPath<State = S> + Sync,
        S: Clone + DeserializeOwned + Send,
        K: Invariant<P::At<'p>> + Sync,
        <K::Workspace as Workspace>::Memory: DeserializeOwned,
    {
        let mut decoder = Decoder::new(payload);
        let found: Settings = decoder.take("settings")?;
        run.settings.check_found(&found)?;
        check_same(decoder.take("fingerprint")?, fingerprint)?;
        let seconds = decoder.take("seconds")?;
        Error::check_number("seconds", seconds)?;
        let last = match decoder.take("whether a round is finished")? {
            true => Some(Finished::decode(&mut decoder, &run.settings)?),
            false => None,
        };
        let pieces = Pieces::decode(&mut decoder, run.settings.blocks())?;
        decoder.finish()?;

        let placed = run.placed_by(last.as_ref());
        let plan = run.plan(&placed);
        ended_blocks(&pieces, run, &plan)?;
        let finished = pieces.finished.keys();
        let finished = finished.map(|&block| plan.scans * run.settings.ladders_of(block).len());
        let mut scans: usize = finished.sum();
        for (&block, piece) in &pieces.under_way {
            let ladders = run.settings.ladders_of(block);
            let count = ladders.len();
            let at: Ladders<'p, P, K::Workspace> =
                Ladders::decode(piece, run.path, ladders, &plan)?;
            if share.has(block) {
                scans += at.scans * count;
            }
        }
        Ok(Self {
            last,
            seconds,
            chain_steps: (scans * plan.schedule.betas().len()) as u64,
            pieces,
        })
    }
}

/// The blocks of a round that are finished.
pub(super) fn ended_blocks<'p, P, K>(
    pieces: &Pieces,
    run: &Tempering<'p, P, K>,
    plan: &Plan<'_>,
) -> Result<EndedBlocks<P::State, K::Workspace>>
where
    P: AnnealingPath<State: DeserializeOwned>,
    K: Invariant<P::At<'p>>,
    <K::Workspace as Workspace>::Memory: DeserializeOwned,
{
    let ended = |(&block, piece): (&usize, &Piece)| {
        let ladders = run.settings.ladders_of(block).len();
        Ok((block, Ended::decode(piece, ladders, plan)?))
    };
    pieces.finished.iter().map(ended).collect()
}

impl<S> Finished<S> {
    pub(super) fn encode(&self, encoder: &mut Encoder) -> Result<()>
    where
        S: Serialize,
    {
        encoder.put("round", &self.round)?;
        encoder.put("schedule", &self.schedule)?;
        encoder.put_list("guesses", self.guesses.iter())?;
        for ladder in &self.ladders {
            ladder.encode(encoder)?;
        }
        encoder.put_list("decisions", self.decisions.iter())
    }

    fn decode(decoder: &mut Decoder<'_>, settings: &Settings) -> Result<Self>
    where
        S: DeserializeOwned,
    {
        let round = decoder.take("round")?;
        let expected = "1 to 30";
        Error::check(
            (1..=30).contains(&round),
            "finished rounds",
            round,
            expected,
        )?;
        let least = format!("at least {round}, those that are finished");
        Error::check(round <= settings.rounds, "rounds", settings.rounds, least)?;
        let schedule: Schedule = decoder.take("schedule")?;
        Error::check_found(
            "stages of the schedule",
            &schedule.steps(),
            &settings.schedule.steps(),
        )?;
        let guesses: Vec<f64> = decoder.take_list("guesses", schedule.steps())?;
        Error::check_finite("guesses", guesses.iter().copied())?;
        let plan = Plan::new(settings, round, (&schedule, &guesses), 0);
        let ladder = |_| Ladder::decode(decoder, &plan, plan.scans);
        let ladders = (0..settings.ladders).map(ladder).collect::<Result<_>>()?;
        Ok(Self {
            round,
            ladders,
            decisions: decoder.take_list("decisions", schedule.betas().len())?,
            schedule,
            guesses,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use nalgebra::dvector;

    use super::*;
    use crate::ais::Progress;
    use crate::checkpoint::hostile::{Folder, damaged, largest_allocation, repaired};
    use crate::kernel::PersistentHmc;
    use crate::model::Gaussian;
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};

    #[test]
    fn a_thousand_damaged_checkpoints_of_tempered_runs_do_no_harm() {
        let normal = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let base = normal(dvector![0.0], 1.0);
        let path = GeometricPath::new(base, normal(dvector![1.0], 0.4));
        let tempering = || {
            Tempering::new(&path, PersistentHmc::new(0.3, 2, 0.4).unwrap())
                .schedule(Schedule::linear(3).unwrap())
                .ladders(5)
                .block_size(2)
                .rounds(4)
                .samples(20)
                .threads(1)
        };
        let folder = Folder::new("damaged_tempering");
        let file = folder.file("run");
        // Two rounds of 20 chains are finished, and of the third round one of three blocks.
        let stopped = tempering().progress(|at: Progress| match at.done >= 20 * 6 + 8 * 8 + 20 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        let _ = stopped.checkpoint(&file).run().unwrap();
        let original = std::fs::read(&file).unwrap();
        let mut rng = stream(5, Purpose::Testing, 0);
        let mut went_on = 0;
        for trial in 0..1_000 {
            let bytes = damaged(&original, &mut rng);
            let repair = trial % 2 == 0;
            let bytes = if repair { repaired(bytes) } else { bytes };
            std::fs::write(&file, &bytes).unwrap();
            let tempering = tempering();
            let (found, largest) = largest_allocation(|| tempering.checkpoint(&file).resume());
            assert!(repair || found.is_err(), "trial {trial}");
            assert!(
                largest <= bytes.len() + (1 << 20),
                "trial {trial}: {largest}"
            );
            went_on += u32::from(found.is_ok());
        }
        // Most bits are those of floats, and any of them will do.
        assert!((100..400).contains(&went_on), "{went_on}");
    }
}
