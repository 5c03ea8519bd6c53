//! Annealed runs on several processes, by MPI.

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::probe::Probe;
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::settings::Settings;
use super::task::Keep;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::work::mpi::{Ranks, SharedJob, check_engine, check_fingerprint};
use crate::{Error, Result};
impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Send + Sync,
    P::State: Send,
    K: TransitionKernel<P::At> + Sync,
    R: Recorder<P::At> + Send + Sync + Serialize + DeserializeOwned,
{
    /// Runs all chains on the processes of an MPI communicator, which must all call this. Rank 0 gets the result, with
    /// the same bits as [`run`](Self::run) for any number of processes and threads. The others get `None`.
    ///
    /// Rank r of n runs the blocks b with `b mod n = r` on its own threads; the calling thread exchanges messages.
    /// Budgets and the progress callback are those of rank 0. `docs/many-machines.md` measures costs and scaling.
    ///
    /// ```no_run
    /// use annealed::mpi::{self, Threading, topology::SimpleCommunicator};
    /// # use annealed::prelude::*;
    /// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
    /// let _mpi = mpi::initialize_with_threading(Threading::Funneled);
    /// let world = SimpleCommunicator::world();
    /// let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7)?).chains(100_000);
    /// if let Some(run) = ais.run_on(&world)? {
    ///     println!("{run}");
    /// }
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run), on the rank where it arises; all others end with [`Error::Rank`], which says the same.
    /// Among failing blocks the leftmost is reported. Settings, path or kernel that differ from rank 0, as far as [a
    /// few chains](Self::run) show it; states or recorders that cannot be sent; a communicator without MPI; a call from
    /// a thread of rayon's pool.
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<Run<P::State, R>>>
    where
        P::State: Serialize + DeserializeOwned,
    {
        let run = self.shared(world, |states| states)?;
        Ok(run.map(|run| self.plan().judged(run)))
    }

    /// Runs as [`run_on`](Self::run_on), but leaves the states where they are and returns `()` in their place, for
    /// states that serde cannot write. The result has the same bits, without a check for
    /// [`BelowBound`](crate::estimate::Warning::BelowBound).
    ///
    /// # Errors
    /// As [`run_on`](Self::run_on).
    pub fn run_on_without_states(&self, world: &dyn Communicator) -> Result<Option<Run<(), R>>> {
        self.shared(world, |states| vec![(); states.len()])
    }

    fn shared<T: Send + Serialize + DeserializeOwned>(
        &self,
        world: &dyn Communicator,
        keep: Keep<P::State, T>,
    ) -> Result<Option<Run<T, R>>> {
        let plan = self.plan();
        let probe = plan.probe();
        let agree = |ranks: &mut Ranks| {
            self.settings.check()?;
            self.settings.agree(ranks, None, probe.as_ref())
        };
        SharedJob::on(world, &self.execution, agree, |job| {
            let part = plan.go_with(job, keep)?;
            part.map(|part| plan.reached(part)).transpose()
        })
    }
}

impl Settings {
    /// Checks that all ranks agree in settings, path and kernel, and in the fingerprint if they write checkpoints.
    pub(crate) fn agree(
        &self,
        ranks: &mut Ranks,
        fingerprint: Option<u32>,
        probe: Option<&Probe>,
    ) -> Result<()> {
        if ranks.rank() == 0 {
            return ranks.tell_all(&(self, fingerprint, probe));
        }
        let (_, (first, fingerprint_of_first, probe_of_first)): (_, (Self, _, Option<Probe>)) =
            ranks.hear()?;
        check_engine(self.engine, first.engine)?;
        Error::check_found("chains", &self.chains, &first.chains)?;
        first.check_found(self)?;
        Probe::check_found(probe_of_first.as_ref(), probe)?;
        check_fingerprint(fingerprint, fingerprint_of_first)
    }
}
