//! VAROPT's own solver: Picard iteration on its differential equation.

use crate::pilot::metric::Metric;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Largest change of a beta at which the iteration has converged.
const TOLERANCE: f64 = 1e-10;
/// A bound on the betas, which should lie between 0 and 1; beyond it the iteration diverges.
const DIVERGED: f64 = 1e3;
/// Fewest intervals of time on which the equation is solved.
const RESOLUTION: usize = 1_000;

/// Solves `beta'' = -1/2 beta'^2 (log g)'(beta)`, `beta(0) = 0`, `beta(1) = 1` by iterating the
/// right-hand side (Kiwaki 2015, Section 5), each iterate mixed with the one before.
///
/// # Errors
/// Settings out of range; [`Error::NotConverged`] where the betas grow beyond bounds or keep changing;
/// limits that are no schedule.
pub(crate) fn solve(
    metric: &Metric,
    steps: usize,
    damping: f64,
    max_iterations: usize,
) -> Result<Schedule> {
    Error::check_positive_fraction("damping", damping)?;
    Error::check_count("steps", steps, 1)?;
    // A multiple of the steps, so that these are among the points.
    let refinement = RESOLUTION.div_ceil(steps);
    let intervals = refinement * steps;
    let mut betas: Vec<f64> = (0..=intervals)
        .map(|k| k as f64 / intervals as f64)
        .collect();
    let mut change = f64::INFINITY;
    for iteration in 0..max_iterations {
        let next = iterate(metric, &betas);
        // Fails for NaN too.
        if !next.iter().all(|beta| beta.abs() < DIVERGED) {
            let detail = format!("betas beyond {DIVERGED} at iteration {}", iteration + 1);
            return Err(not_converged(detail));
        }
        change = 0.0;
        for (beta, next) in betas.iter_mut().zip(next) {
            change = f64::max(change, (next - *beta).abs());
            *beta += damping * (next - *beta);
        }
        if change < TOLERANCE {
            return Schedule::new(betas.into_iter().step_by(refinement));
        }
    }
    Err(not_converged(format!(
        "betas still change by {change:e} after {max_iterations} iterations"
    )))
}

fn not_converged(detail: String) -> Error {
    Error::NotConverged {
        what: "VAROPT's fixed point",
        detail: format!("{detail}; expected a milder g, more damping, or the quadrature"),
    }
}

/// Integrates the right-hand side twice, with ends pinned to 0 and 1.
fn iterate(metric: &Metric, betas: &[f64]) -> Vec<f64> {
    let last = betas.len() - 1;
    let width = 1.0 / last as f64;
    // beta'^2 (log g)'(beta), from the change of log g over each interval.
    let logs: Vec<f64> = betas
        .iter()
        .map(|&beta| metric.at(beta.clamp(0.0, 1.0)).ln())
        .collect();
    let bend = |k: usize| -0.5 * (betas[k] - betas[k - 1]) * (logs[k] - logs[k - 1]) / width;
    let (mut speed, mut position) = (0.0, 0.0);
    let mut curve = vec![0.0];
    for k in 1..=last {
        let change = bend(k);
        position += width * (speed + 0.5 * change);
        speed += change;
        curve.push(position);
    }
    let slope = 1.0 - position;
    let pinned = curve.iter().enumerate();
    let mut next: Vec<f64> = pinned
        .map(|(k, x)| x + slope * (k as f64 * width))
        .collect();
    next[last] = 1.0;
    next
}
