//! Moment matching in an exponential family without closed form.

use nalgebra::DVector;

use crate::model::ExponentialFamily;
use crate::num::Lbfgs;
use crate::{Error, Result};

/// How closely each moment is met, relative to `1 + max |s|`.
const TOLERANCE: f64 = 1e-8;

/// The most iterations of the minimiser.
const ITERATIONS: usize = 1_000;

/// The member of `start`'s family with these moments: the minimum of `A(eta) - eta . s`.
pub(super) fn match_moments<M: ExponentialFamily>(start: &M, moments: &DVector<f64>) -> Result<M> {
    let eta = start.natural_parameters();
    Error::check_dimension("moments", moments.len(), eta.len())?;
    Error::check_finite("moments", moments.iter().copied())?;
    let solver = Lbfgs {
        memory: 20,
        iterations: ITERATIONS,
        tolerance: TOLERANCE * (1.0 + moments.amax()),
    };
    let minimum = solver.minimize(eta, |eta| {
        // Outside the natural parameter space A is infinite.
        let Ok(member) = start.with_natural_parameters(eta) else {
            return (f64::INFINITY, DVector::zeros(eta.len()));
        };
        (
            member.log_partition() - eta.dot(moments),
            member.moments() - moments,
        )
    });
    if minimum.gradient.amax() <= solver.tolerance {
        return start.with_natural_parameters(&minimum.position);
    }
    Err(Error::NotConverged {
        what: "moment matching",
        detail: format!(
            "a moment is off by {:.3e} after {} iterations, expected at most {:.3e}; do the \
             moments belong to a member of the family?",
            minimum.gradient.amax(),
            minimum.iterations,
            solver.tolerance
        ),
    })
}
