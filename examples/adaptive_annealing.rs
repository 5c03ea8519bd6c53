//! Adaptive annealing (Barron and Luo 2007): Langevin steps whose drift carries each density of a
//! path to the next, beside steps that must wait for the chain to mix.
//!
//! One dimension, two bumps of an objective L under a Gaussian: the distance between the law of an
//! unweighted chain and the density that it should follow, log Z by annealed importance sampling,
//! and the variance of the log weight with and without the drift modifier; the same in eight
//! dimensions; a superposition of ridge functions by annealed Gibbs.
//!
//! ```text
//! cargo run --release --example adaptive_annealing
//! cargo run --release --example adaptive_annealing -- --json
//! ```

use std::collections::BTreeMap;

use annealed::ais::{Ais, Run};
use annealed::kernel::{
    DriftModifiedLangevin, Hmc, Mala, QuadratureModifier, RidgeGibbs, SeparableModifier,
    TransitionKernel, UnadjustedLangevin, tune,
};
use annealed::model::{
    Differentiable, FunctionModel, Gaussian, NormalizedModel, RidgeState, Sinusoid,
};
use annealed::path::{AnnealingPath, RidgePath, TemperedPath};
use annealed::schedule::Schedule;
use clap::Parser;
use nalgebra::{DVector, dmatrix};
use serde_json::{Map, Value, json};

#[derive(Parser)]
struct Options {
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Chains of each run.
    #[arg(long, default_value_t = 4_000)]
    chains: usize,
    /// Stages to gain 8, where the left mode needs many.
    #[arg(long, default_value_t = 3_200)]
    steps_8: usize,
}

/// `L(w) = exp(-(w+2)^2/.5) + 1.3 exp(-(w-2.5)^2/.5)` and its derivative.
fn objective(w: f64) -> (f64, f64) {
    let left = (-2.0 * (w + 2.0).powi(2)).exp();
    let right = 1.3 * (-2.0 * (w - 2.5).powi(2)).exp();
    (
        left + right,
        -4.0 * (w + 2.0) * left - 4.0 * (w - 2.5) * right,
    )
}

/// `N(0, 4)` for each coordinate, tempered by `gain` times the sum of L over the coordinates.
fn path(
    dimension: usize,
    gain: f64,
) -> annealed::Result<TemperedPath<Gaussian, impl Differentiable<State = DVector<f64>> + Sync>> {
    let value = move |w: &DVector<f64>| gain * w.iter().map(|&w| objective(w).0).sum::<f64>();
    let gradient = move |w: &DVector<f64>| w.map(|w| gain * objective(w).1);
    let base = Gaussian::isotropic(DVector::zeros(dimension), 2.0)?;
    let likelihood = FunctionModel::new(value).with_gradient(gradient);
    Ok(TemperedPath::new(base, likelihood))
}

/// G at the middle of each of `steps` stages.
fn modifier(gain: f64, steps: usize) -> annealed::Result<QuadratureModifier> {
    let path = path(1, gain)?;
    QuadratureModifier::new(&path, &Schedule::linear(steps)?, (-12.0, 12.0), 2401)
}

/// A density on an even grid.
struct Grid {
    low: f64,
    spacing: f64,
    points: usize,
}

const GRID: Grid = Grid {
    low: -9.0,
    spacing: 0.01,
    points: 1801,
};

impl Grid {
    fn node(&self, i: usize) -> f64 {
        self.low + i as f64 * self.spacing
    }

    fn normalized(&self, log_density: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut density: Vec<f64> = (0..self.points)
            .map(|i| log_density(self.node(i)).exp())
            .collect();
        let total = density.iter().sum::<f64>() * self.spacing;
        density.iter_mut().for_each(|p| *p /= total);
        density
    }

    /// The law after a move from w to `N(mean(w), variance)`.
    fn moved(&self, law: &[f64], variance: f64, mean: impl Fn(f64) -> f64) -> Vec<f64> {
        let reach = 7.0 * variance.sqrt();
        let mut next = vec![0.0; self.points];
        for (i, &mass) in law.iter().enumerate() {
            let centre = mean(self.node(i));
            let index = |w: f64| ((w - self.low) / self.spacing).max(0.0) as usize;
            let reached = index(centre - reach)..index(centre + reach).min(self.points);
            let scale = mass * self.spacing / (std::f64::consts::TAU * variance).sqrt();
            for (j, law) in reached
                .clone()
                .zip(&mut next[reached.start.min(self.points)..])
            {
                *law += scale * (-0.5 * (self.node(j) - centre).powi(2) / variance).exp();
            }
        }
        next
    }
}

