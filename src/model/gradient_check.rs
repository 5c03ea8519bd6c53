//! A comparison of gradients with finite differences of the density.

use nalgebra::DVector;

use crate::model::{Differentiable, UnnormalizedModel, log_densities_of};
use crate::{Error, Result};

/// Number of states that a search hands to the check. The check uses some of them: the others replace states off the
/// support, and all show the spread of each coordinate.
pub(crate) const PROBES: usize = 8;
/// Largest numbers of states and of coordinates that are checked.
const STATES: usize = 4;
const COORDINATES: usize = 32;
/// Steps of a finite difference, as shares of the coordinate's spread among the states. If rounding hides the shorter
/// steps, a longer one is tried.
const STEPS: [f64; 3] = [1e-3, 1e-2, 1e-1];
/// Steps of the three central differences that are compared, in units of such a step.
const DIFFERENCES: [f64; 6] = [2.0, -2.0, 1.0, -1.0, 0.5, -0.5];
/// Rounding error of a log density relative to its size, in epsilons of its number type.
const ROUNDING: f64 = 16.0;
/// Tolerance of a gradient's coordinate, relative to its size plus the inverse of the coordinate's spread.
const TOLERANCE: f64 = 0.05;
/// Tolerance of the log density returned with a gradient, in nats and relative to the log density.
const TOLERANCE_OF_VALUE: f64 = 1e-3;
/// Size of log densities that chains never reach. Gradients may overflow there.
const BEYOND_REACH: f64 = 1e100;
/// Size of the terms to which a gradient is added in a check, in inverse spreads of the coordinate. It is far larger
/// than gradients, but small enough to keep them precise.
pub(crate) const OTHERS: f64 = 1e6;

/// Returns the central difference `(f(x + h e_i) - f(x - h e_i)) / 2h` of the log density.
pub(crate) fn central_difference(
    model: &dyn UnnormalizedModel<State = DVector<f64>>,
    state: &DVector<f64>,
    index: usize,
    step: f64,
) -> f64 {
    let mut moved = state.clone();
    moved[index] = state[index] + step;
    let (right, after) = (moved[index], model.log_density(&moved));
    moved[index] = state[index] - step;
    (after - model.log_density(&moved)) / (right - moved[index])
}

/// Returns the log density and the gradient from a call with scale 1/2 that adds to `others`. The gradient comes out
/// wrong if the model assigns instead of adding, or ignores the scale.
pub(crate) fn added_gradient(
    model: &dyn Differentiable,
    state: &DVector<f64>,
    others: &DVector<f64>,
) -> (f64, DVector<f64>) {
    let mut sum = others.clone();
    let log_density = model.accumulate_gradient(state, 0.5, &mut sum);
    (log_density, (sum - others) * 2.0)
}

/// Returns an [`Error::WrongGradient`] if a coordinate disagrees with finite differences at two states or more, and at
/// over half of the states that count. A state counts if differences of several steps agree and are not all exactly 0.
/// At a kink, an edge, a bound or under rounding it does not count. Returns an [`Error::WrongValue`] if the log
/// densities disagree likewise. Returns the number of evaluations.
pub(crate) fn check_gradient(model: &dyn Differentiable, states: &[DVector<f64>]) -> Result<usize> {
    let Some(dimension) = states.first().map(DVector::len) else {
        return Ok(0);
    };
    let mut spent = 0;
    let points = states.iter().filter(|state| state.len() == dimension);
    let spreads: Vec<f64> = (0..dimension).map(|index| spread(states, index)).collect();
    let others = DVector::from_iterator(dimension, spreads.iter().map(|spread| OTHERS / spread));
    let points = points.inspect(|_| spent += 1);
    let points = points.map(|state| Point::new(model, state, &others));
    let points: Vec<_> = points
        .filter(|at| at.log_density.abs() < BEYOND_REACH)
        .take(STATES)
        .collect();
    if points.is_empty() {
        return Ok(spent);
    }
    check_values(model, &points)?;
    spent += points.len();
    let coordinates = dimension.min(COORDINATES);
    for index in (0..coordinates).map(|place| place * dimension / coordinates) {
        let spread = spreads[index];
        let (mut tests, mut hidden) = (Vec::new(), Vec::from_iter(&points));
        for step in STEPS.map(|step| step * spread) {
            let found = differences(model, &hidden, index, step);
            spent += DIFFERENCES.len() * hidden.len();
            let pairs = hidden.into_iter().zip(found);
            let judged = pairs.map(|(at, found)| (at, at.judge(index, found, (step, spread))));
            let (open, judged): (Vec<_>, Vec<_>) =
                judged.partition(|(_, test)| *test == Test::Hidden);
            hidden = open.into_iter().map(|(at, _)| at).collect();
            tests.extend(judged.into_iter().filter_map(|(_, test)| test.agreed()));
            if hidden.is_empty() {
                break;
            }
        }
        if let Some((gradient, difference)) = mistake(&tests, |test| disagree(test, spread)) {
            return Err(Error::WrongGradient {
                coordinate: index,
                gradient,
                difference,
            });
        }
    }
    Ok(spent)
}

