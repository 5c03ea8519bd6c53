//! Moment-averaging splines: RBM paths whose knots have averaged moments.

use nalgebra::DVector;

use crate::num::sigmoid;
use crate::rbm::{BaseRate, Rbm, RbmMatching, RbmMoments, RbmPath, Scalar};
use crate::schedule::Schedule;
use crate::{Error, Result};

impl<T: Scalar> RbmPath<T> {
    /// Creates the moment-averaging spline (Grosse, Maddison and Salakhutdinov 2013).
    ///
    /// Each inner knot is an RBM whose moments are the base's moments times `1 - beta` plus `moments` times beta. Runs
    /// stay unbiased if `moments` are estimated ([`MomentChains`](crate::rbm::MomentChains),
    /// [`RbmMoments::from_data`]).
    ///
    /// # Errors
    /// Same as [`through`](Self::through); also if `moments` have another shape, or a knot's moments are not matched.
    ///
    /// ```
    /// use annealed::ais::Ais;
    /// use annealed::estimate::LogZ;
    /// use annealed::rbm::{BaseRate, BlockGibbs, ExactMatching, Rbm, RbmPath};
    /// use annealed::schedule::Schedule;
    /// use nalgebra::DMatrix;
    ///
    /// let weights = DMatrix::from_row_slice(2, 3, &[4.0, -4.0, 2.0, -2.0, 4.0, 5.0]);
    /// let target = Rbm::<f64>::new(weights, vec![0.2, -0.3].into(), vec![-2.0, -1.0, -1.0].into())?;
    /// let path = RbmPath::moment_spline(
    ///     BaseRate::uniform(2, 3)?,
    ///     target.clone(),
    ///     &target.exact_moments()?,
    ///     Schedule::linear(5)?,
    ///     &ExactMatching::default(),
    /// )?;
    /// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(100)?).seed(1).run()?;
    /// assert!((run.log_z() - target.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    #[doc(alias("moment averaging", "averaged moments"))]
    pub fn moment_spline(
        base: BaseRate<T>,
        target: Rbm<T>,
        moments: &RbmMoments,
        knots: Schedule,
        matching: &impl RbmMatching,
    ) -> Result<Self> {
        let from = base.moments();
        let mut rbm = base.to_rbm()?;
        let mut models = Vec::with_capacity(knots.stages());
        for &beta in &knots.betas()[1..knots.stages()] {
            // Each search starts at the knot before, whose moments are near.
            rbm = matching.match_moments(&rbm, &from.average(moments, beta)?)?;
            models.push(rbm.cast()?);
        }
        models.push(target);
        Self::through(base, models, knots)
    }
}

impl<T: Scalar> BaseRate<T> {
    /// Returns the moments of this model: `E[v_i] = sigmoid(b_i)`, `E[h_j] = 1/2` and their products.
    pub fn moments(&self) -> RbmMoments {
        let visible = self.visible_bias().map(|b| sigmoid(b.as_()));
        let hidden = DVector::from_element(self.hidden_units(), 0.5);
        RbmMoments {
            interaction: &hidden * visible.transpose(),
            visible,
            hidden,
        }
    }

    /// Creates the base nearest to these moments: units are on with probabilities `(E[v_i] + s) / (1 + 2 s)`.
    ///
    /// Apart from the `smoothing` s, it minimises `KL(machine || base)` over models of independent units. Use 0.001, or
    /// `1/N` for moments of N samples.
    ///
    /// # Errors
    /// If a layer is empty, a visible moment lies outside `[0, 1]`, or `smoothing` is not finite and positive.
    ///
    /// ```
    /// use annealed::rbm::{BaseRate, MomentChains, Rbm};
    /// use nalgebra::dmatrix;
    ///
    /// let weights = dmatrix![2.0, -1.0; 0.5, 1.0];
    /// let rbm = Rbm::<f64>::new(weights, vec![0.0, 0.0].into(), vec![-1.0, 1.0].into())?;
    /// let moments = MomentChains::full().chains(100).sweeps(200).burn_in(100).moments(&rbm)?;
    /// let base = BaseRate::<f64>::from_moments(&moments, 1e-3)?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn from_moments(moments: &RbmMoments, smoothing: f64) -> Result<Self> {
        Error::check_positive("smoothing", smoothing)?;
        let probabilities = moments.visible.iter().copied().enumerate();
        let within = |p: f64| (0.0..=1.0).contains(&p);
        Error::check_each(
            "visible moments",
            "index",
            probabilities,
            within,
            "numbers in [0, 1]",
        )?;
        let logit = |p: f64| T::nearest(((p + smoothing) / (1.0 - p + smoothing)).ln());
        Self::new(moments.hidden.len(), moments.visible.map(logit))
    }
}

impl<T: Scalar> RbmPath<T> {
    /// Returns the costs `F_j = 1/2 (theta_{j+1} - theta_j) . (s_{j+1} - s_j)` of the segments between `knots` (Grosse
    /// et al. 2013, Equation 20), with parameters theta and moments s of `self.at(beta).to_rbm()` at each knot.
    ///
    /// These costs of the *joint* distribution of v and h are for
    /// [`with_costs`](crate::pilot::BinnedSchedule::with_costs). Costs of v alone are lower
    /// ([`estimate_costs`](crate::pilot::BinnedSchedule::estimate_costs)). Estimated moments may give a negative cost.
    /// At knots of a moment-averaging spline the moments are [averages](RbmMoments::average).
    ///
    /// # Errors
    /// If there is not one set of moments per knot, or moments have another shape.
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
    /// assert_eq!(schedule.stages(), 1_000);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn joint_costs(&self, knots: &Schedule, moments: &[RbmMoments]) -> Result<Vec<f64>> {
        Error::check_dimension("moments at the knots", moments.len(), knots.stages() + 1)?;
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
        let segments = 0..knots.stages();
        Ok(segments
            .map(|j| 0.5 * (change(j, j) - change(j, j + 1)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use crate::rbm::{BaseRate, Rbm};

    use super::*;

    fn path() -> Result<RbmPath<f64>> {
        let weights = DMatrix::from_row_slice(2, 3, &[4.0, -4.0, 2.0, -2.0, 4.0, 5.0]);
        let hidden = DVector::from_column_slice(&[0.2, -0.3]);
        let visible = DVector::from_column_slice(&[-2.0, -1.0, -1.0]);
        let target = Rbm::new(weights, hidden, visible)?;
        RbmPath::new(BaseRate::new(2, vec![0.5, -1.0, 0.1].into())?, target)
    }

    /// Returns half the symmetrised divergence of two RBMs over all states of both layers.
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
