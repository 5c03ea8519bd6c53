//! Moment-averaging splines: paths of RBMs through knots whose moments are averages.

use crate::Result;
use crate::rbm::base_rate::BaseRate;
use crate::rbm::matching::{RbmMatching, RbmMoments};
use crate::rbm::model::Rbm;
use crate::rbm::path::RbmPath;
use crate::rbm::scalar::Scalar;
use crate::schedule::Schedule;

impl<T: Scalar> RbmPath<T> {
    /// The moment-averaging spline (Grosse, Maddison and Salakhutdinov 2013).
    ///
    /// At each inner knot stands an RBM whose moments are those of the base and the `moments` of the
    /// target, averaged with weights `1 - beta` and beta. Its parameters are sought from those at
    /// the knot before.
    ///
    /// The target's moments may be exact ([`Rbm::exact_moments`]), from chains
    /// ([`MomentChains`](crate::rbm::MomentChains)) or from data ([`RbmMoments::from_data`]). A run
    /// along the path is unbiased with any moments.
    ///
    /// # Errors
    /// As [`through`](Self::through), and where the moments are of another shape or those of a
    /// knot are not matched.
    ///
    /// ```
    /// use annealed::ais::Ais;
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
    pub fn moment_spline(
        base: BaseRate<T>,
        target: Rbm<T>,
        moments: &RbmMoments,
        knots: Schedule,
        matching: &impl RbmMatching,
    ) -> Result<Self> {
        let from = base.moments();
        let mut rbm = base.to_rbm()?;
        let mut models = Vec::with_capacity(knots.steps());
        for &beta in &knots.betas()[1..knots.steps()] {
            rbm = matching.match_moments(&rbm, &from.average(moments, beta)?)?;
            models.push(rbm.cast()?);
        }
        models.push(target);
        Self::through(base, models, knots)
    }
}
