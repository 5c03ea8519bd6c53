//! Saved blocks of a run under way, and runs that write checkpoints.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::along::Along;
use super::block_result::BlockResult;
use super::fingerprint::fingerprint;
use super::probe::Likeness;
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::settings::Settings;
use super::stages::{StageBin, StageBins, StageRecorder};
use super::task::{AisTask, Codec, InProgress};
use crate::estimate::Warning;
use crate::kernel::{Block, Decisions, SavedBlock, TransitionKernel, Workspace, check_stages};
use crate::path::AnnealingPath;
use crate::work::ranks::{OnRanks, Ranks};
use crate::work::store::{Checkpointed, KeptJob, Resumable, decode, encode};
use crate::work::{Execution, Halt, Merge, Persist, Pulse};
use crate::{Error, Result};

/// Records of a block: the sums of each window, and the log weights and decisions at the start of the current one.
type SavedStages = (Vec<StageBin>, Vec<f64>, Decisions);

impl StageRecorder {
    /// Returns the records after `passed` stages, at least one, as [`SavedStages`].
    fn saved(&self, passed: usize) -> impl Serialize {
        let begun = &self.records[..=self.windows.of_stage(passed)];
        (begun, &self.start, &self.decisions)
    }

    /// Restores the records of a block after `passed` stages, at least one.
    ///
    /// # Errors
    /// Other numbers of windows or chains; counts above `chains`.
    fn restored(
        windows: StageBins,
        passed: usize,
        chains: usize,
        (mut records, start, decisions): SavedStages,
    ) -> Result<Self> {
        let begun = windows.of_stage(passed) + 1;
        Error::check_dimension("recorded stages", records.len(), begun)?;
        Error::check_dimension("log weights at a recorded stage", start.len(), chains)?;
        let fit = records.iter().all(|window| window.fits(chains));
        let expected = format!("at most {chains} of each");
        Error::check(fit, "recorded stages", "sums of too many chains", expected)?;
        records.resize(windows.count(), StageBin::default());
        Ok(Self {
            windows,
            records,
            start,
            decisions,
            weighed: Vec::new(),
        })
    }
}

/// A block under way: stages passed, chains with the kernel's memories, records, recorder, and roots.
type SavedProgress<S, R> = (
    usize,
    (SavedBlock<S>, Vec<u8>),
    SavedStages,
    R,
    Option<Vec<usize>>,
);

impl<S, R> Persist for AisTask<'_, S, R>
where
    S: Serialize + DeserializeOwned + Send,
    R: Merge + Clone + Serialize + DeserializeOwned + Send + Sync,
{
    fn run_saved(&self, block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        let codec = Codec {
            write: write_block,
            read: read_block,
        };
        self.anneal(block, pulse, Some(&codec))
    }

    fn check_saved(&self, block: usize, bytes: &[u8]) -> Result<u64> {
        let at = read_block(self, block, bytes)?;
        Ok((at.passed * at.chains.block().len()) as u64)
    }

    fn check(&self, blocks: Range<usize>, output: &BlockResult<S, R>) -> Result<()> {
        let fits = output.fits(&self.settings, &self.settings.chains_of(blocks));
        Error::check(
            fits,
            "finished blocks",
            "chains that do not fit",
            "those of the settings",
        )
    }
}

fn write_block<S, R>(at: &InProgress<'_, S, R>) -> Result<Vec<u8>>
where
    S: Serialize,
    R: Serialize,
{
    let roots = at.genealogy.as_ref().map(|genealogy| &genealogy.roots);
    let chains = (at.chains.block().saved(), at.chains.memories()?);
    let stages = at.stages.saved(at.passed);
    encode(
        "block under way",
        &(at.passed, chains, stages, &at.recorder, roots),
    )
}

/// Reads a block that [`write_block`] wrote, and refuses other bytes.
fn read_block<'t, S, R>(
    task: &AisTask<'t, S, R>,
    block: usize,
    bytes: &[u8],
) -> Result<InProgress<'t, S, R>>
where
    S: DeserializeOwned,
    R: DeserializeOwned,
{
    let saved: SavedProgress<_, _> = decode("block under way", bytes)?;
    let (passed, found, stages, mut recorder, roots) = saved;
    task.along.resume(&mut recorder, &task.recorder);
    let Settings { schedule, .. } = &task.settings;
    let (chains, windows) = (
        task.settings.chains_of(block..block + 1),
        task.settings.windows(),
    );
    let (steps, expected) = (schedule.stages(), format!("1 to {}", schedule.stages() - 1));
    Error::check(
        (1..steps).contains(&passed),
        "stages passed",
        passed,
        expected,
    )?;
    let beta = schedule.betas()[windows.model(passed)];
    let block = Block::restored(&chains, found.0)?;
    let mut moved = Arc::clone(&task.along).place((passed, beta), block)?;
    moved.set_memories(&found.1)?;
    let mut genealogy = task.genealogy(moved.block());
    let with_roots = roots.is_some();
    let expected = if genealogy.is_some() { "some" } else { "none" };
    Error::check(
        with_roots == genealogy.is_some(),
        "first ancestors",
        with_roots,
        expected,
    )?;
    if let (Some(genealogy), Some(roots)) = (&mut genealogy, roots) {
        Error::check_dimension("first ancestors", roots.len(), chains.len())?;
        let expected = format!("chains of {chains:?}");
        let within = roots.iter().all(|root| chains.contains(root));
        Error::check(within, "first ancestors", "others", expected)?;
        genealogy.roots = roots;
    }
    Ok(InProgress {
        passed,
        stages: StageRecorder::restored(windows, passed, chains.len(), stages)?,
        chains: moved,
        recorder,
        genealogy,
    })
}

