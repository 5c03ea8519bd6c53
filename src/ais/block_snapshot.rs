//! A block of chains on its way through the schedule, as bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::in_progress::InProgress;
use super::lineage::Lineage;
use super::population::Population;
use super::settings::Settings;
use super::stages::StageRecorder;
use crate::chain::Block;
use crate::checkpoint::{Decoder, Encoder};
use crate::kernel::Workspace;
use crate::path::AnnealingPath;
use crate::{Error, Result};

impl<'p, P: AnnealingPath, W: Workspace, R> InProgress<'p, P, W, R> {
    /// The block as bytes.
    ///
    /// # Errors
    /// States, memories or a recorder that the format cannot hold.
    pub(super) fn encode(&self) -> Result<Vec<u8>>
    where
        P::State: Serialize,
        W::Memory: Serialize,
        R: Serialize,
    {
        let mut encoder = Encoder::default();
        encoder.put("stages passed", &self.passed)?;
        self.population.encode(&mut encoder)?;
        self.stages.encode(&mut encoder, self.passed)?;
        encoder.put("recorder", &self.recorder)?;
        if let Some(lineage) = &self.lineage {
            encoder.put_list("first ancestors", lineage.roots.iter())?;
        }
        Ok(encoder.finish())
    }

    /// The block of this index in a run of these settings, which the caller has checked. `lineage` makes what lets
    /// its chains interact.
    ///
    /// # Errors
    /// Bytes that are no such block.
    pub(super) fn decode(
        bytes: &[u8],
        path: &'p P,
        settings: &Settings,
        block: usize,
        lineage: impl FnOnce(&Block<P::State>) -> Option<Lineage<P::State>>,
    ) -> Result<Self>
    where
        P::State: DeserializeOwned,
        W::Memory: DeserializeOwned,
        R: DeserializeOwned,
    {
        let (chains, windows) = (settings.chains_of(block..block + 1), settings.windows());
        let mut decoder = Decoder::new(bytes);
        let passed = decoder.take("stages passed")?;
        let steps = settings.schedule.steps();
        let expected = format!("1 to {}", steps - 1);
        Error::check(
            (1..steps).contains(&passed),
            "stages passed",
            passed,
            expected,
        )?;
        let beta = settings.schedule.betas()[windows.model(passed)];
        let population = Population::decode(&mut decoder, path, beta, &chains)?.at_stage(passed);
        let stages = StageRecorder::decode(&mut decoder, windows, passed, chains.len())?;
        let recorder = decoder.take("recorder")?;
        let mut lineage = lineage(population.block());
        if let Some(lineage) = &mut lineage {
            let roots: Vec<usize> = decoder.take_list("first ancestors", chains.len())?;
            let expected = format!("chains of {chains:?}");
            let astray = roots.iter().find(|root| !chains.contains(root));
            let root = astray.copied().unwrap_or_default();
            Error::check(astray.is_none(), "first ancestors", root, expected)?;
            lineage.roots = roots;
        }
        decoder.finish()?;
        Ok(Self {
            passed,
            population,
            stages,
            recorder,
            lineage,
        })
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DVector, dvector};
    use serde::Deserialize;

    use super::*;
    use crate::ais::lineage::Interaction;
    use crate::ais::recorder::Recorder;
    use crate::ais::route::Forward;
    use crate::ais::{Merge, Resampling, WasteFree, caught};
    use crate::chain::Stage;
    use crate::checkpoint::hostile::{Folder, damaged, largest_allocation, repaired};
    use crate::checkpoint::{Header, Place, read, write};
    use crate::kernel::{PersistentHmc, TransitionKernel};
    use crate::model::{Gaussian, UnnormalizedModel};
    use crate::path::{GeometricPath, Intermediate};
    use crate::random::{Purpose, stream};
    use crate::schedule::Schedule;

