//! What a checkpoint of a run holds.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fingerprint::check_same;
use super::in_progress::InProgress;
use super::ledger::Share;
use super::lineage::Lineage;
use super::outcome::{Chains, Outcome, Tally};
use super::partial::PartialRun;
use super::recorder::Recorder;
use super::runner::Ais;
use super::settings::Settings;
use super::stop::StoppedBy;
use super::tree::{Forest, Node};
use crate::checkpoint::{Decoder, Encoder, Pieces};
use crate::kernel::{TransitionKernel, Workspace};
use crate::path::AnnealingPath;
use crate::{Error, Result};

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath<State: DeserializeOwned + Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: DeserializeOwned,
    R: Recorder<P::At<'p>> + DeserializeOwned + Send + Sync,
{
    /// A block on its way.
    pub(super) fn decode(
        &self,
        piece: &[u8],
        block: usize,
    ) -> Result<InProgress<'p, P, K::Workspace, R>> {
        let settings = &self.settings;
        InProgress::decode(piece, self.path, settings, block, |block| {
            Lineage::of(settings, self.copy, block)
        })
    }
}

/// What a checkpoint holds that a run can go on from.
pub(super) struct Kept<S, R> {
    /// The finished blocks.
    pub(super) nodes: Forest<Outcome<S, R>>,
    /// Wall time.
    pub(super) seconds: f64,
    /// Of the blocks under way that fall to this process.
    pub(super) chain_steps: u64,
    pub(super) pieces: Pieces,
}

impl<S, R> Default for Kept<S, R> {
    fn default() -> Self {
        Self {
            nodes: Forest::new(),
            seconds: 0.0,
            chain_steps: 0,
            pieces: Pieces::default(),
        }
    }
}

impl<S, R> Kept<S, R> {
    /// Reads and checks all of it, for a process with this share of the blocks.
    ///
    /// # Errors
    /// What no such run leaves; another run.
    pub(super) fn decode<'p, P, K>(
        payload: &[u8],
        run: &Ais<'p, P, K, R>,
        fingerprint: u32,
        share: Share,
    ) -> Result<Self>
    where
        P: AnnealingPath<State = S> + Sync,
        S: DeserializeOwned + Send,
        K: TransitionKernel<P::At<'p>> + Sync,
        <K::Workspace as Workspace>::Memory: DeserializeOwned,
        R: Recorder<P::At<'p>> + DeserializeOwned + Send + Sync,
    {
        let mut decoder = Decoder::new(payload);
        let settings: Settings = decoder.take("settings")?;
        run.settings.check_found(&settings)?;
        settings.check()?;
        check_same(decoder.take("fingerprint")?, fingerprint)?;
        let seconds = decoder.take("seconds")?;
        Error::check_number("seconds", seconds)?;
        let tallies = take_tallies(&mut decoder, &settings)?;
        decoder.take::<R>("recorder")?;
        let mut pieces = Pieces::decode(&mut decoder, settings.blocks())?;
        decoder.finish()?;

        let part = PartialRun {
            nodes: with_chains(tallies, &pieces, &settings)?,
            settings,
            stopped_by: StoppedBy::Chains,
            seconds,
            probe: None,
        };
        part.check()?;
        if part.settings.chains < run.settings.chains {
            // The last block takes more chains, if it was not full.
            pieces.truncate(part.settings.chains / part.settings.block_size);
        }
        let mut chain_steps = 0;
        for (&block, piece) in &pieces.under_way {
            let expected = format!("{}, of which some are begun, or more", part.settings.chains);
            let asked = run.settings.chains;
            Error::check(block < run.settings.blocks(), "chains", asked, expected)?;
            let at = run.decode(piece, block)?;
            if share.has(block) {
                chain_steps += (at.passed * at.population.block().len()) as u64;
            }
        }
        Ok(Self {
            nodes: part.continued(&run.settings)?,
            seconds,
            chain_steps,
            pieces,
        })
    }
}

/// Gives each node the chains of its blocks.
fn with_chains<S: DeserializeOwned, R>(
    tallies: Forest<Tally<R>>,
    pieces: &Pieces,
    settings: &Settings,
) -> Result<Forest<Outcome<S, R>>> {
    let counted = tallies.iter().flat_map(Node::blocks);
    let same = counted.eq(pieces.finished.keys().copied());
    let found = "others than their sums are of";
    Error::check(same, "finished blocks", found, "the same")?;
    let with_chains = |node: Node<Tally<R>>| {
        let mut chains = Chains::default();
        for block in node.blocks() {
            chains.extend(Chains::decode(&pieces.finished[&block], settings, block)?);
        }
        Ok(node.map(|tally| Outcome { chains, tally }))
    };
    tallies.into_iter().map(with_chains).collect()
}

/// Reads the nodes of finished blocks, from left to right, without their chains.
fn take_tallies<R: DeserializeOwned>(
    decoder: &mut Decoder<'_>,
    settings: &Settings,
) -> Result<Forest<Tally<R>>> {
    let blocks = settings.blocks();
    let count: usize = decoder.take("number of nodes")?;
    let expected = format!("at most {blocks}");
    Error::check(count <= blocks, "number of nodes", count, expected)?;
    let mut nodes = Forest::new();
    let mut next = 0;
    for _ in 0..count {
        let node: Node<()> = decoder.take("node")?;
        let place = node.is_within(blocks) && node.blocks().start >= next;
        let expected = format!("one within {next}..{blocks}");
        Error::check(place, "node", "one of other blocks", expected)?;
        next = node.blocks().end;
        let tally = Tally::decode(decoder, settings.windows().count())?;
        nodes.push(node.map(|()| tally));
    }
    Ok(nodes)
}

