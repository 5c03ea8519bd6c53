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
    P: AnnealingPath + Sync,
    P::State: Send,
    K: TransitionKernel<P::At<'p>> + Sync,
    R: Recorder<P::At<'p>> + Send + Sync + Serialize + DeserializeOwned,
{
    /// Runs all chains on all processes of an MPI communicator, which all call this. Rank 0 has the result, of
    /// the same bits as that of [`run`](Self::run), whatever the number of processes and threads; the others
    /// have `None`.
    ///
    /// Rank r of n does the blocks b with `b mod n = r`, on threads of its own. One further thread of each rank,
    /// the one that calls this and may call MPI, exchanges messages and sleeps in between. Budgets and the
    /// progress callback are those of rank 0; blocks of the others are counted when they are finished. What this
    /// costs, and where it stops scaling, is measured in `docs/many-machines.md`.
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
    /// As [`run`](Self::run), on the rank where it arises; all others end with [`Error::Rank`], which says
    /// the same. Of failing blocks the leftmost is reported, whatever rank it belonged to. Settings that are not
    /// those of rank 0; another path or kernel, as far as [a few chains](Self::run) show it. States or recorders that cannot be sent. A
    /// communicator without MPI; a call from a thread of rayon's pool.
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<Run<P::State, R>>>
    where
        P::State: Serialize + DeserializeOwned,
    {
        let run = self.shared(world, |states| states)?;
        Ok(run.map(|run| self.plan().judged(run)))
    }

    /// As [`run_on`](Self::run_on), for states that serde cannot write, or that nobody needs: they stay where
    /// they are, and the result has `()` in their place. All else has the same bits.
    ///
    /// # Errors
    /// As [`run_on`](Self::run_on).
    pub fn run_on_without_states(&self, world: &dyn Communicator) -> Result<Option<Run<(), R>>> {
        self.shared(world, |states| vec![(); states.len()])
    }

    /// Runs all chains, and brings what is kept of their states to rank 0.
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
    /// Sees to it that all ranks have the same settings, path and kernel, and the same fingerprint where they write
    /// checkpoints.
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