/// Refuses a model that returns one log density with its gradient and another without the gradient.
fn check_values(model: &dyn Differentiable, points: &[Point<'_>]) -> Result<()> {
    let states: Vec<DVector<f64>> = points.iter().map(|at| at.state.clone()).collect();
    let values = points.iter().map(|at| at.log_density);
    let tests: Vec<(f64, f64)> = values.zip(log_densities_of(model, &states)).collect();
    let apart = |(value, log_density): (f64, f64)| {
        (value - log_density).abs() > TOLERANCE_OF_VALUE * (1.0 + value.abs())
    };
    mistake(&tests, apart).map_or(Ok(()), |(value, log_density)| {
        Err(Error::WrongValue { value, log_density })
    })
}

/// Returns the first test that fails, if at least two fail and these are over half of all.
fn mistake(tests: &[(f64, f64)], fails: impl Fn((f64, f64)) -> bool) -> Option<(f64, f64)> {
    let mut wrong = tests.iter().copied().filter(|&test| fails(test));
    let first = wrong.next()?;
    let others = wrong.count();
    (others > 0 && 2 * (1 + others) > tests.len()).then_some(first)
}

struct Point<'s> {
    state: &'s DVector<f64>,
    log_density: f64,
    gradient: DVector<f64>,
    epsilon: f64,
}

/// The verdict on central differences with three steps at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Test {
    /// Rounding, or a bound on the density, may hide the slope.
    Hidden,
    /// The differences disagree, as at a kink or an edge.
    Apart,
    /// The differences agree. Contains the gradient and the central difference.
    Agreed(f64, f64),
}

impl Test {
    fn agreed(self) -> Option<(f64, f64)> {
        match self {
            Self::Agreed(gradient, difference) => Some((gradient, difference)),
            Self::Hidden | Self::Apart => None,
        }
    }
}

impl<'s> Point<'s> {
    fn new(model: &dyn Differentiable, state: &'s DVector<f64>, others: &DVector<f64>) -> Self {
        let (log_density, gradient) = added_gradient(model, state, others);
        Self {
            state,
            log_density,
            gradient,
            epsilon: model.epsilon(),
        }
    }

    /// Decides whether central differences with three steps agree, and whether rounding hides them.
    fn judge(
        &self,
        index: usize,
        [long, middle, short]: [f64; 3],
        (step, spread): (f64, f64),
    ) -> Test {
        let gradient = self.gradient[index];
        // Both the log density and the coordinate are rounded in the model's number type.
        let sizes = ROUNDING * self.log_density.abs() + (middle * self.state[index]).abs();
        let rounding = self.epsilon * sizes / step;
        let doubt = (long - middle).abs() + (middle - short).abs() + rounding;
        // The error of the difference must stay well below the tolerance by which it judges the gradient.
        let bearable = 0.25 * TOLERANCE * (middle.abs() + spread.recip());
        if [long, middle, short] == [0.0; 3] && gradient != 0.0 || rounding > bearable {
            Test::Hidden
        } else if doubt <= bearable && middle.is_finite() {
            Test::Agreed(gradient, middle)
        } else {
            Test::Apart
        }
    }
}

