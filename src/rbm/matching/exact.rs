//! Moment matching with exact gradients.

use nalgebra::DVector;

use crate::num::{Lbfgs, setters};
use crate::rbm::enumerate::Enumeration;
use crate::rbm::matching::{RbmMatching, RbmMoments};
use crate::rbm::model::Rbm;
use crate::{Error, Result};

/// Moment matching with exact gradients, for RBMs whose smaller layer can be enumerated.
///
/// L-BFGS minimises the convex function `log Z - theta . s`, with the parameters theta and the
/// moments s that are sought. The parameters are centred at these moments: `a' = a + W mu` and
/// `b' = b + W^T lambda`, with `mu = E[v]` and `lambda = E[h]`. In centred parameters the weights
/// and the biases hardly interact.
///
/// By default there are at most 80 iterations, and an error above 0.06 in a moment is refused. A
/// bad match costs efficiency only: the weights of a run stay unbiased with any RBM at a knot.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct ExactMatching {
    iterations: usize,
    tolerance: f64,
}

impl Default for ExactMatching {
    fn default() -> Self {
        Self {
            iterations: 80,
            tolerance: 0.06,
        }
    }
}

impl ExactMatching {
    setters! {
        /// The largest number of iterations. Each enumerates all states once, seldom twice.
        iterations: usize,

        /// The largest error in a moment that is accepted. The search ends early at a tenth of it.
        tolerance: f64,
    }
}

impl RbmMatching for ExactMatching {
    /// # Errors
    /// Also where the smaller layer has too many units to enumerate.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        Error::check_positive("tolerance", self.tolerance)?;
        moments.check(start.hidden_units(), start.visible_units())?;
        Enumeration::new(start)?;
        let solver = Lbfgs {
            memory: 20,
            iterations: self.iterations,
            tolerance: 0.1 * self.tolerance,
        };
        let minimum = solver.minimize(moments.centred(start), |parameters| {
            let evaluated = moments.uncentred(parameters).and_then(|rbm: Rbm<f64>| {
                let (log_z, found) = rbm.log_normalizer_and_moments()?;
                Ok((log_z + rbm.mean_energy(moments), -moments.ascent(&found)))
            });
            evaluated.unwrap_or_else(|_| (f64::INFINITY, DVector::zeros(parameters.len())))
        });
        let rbm = moments.uncentred(&minimum.position)?;
        let error = rbm.exact_moments()?.largest_difference(moments);
        if error <= self.tolerance {
            return Ok(rbm);
        }
        Err(Error::NotConverged {
            what: "moment matching of an RBM",
            detail: format!(
                "a moment is off by {error:.3} after {} iterations, expected at most {}",
                minimum.iterations, self.tolerance
            ),
        })
    }
}
