//! Bounds on log p(x) of simulated data, from both ends of the path.

use std::fmt;

use nalgebra::DVector;

use super::run::{LogLikelihoodsRun, evaluations, weights_by_datum};
use super::runner::LogLikelihoods;
use crate::kernel::{Reversal, TransitionKernel, Tunable};
use crate::model::{Latent, LatentPrior, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{Moments, log_mean_exp};
use crate::path::TemperedAt;
use crate::random::Purpose;
use crate::work::Job;
use crate::{Error, Result};

/// Log p(x) of simulated data, estimated from below and from above (bidirectional Monte Carlo, BDMC).
///
/// In expectation over data and chains, the mean of log p(x) lies between the means of both. The gap is thus a bound on
/// the expected error of the estimates from below. It holds for simulated data, and is evidence for real data as far as
/// the model fits them.
///
/// Sources: Grosse, Ghahramani and Adams (2015); Wu, Burda, Salakhutdinov and Grosse (2017).
#[derive(Debug, Clone)]
#[must_use]
#[doc(alias("BDMC", "Bdmc", "bidirectional Monte Carlo"))]
pub struct SimulatedRun {
    forward: LogLikelihoodsRun,
    upper: Vec<f64>,
}

impl SimulatedRun {
    /// Returns the run from the prior, with the estimate of each datum from below.
    pub fn forward(&self) -> &LogLikelihoodsRun {
        &self.forward
    }

    /// Returns the estimate of log p(x) of each datum from above: `-log mean w` of the runs from the latent vector that
    /// generated the datum back to the prior. It is `+inf` if no such run reached the prior.
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }

    /// Returns the mean difference of both estimates, in nats, and its standard error over data (infinite for a single
    /// datum).
    pub fn gap(&self) -> (f64, f64) {
        let estimates = self.forward.data().iter().zip(&self.upper);
        let gaps =
            Moments::from_iter(estimates.map(|(datum, upper)| upper - datum.estimate.value()));
        (gaps.mean(), gaps.standard_error())
    }
}

/// Writes `gap of simulated data = 0.012 +- 0.003 nats over 20 data`, and the run from the prior.
impl fmt::Display for SimulatedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((gap, error), data, forward) = (self.gap(), self.upper.len(), &self.forward);
        write!(
            f,
            "gap of simulated data = {gap:.3} +- {error:.3} nats over {data} data\nof simulated data: {forward}"
        )
    }
}

impl<P, L, K> LogLikelihoods<'_, P, L, K>
where
    P: Sampleable + NormalizedModel + UnnormalizedModel<State = DVector<f64>> + Send + Sync,
    L: UnnormalizedModel<State = Latent> + Send + Sync,
    K: Tunable + Clone + Send + Sync,
    for<'p> K: TransitionKernel<TemperedAt<'p, LatentPrior<P>, L>>,
{
    /// Runs simulated data from both ends of the path. `latents[b]` is the latent vector, drawn from the prior, that
    /// generated datum b. It is an exact sample of the posterior given the datum.
    ///
    /// ```
    /// use annealed::many::LogLikelihoods;
    /// use annealed::model::Latent;
    /// use annealed::prelude::*;
    /// use annealed::random::{Purpose, stream};
    ///
    /// // z ~ N(0, 1), x ~ N(z, 1).
    /// let (prior, mut rng) = (Gaussian::standard(1)?, stream(7, Purpose::DATA, 0));
    /// let latents: Vec<_> = (0..20).map(|_| prior.sample(&mut rng)).collect();
    /// let data: Vec<_> = latents.iter().map(|z| z + prior.sample(&mut rng)).collect();
    /// let likelihood =
    ///     FunctionModel::new(move |z: &Latent| -0.5 * (&data[z.datum()] - &z.vector).norm_squared());
    /// let run = LogLikelihoods::new(prior, likelihood, 20, RandomWalkMetropolis::new(1.0)?);
    /// let run = run.stages(100).run_simulated(&latents)?;
    /// println!("{run}");
    /// let (gap, error) = run.gap();
    /// assert!(gap < 0.1 + 4.0 * error);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); another number of latent vectors than of data, or another dimension than the
    /// prior's; [`Error::Stopped`] if the run was stopped before its end.
    pub fn run_simulated(&self, latents: &[DVector<f64>]) -> Result<SimulatedRun>
    where
        for<'p> K: Reversal<TemperedAt<'p, LatentPrior<P>, L>>,
    {
        let LatentPrior { data, chains, .. } = *self.path.prior().model();
        Error::check_dimension("latents", latents.len(), data)?;
        let dimension = self.path.prior().state_dimension();
        for latent in latents {
            let dimension = dimension.unwrap_or(latent.len());
            Error::check_dimension("a latent vector", latent.len(), dimension)?;
        }
        let mut job = Job::new(&self.execution)?;
        let found = self.find(&mut job, 2)?;
        let mut forward = self.run_at(found.schedule.clone(), &found.kernel, &mut job)?;
        let of_datum =
            |(datum, z): (usize, &DVector<f64>)| vec![Latent::new(datum, z.clone()); chains];
        let starts: Vec<Latent> = latents.iter().enumerate().flat_map(of_datum).collect();
        let ais = self.ais(found.schedule, &found.kernel);
        let back = ais.read_backward_by(&mut job, Purpose::REVERSE, &starts)?;
        forward.evaluations += found.evaluations + evaluations(&back);
        forward.seconds += found.seconds + back.seconds;
        let weights = weights_by_datum(&back);
        Ok(SimulatedRun {
            forward,
            upper: weights
                .values()
                .map(|weights| -log_mean_exp(weights))
                .collect(),
        })
    }
}