    type Path = GeometricPath<Gaussian, Gaussian>;
    type Memory =
        <PersistentHmc as TransitionKernel<<Path as AnnealingPath>::At<'static>>>::Workspace;
    type Block<'a> = InProgress<'a, Path, Memory, Means>;

    /// The mean of the first coordinate at each recorded stage.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Means(Vec<f64>);

    impl Merge for Means {
        fn merge(&mut self, _right: Self) {}
    }

    impl<M: Intermediate + UnnormalizedModel<State = DVector<f64>>> Recorder<M> for Means {
        fn record(&mut self, _stage: Stage<'_, M>, block: &crate::chain::Block<M::State>) {
            self.0.push(block.states().iter().map(|x| x[0]).sum());
        }
    }

    fn path() -> Path {
        let normal = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let target = normal(dvector![1.0, -1.0], 0.4);
        GeometricPath::new(normal(dvector![0.0, 0.0], 1.0), target)
    }

    fn kernel() -> PersistentHmc {
        PersistentHmc::new(0.3, 2, 0.4).unwrap()
    }

    /// 11 stages in windows of 3, and blocks of 4, 4 and 2 chains.
    fn settings(path: &Path, interaction: Option<Interaction>) -> Settings {
        Settings {
            schedule: Schedule::linear(11).unwrap(),
            chains: 10,
            block_size: 4,
            recorded_stages: 4,
            interaction,
            ..Settings::new(path, 0.0)
        }
    }

    fn interactions() -> [Option<Interaction>; 3] {
        let resampling = Resampling::when_ess_below(0.9).unwrap();
        let waste_free = WasteFree::new(2).unwrap();
        let each = [
            Interaction::Resampling(resampling),
            Interaction::WasteFree(waste_free),
        ];
        let [a, b] = each.map(Some);
        [None, a, b]
    }

    fn lineage(
        settings: &Settings,
        block: &crate::chain::Block<DVector<f64>>,
    ) -> Option<Lineage<DVector<f64>>> {
        Lineage::of(settings, Some(Clone::clone), block)
    }

