//! Laws of the chains of adaptive annealing, and the three forms of its modifier, by quadrature.

use annealed::drift::{BumpFeatures, Features};
use annealed::model::Differentiable;
use annealed::path::BetaDerivative;
use nalgebra::{DMatrix, DVector, dvector};

use crate::shared::bumps::{Drift, l1_error, modifier, path};

#[test]
fn the_adaptive_law_follows_its_density_and_others_do_not() {
    let known = [
        (100, [0.603, 1.003, 1.007]),
        (200, [0.267, 0.863, 0.869]),
        (400, [0.1207, 0.840, 0.848]),
    ];
    for (steps, known) in known {
        let drifts = [Drift::Adaptive, Drift::Naive, Drift::Reference];
        for (drift, known) in drifts.into_iter().zip(known) {
            let found = l1_error(8.0, steps, drift).unwrap();
            assert!(
                (found / known - 1.0).abs() < 0.01,
                "{steps} {drift:?}: {found}"
            );
        }
    }
}

const LOW: f64 = -9.0;
const SPACING: f64 = 0.1;
const POINTS: usize = 181;

/// The case at gain 2, half way to gain 4, on an even grid.
struct Middle {
    nodes: Vec<DVector<f64>>,
    /// Up to a constant.
    log_density: Vec<f64>,
    /// Sums to 1.
    mass: Vec<f64>,
    /// `s - E s`.
    excess: Vec<f64>,
}

impl Middle {
    fn new() -> Self {
        let path = path(1, 4.0).unwrap();
        let model = path.at(0.5);
        let nodes = (0..POINTS).map(|i| dvector![LOW + i as f64 * SPACING]);
        let nodes: Vec<DVector<f64>> = nodes.collect();
        let (log_density, s): (Vec<f64>, Vec<f64>) = nodes
            .iter()
            .map(|w| {
                let mut unused = dvector![0.0];
                (
                    model.gradient_into(w, &mut unused),
                    model.beta_derivative(w),
                )
            })
            .unzip();
        let total: f64 = log_density.iter().map(|l| l.exp()).sum();
        let mass: Vec<f64> = log_density.iter().map(|l| l.exp() / total).collect();
        let mean: f64 = mass.iter().zip(&s).map(|(p, s)| p * s).sum();
        Self {
            excess: s.iter().map(|s| s - mean).collect(),
            nodes,
            log_density,
            mass,
        }
    }

    /// `-1/2 int_0^inf E[s(W_t) - E s | W_0 = w] dt` along the diffusion `dW = 1/2 grad log p dt + dB`,
    /// as the walk on the grid that has the law p: `u_t(w) = E[s(W_t) - E s | W_0 = w]` obeys the
    /// backward equation.
    fn green(&self) -> Vec<f64> {
        let rate = |from: usize, to: usize| {
            let slope = 0.5 * (self.log_density[to] - self.log_density[from]);
            slope.exp() / (2.0 * SPACING * SPACING)
        };
        let time = 0.4 * SPACING * SPACING;
        let ups: Vec<f64> = (1..POINTS).map(|i| time * rate(i - 1, i)).collect();
        let downs: Vec<f64> = (1..POINTS).map(|i| time * rate(i, i - 1)).collect();
        let mut expected = self.excess.clone();
        let mut integral = vec![0.0; POINTS];
        while expected.iter().any(|e| e.abs() > 1e-4) {
            let before = expected.clone();
            for i in 0..POINTS {
                integral[i] -= 0.5 * time * before[i];
            }
            for i in 1..POINTS {
                let rise = before[i] - before[i - 1];
                expected[i - 1] += ups[i - 1] * rise;
                expected[i] -= downs[i - 1] * rise;
            }
        }
        integral
    }

    /// Fields of the features, and `div(p grad phi_j) / p`, a row for each node.
    fn columns(&self, features: &BumpFeatures) -> (DMatrix<f64>, DMatrix<f64>) {
        let path = path(1, 4.0).unwrap();
        let count = features.count();
        let mut fields = DMatrix::zeros(POINTS, count);
        let mut generated = DMatrix::zeros(POINTS, count);
        let mut row = vec![0.0; count];
        let (mut gradient, mut field) = (dvector![0.0], dvector![0.0]);
        for (i, w) in self.nodes.iter().enumerate() {
            path.at(0.5).gradient_into(w, &mut gradient);
            features.generator_into(w, &gradient, &mut row);
            for j in 0..count {
                let unit = DVector::from_fn(count, |k, _| f64::from(k == j));
                features.field_into(&unit, w, &mut field);
                (fields[(i, j)], generated[(i, j)]) = (field[0], row[j]);
            }
        }
        (fields, generated)
    }

    /// The root mean square of a function under p.
    fn size(&self, values: impl Iterator<Item = f64>) -> f64 {
        let squares = self.mass.iter().zip(values).map(|(p, v)| p * v * v);
        squares.sum::<f64>().sqrt()
    }
}

/// Least squares under the weights p, by singular values.
fn least_squares(columns: &DMatrix<f64>, target: &[f64], mass: &[f64]) -> DVector<f64> {
    let mut weighted = columns.clone();
    for (mut row, p) in weighted.row_iter_mut().zip(mass) {
        row *= p.sqrt();
    }
    let target = target.iter().zip(mass).map(|(t, p)| t * p.sqrt());
    let target = DVector::from_iterator(mass.len(), target);
    weighted.svd(true, true).solve(&target, 1e-9).unwrap()
}

/// The quadrature over one dimension, the Green's function of the reference diffusion, and the
/// regression over a rich family are one field.
#[test]
fn green_s_function_and_regression_are_the_modifier_of_the_quadrature() {
    let middle = Middle::new();
    let exact = modifier(4.0, 1).unwrap();
    let exact: Vec<f64> = middle.nodes.iter().map(|w| exact.at(0.5, w[0])).collect();
    let size = middle.size(exact.iter().copied());
    let off =
        |field: &dyn Fn(usize) -> f64| middle.size((0..POINTS).map(|i| field(i) - exact[i])) / size;
    let green = middle.green();
    let slope = |i: usize| {
        let (left, right) = (i.saturating_sub(1), (i + 1).min(POINTS - 1));
        (green[right] - green[left]) / ((right - left) as f64 * SPACING)
    };
    let green_off = off(&slope);
    let centres: Vec<DVector<f64>> = (-30..=30).map(|i| dvector![0.25 * f64::from(i)]).collect();
    let features = BumpFeatures::new(1, &centres, &[0.4]).unwrap();
    let (fields, generated) = middle.columns(&features);
    let coefficients = least_squares(&generated, &middle.excess, &middle.mass);
    let regressed = fields * coefficients;
    let regression_off = off(&|i| regressed[i]);
    assert!(
        green_off < 0.01 && regression_off < 0.03,
        "{green_off} {regression_off}"
    );
}
