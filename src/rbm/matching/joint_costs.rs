//! What the segments of a path of RBMs cost in the joint law of visible and hidden units.

use crate::path::AnnealingPath;
use crate::rbm::matching::RbmMoments;
use crate::rbm::path::RbmPath;
use crate::rbm::scalar::Scalar;
use crate::schedule::Schedule;
use crate::{Error, Result};

impl<T: Scalar> RbmPath<T> {
    /// The costs `F_j = 1/2 (theta_{j+1} - theta_j) . (s_{j+1} - s_j)` of the segments between these
    /// knots, from the moments at each of them (Grosse et al. 2013, Equation 20). Here theta holds W,
    /// a and b, and s their moments.
    ///
    /// They price the *joint* law of v and h: each is half the symmetrised divergence of two
    /// neighbours over both layers. The weights of a run see v alone. Their costs are the marginal
    /// ones, which are lower, and which
    /// [`BinnedSchedule::estimate_costs`](crate::pilot::BinnedSchedule::estimate_costs) finds.
    /// Both lead to a schedule by
    /// [`BinnedSchedule::with_costs`](crate::pilot::BinnedSchedule::with_costs).
    ///
    /// The moments at a knot are those of `self.at(beta).to_rbm()`, exact
    /// ([`Rbm::exact_moments`](crate::rbm::Rbm::exact_moments)) or estimated
    /// ([`MomentChains`](crate::rbm::MomentChains)); at the knots of a moment-averaging spline they are known to be
    /// averages of those of base and target ([`RbmMoments::average`]). Estimated moments may give a
    /// cost below 0, by noise.
    ///
    /// # Errors
    /// Where there are not moments for each knot, of the path's shape.
    ///
    /// ```
    /// use annealed::path::AnnealingPath;
    /// use annealed::pilot::BinnedSchedule;
    /// use annealed::rbm::{BaseRate, Rbm, RbmPath};
    /// use annealed::schedule::Schedule;
    /// use nalgebra::DMatrix;
    ///
    /// let weights = DMatrix::from_row_slice(2, 3, &[4.0, -4.0, 2.0, -2.0, 4.0, 5.0]);
    /// let target = Rbm::<f64>::new(weights, vec![0.2, -0.3].into(), vec![-2.0, -1.0, -1.0].into())?;
    /// let path = RbmPath::new(BaseRate::uniform(2, 3)?, target)?;
    /// let knots = Schedule::linear(10)?;
    /// let moments: annealed::Result<Vec<_>> =
    ///     knots.betas().iter().map(|&beta| path.at(beta).to_rbm()?.exact_moments()).collect();
    /// let costs = path.joint_costs(&knots, &moments?)?;
    /// let schedule = BinnedSchedule::new(knots).with_costs(&costs, 1_000)?;
    /// assert_eq!(schedule.steps(), 1_000);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn joint_costs(&self, knots: &Schedule, moments: &[RbmMoments]) -> Result<Vec<f64>> {
        Error::check_dimension("moments at the knots", moments.len(), knots.steps() + 1)?;
        let target = self.target();
        for moments in moments {
            moments.check_shape(target.hidden_units(), target.visible_units())?;
        }
        let rbms = knots.betas().iter().map(|&beta| self.at(beta).to_rbm());
        let rbms = rbms.collect::<Result<Vec<_>>>()?;
        // -theta . (s_after - s_before)
        let change = |j: usize, k: usize| {
            rbms[k].mean_energy(&moments[j + 1]) - rbms[k].mean_energy(&moments[j])
        };
        let segments = 0..knots.steps();
        Ok(segments
            .map(|j| 0.5 * (change(j, j) - change(j, j + 1)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector};

    use super::*;
    use crate::rbm::{BaseRate, Rbm};

    fn path() -> Result<RbmPath<f64>> {
        let weights = DMatrix::from_row_slice(2, 3, &[4.0, -4.0, 2.0, -2.0, 4.0, 5.0]);
        let hidden = DVector::from_column_slice(&[0.2, -0.3]);
        let visible = DVector::from_column_slice(&[-2.0, -1.0, -1.0]);
        let target = Rbm::new(weights, hidden, visible)?;
        RbmPath::new(BaseRate::new(2, vec![0.5, -1.0, 0.1].into())?, target)
    }

    /// Half the symmetrised divergence of two RBMs over all states of both layers.
    fn by_enumeration(p: &Rbm<f64>, q: &Rbm<f64>) -> Result<f64> {
        let (p_log_z, q_log_z) = (p.exact_log_normalizer()?, q.exact_log_normalizer()?);
        let bits = |state: u32, from: u32, n: u32| -> Vec<bool> {
            (from..from + n).map(|i| state >> i & 1 == 1).collect()
        };
        let terms = (0..32).map(|state| {
            let (visible, hidden) = (bits(state, 0, 3), bits(state, 3, 2));
            let log_p = -p.energy(&visible, &hidden) - p_log_z;
            let log_q = -q.energy(&visible, &hidden) - q_log_z;
            0.5 * (log_p.exp() - log_q.exp()) * (log_p - log_q)
        });
        Ok(terms.sum())
    }

    #[test]
    fn costs_are_half_the_symmetrised_divergences_of_the_joint_law() -> Result<()> {
        let (path, knots) = (path()?, Schedule::linear(4)?);
        let rbms: Vec<_> = knots
            .betas()
            .iter()
            .map(|&beta| path.at(beta).to_rbm())
            .collect::<Result<_>>()?;
        let moments: Vec<_> = rbms.iter().map(Rbm::exact_moments).collect::<Result<_>>()?;
        let costs = path.joint_costs(&knots, &moments)?;
        for (cost, pair) in costs.iter().zip(rbms.windows(2)) {
            let exact = by_enumeration(&pair[0], &pair[1])?;
            assert!((cost - exact).abs() < 1e-12, "{cost} for {exact}");
        }
        Ok(())
    }

    #[test]
    fn moments_of_another_number_or_shape_are_refused() -> Result<()> {
        let (path, knots) = (path()?, Schedule::linear(1)?);
        let moments = path.base().moments();
        for wrong in [
            vec![moments.clone()],
            vec![moments.clone(), RbmMoments::zeros(3, 3)],
        ] {
            let error = path.joint_costs(&knots, &wrong).unwrap_err();
            assert!(matches!(error, Error::DimensionMismatch { .. }), "{error}");
        }
        Ok(())
    }
}
