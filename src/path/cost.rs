//! The cost of a path through an exponential family, as a sum of divergences along it.

use nalgebra::DVector;

use crate::model::ExponentialFamily;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// `KL(p || q) + KL(q || p) = (eta_q - eta_p) . (s_q - s_p)`, in nats; never below 0.
///
/// # Panics
/// Where the two members differ in dimension.
pub fn symmetrized_divergence<M: ExponentialFamily>(p: &M, q: &M) -> f64 {
    let natural = [p.natural_parameters(), q.natural_parameters()];
    // Not negative but for rounding.
    product_of_changes(&natural, &[p.moments(), q.moments()]).max(0.0)
}

/// The cost `F = (eta_b - eta_a) . (s_b - s_a) / 2` under a linear schedule. It is the same for the
/// geometric path and for the moment-averaged path (Grosse et al. 2013, theorem 2).
///
/// With perfect transitions and K stages, `E[log w]` is `log(Z_b / Z_a) - F / K` and `Var[log w]`
/// is `2 F / K` to leading order. The symmetrised divergences between neighbours add up to `2 F / K`
/// exactly, at every K and on both paths.
///
/// # Panics
/// Where the two members differ in dimension.
pub fn linear_cost<M: ExponentialFamily>(base: &M, target: &M) -> f64 {
    0.5 * symmetrized_divergence(base, target)
}

/// The costs `F_j = 1/2 (eta_{j+1} - eta_j) . (s_{j+1} - s_j)` of the segments between knots, from
/// the natural parameters and the moments of an exponential family at the knots.
///
/// The path of a segment may be geometric or average moments (Grosse et al. 2013, theorem 2).
/// Estimated moments may give a cost below 0, by noise.
///
/// # Errors
/// Fewer than two knots, or lengths that differ.
pub fn exponential_family_costs(
    natural_parameters: &[DVector<f64>],
    moments: &[DVector<f64>],
) -> Result<Vec<f64>> {
    Error::check_dimension("moments", moments.len(), natural_parameters.len())?;
    Error::check_at_least("knots", moments.len(), 2)?;
    for vector in natural_parameters.iter().chain(moments) {
        Error::check_dimension("knot", vector.len(), moments[0].len())?;
    }
    let pairs = natural_parameters.windows(2).zip(moments.windows(2));
    Ok(pairs
        .map(|(eta, s)| 0.5 * product_of_changes(eta, s))
        .collect())
}

/// `(eta_q - eta_p) . (s_q - s_p)`, from the natural parameters and the moments of p and q.
fn product_of_changes(natural_parameters: &[DVector<f64>], moments: &[DVector<f64>]) -> f64 {
    let change = |ends: &[DVector<f64>]| &ends[1] - &ends[0];
    change(natural_parameters).dot(&change(moments))
}

/// The cost functional `F = 1/2 int (d eta / d beta) . (d s / d beta) d beta` of a path through
/// these members at these betas (Grosse et al. 2013, section 3).
///
/// It is exact where the path between neighbours is geometric or moment-averaged, as in a spline.
/// For any other path it is a quadrature, to be used on a fine grid.
///
/// # Errors
/// Where there is not one member for each beta.
///
/// # Panics
/// Where two members differ in dimension.
pub fn path_cost<M: ExponentialFamily>(betas: &Schedule, members: &[M]) -> Result<f64> {
    Error::check_dimension("members", members.len(), betas.steps() + 1)?;
    let widths = betas.betas().windows(2).map(|pair| pair[1] - pair[0]);
    let costs = members
        .windows(2)
        .map(|pair| linear_cost(&pair[0], &pair[1]));
    Ok(costs.zip(widths).map(|(cost, width)| cost / width).sum())
}

/// The length `int sqrt((d eta / d beta) . (d s / d beta)) d beta` of a path, from members along it
/// on a fine grid: the sum of the square roots of the symmetrised divergences between neighbours.
///
/// The cost is at least half the square of the length, whatever the schedule. The best schedule
/// attains this bound.
///
/// # Panics
/// Where two members differ in dimension.
pub fn path_length<M: ExponentialFamily>(members: &[M]) -> f64 {
    let pairs = members.windows(2);
    pairs
        .map(|pair| symmetrized_divergence(&pair[0], &pair[1]).sqrt())
        .sum()
}