impl<R> Tally<R> {
    pub(super) fn encode(&self, encoder: &mut Encoder) -> Result<()>
    where
        R: Serialize,
    {
        encoder.put_list("recorded stages", self.windows.iter())?;
        encoder.put("recorder", &self.recorder)?;
        encoder.put("chains where the base has no density", &self.uncovered)
    }

    fn decode(decoder: &mut Decoder<'_>, windows: usize) -> Result<Self>
    where
        R: DeserializeOwned,
    {
        Ok(Self {
            windows: decoder.take_list("recorded stages", windows)?,
            recorder: decoder.take("recorder")?,
            uncovered: decoder.take("chains where the base has no density")?,
        })
    }
}

impl<S> Chains<S> {
    /// The chains of a block as bytes.
    pub(super) fn encode(&self) -> Result<Vec<u8>>
    where
        S: Serialize,
    {
        let mut encoder = Encoder::default();
        encoder.put_list("states", self.states.iter())?;
        encoder.put_list("log weights", self.log_weights.iter())?;
        encoder.put_list("first ancestors", self.roots.iter())?;
        Ok(encoder.finish())
    }

    /// # Errors
    /// Other numbers than the block has; first ancestors elsewhere.
    fn decode(piece: &[u8], settings: &Settings, block: usize) -> Result<Self>
    where
        S: DeserializeOwned,
    {
        let indices = settings.chains_of(block..block + 1);
        let with_roots = settings.interaction.is_some();
        let mut decoder = Decoder::new(piece);
        let chains = Self {
            states: decoder.take_list("states", indices.len())?,
            log_weights: decoder.take_list("log weights", indices.len())?,
            roots: decoder.take_list(
                "first ancestors",
                if with_roots { indices.len() } else { 0 },
            )?,
        };
        decoder.finish()?;
        let within = chains.roots.iter().all(|root| indices.contains(root));
        let expected = format!("chains of {indices:?}");
        Error::check(within, "first ancestors", "others", expected)?;
        Ok(chains)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use nalgebra::{DVector, dvector};
    use serde::Deserialize;

    use super::*;
    use crate::ais::{Merge, Progress, Resampling};
    use crate::chain::{Block, Stage};
    use crate::checkpoint::hostile::{Folder, damaged, largest_allocation, repaired};
    use crate::kernel::PersistentHmc;
    use crate::model::{Gaussian, UnnormalizedModel};
    use crate::path::{GeometricPath, Intermediate};
    use crate::random::{Purpose, stream};
    use crate::schedule::Schedule;

    /// The sum of the first coordinates.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    struct Sum(f64);

    impl Merge for Sum {
        fn merge(&mut self, right: Self) {
            self.0 += right.0;
        }
    }

    impl<M: Intermediate + UnnormalizedModel<State = DVector<f64>>> Recorder<M> for Sum {
        fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
            self.0 += block.states().iter().map(|x| x[0]).sum::<f64>();
        }
    }

    #[test]
    fn a_thousand_damaged_checkpoints_of_runs_do_no_harm() {
        let normal = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let base = normal(dvector![0.0, 0.0], 1.0);
        let path = GeometricPath::new(base, normal(dvector![1.0, -1.0], 0.4));
        let ais = |resampled| {
            let ais = Ais::new(&path, PersistentHmc::new(0.3, 2, 0.4).unwrap())
                .schedule(Schedule::linear(7).unwrap())
                .chains(26)
                .block_size(4)
                .recorded_stages(4)
                .recorder(Sum::default())
                .threads(2);
            match resampled {
                true => ais.resampling(Resampling::every(2).unwrap()),
                false => ais,
            }
        };
        let folder = Folder::new("damaged_runs");
        let file = folder.file("run");
        let mut rng = stream(4, Purpose::Testing, 0);
        let mut went_on = 0;
        for resampled in [false, true] {
            // Four blocks are finished, and two are under way.
            let stopped = ais(resampled).progress(|at: Progress| match at.done >= 4 * 28 + 20 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            let _ = stopped.checkpoint(&file).run().unwrap();
            let original = std::fs::read(&file).unwrap();
            for trial in 0..1_000 {
                let bytes = damaged(&original, &mut rng);
                let repair = trial % 2 == 0;
                let bytes = if repair { repaired(bytes) } else { bytes };
                std::fs::write(&file, &bytes).unwrap();
                let ais = ais(resampled);
                let (found, largest) = largest_allocation(|| ais.checkpoint(&file).resume());
                assert!(repair || found.is_err(), "trial {trial}");
                assert!(
                    largest <= bytes.len() + (1 << 20),
                    "trial {trial}: {largest}"
                );
                went_on += u32::from(found.is_ok());
            }
        }
        // Most bits are those of floats, and any of them will do.
        assert!((200..800).contains(&went_on), "{went_on}");
    }
}
