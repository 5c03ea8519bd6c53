//! Priors of several parameters: simplex, order, hierarchy, correlations, or the user's own.

mod correlation;
mod effects;
mod ordered;
mod simplex;

use std::sync::Arc;

use self::correlation::Correlation;
use self::effects::Effects;
use self::ordered::Ordered;
use self::simplex::Simplex;
use super::prior::Prior;
use super::transformed_prior::TransformedPrior;
use crate::Result;

/// The prior of several parameters that depend on one another, or on earlier parameters. It is one element of
/// [`Priors`](crate::model::Priors).
///
/// ```
/// use annealed::prelude::*;
///
/// // The evidence of counts whose probabilities have a Dirichlet prior.
/// let counts = [3.0, 5.0, 2.0];
/// let priors = Priors::new([JointPrior::dirichlet([1.0, 1.0, 1.0])?])?;
/// let likelihood = priors.likelihood(GradientModel::new(3, |p: &[f64], slopes: &mut [f64]| {
///     (0..3).for_each(|k| slopes[k] = counts[k] / p[k]);
///     (0..3).map(|k| counts[k] * p[k].ln()).sum()
/// })?);
/// let path = TemperedPath::new(&priors, likelihood);
/// let run = Ais::new(&path, Hmc::new(0.4, 3)?).schedule(Schedule::power(30, 2.0)?).run()?;
/// let exact = (2.0 * 6.0 * 120.0 * 2.0 / 479_001_600f64).ln(); // 2! 3! 5! 2! / 12!
/// println!("{run}, exactly {exact:.3}");
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # assert!(run.standard_error() < 0.05);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct JointPrior {
    law: Law,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Law {
    Single(Prior),
    Dirichlet(Simplex),
    Ordered(Ordered),
    Effects(Effects),
    Correlation(Correlation),
    #[cfg_attr(feature = "serde", serde(skip))]
    Own(Own),
}

/// A prior written by the user. It equals only its clones.
#[derive(Debug, Clone)]
struct Own(Arc<dyn TransformedPrior>);

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Prior> for JointPrior {
    fn from(prior: Prior) -> Self {
        let law = Law::Single(prior);
        Self { law }
    }
}

impl JointPrior {
    /// Creates a prior of your own. It cannot be serialised.
    pub fn new(prior: impl TransformedPrior + 'static) -> Self {
        let law = Law::Own(Own(Arc::new(prior)));
        Self { law }
    }

    /// Creates the Dirichlet distribution of probabilities that sum to 1, one per entry of `alpha`. The coordinates are
    /// logits of sticks: a stick is the share that a probability takes of what the previous probabilities leave.
    ///
    /// # Errors
    /// Fewer than two entries; one outside `[1e-3, 1e9]`; a sum above 1e9.
    pub fn dirichlet(alpha: impl Into<Vec<f64>>) -> Result<Self> {
        let law = Law::Dirichlet(Simplex::new(alpha.into())?);
        Ok(Self { law })
    }

    /// Creates the distribution of `count` independent parameters with this prior, sorted in increasing order. The
    /// density is `count!` times the product of their densities. The coordinates are the least parameter and the logs
    /// of the gaps between neighbours, all measured in the prior's own coordinate.
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// // Two components of a mixture, told apart by the order of their means: each mode of the posterior is there once.
    /// let data = [-2.1, -1.3, -2.8, 1.9, 2.4, 1.2];
    /// let priors = Priors::new([JointPrior::ordered(Prior::normal(0.0, 3.0)?, 2)?])?;
    /// let normal = |y: f64, mean: f64| (-0.5 * (y - mean).powi(2)).exp() / std::f64::consts::TAU.sqrt();
    /// let likelihood = priors.likelihood(FunctionModel::of_slices(|means: &[f64]| {
    ///     data.iter().map(|&y| (0.5 * (normal(y, means[0]) + normal(y, means[1]))).ln()).sum()
    /// }));
    /// let path = TemperedPath::new(&priors, likelihood);
    /// let run = Rounds::new(&path, RandomWalkMetropolis::new(0.7)?).budget(100_000).run()?;
    /// let (lower, _) = run.expectation(|u| priors.parameters(u)[0]);
    /// println!("{run}, lower mean {lower:.2}");
    /// # assert!((lower + 1.8).abs() < 0.5, "{lower}");
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// A count of 0, or one above 2^30.
    pub fn ordered(prior: Prior, count: usize) -> Result<Self> {
        let law = Law::Ordered(Ordered::new(prior, count)?);
        Ok(Self { law })
    }