/// The L1 distance at gain 8 between the law of the unweighted chain with `delta = eps` and its
/// target, with and without the modifier; the laws are propagated by quadrature.
fn l1_error(eps: f64, modified: bool) -> annealed::Result<f64> {
    let gain = 8.0;
    let steps = (gain / eps).round() as usize;
    let path = path(1, gain)?;
    let modifier = modifier(gain, steps)?;
    let log_prior = |w: f64| -0.125 * w * w;
    let mut law = GRID.normalized(log_prior);
    for k in 0..steps {
        let middle = (k as f64 + 0.5) / steps as f64;
        let model = path.at(middle);
        law = GRID.moved(&law, eps, |w| {
            let gradient = model.gradient(&DVector::from_element(1, w))[0];
            let shift = if modified {
                modifier.at(middle, w) / steps as f64
            } else {
                0.0
            };
            w + 0.5 * eps * gradient - shift
        });
    }
    let exact = GRID.normalized(|w| log_prior(w) + gain * objective(w).0);
    let differences = law.iter().zip(&exact).map(|(q, p)| (q - p).abs());
    Ok(differences.sum::<f64>() * GRID.spacing)
}

fn run<'p, P, K>(
    path: &'p P,
    kernel: K,
    steps: usize,
    chains: usize,
) -> annealed::Result<Run<P::State>>
where
    P: AnnealingPath<Base: NormalizedModel, State: Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(Schedule::linear(steps)?);
    ais.chains(chains).seed(1).run()
}

const STEPS: usize = 400;

/// Runs to gain 4 with the modifier, without it, and with MALA, all with `eps = .01` on 400 stages;
/// then tuned MALA and HMC with as many gradients a chain, one a stage and four a stage on a quarter
/// of the stages.
fn to_gain_4(dimension: usize, chains: usize) -> annealed::Result<Vec<Run<DVector<f64>>>> {
    let path = path(dimension, 4.0)?;
    let eps = 4.0 / STEPS as f64;
    let table = modifier(4.0, STEPS)?;
    let separable = SeparableModifier::new(vec![&table; dimension]);
    let (long, short) = (Schedule::linear(STEPS)?, Schedule::linear(STEPS / 4)?);
    let mala = tune(&Mala::new(0.1)?, &path, &long, 0.574, 1)?;
    let hmc = tune(&Hmc::new(0.2, 4)?, &path, &short, 0.8, 1)?;
    Ok(vec![
        run(
            &path,
            DriftModifiedLangevin::new(separable, eps)?,
            STEPS,
            chains,
        )?,
        run(&path, UnadjustedLangevin::new(eps)?, STEPS, chains)?,
        run(&path, Mala::new(eps)?, STEPS, chains)?,
        run(&path, mala, STEPS, chains)?,
        run(&path, hmc, STEPS / 4, chains)?,
    ])
}

/// Noise of the steps to gain 8, more than the gain increment, and bound on their shifts: between
/// modes |G| reaches 239, and the left mode is lost where shifts overshoot.
const EPS_8: f64 = 0.005;
const BOUND_8: f64 = 0.1;

fn to_gain_8(steps: usize, chains: usize) -> annealed::Result<Run<DVector<f64>>> {
    let path = path(1, 8.0)?;
    let kernel = DriftModifiedLangevin::new(modifier(8.0, steps)?, EPS_8)?.bounded(BOUND_8)?;
    run(&path, kernel, steps, chains)
}

/// Three waves in two dimensions, augmented with their projections.
fn ridge() -> annealed::Result<RidgePath<Sinusoid>> {
    let wave = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
    RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3)
}

/// All that is reported.
struct Results {
    options: Options,
    /// L1 error for each eps, with and without the modifier.
    l1: [BTreeMap<String, f64>; 2],
    /// Modified, unmodified, MALA, tuned MALA and tuned HMC, in 1 and 8 dimensions.
    to_gain_4: [Vec<Run<DVector<f64>>>; 2],
    to_gain_8: Run<DVector<f64>>,
    ridge: Run<RidgeState>,
    collapsed: Run<RidgeState>,
}