    fn start<'a>(path: &'a Path, settings: &Settings, block: usize) -> Block<'a> {
        let chains = settings.chains_of(block..block + 1);
        let first = stream(3, Purpose::Testing, chains.start);
        let population = Population::start(path, chains.start, chains.len(), first).unwrap();
        let lineage = lineage(settings, population.block());
        InProgress::new(population, settings.windows(), Means::default(), lineage)
    }

    /// Passes so many stages in all.
    fn pass<'a>(
        block: &mut Block<'a>,
        path: &'a Path,
        settings: &Settings,
        to: usize,
    ) -> Result<()> {
        let kernel = &kernel();
        let route = Forward {
            path,
            kernel,
            settings,
        };
        while block.passed < to {
            block.pass(&route)?;
        }
        Ok(())
    }

    fn decode<'a>(
        bytes: &[u8],
        path: &'a Path,
        settings: &Settings,
        block: usize,
    ) -> Result<Block<'a>> {
        InProgress::decode(bytes, path, settings, block, |block| {
            lineage(settings, block)
        })
    }

    #[test]
    fn a_block_goes_on_as_if_it_had_not_been_interrupted() {
        let path = path();
        for interaction in interactions() {
            let settings = settings(&path, interaction);
            for index in [0, 2] {
                let mut whole = start(&path, &settings, index);
                pass(&mut whole, &path, &settings, 11).unwrap();
                for stage in 1..11 {
                    let mut block = start(&path, &settings, index);
                    pass(&mut block, &path, &settings, stage).unwrap();
                    let bytes = block.encode().unwrap();
                    let mut block = decode(&bytes, &path, &settings, index).unwrap();
                    pass(&mut block, &path, &settings, 11).unwrap();
                    assert_eq!(block.encode().unwrap(), whole.encode().unwrap(), "{stage}");
                    assert_eq!(block.stages.finish(), whole.stages.records);
                }
            }
        }
    }

    #[test]
    fn a_block_of_another_run_is_refused() {
        let path = path();
        let settings = settings(&path, interactions()[1].clone());
        let mut block = start(&path, &settings, 0);
        pass(&mut block, &path, &settings, 7).unwrap();
        let bytes = block.encode().unwrap();
        let refused = |change: &dyn Fn(&mut Settings), index| {
            let mut other = settings.clone();
            change(&mut other);
            let decoded = decode(&bytes, &path, &other, index).map(|_| ());
            decoded.unwrap_err().to_string()
        };
        let schedule = |steps| Schedule::linear(steps).unwrap();
        for (message, expected) in [
            (refused(&|_| (), 2), "states: got 4, expected 2"),
            (refused(&|_| (), 1), "first ancestors"),
            (
                refused(&|s| s.block_size = 5, 0),
                "states: got 4, expected 5",
            ),
            (
                refused(&|s| s.schedule = schedule(7), 0),
                "got 7, expected 1 to 6",
            ),
            (
                refused(&|s| s.recorded_stages = 11, 0),
                "recorded stages: got 3, expected 7",
            ),
            (refused(&|s| s.interaction = None, 0), "bytes after it"),
        ] {
            assert!(message.contains(expected), "{message}, {expected}");
        }
    }

    #[test]
    fn values_that_no_run_has_are_refused() {
        let path = path();
        let settings = settings(&path, None);
        let refused = |change: &dyn Fn(&mut Block<'_>)| {
            let mut block = start(&path, &settings, 0);
            pass(&mut block, &path, &settings, 7).unwrap();
            change(&mut block);
            let decoded = decode(&block.encode().unwrap(), &path, &settings, 0);
            decoded.map(|_| ())
        };
        let weigh = |block: &mut Block<'_>, log_weight| {
            block.population.block_mut().set_log_weight(1, log_weight);
        };
        refused(&|_| ()).unwrap();
        refused(&|block| weigh(block, f64::NEG_INFINITY)).unwrap();
        for log_weight in [f64::NAN, f64::INFINITY] {
            let message = refused(&|block| weigh(block, log_weight)).unwrap_err();
            let expected = format!("log weights: got {log_weight} at chain 1");
            assert!(message.to_string().contains(&expected), "{message}");
        }
        let message = refused(&|block| {
            let other = block.stages.records[1].clone();
            block.stages.records[0].merge(&other);
        });
        let message = message.unwrap_err().to_string();
        assert!(message.contains("sums of too many chains"), "{message}");
    }

    #[test]
    fn a_thousand_damaged_checkpoints_do_no_harm() {
        let folder = Folder::new("damaged_checkpoints");
        let file = folder.file("run");
        let path = path();
        let header = Header {
            kind: "ais",
            label: None,
        };
        let mut rng = stream(2, Purpose::Testing, 0);
        for interaction in interactions() {
            let settings = settings(&path, interaction);
            let mut block = start(&path, &settings, 0);
            pass(&mut block, &path, &settings, 7).unwrap();
            write(&Place::new(&file), &header, &[&block.encode().unwrap()]).unwrap();
            let original = std::fs::read(&file).unwrap();
            for trial in 0..400 {
                let bytes = damaged(&original, &mut rng);
                let repair = trial % 2 == 0;
                let bytes = if repair { repaired(bytes) } else { bytes };
                std::fs::write(&file, &bytes).unwrap();
                let (found, largest) = largest_allocation(|| {
                    read(&file, &header, |payload| {
                        decode(payload, &path, &settings, 0)
                    })
                });
                assert!(repair || found.is_err(), "trial {trial}");
                assert!(
                    largest <= bytes.len() + (1 << 20),
                    "trial {trial}: {largest}"
                );
                if let Ok(mut block) = found {
                    // A state of another dimension panics, as it would in a run.
                    let _ = caught(|| pass(&mut block, &path, &settings, 11));
                }
            }
        }
    }
}
