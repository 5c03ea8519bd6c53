//! Saved blocks of a run in progress, and runs that write checkpoints.

use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fingerprint::identity;
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::settings::Settings;
use super::stages::{StageRecorder, WindowSums, Windows};
use super::task::{AisTask, BlockCodec, Underway};
use crate::estimate::Warning;
use crate::kernel::{Decisions, SavedBlock, TransitionKernel, check_stages};
use crate::path::AnnealingPath;
use crate::population::{Genealogy, Population};
use crate::work::ranks::{OnRanks, Ranks};
use crate::work::store::{Checkpointed, Resumable, decode, encode};
use crate::work::{Execution, Format, Identity, Job};
use crate::{Error, Result};

/// Records of a block: the sums of each window of neighbouring stages, the sums recorded at the change of weights
/// between target and surrogate, and, for the start of the current window, the log weights and the number of
/// accept-reject decisions so far.
type SavedStages = (Vec<WindowSums>, Option<WindowSums>, Vec<f64>, Decisions);

impl StageRecorder {
    /// Returns the records after `passed` stages (at least one), as [`SavedStages`].
    fn saved(&self, passed: usize) -> impl Serialize {
        let begun = &self.records[..=self.windows.of_stage(passed)];
        (begun, &self.target, &self.start, &self.decisions)
    }

    /// Restores the records of a block after `passed` stages (at least one).
    ///
    /// # Errors
    /// Other numbers of windows or chains; records that do not fit these numbers.
    fn restored(
        windows: Windows,
        passed: usize,
        chains: &Range<usize>,
        (mut records, target, start, decisions): SavedStages,
    ) -> Result<Self> {
        let begun = windows.of_stage(passed) + 1;
        Error::check_dimension("recorded stages", records.len(), begun)?;
        let count = chains.len();
        Error::check_dimension("log weights at a recorded stage", start.len(), count)?;
        let of_target = target.iter().all(|target| target.fits(chains));
        let fit = windows.fit(&records, passed, chains) && of_target;
        let expected = format!("those of {count} chains");
        Error::check(fit, "recorded stages", "records that do not fit", expected)?;
        records.resize(windows.count(), WindowSums::default());
        Ok(Self {
            windows,
            records,
            target,
            start,
            decisions,
            weighed: Vec::new(),
        })
    }
}

/// A block in progress: number of stages passed, chains, records, recorder, and the first ancestor of each chain.
type SavedProgress<S, R> = (usize, SavedBlock<S>, SavedStages, R, Option<Vec<usize>>);

/// Returns the functions that write and read blocks in progress, and their outputs.
pub(crate) fn block_codec<P, R>() -> BlockCodec<P, R>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned>,
    R: Recorder<P::At> + Serialize + DeserializeOwned,
{
    BlockCodec {
        write: write_block,
        read: read_block,
        output: Format::serde(),
    }
}

fn write_block<P, R>(at: &Underway<P, R>) -> Result<Vec<u8>>
where
    P: AnnealingPath<State: Serialize>,
    R: Serialize,
{
    let roots = at.genealogy.as_ref().map(|genealogy| &genealogy.roots);
    let block = at.population.block().saved();
    let stages = at.stages.saved(at.passed);
    encode(
        "block at work",
        &(at.passed, block, stages, &at.recorder, roots),
    )
}

