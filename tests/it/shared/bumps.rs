//! Two bumps under `N(0, 4)` (Barron and Luo's slides), and the laws of unweighted chains by quadrature.

use annealed::drift::QuadratureModifier;
use annealed::model::{Differentiable, Gaussian, UnnormalizedModel};
use annealed::path::TemperedPath;
use annealed::schedule::Schedule;
use nalgebra::DVector;

/// Returns `L(w) = exp(-(w+2)^2/.5) + 1.3 exp(-(w-2.5)^2/.5)` and its derivative.
pub fn objective(w: f64) -> (f64, f64) {
    let left = (-2.0 * (w + 2.0).powi(2)).exp();
    let right = 1.3 * (-2.0 * (w - 2.5).powi(2)).exp();
    (
        left + right,
        -4.0 * (w + 2.0) * left - 4.0 * (w - 2.5) * right,
    )
}

/// `gain` times the sum of L over the coordinates.
pub struct Objective {
    gain: f64,
}

impl UnnormalizedModel for Objective {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.gain * state.iter().map(|&w| objective(w).0).sum::<f64>()
    }
}

impl Differentiable for Objective {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut sum = 0.0;
        for (slot, &w) in gradient.iter_mut().zip(state) {
            let (value, slope) = objective(w);
            *slot += scale * self.gain * slope;
            sum += value;
        }
        self.gain * sum
    }
}

/// Returns the path from `N(0, 4)` for each coordinate, tempered by the objective.
pub fn path(dimension: usize, gain: f64) -> annealed::Result<TemperedPath<Gaussian, Objective>> {
    let base = Gaussian::isotropic(DVector::zeros(dimension), 2.0)?;
    Ok(TemperedPath::new(base, Objective { gain }))
}

/// Tabulates G at the middle of each of `steps` stages.
pub fn modifier(gain: f64, steps: usize) -> annealed::Result<QuadratureModifier> {
    let path = path(1, gain)?;
    QuadratureModifier::new(&path, &Schedule::linear(steps)?, (-12.0, 12.0), 2401)
}

/// An even grid for densities on the line.
pub struct Grid {
    low: f64,
    spacing: f64,
    pub points: usize,
}

pub const GRID: Grid = Grid {
    low: -9.0,
    spacing: 0.01,
    points: 1801,
};

impl Grid {
    pub fn node(&self, i: usize) -> f64 {
        self.low + i as f64 * self.spacing
    }

    pub fn exact(&self, gain: f64) -> Vec<f64> {
        let log_density = |w: f64| -0.125 * w * w + gain * objective(w).0;
        let nodes = (0..self.points).map(|i| self.node(i));
        let mut density: Vec<f64> = nodes.map(|w| log_density(w).exp()).collect();
        let total = density.iter().sum::<f64>() * self.spacing;
        density.iter_mut().for_each(|p| *p /= total);
        density
    }

    /// Returns the law after a move from w to `N(mean(w), variance)`.
    fn moved(&self, law: &[f64], variance: f64, mean: impl Fn(f64) -> f64) -> Vec<f64> {
        let reach = 7.0 * variance.sqrt();
        let step = self.spacing / variance;
        // Along the grid the Gaussian's ratios from node to node form a geometric series.
        let ratio_of_ratios = (-self.spacing * step).exp();
        let scale = self.spacing / (std::f64::consts::TAU * variance).sqrt();
        let index = |w: f64| ((w - self.low) / self.spacing).clamp(0.0, self.points as f64);
        let mut next = vec![0.0; self.points];
        for (i, &mass) in law.iter().enumerate() {
            let centre = mean(self.node(i));
            let (first, last) = (
                index(centre - reach) as usize,
                index(centre + reach) as usize,
            );
            let offset = self.node(first) - centre;
            let mut density = mass * scale * (-0.5 * offset * offset / variance).exp();
            let mut ratio = (-(offset + 0.5 * self.spacing) * step).exp();
            for law in &mut next[first..last] {
                *law += density;
                density *= ratio;
                ratio *= ratio_of_ratios;
            }
        }
        next
    }
}

/// The drift of a chain at a stage, besides noise of variance `eps`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drift {
    /// `eps/2 grad log p - delta G` at the stage's gain.
    Adaptive,
    /// `eps/2 grad log p` at the stage's gain.
    Naive,
    /// `eps/2 grad log p` at the final gain from the start: the reference diffusion.
    Reference,
}

/// Largest number of tables of G. With more stages, G is interpolated between the tables.
const MAX_TABLES: usize = 1600;

/// Returns the L1 distance at `gain` between the law of an unweighted chain of `steps` steps and its target, with `eps
/// = delta = gain / steps`.
pub fn l1_error(gain: f64, steps: usize, drift: Drift) -> annealed::Result<f64> {
    let eps = gain / steps as f64;
    let path = path(1, gain)?;
    let adaptive = drift == Drift::Adaptive;
    let tables = adaptive.then(|| modifier(gain, steps.min(MAX_TABLES)));
    let tables = tables.transpose()?;
    let mut law = GRID.exact(0.0);
    for k in 0..steps {
        let middle = (k as f64 + 0.5) / steps as f64;
        let model = path.at(if drift == Drift::Reference {
            1.0
        } else {
            middle
        });
        law = GRID.moved(&law, eps, |w| {
            let gradient = model.gradient(&DVector::from_element(1, w))[0];
            let shift = tables.as_ref().map_or(0.0, |g| g.at(middle, w));
            w + 0.5 * eps * gradient - shift / steps as f64
        });
    }
    let exact = GRID.exact(gain);
    let differences = law.iter().zip(&exact).map(|(q, p)| (q - p).abs());
    Ok(differences.sum::<f64>() * GRID.spacing)
}
