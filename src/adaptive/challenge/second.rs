//! The second run of a challenge, from the base that a search found to the target of the first run.

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use rand::Rng;

use super::judge::{Judged, Judgement};
use crate::Result;
use crate::adaptive::base_search::{
    ChallengeStream, FindModes, LawOf, MixtureAt, MixturePath, Search, from_base,
};
use crate::adaptive::round::FEWEST_STAGES;
use crate::ais::{Ais, BlockCodec, Run};
use crate::estimate::{LogZ, Warning};
use crate::kernel::TransitionKernel;
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Job, Task};

/// The second run of a challenge, with the judgement on the first run.
pub(in crate::adaptive) struct Second<S> {
    pub(super) judgement: Judgement,
    pub(super) run: Run<S>,
    /// Reasons to doubt the result.
    pub(in crate::adaptive) warnings: Vec<Warning>,
    /// Whether the log normaliser of the base was compared with samples of the base, or is right by construction.
    is_compared: bool,
    pub(super) starts: usize,
    pub(super) modes: usize,
    /// Number of evaluations before the second run itself.
    searching: u64,
    pub(in crate::adaptive) seconds: f64,
}

impl<S> Second<S> {
    /// Returns the judgement on `first` by this run.
    pub(super) fn beside<'r>(&'r self, first: &'r dyn LogZ) -> Judged<'r> {
        Judged {
            first,
            second: &self.run,
            judgement: self.judgement,
            is_compared: self.is_compared,
            warnings: Cow::Borrowed(&self.warnings),
        }
    }

    pub(super) fn evaluations(&self) -> u64 {
        self.searching.saturating_add(self.run.evaluations())
    }

    /// Writes the outcome of the challenge to `first`, such as
    /// `a second run, -2.310 +- 0.020, does not contradict it, from 128 starts and 1 mode`.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, first: &dyn LogZ) -> fmt::Result {
        f.write_str("\nchallenge: ")?;
        self.beside(first).write_judgement(f)?;
        let (starts, modes) = (self.starts, self.modes);
        let of_modes = if modes == 1 { "mode" } else { "modes" };
        write!(f, ", from {starts} starts and {modes} {of_modes}")
    }
}

/// Functions that write and read unfinished blocks of the second run, for checkpoints.
pub(in crate::adaptive) type SecondCodec<P> = BlockCodec<MixturePath<P, LawOf<P>>, ()>;

/// Share of the budget for the search, without climbs and with them. Too little for the fits of bases is one of three
/// causes of second runs that are .6 to .8 nats low on hierarchies (`docs/notes/warnings.md`).
const SEARCH_SHARES: [f64; 2] = [0.55, 0.77];
/// Number of stages of the second run per squared barrier, unless the number of chains is at a limit. A log weight then
/// has variance 1/4, and log Z has 14% more variance than the least at that cost.
const STAGES_PER_BARRIER: f64 = 4.0;
/// Smallest and largest number of chains of the second run: the defaults of `Rounds` and of `Ais`. Beyond the largest,
/// the rest of the budget goes to stages.
const CHAIN_LIMITS: (u64, u64) = (256, 4_096);
/// Number of draws of the base by which processes check that their searches agree. Two different bases hardly ever
/// agree at a single draw, so the number hardly matters.
const AGREEMENT_DRAWS: usize = 8;

/// Budget and confidence of a challenge, and the log normaliser that it uses for the base.
pub(super) struct Asked {
    /// Number of evaluations to spend.
    pub(super) budget: u64,
    /// Number of evaluations that checks have spent.
    pub(super) checked: u64,
    pub(super) confidence: f64,
    /// Log normaliser of the base, to which the log ratio of normalisers is added.
    pub(super) log_base_normalizer: f64,
}

/// Path, kernel, stages and chains of the second run, before it begins.
struct Prepared<P: AnnealingPath<State: FindModes>, K> {
    path: MixturePath<P, LawOf<P>>,
    kernel: K,
    schedule: Schedule,
    chains: usize,
    seed: u64,
    starts: usize,
    modes: usize,
    is_compared: bool,
    /// Number of evaluations so far.
    spent: u64,
}