/// Reads a block that [`write_block`] wrote, and refuses any other bytes.
fn read_block<P, R>(task: &AisTask<'_, P, R>, block: usize, bytes: &[u8]) -> Result<Underway<P, R>>
where
    P: AnnealingPath<State: DeserializeOwned>,
    R: Recorder<P::At> + DeserializeOwned,
{
    let saved: SavedProgress<P::State, R> = decode("block at work", bytes)?;
    let (passed, found, stages, mut recorder, roots) = saved;
    recorder.resume_as(&task.recorder);
    let Settings { schedule, .. } = &task.settings;
    let chains = task.settings.chains_of(block..block + 1);
    let windows = task.settings.windows();
    let steps = schedule.stages();
    // A block is saved only after a step, and not after its last one.
    let expected = format!("1 to {}", steps - 1);
    let within = (1..steps).contains(&passed);
    Error::check(within, "stages passed", passed, expected)?;
    let beta = schedule.betas()[windows.model(passed)];
    let population = Population::restored(task.path.clone(), beta, &chains, found)?;
    let population = population.by_surrogates(task.settings.has_surrogates);
    let mut genealogy = task.settings.genealogy(task.copy, population.block());
    restore_roots(&mut genealogy, roots, &chains)?;
    Ok(Underway {
        population: population.at_stage(passed),
        recorder,
        passed,
        stages: StageRecorder::restored(windows, passed, &chains, stages)?,
        genealogy,
    })
}

fn restore_roots<S>(
    genealogy: &mut Option<Genealogy<S>>,
    roots: Option<Vec<usize>>,
    chains: &Range<usize>,
) -> Result<()> {
    let with_roots = roots.is_some();
    let expected = if genealogy.is_some() { "some" } else { "none" };
    let fits = with_roots == genealogy.is_some();
    Error::check(fits, "first ancestors", with_roots, expected)?;
    if let (Some(genealogy), Some(roots)) = (genealogy, roots) {
        Error::check_dimension("first ancestors", roots.len(), chains.len())?;
        let expected = format!("chains of {chains:?}");
        let within = roots.iter().all(|root| chains.contains(root));
        Error::check(within, "first ancestors", "others", expected)?;
        genealogy.roots = roots;
    }
    Ok(())
}

impl<P: AnnealingPath, K, R> Ais<'_, P, K, R> {
    /// Returns the same run with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same run shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each process gets the result, with the bits of [`run`](Self::run).
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
    R: Recorder<P::At> + Serialize + DeserializeOwned + Send + Sync,
{
    type Run = Run<P::State, R>;

    const KIND: &'static str = "ais";

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn identity(&self) -> Result<Identity> {
        let settings = &self.settings;
        let schedule = &settings.schedule;
        settings.check()?;
        check_stages("steps of the schedule", self.kernel.stages(), schedule)?;
        // If a recorder cannot be written, the run fails here, at the start.
        encode("recorder", &self.recorder)?;
        let path = self.path.clone();
        let identity = identity(path, &self.kernel, schedule, settings.named())?;
        Ok(identity
            .with_schedule(schedule)
            .with_length("chains", settings.chains))
    }

    /// Returns the number of usable blocks of a saved run with `chains` chains, which must not exceed this run's
    /// number. If `chains` is smaller, a partial last block is run again.
    fn usable(&self, chains: usize) -> Result<usize> {
        let (mine, size) = (self.settings.chains, self.settings.block_size);
        let expected = format!("at least {chains}, as many as it was begun with");
        Error::check(chains <= mine, "chains", mine, expected)?;
        Ok(if chains < mine {
            chains / size
        } else {
            chains.div_ceil(size)
        })
    }

    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run> {
        let task = self.task()?.saved_by(Some(block_codec()));
        task.run_all(job, self.execution.until_error)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use nalgebra::{DVector, dvector};
    use serde::Deserialize;

    use super::*;
    use crate::kernel::{Block, Hmc, Stage};
    use crate::model::{Gaussian, UnnormalizedModel};
    use crate::path::{GeometricPath, Intermediate};
    use crate::population::{Resampling, WasteFree};
    use crate::schedule::Schedule;
    use crate::work::{Halt, Merge, Pulse, Stepped, Task};

    type Path = GeometricPath<Gaussian, Gaussian>;
    type Run<'p> = Ais<'p, &'p Path, Hmc, Means>;

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

    /// Returns a plain, a resampled and a waste-free run: 11 stages in windows of 3, blocks of 4, 4 and 2 chains.
    fn runs(path: &Path) -> [Run<'_>; 3] {
        let plain = || {
            Ais::new(path, Hmc::new(0.3, 2).unwrap())
                .schedule(Schedule::linear(11).unwrap())
                .chains(10)
                .block_size(4)
                .recorded_stages(4)
                .record_at([3.0 / 11.0])
                .recorder(Means::default())
        };
        let resampling = Resampling::when_ess_below(0.9).unwrap();
        let waste_free = WasteFree::new(2).unwrap();
        [
            plain(),
            plain().resampling(resampling),
            plain().waste_free(waste_free).record_at([4.0 / 11.0, 1.0]),
        ]
    }

    fn task<'t, 'p>(run: &'t Run<'p>) -> AisTask<'t, &'p Path, Means> {
        let task = run.task().unwrap();
        task.saved_by(Some(block_codec()))
    }

    type Output<'p> = <AisTask<'p, &'p Path, Means> as Task>::Output;

    /// Runs a block from its start or from `saved`, and cancels it after some steps. Returns its output, if it came to
    /// its end, and the bytes that it has left.
    fn cut<'p>(
        run: &Run<'p>,
        block: usize,
        saved: Option<Vec<u8>>,
        steps: usize,
    ) -> (Option<Output<'p>>, Vec<u8>) {
        let (passed, left) = (Cell::new(0), RefCell::default());
        let step = |stepped: Stepped, save: &dyn Fn() -> Result<Vec<u8>>| {
            passed.set(passed.get() + 1);
            if passed.get() < steps || stepped.is_last {
                return Ok(());
            }
            left.replace(save()?);
            Err(Halt::Canceled)
        };
        let task = task(run);
        let mut pulse = Pulse::new(task.chains(block), saved, &step);
        let done = task.run(block, &mut pulse);
        (done.ok(), left.into_inner())
    }

    fn saved(run: &Run<'_>) -> Vec<u8> {
        let (done, left) = cut(run, 0, None, 7);
        assert!(done.is_none());
        left
    }

    #[test]
    fn a_block_goes_on_as_if_it_had_not_been_interrupted() {
        let path = path();
        for (run, index) in runs(&path).iter().flat_map(|run| [(run, 0), (run, 2)]) {
            let end = |saved| {
                let (result, _) = cut(run, index, saved, 11);
                encode("result", &result.unwrap()).unwrap()
            };
            let whole = end(None);
            for steps in 1..11 {
                let (result, saved) = cut(run, index, None, steps);
                assert!(result.is_none());
                assert!(end(Some(saved)) == whole);
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
        let shorter = other.schedule(Schedule::linear(7).unwrap()).record_at([]);
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
        let merged = |windows: &[WindowSums]| {
            let mut windows = windows.to_vec();
            let second = windows[1].clone();
            windows[0].merge(&second);
            windows
        };
        refused(&|_| ()).unwrap();
        refused(&|block| block.1.3[1] = f64::NEG_INFINITY).unwrap();
        for (message, expected) in [
            (
                refused(&|block| block.1.3[1] = f64::NAN),
                "log weights: got NaN at chain 1",
            ),
            (
                refused(&|block| block.1.3.truncate(3)),
                "log weights: got 3, expected 4",
            ),
            (
                refused(&|block| block.2.0 = merged(&block.2.0)),
                "records that do not fit",
            ),
            (
                refused(&|block| block.2.0[0].kept = None),
                "records that do not fit",
            ),
        ] {
            let message = message.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}, {expected}");
        }
    }
}
