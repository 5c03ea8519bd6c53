//! The second run of a challenge, from the base that a search found to the target of the first run.

use std::time::Instant;

use rand::Rng;

use super::judge::Judged;
use super::result::ChallengeRun;
use super::runner::Challenge;
use crate::adaptive::base_search::{
    ChallengeStream, FindModes, LawOf, MixtureAt, MixturePath, from_base,
};
use crate::adaptive::round::FEWEST_STAGES;
use crate::ais::{Ais, BlockCodec};
use crate::estimate::LogZ;
use crate::kernel::TransitionKernel;
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Job, Task};
use crate::{Error, Result};

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

/// The second run before it begins, with the figures of the search for its base.
struct Prepared<P: AnnealingPath<State: FindModes>, K> {
    ais: Ais<'static, MixturePath<P, LawOf<P>>, K>,
    starts: usize,
    modes: usize,
    is_compared: bool,
    /// Number of evaluations so far.
    spent: u64,
}

impl<'p, P, K> Challenge<'p, P, K>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    /// Runs the challenge.
    pub(in crate::adaptive) fn go_with(
        &self,
        codec: Option<SecondCodec<P>>,
        job: &mut Job<'_>,
    ) -> Result<ChallengeRun<'p, P::State>> {
        Error::check_inner_fraction("confidence", self.confidence)?;
        Error::check_number("log normalizer of the base", self.base_log_z)?;
        let budget = |least| self.budget.unwrap_or(self.allowance().max(least));
        let (left, checked) = self.search.begin(budget, job)?;
        let run = self.second(left, codec, job)?;
        Ok(ChallengeRun {
            searching: run.searching + checked,
            ..run
        })
    }

    /// Looks for a base, runs from it, and judges the first run. Each of several processes makes the whole search.
    fn second(
        &self,
        budget: u64,
        codec: Option<SecondCodec<P>>,
        job: &mut Job<'_>,
    ) -> Result<ChallengeRun<'p, P::State>> {
        let begun = Instant::now();
        let prepared = self.prepared(budget, job);
        let seed = self.search.seed;
        let (prepared, of_first) = job.agreed(prepared, |one| one.figures(seed))?;
        let Prepared {
            mut ais,
            is_compared,
            ..
        } = prepared;
        // The processes searched apart, and rounding may differ. All must run with the same betas.
        if let Some(figures) = of_first {
            let stages = ais.settings.schedule.stages();
            ais = ais.schedule(Schedule::new(figures[..=stages].to_vec())?);
        }
        let task = ais.task()?.saved_by(codec);
        job.foresee(task.cost(task.blocks()));
        let run = task.run_by(job)?.result()?;
        let judged = Judged::from_base(self.first, &run, self.confidence, is_compared)?;
        let (judgement, warnings) = (judged.judgement(), judged.warnings().to_vec());
        Ok(ChallengeRun {
            first: self.first,
            judgement,
            run,
            warnings,
            is_compared,
            starts: prepared.starts,
            modes: prepared.modes,
            // The run does not count the evaluation of each chain's first state.
            searching: prepared.spent + ais.settings.chains as u64,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    /// Looks for a base. Finds kernel and stages by a first pass from it, which may take half of the remaining budget.
    fn prepared(&self, budget: u64, job: &Job<'_>) -> Result<Prepared<P, K>> {
        let search = &self.search;
        let of_search = SEARCH_SHARES[usize::from(P::State::CLIMBS)] * budget as f64;
        let found = search.find(of_search as u64, job)?;
        let budget = budget.saturating_sub(found.evaluations);
        let each = search.evaluations();
        // Forty stages of three moves then cost a quarter of the budget, half of what the first pass may spend.
        let chains = (budget / 4 / (3 * 40 * each)).clamp(32, 256) as usize;
        // The first pass and the run share this seed, but the purposes of their streams differ.
        let seed = ChallengeStream::SecondRun.stream(search.seed).next_u64();
        let path = from_base(&search.path, found.base);
        let pass = search.pass(&path, &search.kernel).seed(seed);
        let pass = pass.chains(chains).moves(3);
        let pass = pass.scout(budget / 2, false, job)?.found;
        let left = budget.saturating_sub(pass.evaluations) / each;
        let lambda = pass.barrier.global();
        // K stages give a log weight the variance Lambda^2 / K, here 1/4. What is left of the budget goes to more chains.
        let stages = (STAGES_PER_BARRIER * lambda * lambda).clamp(FEWEST_STAGES as f64, 1e6) as u64;
        let chains = (left / stages).clamp(CHAIN_LIMITS.0, CHAIN_LIMITS.1);
        let stages = (left.saturating_sub(chains.div_ceil(each)) / chains).max(1);
        // The log Z of the mixture is 0, because it divides the own base by `exp(own_log_z)`.
        let from = self.base_log_z - search.own_log_z;
        Ok(Prepared {
            ais: Ais::with_base_log_z(path, pass.kernel, from)
                .schedule(pass.barrier.schedule(stages as usize)?)
                .chains(chains as usize)
                .seed(seed),
            starts: found.starts,
            modes: found.modes,
            is_compared: found.is_compared,
            spent: found.evaluations + pass.evaluations,
        })
    }
}

impl<P: AnnealingPath<State: FindModes>, K> Prepared<P, K> {
    /// Returns figures by which processes compare their searches: betas and number of chains of the second run, and log
    /// densities of its base at some of its draws.
    fn figures(&self, seed: u64) -> Vec<f64> {
        let (base, settings) = (self.ais.path.base(), &self.ais.settings);
        let mut rng = ChallengeStream::Agreement.stream(seed);
        let drawn = (0..AGREEMENT_DRAWS).map(|_| base.log_density(&base.sample(&mut rng)));
        let mut figures = settings.schedule.betas().to_vec();
        figures.push(settings.chains as f64);
        figures.extend(drawn);
        figures
    }
}
