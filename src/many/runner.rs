//! The runner of many data.

use std::ops::Range;

use nalgebra::DVector;

use super::first_pass::{FirstPassByDatum, TunedByDatum};
use super::run::LogLikelihoodsRun;
use crate::ais::Ais;
use crate::kernel::{EachDatum, TransitionKernel};
use crate::model::{Latent, LatentPrior, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::setters;
use crate::path::{TemperedAt, TemperedPath};
use crate::schedule::Schedule;
use crate::work::{Counts, Execution, Job, Runs, Single, Task, controls};
use crate::{Error, Result};

/// Log p(x) of many data under one latent-variable model, by annealed importance sampling. See the
/// [module](crate::many) for an example.
///
/// A first pass finds the schedule and the step sizes of each datum. Then a run with other random streams estimates
/// `log p(x_b)` of all data.
///
/// Sources: Wu, Burda, Salakhutdinov and Grosse (2017); Neal (2001).
#[must_use]
#[doc(alias(
    "decoder",
    "variational autoencoder",
    "log-likelihood",
    "test likelihood"
))]
pub struct LogLikelihoods<'e, P, L, K> {
    pub(super) path: TemperedPath<LatentPrior<P>, L>,
    pub(super) kernel: K,
    pub(super) moves: usize,
    stages: usize,
    pub(super) data_per_block: usize,
    pub(super) seed: u64,
    execution: Execution<'e>,
}

impl<'e, P, L, K> LogLikelihoods<'e, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>>,
    L: UnnormalizedModel<State = Latent>,
{
    /// Creates the run of `data` data. `log_likelihood` is a model whose log density at a [`Latent`] is
    /// `log p(x_b | z)`, for the datum b of the state. The kernel's step size is where the adaptation starts.
    pub fn new(prior: P, log_likelihood: L, data: usize, kernel: K) -> Self {
        let prior = LatentPrior {
            prior,
            data,
            chains: 16,
        };
        Self {
            path: TemperedPath::new(prior, log_likelihood),
            kernel,
            moves: 5,
            stages: 200,
            data_per_block: 16,
            seed: 0,
            execution: Execution::default(),
        }
    }
}

impl<'e, P, L, K> LogLikelihoods<'e, P, L, K> {
    /// Sets the number of chains of each datum; 16 by default.
    pub fn chains(mut self, chains: usize) -> Self {
        self.path.base_mut().model_mut().chains = chains;
        self
    }

    setters! {
        /// Sets the number of stages; 200 by default. If many data warn, use more.
        stages: usize,
        /// Sets the number of moves at each stage of the first pass; 5 by default.
        moves: usize,
        /// Sets the number of data whose chains move together; 16 by default. Each call of the model evaluates the chains
        /// of this many data. It has no effect on the result, unless the model's rounding depends on the number of rows.
        data_per_block: usize,
        /// Sets the seed; 0 by default.
        seed: u64,
    }

    controls! { 'e, "The result then has the finished data only. A stopped first pass returns an [`Error::Stopped`]." }

    fn prior(&self) -> &LatentPrior<P> {
        self.path.prior().parts().0
    }

    pub(super) fn number_of_data(&self) -> usize {
        self.prior().data
    }

    pub(super) fn all_chains(&self) -> usize {
        self.number_of_data() * self.prior().chains
    }

    /// Returns the chains of each block. A block has all chains of its data.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (size, all) = (self.data_per_block * self.prior().chains, self.all_chains());
        (0..all)
            .step_by(size)
            .map(move |first| first..all.min(first + size))
    }

    fn check(&self) -> Result<()> {
        let LatentPrior { data, chains, .. } = *self.prior();
        Error::check_count("data", data, 1)?;
        // A single chain has no error.
        Error::check_count("chains", chains, 2)?;
        Error::check_count("chains of all data", data.saturating_mul(chains), 2)?;
        Error::check_count("moves", self.moves, 1)?;
        Error::check_count("stages", self.stages, 1)?;
        Error::check_count("data_per_block", self.data_per_block, 1)
    }
}

impl<P, L, K> LogLikelihoods<'_, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>> + Send + Sync,
    L: UnnormalizedModel<State = Latent> + Send + Sync,
    K: EachDatum + Send + Sync,
    for<'p> K::Adapted: TransitionKernel<TemperedAt<'p, LatentPrior<P>, L>>,
{
    /// Tunes schedule and kernel by a first pass, and runs all data.
    ///
    /// # Errors
    /// Settings out of range; a NaN, `+inf` or panic of the model, with chain, stage and beta;
    /// [`Error::WrongGradient`] if finite differences contradict the gradient; a datum of likelihood 0 at all of its
    /// chains; [`Error::Stopped`] if the run was stopped before any datum was done.
    pub fn run(&self) -> Result<LogLikelihoodsRun> {
        let tuned = self.tune()?;
        let mut run = self.run_at(tuned.barrier.schedule(self.stages)?, &tuned.kernel)?;
        run.add(tuned.evaluations, tuned.seconds);
        Ok(run)
    }

    /// Runs the first pass alone.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn tune(&self) -> Result<TunedByDatum<K::Adapted>> {
        self.check()?;
        let pass = FirstPassByDatum(self);
        let closed = Job::new(&self.execution)?.run(&pass)?;
        let Single(tuned) = closed.whole(self.all_chains())?;
        Ok(tuned)
    }

    /// Runs all data with a schedule and a kernel, as found by [`tune`](Self::tune). The seed's streams differ from those
    /// of the first pass.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_at(&self, schedule: Schedule, kernel: &K::Adapted) -> Result<LogLikelihoodsRun> {
        self.check()?;
        let ais = Ais::with_base_log_z(&self.path, kernel, 0.0)
            .schedule(schedule)
            .chains(self.all_chains())
            .block_size(self.data_per_block * self.prior().chains)
            .recorded_stages(1)
            .seed(self.seed);
        let task = ais.task()?;
        let mut job = Job::new(&self.execution)?;
        job.foresee(task.cost(task.blocks()));
        LogLikelihoodsRun::of(task.run_by(&mut job)?)
    }
}

crate::num::debug_by_fields! {
    LogLikelihoods for [P, L, K: std::fmt::Debug] LogLikelihoods<'_, P, L, K> { kernel, stages, moves, data_per_block, seed }
}