/// Returns central differences with three steps at each point. One call of the model evaluates all moved states.
fn differences(
    model: &dyn Differentiable,
    points: &[&Point<'_>],
    index: usize,
    step: f64,
) -> Vec<[f64; 3]> {
    let moved = |at: &&Point<'_>| {
        DIFFERENCES.map(|length| {
            let mut state = at.state.clone();
            state[index] += length * step;
            state
        })
    };
    let states: Vec<DVector<f64>> = points.iter().flat_map(moved).collect();
    let log_densities = log_densities_of(model, &states);
    let slope =
        |(x, f): (&[DVector<f64>; 2], &[f64; 2])| (f[0] - f[1]) / (x[0][index] - x[1][index]);
    let pairs = states.as_chunks().0.iter().zip(log_densities.as_chunks().0);
    let slopes: Vec<f64> = pairs.map(slope).collect();
    slopes.as_chunks().0.to_vec()
}

/// Returns the range of a coordinate among the states; `1 + |x|` if all are equal.
fn spread(states: &[DVector<f64>], index: usize) -> f64 {
    let values = || states.iter().filter_map(|state| state.get(index)).copied();
    let (low, high) = (
        values().fold(f64::MAX, f64::min),
        values().fold(f64::MIN, f64::max),
    );
    if high > low {
        high - low
    } else {
        1.0 + low.abs()
    }
}

