//! Adaptive annealing (Barron and Luo 2007): Langevin steps with a drift that carries each density to the next.
//!
//! The target is two bumps under a wide Gaussian, in one dimension. Plain Langevin steps fall behind as the bumps grow:
//! their log weights scatter, and too few chains reach the better bump. With the drift modifier the same steps keep up.
//!
//! ```text
//! cargo run --release --example adaptive_annealing
//! ```

use annealed::drift::{DriftModifiedLangevin, QuadratureModifier};
use annealed::kernel::UnadjustedLangevin;
use annealed::model::FunctionModel;
use annealed::prelude::*;
use nalgebra::dvector;

const GAIN: f64 = 4.0;
const STAGES: usize = 400;
/// The deviation of the base, `N(0, DEVIATION^2)`.
const DEVIATION: f64 = 2.0;

/// Returns the objective, a bump at -2 and a higher one at 2.5, and its slope.
fn objective(w: f64) -> (f64, f64) {
    let left = (-2.0 * (w + 2.0).powi(2)).exp();
    let right = 1.3 * (-2.0 * (w - 2.5).powi(2)).exp();
    let slope = -4.0 * (w + 2.0) * left - 4.0 * (w - 2.5) * right;
    (left + right, slope)
}

fn main() -> annealed::Result<()> {
    let base = Gaussian::isotropic(dvector![0.0], DEVIATION)?;
    let bumps = FunctionModel::new(|w: &DVector<f64>| GAIN * objective(w[0]).0)
        .with_gradient(|w: &DVector<f64>| dvector![GAIN * objective(w[0]).1]);
    let path = TemperedPath::new(base, bumps);
    let schedule = Schedule::linear(STAGES)?;

    // In one dimension quadrature gives the exact field G that carries the density to the next stage.
    let modifier = QuadratureModifier::new(&path, &schedule, (-12.0, 12.0), 2401)?;
    let eps = GAIN / STAGES as f64;
    let modified = DriftModifiedLangevin::new(modifier, eps)?;
    let plain = UnadjustedLangevin::new(eps)?;

    let (exact, on_the_right) = exact();
    println!("exact log Z = {exact:.4}, share of the mass on the right = {on_the_right:.3}\n");
    println!(
        "{:<22} {:>7} {:>7} {:>10} {:>16}",
        "steps", "log Z", "SE", "Var[log w]", "on the right"
    );
    let modified = Ais::new(&path, modified)
        .schedule(schedule.clone())
        .seed(1)
        .run()?;
    let plain = Ais::new(&path, plain).schedule(schedule).seed(1).run()?;
    for (name, run) in [("with the modifier", &modified), ("without", &plain)] {
        // The share of the chains as they are, without weights.
        let right = run.states().iter().filter(|w| w[0] > 0.0).count();
        println!(
            "{name:<22} {:>7.4} {:>7.4} {:>10.3} {:>16.3}",
            run.log_z(),
            run.standard_error(),
            run.estimate().var_log_weight(),
            right as f64 / run.chains() as f64,
        );
        assert!((run.log_z() - exact).abs() <= 4.0 * run.standard_error());
    }
    // The variance falls by a factor of about 20.
    let [with, without] = [&modified, &plain].map(|run| run.estimate().var_log_weight());
    assert!(10.0 * with < without);
    Ok(())
}

/// Returns log Z and the share of the mass above 0, by a sum over a fine grid.
fn exact() -> (f64, f64) {
    let spacing = 1e-3;
    let density = |w: f64| (-0.5 * (w / DEVIATION).powi(2) + GAIN * objective(w).0).exp();
    let base = DEVIATION * std::f64::consts::TAU.sqrt();
    let sum = |from: i32, to: i32| -> f64 {
        (from..to)
            .map(|i| density((f64::from(i) + 0.5) * spacing) * spacing)
            .sum()
    };
    let (left, right) = (sum(-20_000, 0), sum(0, 20_000));
    (((left + right) / base).ln(), right / (left + right))
}
