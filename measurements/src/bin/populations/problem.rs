//! Problems on which any method runs, with a count of its evaluations.

use std::time::Instant;

use annealed::Result;
use annealed::kernel::Invariant;
use annealed::kernel::{Reversal, Tunable};
use annealed::path::{GeometricAt, TemperedAt};
use annealed::prelude::*;
use annealed_measurements::problems::meter::{Counted, Meter};

use crate::methods::{Method, Outcome, Samples, Task, Terms, levels};

/// Number of evaluations for which a value with its gradient counts.
const GRADIENT: u64 = 1;

type Solve = Box<dyn Fn(Method, Terms, &Meter) -> Result<Outcome>>;

/// A problem in the same form for every method.
pub struct Problem {
    /// log Z, exact or published.
    pub exact: f64,
    meter: Meter,
    solve: Solve,
}

pub struct Found {
    pub outcome: Outcome,
    pub evaluations: u64,
    pub seconds: f64,
}

impl Problem {
    /// Creates a problem from a closure, whose models or kernel count evaluations by `meter`.
    pub fn new(
        exact: f64,
        meter: Meter,
        solve: impl Fn(Method, Terms, &Meter) -> Result<Outcome> + 'static,
    ) -> Self {
        let solve = Box::new(solve);
        Self {
            exact,
            meter,
            solve,
        }
    }

    /// Creates a posterior. Evaluations of its likelihood count.
    pub fn tempered<P, L, K>(
        exact: f64,
        (prior, likelihood): (P, L),
        kernel: K,
        samples: Samples<DVector<f64>>,
    ) -> Self
    where
        P: Sampleable<State = DVector<f64>> + NormalizedModel + Sync + 'static,
        L: UnnormalizedModel<State = DVector<f64>> + Sync + 'static,
        K: for<'a> Invariant<TemperedAt<'a, P, Counted<L>>>
            + for<'a> Reversal<TemperedAt<'a, P, Counted<L>>>
            + Tunable
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let meter = Meter::default();
        let path = TemperedPath::new(prior, Counted::new(likelihood, GRADIENT, &meter));
        Self::new(exact, meter, move |method, terms, meter| match method {
            Method::NestedSmc => levels(&path, terms, meter),
            _ => Task::tuned(&path, kernel.clone(), terms, meter).solve_with(method, &samples),
        })
    }

    /// Creates a target with a base. Evaluations of the target count. `NestedSmc` uses the base as prior.
    pub fn geometric<A, B, K>(
        exact: f64,
        (base, target): (A, B),
        kernel: K,
        samples: Samples<DVector<f64>>,
    ) -> Self
    where
        A: Sampleable<State = DVector<f64>> + NormalizedModel + Sync + 'static,
        B: UnnormalizedModel<State = DVector<f64>> + Sync + 'static,
        K: for<'a> Invariant<GeometricAt<'a, A, Counted<B>>>
            + for<'a> Reversal<GeometricAt<'a, A, Counted<B>>>
            + Tunable
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let meter = Meter::default();
        let path = GeometricPath::new(base, Counted::new(target, GRADIENT, &meter));
        Self::new(exact, meter, move |method, terms, meter| match method {
            Method::NestedSmc => {
                let (base, target) = (path.base(), path.target());
                levels(
                    &TemperedPath::new(base, Ratio { base, target }),
                    terms,
                    meter,
                )
            }
            _ => Task::tuned(&path, kernel.clone(), terms, meter).solve_with(method, &samples),
        })
    }

    pub fn run(&self, method: Method, terms: Terms) -> Result<Found> {
        self.meter.reset();
        let begun = Instant::now();
        let outcome = (self.solve)(method, terms, &self.meter)?;
        Ok(Found {
            outcome,
            evaluations: self.meter.spent(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }
}

struct Ratio<'a, A, B> {
    base: &'a A,
    target: &'a B,
}

impl<A, B> UnnormalizedModel for Ratio<'_, A, B>
where
    A: NormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    type State = A::State;

    fn log_density(&self, state: &A::State) -> f64 {
        let base = self.base.log_density(state) - self.base.log_normalizer();
        self.target.log_density(state) - base
    }
}