fn disagree((gradient, difference): (f64, f64), spread: f64) -> bool {
    let scale = gradient.abs().max(difference.abs()) + spread.recip();
    let apart = (gradient - difference).abs();
    // A gradient that is NaN passes here; other checks find it.
    apart > TOLERANCE * scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BatchModel, GradientModel};
    use nalgebra::dvector;

    fn states() -> Vec<DVector<f64>> {
        vec![
            dvector![0.3, 200.0],
            dvector![-1.1, -50.0],
            dvector![0.7, 90.0],
            dvector![-0.2, -140.0],
        ]
    }

    /// Checks two normal coordinates of deviations 1 and 100, whose gradients are multiplied by `factors`.
    fn check(factors: [f64; 2], kink: f64, shift: f64) -> Result<()> {
        let model = GradientModel::new(2, move |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = -factors[0] * x[0] - kink * x[0].signum();
            gradient[1] = -factors[1] * x[1] / 1e4;
            shift - 0.5 * x[0] * x[0] - kink * x[0].abs() - 0.5 * (x[1] / 100.0).powi(2)
        })?;
        check_gradient(&model, &states()).map(drop)
    }

    #[test]
    fn right_gradients_pass() {
        check([1.0, 1.0], 0.0, 0.0).unwrap();
        check([1.0, 1.0], 3.0, 1e6).unwrap();
        check([1.01, 0.99], 3.0, 0.0).unwrap();
        // Rounding hides any difference here.
        check([1.0, 1.0], 0.0, 1e15).unwrap();
        check([-1.0, 1.0], 0.0, 1e15).unwrap();
    }

    #[test]
    fn wrong_gradients_are_named() {
        for (factors, coordinate) in [
            ([-1.0, 1.0], 0),
            ([1.0, 2.0], 1),
            ([1.0, 0.0], 1),
            ([0.5, 1.0], 0),
        ] {
            match check(factors, 0.0, 0.0) {
                Err(Error::WrongGradient {
                    coordinate: found, ..
                }) => assert_eq!(found, coordinate),
                other => panic!("{factors:?}: {other:?}"),
            }
        }
    }

    /// Checks the same densities plus `constant` in single precision. If `is_known`, the model reports its number type,
    /// and otherwise it hides it.
    fn check_single(factors: [f32; 2], constant: f32, is_known: bool) -> Result<()> {
        let slopes = move |x: &[f32]| [-factors[0] * x[0], -factors[1] * x[1] / 1e4];
        let log_density = move |x: &[f32]| {
            let squares: f32 = [x[0], x[1] / 100.0].iter().map(|x| x * x).sum();
            constant - 0.5 * squares
        };
        if is_known {
            let rows = move |states: &[f32], _| {
                let rows = || states.chunks(2);
                let log_densities: Vec<f32> = rows().map(log_density).collect();
                Ok((log_densities, rows().flat_map(slopes).collect()))
            };
            return check_gradient(&BatchModel::new(2, rows)?, &states()).map(drop);
        }
        let hidden = GradientModel::new(2, move |x: &[f64], gradient: &mut [f64]| {
            let x = [x[0] as f32, x[1] as f32];
            gradient.copy_from_slice(&slopes(&x).map(f64::from));
            f64::from(log_density(&x))
        })?;
        check_gradient(&hidden, &states()).map(drop)
    }

    #[test]
    fn right_gradients_in_single_precision_pass() {
        for constant in [0.0, 1e2, -1e3, 1e4, -1e5, 1e6, -1e6, 1e7, -1e8] {
            check_single([1.0, 1.0], constant, true).unwrap();
        }
        for constant in [0.0, 1e2, 1e6, -1e6, -1e7, -1e8] {
            check_single([1.0, 1.0], constant, false).unwrap();
        }
    }

    #[test]
    fn wrong_gradients_in_single_precision_are_named() {
        for factors in [[-1.0, 1.0], [1.0, -1.0], [2.0, 1.0], [1.0, 0.1], [0.0, 1.0]] {
            for constant in [0.0, 10.0, -100.0, 300.0] {
                let found = check_single(factors, constant, true);
                let named = matches!(found, Err(Error::WrongGradient { .. }));
                assert!(named, "{factors:?}, {constant}: {found:?}");
            }
        }
    }

    /// A density at its lower bound is constant. Any gradient then passes.
    #[test]
    fn differences_of_zero_say_nothing() {
        let bounded = GradientModel::new(1, |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = -x[0];
            (-0.5 * x[0] * x[0]).max(-700.0)
        });
        let far = [-90.0, 70.0, 100.0, -60.0].map(|x| dvector![x]);
        check_gradient(&bounded.unwrap(), &far).unwrap();
    }

    /// Models that assign instead of adding, that ignore the scale, or that return another value are refused.
    #[test]
    fn gradients_that_are_not_added_are_found() {
        #[derive(Debug)]
        enum Careless {
            Assigns,
            Unscaled,
            OtherValue,
        }

        impl UnnormalizedModel for Careless {
            type State = DVector<f64>;

            fn log_density(&self, x: &DVector<f64>) -> f64 {
                -0.5 * x[0] * x[0] - 0.5 * (x[1] / 100.0).powi(2)
            }
        }

        impl Differentiable for Careless {
            fn accumulate_gradient(
                &self,
                x: &DVector<f64>,
                scale: f64,
                gradient: &mut DVector<f64>,
            ) -> f64 {
                let found = DVector::from_vec(vec![-x[0], -x[1] / 1e4]);
                match self {
                    Self::Assigns => *gradient = found * scale,
                    Self::Unscaled => *gradient += found,
                    Self::OtherValue => *gradient += found * scale,
                }
                self.log_density(x) + f64::from(u8::from(matches!(self, Self::OtherValue)))
            }
        }

        for model in [Careless::Assigns, Careless::Unscaled, Careless::OtherValue] {
            let found = check_gradient(&model, &states());
            let named = match model {
                Careless::OtherValue => matches!(found, Err(Error::WrongValue { .. })),
                _ => matches!(found, Err(Error::WrongGradient { coordinate: 0, .. })),
            };
            assert!(named, "{model:?}: {found:?}");
        }
    }

    #[test]
    fn edges_and_empty_lists_are_no_errors() {
        let edge = GradientModel::new(
            1,
            |x: &[f64], _: &mut [f64]| {
                if x[0] > 0.0 { 0.0 } else { f64::NEG_INFINITY }
            },
        );
        let edge = edge.unwrap();
        check_gradient(&edge, &[]).unwrap();
        check_gradient(&edge, &[dvector![1e-9], dvector![-1.0], dvector![2e-9]]).unwrap();
    }
}