impl Results {
    fn new(options: Options) -> annealed::Result<Self> {
        let mut l1 = [BTreeMap::new(), BTreeMap::new()];
        for eps in [0.08, 0.04, 0.02] {
            for (errors, modified) in l1.iter_mut().zip([true, false]) {
                errors.insert(eps.to_string(), l1_error(eps, modified)?);
            }
        }
        let path = ridge()?;
        Ok(Self {
            l1,
            to_gain_4: [to_gain_4(1, options.chains)?, to_gain_4(8, options.chains)?],
            to_gain_8: to_gain_8(options.steps_8, options.chains)?,
            ridge: run(&path, RidgeGibbs::augmented(), 100, 20_000)?,
            collapsed: run(&path, RidgeGibbs::collapsed(), 100, 2_000)?,
            options,
        })
    }

    /// `E w` of the ridge superposition, with standard errors.
    fn mean_w(&self) -> [(f64, f64); 2] {
        [0, 1].map(|i| self.ridge.expectation(|state| state.w[i]))
    }

    fn json(&self) -> Value {
        let (far, ridge, collapsed) = (&self.to_gain_8, &self.ridge, &self.collapsed);
        let mut report = json!({
            "l1_adaptive": self.l1[0],
            "l1_naive": self.l1[1],
            "chains": self.options.chains,
            "steps": STEPS,
            "log_z_8": far.log_z(),
            "log_z_8_standard_error": far.standard_error(),
            "log_z_8_steps": self.options.steps_8,
            "separable_8d": gain_4_json(&self.to_gain_4[1]),
            "ridge_log_z": ridge.log_z(),
            "ridge_standard_error": ridge.standard_error(),
            "ridge_mean_w": self.mean_w().map(|(mean, _)| mean),
            "ridge_mean_w_standard_error": self.mean_w().map(|(_, error)| error),
            "ridge_chains": ridge.chains(),
            "ridge_steps": ridge.schedule().steps(),
            "ridge_var_log_w": ridge.estimate().var_log_weight(),
            "ridge_collapsed_log_z": collapsed.log_z(),
            "ridge_collapsed_standard_error": collapsed.standard_error(),
            "ridge_collapsed_var_log_w": collapsed.estimate().var_log_weight(),
        });
        if let (Value::Object(all), Value::Object(one)) =
            (&mut report, gain_4_json(&self.to_gain_4[0]))
        {
            all.extend(one);
        }
        report
    }

    fn print(&self) {
        println!("L1 distance at gain 8 from the density to follow");
        println!("{:>8} {:>10} {:>10}", "eps", "modified", "naive");
        for ((eps, modified), naive) in self.l1[0].iter().zip(self.l1[1].values()) {
            println!("{eps:>8} {modified:>10.4} {naive:>10.4}");
        }
        println!("\nVar[log w] at gain 4, {STEPS} stages");
        println!("       modified unmodified       MALA MALA tuned  HMC tuned");
        for (name, runs) in ["1-d", "8-d"].iter().zip(&self.to_gain_4) {
            print!("{name:>4}");
            for run in runs {
                print!(" {:>10.3}", run.estimate().var_log_weight());
            }
            println!();
        }
        println!("\ngain 4 (exact 2.732123): {}", self.to_gain_4[0][0]);
        println!("gain 8 (exact 7.235622): {}", self.to_gain_8);
        println!("ridges (exact 1.880842): {}", self.ridge);
        println!("projections integrated out: {}", self.collapsed);
        let [first, second] = self.mean_w().map(|(mean, _)| mean);
        println!("mean of w (exact .34041, -.28746): {first:.4}, {second:.4}");
    }
}

/// The keys of one dimension's runs to gain 4.
fn gain_4_json(runs: &[Run<DVector<f64>>]) -> Value {
    let names = ["modified", "unmodified", "mala", "mala_tuned", "hmc_tuned"];
    let variances = names.iter().zip(runs).map(|(name, run)| {
        let variance = run.estimate().var_log_weight();
        (format!("var_log_w_{name}"), json!(variance))
    });
    let mut report: Map<String, Value> = variances.collect();
    report.insert("log_z_4".into(), json!(runs[0].log_z()));
    let error = json!(runs[0].standard_error());
    report.insert("log_z_4_standard_error".into(), error);
    Value::Object(report)
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let as_json = options.json;
    let results = Results::new(options)?;
    if as_json {
        println!("{}", results.json());
    } else {
        results.print();
    }
    Ok(())
}