    /// Creates `count` non-centred effects of a hierarchy. The coordinates z are independent with this prior, and an
    /// effect has the coordinate `m + s z`. The earlier parameters with the indices `location` and `scale`, among all
    /// parameters, are m and s; `None` stands for 0 and 1.
    ///
    /// With `Prior::normal(0.0, 1.0)` the effects are `N(m, s^2)`; with `Prior::log_normal(0.0, 1.0)` their logs are.
    /// [`Priors::new`](crate::model::Priors::new) refuses an index that is not earlier, and a scale whose prior allows negative
    /// values.
    ///
    /// # Errors
    /// A count of 0, or one above 2^30; an index above 2^30.
    pub fn effects(
        prior: Prior,
        count: usize,
        location: Option<usize>,
        scale: Option<usize>,
    ) -> Result<Self> {
        let law = Law::Effects(Effects::new(prior, count, location, scale, 1.0)?);
        Ok(Self { law })
    }

    /// Creates [`effects`](Self::effects) whose scale is a power of the parameter with the index `of`: 1/2 of a variance,
    /// -1/2 of a precision.
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// // y_i ~ N(theta_i, 1), theta_i ~ N(0, 1 / tau), and a gamma prior for the precision tau.
    /// let effects = JointPrior::effects_by_power(Prior::normal(0.0, 1.0)?, 8, None, 0, -0.5)?;
    /// let priors = Priors::new([Prior::gamma(2.0, 1.0)?.into(), effects])?;
    /// # assert_eq!(priors.dimension(), 9);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`effects`](Self::effects); a power that is 0 or not finite.
    pub fn effects_by_power(
        prior: Prior,
        count: usize,
        location: Option<usize>,
        of: usize,
        power: f64,
    ) -> Result<Self> {
        let law = Law::Effects(Effects::new(prior, count, location, Some(of), power)?);
        Ok(Self { law })
    }

    /// Creates the LKJ distribution of a correlation matrix R (Lewandowski, Kurowicka and Joe 2009), with density
    /// proportional to `det(R)^(shape - 1)`, uniform at shape 1. The parameters are the lower triangle of the Cholesky
    /// factor L of `R = L L^T`, row by row: one entry, 1, in the first row, two in the next, and `size` in the last.
    /// The coordinates are `2 artanh` of partial correlations.
    ///
    /// # Errors
    /// A size outside `2..=1000`; a shape outside `[1e-3, 5e8]`.
    pub fn correlation(size: usize, shape: f64) -> Result<Self> {
        let law = Law::Correlation(Correlation::new(size, shape)?);
        Ok(Self { law })
    }

    /// Returns the index of the earlier parameter that scales effects.
    pub(super) fn scale(&self) -> Option<usize> {
        match &self.law {
            Law::Effects(effects) => effects.scale(),
            _ => None,
        }
    }

    /// Returns the prior of a single parameter, if it is one.
    pub(super) fn single(&self) -> Option<&Prior> {
        match &self.law {
            Law::Single(prior) => Some(prior),
            _ => None,
        }
    }

    /// Returns whether this is the prior of a single parameter that may be negative.
    pub(super) fn allows_negative(&self) -> bool {
        self.single()
            .is_some_and(|prior| prior.parameter(-30.0).0 < 0.0)
    }

    pub(super) fn law(&self) -> &dyn TransformedPrior {
        match &self.law {
            Law::Single(prior) => prior,
            Law::Dirichlet(simplex) => simplex,
            Law::Ordered(ordered) => ordered,
            Law::Effects(effects) => effects,
            Law::Correlation(correlation) => correlation,
            Law::Own(own) => own.0.as_ref(),
        }
    }
}