impl<P: AnnealingPath, K, R> Ais<'_, P, K, R> {
    /// Returns the same run with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same run shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each gets the result, with the bits of [`run`](Self::run).
    ///
    /// Rank r of n runs the blocks b with `b mod n = r`. `docs/many-machines.md` measures costs and scaling.
    pub fn ranks<'a>(&'a self, ranks: &'a dyn Ranks) -> OnRanks<'a, Self> {
        OnRanks::new(self, ranks)
    }
}

impl<'p, P, K, R> Resumable for Ais<'p, P, K, R>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned + Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
    R: Recorder<P::At> + Serialize + DeserializeOwned + Send + Sync,
{
    type Run = Run<P::State, R>;
    type Settings = Settings;
    type Likeness = Likeness;

    const KIND: &'static str = "ais";

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn fingerprint(&self) -> Result<u32> {
        let schedule = &self.settings.schedule;
        self.settings.check()?;
        check_stages("steps of the schedule", self.kernel.stages(), schedule)?;
        // A recorder that cannot be written fails here, at the start.
        encode("recorder", &self.recorder)?;
        fingerprint(self.path.clone(), &self.kernel, schedule)
    }

    /// Accepts more chains than before; a partial last block is then run again.
    fn check_found(&self, found: &Settings) -> Result<usize> {
        self.settings.check_found(found)?;
        found.check()?;
        let (mine, theirs) = (self.settings.chains, found.chains);
        let expected = format!("at least {theirs}, as many as it was begun with");
        Error::check(theirs <= mine, "chains", mine, expected)?;
        Ok(if theirs < mine {
            theirs / found.block_size
        } else {
            found.blocks()
        })
    }

    fn likeness(&self) -> Likeness {
        Likeness::of(self.path.clone(), &self.kernel, &self.settings.schedule)
    }

    fn check_alike(&self, settings: &Settings, likeness: &Likeness) -> Result<()> {
        Error::check_found("chains", &self.settings.chains, &settings.chains)?;
        settings.check_found(&self.settings)?;
        self.likeness().check_alike(likeness)
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Self::Run> {
        let along = Along::kept(self.path.clone(), &self.kernel);
        self.plan_along(along).go_with(job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DVector, dvector};
    use serde::Deserialize;

    use super::*;
    use crate::kernel::{PersistentHmc, Stage};
    use crate::model::{Gaussian, UnnormalizedModel};
    use crate::path::{GeometricPath, Intermediate};
    use crate::population::{Resampling, WasteFree};
    use crate::schedule::Schedule;
    use crate::work::{Place, Stepped};

    type Path = GeometricPath<Gaussian, Gaussian>;
    type Run<'p> = Ais<'p, &'p Path, PersistentHmc, Means>;

    /// Sums of the first coordinate over the chains, by recorded stage.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Means(Vec<f64>);

    impl Merge for Means {
        fn merge(&mut self, _right: Self) {}
    }

    impl<M: Intermediate + UnnormalizedModel<State = DVector<f64>>> Recorder<M> for Means {
        fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
            self.0.push(block.states().iter().map(|x| x[0]).sum());
        }
    }

    fn path() -> Path {
        let normal = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let target = normal(dvector![1.0, -1.0], 0.4);
        GeometricPath::new(normal(dvector![0.0, 0.0], 1.0), target)
    }

    /// Runs with 11 stages in windows of 3, and blocks of 4, 4 and 2 chains: plain, resampled and waste-free.
    fn runs(path: &Path) -> [Run<'_>; 3] {
        let plain = || {
            Ais::new(path, PersistentHmc::new(0.3, 2, 0.4).unwrap())
                .schedule(Schedule::linear(11).unwrap())
                .chains(10)
                .block_size(4)
                .recorded_stages(4)
                .recorder(Means::default())
        };
        let resampling = Resampling::when_ess_below(0.9).unwrap();
        let waste_free = WasteFree::new(2).unwrap();
        [
            plain(),
            plain().resampling(resampling),
            plain().waste_free(waste_free),
        ]
    }

    fn task<'t>(run: &'t Run<'_>) -> AisTask<'t, DVector<f64>, Means> {
        let plan = run.plan_along(Along::kept(run.path, &run.kernel));
        plan.task(&(0..10)).unwrap()
    }

    /// The pulse of a block that goes on from what was saved, and is canceled after some steps.
    struct Cut {
        resumed: Option<Vec<u8>>,
        steps: usize,
        saved: Vec<u8>,
    }

    impl Cut {
        fn after(steps: usize) -> Self {
            Self {
                resumed: None,
                steps,
                saved: Vec::new(),
            }
        }
    }

    impl Pulse for Cut {
        fn resumed(&mut self) -> Option<Vec<u8>> {
            self.resumed.take()
        }

        fn at(&mut self, _place: Place) {}

        fn step(
            &mut self,
            stepped: Stepped,
            save: &dyn Fn() -> Result<Vec<u8>>,
        ) -> Result<(), Halt> {
            self.steps -= 1;
            if self.steps > 0 || stepped.is_last {
                return Ok(());
            }
            self.saved = save()?;
            Err(Halt::Canceled)
        }
    }

    fn saved(run: &Run<'_>) -> Vec<u8> {
        let mut cut = Cut::after(7);
        assert!(task(run).run_saved(0, &mut cut).is_err());
        cut.saved
    }

    #[test]
    fn a_block_goes_on_as_if_it_had_not_been_interrupted() {
        let path = path();
        for (run, index) in runs(&path).iter().flat_map(|run| [(run, 0), (run, 2)]) {
            let end = |resumed| {
                let mut rest = Cut {
                    resumed,
                    ..Cut::after(11)
                };
                let result = task(run).run_saved(index, &mut rest).unwrap();
                encode("result", &result).unwrap()
            };
            let whole = end(None);
            for steps in 1..11 {
                let mut cut = Cut::after(steps);
                assert!(task(run).run_saved(index, &mut cut).is_err());
                assert!(end(Some(cut.saved)) == whole);
            }
        }
    }

    #[test]
    fn a_block_of_another_run_is_refused() {
        let path = path();
        let [plain, resampled, _] = runs(&path);
        let bytes = saved(&resampled);
        let refused = |run: &Run<'_>, index| {
            let task = task(run);
            task.check_saved(index, &bytes).unwrap_err().to_string()
        };
        let [_, other, _] = runs(&path);
        let larger = other.block_size(5);
        let [_, other, _] = runs(&path);
        let shorter = other.schedule(Schedule::linear(7).unwrap());
        let [_, other, _] = runs(&path);
        let wider = other.recorded_stages(11);
        for (message, expected) in [
            (refused(&resampled, 2), "states: got 4, expected 2"),
            (refused(&resampled, 1), "first ancestors"),
            (refused(&larger, 0), "got 4, expected 5"),
            (refused(&shorter, 0), "got 7, expected 1 to 6"),
            (refused(&wider, 0), "recorded stages: got 3, expected 7"),
            (refused(&plain, 0), "first ancestors"),
        ] {
            assert!(message.contains(expected), "{message}, {expected}");
        }
    }

    #[test]
    fn values_that_no_run_has_are_refused() {
        type Saved = SavedProgress<DVector<f64>, Means>;
        let path = path();
        let [plain, ..] = runs(&path);
        let task = task(&plain);
        let refused = |change: &dyn Fn(&mut Saved)| {
            let mut block: Saved = decode("block", &saved(&plain)).unwrap();
            change(&mut block);
            task.check_saved(0, &encode("block", &block).unwrap())
                .map(drop)
        };
        let merged = |windows: &[StageBin]| {
            let mut windows = windows.to_vec();
            let second = windows[1].clone();
            windows[0].merge(&second);
            windows
        };
        refused(&|_| ()).unwrap();
        refused(&|block| block.1.0.3[1] = f64::NEG_INFINITY).unwrap();
        for (message, expected) in [
            (
                refused(&|block| block.1.0.3[1] = f64::NAN),
                "log weights: got NaN at chain 1",
            ),
            (
                refused(&|block| block.1.0.3.truncate(3)),
                "log weights: got 3, expected 4",
            ),
            (
                refused(&|block| block.2.0 = merged(&block.2.0)),
                "too many chains",
            ),
        ] {
            let message = message.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}, {expected}");
        }
    }
}
