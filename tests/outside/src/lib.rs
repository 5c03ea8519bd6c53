//! A model, a path, a kernel and an optimizer of schedules from outside of the crate: rings of spins.

use annealed::ais::Execution;
use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::{Ends, Intermediate};
use annealed::pilot::{OptimizedSchedule, Pilot, ScheduleMetric};
use annealed::prelude::*;
use annealed::rand::{Rng, RngExt};

/// A ring of eight spins, +1 or -1, coupled to their neighbours.
#[derive(Debug)]
pub struct Ring(pub f64);

impl UnnormalizedModel for Ring {
    type State = Vec<i8>;

    fn log_density(&self, s: &Vec<i8>) -> f64 {
        let bonds = s.iter().zip(s.iter().cycle().skip(1));
        self.0 * bonds.map(|(a, b)| f64::from(a * b)).sum::<f64>()
    }
}

/// Without coupling, fair spins.
impl Sampleable for Ring {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<i8> {
        (0..8).map(|_| if rng.random() { 1 } else { -1 }).collect()
    }
}

impl NormalizedModel for Ring {
    fn log_normalizer(&self) -> f64 {
        let (even, odd) = (2.0 * self.0.cosh(), 2.0 * self.0.sinh());
        (even.powi(8) + odd.powi(8)).ln()
    }
}

/// The path along which the coupling grows with the square of beta.
#[derive(Debug)]
pub struct Growing {
    /// Free spins.
    pub base: Ring,
    /// The coupled ones.
    pub target: Ring,
}

/// The ring at one beta.
#[derive(Debug)]
pub struct GrowingAt<'a>(&'a Growing, f64);

impl<'p> AnnealingPath for &'p Growing {
    type State = Vec<i8>;
    type Base = Ring;
    type At = GrowingAt<'p>;

    fn base(&self) -> &Ring {
        &self.base
    }

    fn at(&self, beta: f64) -> GrowingAt<'p> {
        GrowingAt(self, beta)
    }
}

impl UnnormalizedModel for GrowingAt<'_> {
    type State = Vec<i8>;

    fn log_density(&self, s: &Vec<i8>) -> f64 {
        self.log_density_at(self.ends(s, Ends::UNKNOWN))
    }
}

impl Intermediate for GrowingAt<'_> {
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.1
    }

    fn ends(&self, s: &Vec<i8>, known: Ends) -> Ends {
        let known = known.or_base(|| self.0.base.log_density(s));
        known.or_target(|| self.0.target.log_density(s))
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        let share = self.1 * self.1;
        (1.0 - share) * ends.base + share * ends.target
    }
}

/// Flips one spin, by Metropolis.
#[derive(Debug, Clone)]
pub struct FlipOne;

impl<M: Intermediate<State = Vec<i8>>> TransitionKernel<M> for FlipOne {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        s: &mut Vec<i8>,
        _: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let (before, i) = (stage.model.log_density(s), rng.random_range(0..s.len()));
        s[i] = -s[i];
        let after = NonFinite::check_log_density("log density", stage.model.log_density(s))?;
        let acceptance = (after - before).exp().min(1.0);
        if rng.random::<f64>() >= acceptance {
            s[i] = -s[i];
        }
        Ok(Step::metropolis(acceptance))
    }
}

/// Places stages evenly in the spread of `d log f / d beta` over a pilot's chains.
#[derive(Debug)]
pub struct EvenSpread;

impl<P, K> ScheduleOptimizer<P, K> for EvenSpread
where
    P: AnnealingPath<State: Send> + Send + Sync,
    K: Sync,
{
    fn optimize_by(
        &self,
        path: P,
        kernel: &K,
        stages: usize,
        seed: u64,
        by: &Execution<'_>,
    ) -> annealed::Result<OptimizedSchedule>
    where
        P::At: Send + Sync,
        K: TransitionKernel<P::At>,
    {
        let survey = Pilot::new(100, 200).survey_by(path, kernel, seed, by)?;
        let points = survey.points().iter();
        let (betas, spreads) = points.map(|at| (at.beta, at.unweighted_variance)).unzip();
        let metric = ScheduleMetric::new(betas, spreads)?.floored(1e-3)?;
        Ok(OptimizedSchedule::new(metric.schedule(stages)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_parts_from_outside_has_the_exact_log_z() -> annealed::Result<()> {
        let (base, target) = (Ring(0.0), Ring(0.8));
        let path = Growing { base, target };
        let found = EvenSpread.optimize(&path, &FlipOne, 300, 1)?;
        assert!(found.warnings.is_empty() && found.evaluations == 0);
        let sweep = Repeat::new(FlipOne, 4)?;
        let run = Ais::new(&path, sweep).schedule(found.schedule).seed(1);
        let run = run.chains(1_000).run()?;
        let error = run.log_z() - path.target.log_normalizer();
        assert!(
            run.standard_error() < 0.05 && error.abs() < 4.0 * run.standard_error(),
            "{run}"
        );
        Ok(())
    }
}
