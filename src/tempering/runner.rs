//! The runner, and what a user sets of it.

use super::settings::Settings;
use crate::kernel::Invariant;
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Execution, controls};

/// Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet 2022).
///
/// A *ladder* has a chain at each beta. In a scan every chain moves at its beta, the one at beta = 0 to a
/// fresh sample of the base; then the chains of each second pair of neighbours exchange their states
/// x and y with probability
///
/// `min(1, exp(r(x) - r(y)))`, `r = log f_{j+1} - log f_j`,
///
/// the pairs (0, 1), (2, 3), .. in one scan and (1, 2), (3, 4), .. in the next. So states travel from the base
/// to the target and back, and bring modes along that no chain would reach at beta = 1.
///
/// Rounds of 2, 4, 8, .. scans follow one another. After each the betas are placed anew, such that all pairs
/// reject alike. The last round is the one that counts. Independent ladders run side by side, and the
/// error of all results comes from the differences between them.
///
/// ```
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::{Gaussian, GaussianMixture};
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use annealed::tempering::Tempering;
/// use nalgebra::dvector;
///
/// # fn main() -> annealed::Result<()> {
/// let mode = |x: f64| Gaussian::isotropic(dvector![x], 0.3);
/// let target = GaussianMixture::new([(0.8, mode(-2.0)?), (0.2, mode(2.0)?)])?;
/// let path = GeometricPath::new(Gaussian::isotropic(dvector![0.0], 2.0)?, target);
/// let run = Tempering::new(&path, RandomWalkMetropolis::new(0.5)?)
///     .schedule(Schedule::linear(5)?)
///     .rounds(8)
///     .seed(7)
///     .run()?;
/// assert!(run.log_z().abs() < 4.0 * run.standard_error());
/// let (share, error) = run.expectation(|x| f64::from(x[0] > 0.0));
/// assert!((share - 0.2).abs() < 4.0 * error);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Tempering<'p, P: AnnealingPath, K> {
    pub(super) path: &'p P,
    pub(super) kernel: K,
    pub(super) settings: Settings,
    pub(super) execution: Execution<'p>,
}

impl<'p, P: AnnealingPath, K: Invariant<P::At<'p>>> Tempering<'p, P, K> {
    /// Ladders along `path`, whose base has a known normaliser, with `kernel` at each beta.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self::with_base_log_z(path, kernel, path.base().log_normalizer())
    }

    /// Ladders from a base that can be sampled and whose `log Z_0` the caller states: 0 to count log Z
    /// from the base.
    pub fn with_base_log_z(path: &'p P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            settings: Settings::new(log_base_normalizer),
            execution: Execution::default(),
        }
    }
}

impl<'p, P: AnnealingPath, K> Tempering<'p, P, K> {
    setters! {
        /// The betas of the first round, one for each chain of a ladder; 0, 1/20, .., 1 unless set. Their
        /// number stays. Twice the barrier ([`barrier`](super::TemperingRun::barrier)) is a good one.
        schedule of settings: Schedule,
        /// Number of independent ladders, at least 2; 8 unless set. The error has one degree of freedom
        /// less.
        ladders of settings: usize,
        /// Number of ladders that move together, and the unit of work that threads share; 1 unless set.
        /// Kernels that move chains as a block are faster with more.
        block_size of settings: usize,
        /// Number of rounds, 1 to 30, or the most where the run may end before; 10 unless set. Round i has
        /// `2^i` scans, so that each further one doubles the cost.
        rounds of settings: usize,
        /// Bound on the number of states at beta = 1 that are kept; 1,000 unless set. They are evenly
        /// spaced over the last round; a ladder keeps at least one.
        samples of settings: usize,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed of settings: u64,
    }

    controls! { 'p, "The result is that of the last round that was finished: of a run of so many rounds." }

    /// Ends the run after the round, from the fifth on, in which its standard error is so small, in nats;
    /// [`rounds`](Self::rounds) is the most that it may have. The result is that of a run of so many rounds. A run that
    /// ends before it is that small [warns](crate::estimate::Warning::ErrorNotReached).
    pub fn until_error(mut self, standard_error: f64) -> Self {
        self.execution.until_error = Some(standard_error);
        self
    }
}

impl<P: AnnealingPath, K: std::fmt::Debug> std::fmt::Debug for Tempering<'_, P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tempering")
            .field("kernel", &self.kernel)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
