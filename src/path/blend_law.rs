//! The rules of paths that blend two log densities: the weights at each beta.

use crate::num::weighted;

/// The weights of the two log densities of a [`Blend`](super::Blend), and the rules for a density of 0.
pub trait BlendLaw {
    /// Name in error messages of the model that is not the base.
    const OTHER: &'static str;
    /// Whether the weight of the base depends on beta, so that log ratios depend on the base's log density.
    const BASE_FADES: bool;

    /// Returns the weights of the base and of the other log density at `beta`.
    fn weights(beta: f64) -> [f64; 2];

    /// Returns whether the blend at `beta` is the base's log density `base` alone. The other log density is then not
    /// evaluated.
    fn is_base(beta: f64, base: f64) -> bool;

    /// Returns the log ratio of a state between the betas `from` and `to`, given its two log densities.
    fn log_ratio(from: f64, to: f64, base: f64, other: f64) -> f64;

    /// Returns the weighted sum of the two log densities at `beta`, with `0 * -inf = 0`.
    #[inline(always)]
    fn sum(beta: f64, base: f64, other: f64) -> f64 {
        let [to_base, to_other] = Self::weights(beta);
        weighted(to_base, base) + weighted(to_other, other)
    }

    /// Returns the log density at `beta`, given `base` and the function `other`.
    #[inline(always)]
    fn blend(beta: f64, base: f64, other: impl FnOnce() -> f64) -> f64 {
        if Self::is_base(beta, base) {
            return base;
        }
        Self::sum(beta, base, other())
    }
}

/// The rule of a [`GeometricPath`](super::GeometricPath): weights `1 - beta` and `beta`. For a beta above 1, a power of
/// the target, the weights are 0 and `beta`.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometric;

impl BlendLaw for Geometric {
    const OTHER: &'static str = "target";
    const BASE_FADES: bool = true;

    #[inline(always)]
    fn weights(beta: f64) -> [f64; 2] {
        [(1.0 - beta).max(0.0), beta]
    }

    /// Returns false, so that a NaN of the target is found at any state.
    #[inline(always)]
    fn is_base(_beta: f64, _base: f64) -> bool {
        false
    }

    #[inline(always)]
    fn log_ratio(from: f64, to: f64, base: f64, other: f64) -> f64 {
        // This product keeps digits that the difference of two weighted sums would lose.
        if base.is_finite() && other.is_finite() {
            return (to - from) * (other - base);
        }
        let here = Self::sum(to, base, other);
        if here == f64::NEG_INFINITY {
            here
        } else {
            here - Self::sum(from, base, other)
        }
    }
}

/// The rule of a [`TemperedPath`](super::TemperedPath): weights 1 and `beta`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tempered;

impl BlendLaw for Tempered {
    const OTHER: &'static str = "likelihood";
    const BASE_FADES: bool = false;

    #[inline(always)]
    fn weights(beta: f64) -> [f64; 2] {
        [1.0, beta]
    }

    /// Returns true also if the prior excludes the state, because the likelihood may be undefined there.
    #[inline(always)]
    fn is_base(beta: f64, base: f64) -> bool {
        base == f64::NEG_INFINITY || beta == 0.0
    }

    #[inline(always)]
    fn log_ratio(from: f64, to: f64, _base: f64, other: f64) -> f64 {
        // On the way down `to - from` is negative, and its product with `-inf` would be `+inf`.
        if other == f64::NEG_INFINITY && to > 0.0 {
            return other;
        }
        weighted(to - from, other)
    }
}
