//! The runner of many data.

use nalgebra::DVector;

use super::run::LogLikelihoodsRun;
use crate::adaptive::{FirstPass, FirstPassRun};
use crate::ais::Ais;
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{Latent, LatentPrior, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::setters;
use crate::path::{TemperedAt, TemperedPath};
use crate::schedule::Schedule;
use crate::work::{Execution, Job, Task, controls};
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
    moves: usize,
    stages: usize,
    data_per_block: usize,
    seed: u64,
    pub(super) execution: Execution<'e>,
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

    fn check(&self) -> Result<()> {
        let LatentPrior { data, chains, .. } = *self.path.prior().model();
        Error::check_count("data", data, 1)?;
        // A single chain has no error.
        Error::check_count("chains", chains, 2)?;
        Error::check_count("chains of all data", data.saturating_mul(chains), 2)?;
        Error::check_count("stages", self.stages, 1)?;
        Error::check_count("data_per_block", self.data_per_block, 1)
    }
}

impl<P, L, K> LogLikelihoods<'_, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>> + Send + Sync,
    L: UnnormalizedModel<State = Latent> + Send + Sync,
    K: Tunable + Clone + Send + Sync,
    for<'p> K: TransitionKernel<TemperedAt<'p, LatentPrior<P>, L>>,
{
    /// Finds the schedule and the step sizes by a first pass, and runs all data.
    ///
    /// # Errors
    /// Settings out of range; a NaN, `+inf` or panic of the model, with chain, stage and beta;
    /// [`Error::WrongGradient`] if finite differences contradict the gradient; a datum of likelihood 0 at all of its
    /// chains; [`Error::Stopped`] if the run was stopped before any datum was done.
    pub fn run(&self) -> Result<LogLikelihoodsRun> {
        let mut job = Job::new(&self.execution)?;
        let found = self.find(&mut job, 1)?;
        let mut run = self.run_at(found.schedule, &found.kernel, &mut job)?;
        run.evaluations = run.evaluations.saturating_add(found.evaluations);
        run.seconds += found.seconds;
        Ok(run)
    }

    /// Finds the schedule and the kernel of later runs, `later` in number. The result has this schedule in place of the
    /// first pass's own.
    pub(super) fn find(&self, job: &mut Job<'_>, later: usize) -> Result<FirstPassRun<K>> {
        self.check()?;
        let LatentPrior { data, chains, .. } = *self.path.prior().model();
        let pass = FirstPass::of_data(&self.path, self.kernel.clone(), data)
            .chains(data * chains)
            .moves(self.moves)
            .block_size(self.data_per_block * chains)
            .seed(self.seed);
        let later = (data * chains * self.stages * later) as u64;
        let mut found = pass.run_with(job, &|_| later)?;
        found.schedule = found.barrier.schedule(self.stages)?;
        Ok(found)
    }

    /// Runs all data with a schedule and a kernel. The streams differ from those of the first pass.
    pub(super) fn run_at(
        &self,
        schedule: Schedule,
        kernel: &K,
        job: &mut Job<'_>,
    ) -> Result<LogLikelihoodsRun> {
        let ais = self.ais(schedule, kernel);
        let task = ais.task()?;
        job.foresee(task.cost(task.blocks()));
        LogLikelihoodsRun::of(task.run_by(job)?)
    }

    /// Returns the runner of all data with a schedule and a kernel.
    pub(super) fn ais<'r>(
        &'r self,
        schedule: Schedule,
        kernel: &'r K,
    ) -> Ais<'r, Path<'r, P, L>, &'r K> {
        let LatentPrior { data, chains, .. } = *self.path.prior().model();
        Ais::with_base_log_z(&self.path, kernel, 0.0)
            .schedule(schedule)
            .chains(data * chains)
            .block_size(self.data_per_block * chains)
            .recorded_stages(1)
            .seed(self.seed)
    }
}

/// The path from the prior of many data to their posteriors.
type Path<'r, P, L> = &'r TemperedPath<LatentPrior<P>, L>;

crate::num::debug_by_fields! {
    LogLikelihoods for [P, L, K: std::fmt::Debug] LogLikelihoods<'_, P, L, K> { kernel, stages, moves, data_per_block, seed }
}
