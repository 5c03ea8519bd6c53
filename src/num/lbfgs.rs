//! Minimisation of smooth convex functions by L-BFGS.

use std::collections::VecDeque;

use nalgebra::DVector;

/// Limited-memory BFGS (Nocedal and Wright 2006, algorithm 7.5) with a backtracking line search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lbfgs {
    /// Number of pairs of step and gradient change that are kept.
    pub(crate) memory: usize,
    pub(crate) iterations: usize,
    /// Largest entry of the gradient at which the minimisation stops.
    pub(crate) tolerance: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Minimum {
    pub(crate) position: DVector<f64>,
    pub(crate) value: f64,
    pub(crate) gradient: DVector<f64>,
    pub(crate) iterations: usize,
}

/// A step, the change of the gradient along it, and the inverse of the inner product of the two.
struct Pair {
    step: DVector<f64>,
    change: DVector<f64>,
    scale: f64,
}

impl Lbfgs {
    /// Minimises `function`, which returns its value (infinite outside its domain) and its gradient.
    pub(crate) fn minimize(
        &self,
        start: DVector<f64>,
        mut function: impl FnMut(&DVector<f64>) -> (f64, DVector<f64>),
    ) -> Minimum {
        let (value, gradient) = function(&start);
        let mut here = Minimum {
            position: start,
            value,
            gradient,
            iterations: 0,
        };
        let mut pairs = VecDeque::with_capacity(self.memory);
        while here.iterations < self.iterations && here.gradient.amax() > self.tolerance {
            let direction = direction(&pairs, &here.gradient);
            let Some(next) = search(&here, &direction, &mut function) else {
                break;
            };
            if pairs.len() == self.memory {
                pairs.pop_front();
            }
            pairs.extend(Pair::between(&here, &next));
            here = next;
        }
        here
    }
}

impl Pair {
    /// Creates the pair of two successive points; `None` if rounding left no positive curvature.
    fn between(from: &Minimum, to: &Minimum) -> Option<Self> {
        let (step, change) = (&to.position - &from.position, &to.gradient - &from.gradient);
        let curvature = step.dot(&change);
        (curvature > f64::MIN_POSITIVE).then(|| Self {
            scale: curvature.recip(),
            step,
            change,
        })
    }
}

/// Returns the step `-H g`, where g is the gradient and H approximates the inverse Hessian by the pairs. Without pairs
/// the step has length 1 at most.
fn direction(pairs: &VecDeque<Pair>, gradient: &DVector<f64>) -> DVector<f64> {
    let mut direction = -gradient;
    let mut along = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let a = pair.scale * pair.step.dot(&direction);
        direction.axpy(-a, &pair.change, 1.0);
        along.push(a);
    }
    match pairs.back() {
        Some(last) => direction /= last.scale * last.change.norm_squared(),
        None => direction /= gradient.norm().max(1.0),
    }
    for (pair, a) in pairs.iter().zip(along.into_iter().rev()) {
        let b = pair.scale * pair.change.dot(&direction);
        direction.axpy(a - b, &pair.step, 1.0);
    }
    direction
}

/// Returns the first point along `direction` with enough of a decrease; `None` if rounding leaves none.
fn search(
    here: &Minimum,
    direction: &DVector<f64>,
    function: &mut impl FnMut(&DVector<f64>) -> (f64, DVector<f64>),
) -> Option<Minimum> {
    // Nocedal and Wright suggest this constant for Armijo's condition.
    const ENOUGH: f64 = 1e-4;
    const HALVINGS: usize = 60;
    let slope = here.gradient.dot(direction);
    // Rounding of the value may hide this much near the minimum.
    let rounding = 1e-14 * (1.0 + here.value.abs());
    let mut length = 1.0;
    for _ in 0..HALVINGS {
        let position = &here.position + direction * length;
        let (value, gradient) = function(&position);
        let finite = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if finite && value <= here.value + ENOUGH * length * slope + rounding {
            return Some(Minimum {
                position,
                value,
                gradient,
                iterations: here.iterations + 1,
            });
        }
        length *= 0.5;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::dvector;

    /// Returns `e^(x + 3y - 0.1) + e^(x - 3y - 0.1) + e^(-x - 0.1)` plus a quadratic valley, smooth and convex.
    fn valley(x: &DVector<f64>) -> (f64, DVector<f64>) {
        let (a, b, apart) = (x[0], 3.0 * x[1], x[0] - x[1] - 1.0);
        let e = [a + b - 0.1, a - b - 0.1, -a - 0.1].map(f64::exp);
        let bend = 1e3 * apart;
        let gradient = dvector![e[0] + e[1] - e[2] + bend, 3.0 * (e[0] - e[1]) - bend];
        (e.iter().sum::<f64>() + 0.5 * bend * apart, gradient)
    }

    #[test]
    fn a_convex_function_is_minimised_to_the_tolerance() {
        let solver = Lbfgs {
            memory: 5,
            iterations: 200,
            tolerance: 1e-9,
        };
        let minimum = solver.minimize(dvector![-2.0, 1.5], valley);
        assert!(minimum.gradient.amax() <= 1e-9, "{minimum:?}");
        assert!(minimum.iterations < 60, "{}", minimum.iterations);
        for shift in [dvector![1e-3, 0.0], dvector![-1e-3, -1e-3]] {
            assert!(valley(&(&minimum.position + shift)).0 > minimum.value);
        }
    }

    #[test]
    fn the_domain_is_not_left() {
        // 50 x - log x, with its minimum at 0.02, near the edge of its domain.
        let solver = Lbfgs {
            memory: 3,
            iterations: 100,
            tolerance: 1e-10,
        };
        let minimum = solver.minimize(dvector![40.0], |x| {
            if x[0] <= 0.0 {
                return (f64::INFINITY, dvector![0.0]);
            }
            (50.0 * x[0] - x[0].ln(), dvector![50.0 - 1.0 / x[0]])
        });
        assert!((minimum.position[0] - 0.02).abs() < 1e-10, "{minimum:?}");
    }
}