/// Looks for a base, runs from it, and judges `first`. Each of several processes makes the whole search.
pub(super) fn challenge<P, K>(
    search: &Search<'_, P, K>,
    first: &dyn LogZ,
    asked: &Asked,
    codec: Option<SecondCodec<P>>,
    job: &mut Job<'_>,
) -> Result<Second<P::State>>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    let begun = Instant::now();
    let budget = asked.budget.saturating_sub(asked.checked);
    let prepared = prepared(search, budget, job);
    let (prepared, of_first) = job.agreed(prepared, |one| one.figures(search.seed))?;
    // The processes searched apart, and rounding may differ. All must run with the same betas.
    let schedule = match of_first {
        Some(figures) => Schedule::new(figures[..=prepared.schedule.stages()].to_vec())?,
        None => prepared.schedule,
    };
    // The log Z of the mixture is 0, because it divides the own base by `exp(own_log_z)`.
    let from = asked.log_base_normalizer - search.own_log_z;
    let ais = Ais::with_base_log_z(prepared.path, prepared.kernel, from)
        .schedule(schedule)
        .chains(prepared.chains)
        .seed(prepared.seed);
    let task = ais.task()?.saved_by(codec);
    job.foresee(task.cost(task.blocks()));
    let run = task.run_by(job)?.result()?;
    let is_compared = prepared.is_compared;
    let judged = Judged::from_base(first, &run, (asked.confidence, is_compared))?;
    let (judgement, warnings) = (judged.judgement(), judged.warnings().to_vec());
    Ok(Second {
        judgement,
        run,
        warnings,
        is_compared,
        starts: prepared.starts,
        modes: prepared.modes,
        // The run does not count the evaluation of each chain's first state.
        searching: asked.checked + prepared.spent + prepared.chains as u64,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Looks for a base. Finds kernel and stages by a first pass from it, which may take half of the remaining budget.
fn prepared<P, K>(search: &Search<'_, P, K>, budget: u64, job: &Job<'_>) -> Result<Prepared<P, K>>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    let of_search = SEARCH_SHARES[usize::from(P::State::CLIMBS)] * budget as f64;
    let found = search.find(of_search as u64, job)?;
    let budget = budget.saturating_sub(found.evaluations);
    let each = search.evaluations();
    // Forty stages of three moves then cost a quarter of the budget, half of what the first pass may spend.
    let chains = (budget / 4 / (3 * 40 * each)).clamp(32, 256) as usize;
    // The first pass and the run share this seed, but the purposes of their streams differ.
    let seed = ChallengeStream::SecondRun.stream(search.seed).next_u64();
    let path = from_base(&search.path, found.base);
    let along = (path.clone(), &search.kernel);
    let pass = search
        .scout(along, (chains, 3), (budget / 2, false), (seed, job))?
        .found;
    let left = budget.saturating_sub(pass.evaluations) / each;
    let lambda = pass.barrier.global();
    // K stages give a log weight the variance Lambda^2 / K, here 1/4. What is left of the budget goes to more chains.
    let stages = (STAGES_PER_BARRIER * lambda * lambda).clamp(FEWEST_STAGES as f64, 1e6) as u64;
    let chains = (left / stages).clamp(CHAIN_LIMITS.0, CHAIN_LIMITS.1);
    let stages = (left.saturating_sub(chains.div_ceil(each)) / chains).max(1);
    Ok(Prepared {
        path,
        schedule: pass.barrier.schedule(stages as usize)?,
        kernel: pass.kernel,
        chains: chains as usize,
        seed,
        starts: found.starts,
        modes: found.modes,
        is_compared: found.is_compared,
        spent: found.evaluations + pass.evaluations,
    })
}

impl<P: AnnealingPath<State: FindModes>, K> Prepared<P, K> {
    /// Returns figures by which processes compare their searches: betas and number of chains of the second run, and log
    /// densities of its base at some of its draws.
    fn figures(&self, seed: u64) -> Vec<f64> {
        let base = self.path.base();
        let mut rng = ChallengeStream::Agreement.stream(seed);
        let drawn = (0..AGREEMENT_DRAWS).map(|_| base.log_density(&base.sample(&mut rng)));
        let mut figures = self.schedule.betas().to_vec();
        figures.push(self.chains as f64);
        figures.extend(drawn);
        figures
    }
}
