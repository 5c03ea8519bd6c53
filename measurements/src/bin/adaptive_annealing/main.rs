//! Adaptive annealing (Barron and Luo 2007): Langevin steps with a drift that carries each density to the next.
//!
//! The target is two bumps of an objective L under a Gaussian, in one and in eight dimensions. The report has the L1
//! errors of unweighted chains, log Z, and the variance of the log weight with and without the drift modifier.
//! Annealed Gibbs runs on a superposition of ridge functions.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin adaptive_annealing
//! cargo run --release -p annealed-measurements --bin adaptive_annealing -- --json
//! cargo run --release -p annealed-measurements --bin adaptive_annealing -- --figures DIR
//! ```

mod figure;

use std::collections::BTreeMap;

use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run};
use annealed::drift::{
    DriftModifiedLangevin, RidgeGibbs, RidgePath, RidgeState, SeparableModifier, ShiftMonitor,
    Sinusoid,
};
use annealed::estimate::{Estimate, LogZ, Warning, WeightedSample};
use annealed::kernel::{Mala, Mixture, TransitionKernel, UnadjustedLangevin};
use annealed::model::NormalizedModel;
use annealed::path::AnnealingPath;
use annealed::schedule::Schedule;
use annealed_measurements::problems::bumps::{Drift, l1_error, modifier, path};
use clap::Parser;
use nalgebra::{DVector, dmatrix};
use serde_json::{Map, Value, json};

#[derive(Parser)]
struct Options {
    /// JSON output instead of text.
    #[arg(long)]
    json: bool,
    /// Chains of each run.
    #[arg(long, default_value_t = 4_000)]
    chains: usize,
    /// Stages of the run to gain 8.
    #[arg(long, default_value_t = 3_200)]
    steps_8: usize,
    /// Folder for a figure of the densities that both unweighted chains track.
    #[arg(long, value_name = "DIR")]
    figures: Option<std::path::PathBuf>,
}

fn run<P, K>(path: P, kernel: K, steps: usize, chains: usize) -> annealed::Result<Run<P::State>>
where
    P: AnnealingPath<Base: NormalizedModel, State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(Schedule::linear(steps)?);
    ais.chains(chains).seed(1).run()
}

const STEPS: usize = 400;

/// Runs to gain 4 in 400 stages with one gradient each: with the modifier, without it, and with MALA at `eps = .01`.
/// Then runs tuned MALA (docs/notes/adaptive-annealing.md).
fn to_gain_4(dimension: usize, chains: usize) -> annealed::Result<Vec<Run<DVector<f64>>>> {
    let path = path(dimension, 4.0)?;
    let eps = 4.0 / STEPS as f64;
    let table = modifier(4.0, STEPS)?;
    let separable = SeparableModifier::new(vec![&table; dimension]);
    let modified = DriftModifiedLangevin::new(separable, eps)?;
    let pass = FirstPass::new(&path, Mala::new(0.1)?);
    let mala = pass.seed(1).run()?.kernel;
    let tuned = if dimension == 1 {
        // Some steps are long enough to cross the valley.
        let mixture = Mixture::new(0.35, mala, Mala::new(2.0)?)?;
        run(&path, mixture, STEPS, chains)?
    } else {
        run(&path, mala, STEPS, chains)?
    };
    Ok(vec![
        run(&path, modified, STEPS, chains)?,
        run(&path, UnadjustedLangevin::new(eps)?, STEPS, chains)?,
        run(&path, Mala::new(eps)?, STEPS, chains)?,
        tuned,
    ])
}

/// Noise of the steps to gain 8, and bound on their shifts. Shifts that overshoot would lose the left mode.
const EPS_8: f64 = 0.005;
const BOUND_8: f64 = 0.1;

/// Report of the run to gain 8.
struct Far {
    summary: String,
    estimate: Estimate,
    /// Warning about shifts that were cut to the bound.
    warning: Option<Warning>,
}

fn to_gain_8(steps: usize, chains: usize) -> annealed::Result<Far> {
    let path = path(1, 8.0)?;
    let table = modifier(8.0, steps)?;
    let kernel = DriftModifiedLangevin::new(&table, EPS_8)?.bounded(BOUND_8)?;
    let run = Ais::new(&path, kernel.clone())
        .schedule(Schedule::linear(steps)?)
        .recorder(ShiftMonitor::new(kernel))
        .recorded_stages(100)
        .chains(chains)
        .seed(1)
        .run()?;
    Ok(Far {
        summary: run.to_string(),
        estimate: *run.estimate(),
        warning: run.recorder().warning(),
    })
}

/// Returns the path to three waves in two dimensions, augmented with their projections.
fn ridge() -> annealed::Result<RidgePath<Sinusoid>> {
    let wave = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
    RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3)
}

struct Results {
    /// L1 errors by eps: with the modifier, without it, and of the reference diffusion.
    l1: [BTreeMap<String, f64>; 3],
    /// Runs with the modifier, without it, by MALA and by tuned MALA, in 1 and 8 dimensions.
    to_gain_4: [Vec<Run<DVector<f64>>>; 2],
    steps_8: usize,
    to_gain_8: Far,
    ridge: Run<RidgeState>,
    collapsed: Run<RidgeState>,
    tilted: Run<RidgeState>,
}

impl Results {
    fn new(options: &Options) -> annealed::Result<Self> {
        let mut l1 = [const { BTreeMap::new() }; 3];
        let drifts = [Drift::Adaptive, Drift::Naive, Drift::Reference];
        for eps in [0.08_f64, 0.04, 0.02] {
            let steps = (8.0 / eps).round() as usize;
            for (errors, drift) in l1.iter_mut().zip(drifts) {
                errors.insert(eps.to_string(), l1_error(8.0, steps, drift)?);
            }
        }
        let path = ridge()?;
        Ok(Self {
            l1,
            to_gain_4: [to_gain_4(1, options.chains)?, to_gain_4(8, options.chains)?],
            steps_8: options.steps_8,
            to_gain_8: to_gain_8(options.steps_8, options.chains)?,
            ridge: run(&path, RidgeGibbs::augmented(), 100, 20_000)?,
            collapsed: run(&path, RidgeGibbs::collapsed(), 100, 2_000)?,
            tilted: run(&path, RidgeGibbs::tilted(), 100, 2_000)?,
        })
    }

    /// Returns `E w` of the ridge superposition, with standard errors.
    fn mean_w(&self) -> [(f64, f64); 2] {
        [0, 1].map(|i| self.ridge.expectation(|state| state.w[i]))
    }

    fn json(&self) -> Value {
        let (far, ridge, collapsed) = (&self.to_gain_8, &self.ridge, &self.collapsed);
        let mut report = json!({
            "l1_adaptive": self.l1[0],
            "l1_naive": self.l1[1],
            "l1_reference": self.l1[2],
            "log_z_8": far.estimate.value(),
            "log_z_8_standard_error": far.estimate.standard_error(),
            "log_z_8_chains": far.estimate.chains(),
            "log_z_8_steps": self.steps_8,
            "log_z_8_warning": far.warning.as_ref().map(|warning| warning.to_string()),
            "separable_8d": gain_4_json(&self.to_gain_4[1]),
            "ridge_log_z": ridge.log_z(),
            "ridge_standard_error": ridge.standard_error(),
            "ridge_mean_w": self.mean_w().map(|(mean, _)| mean),
            "ridge_mean_w_standard_error": self.mean_w().map(|(_, error)| error),
            "ridge_chains": ridge.chains(),
            "ridge_steps": ridge.schedule().stages(),
            "ridge_var_log_w": ridge.estimate().var_log_weight(),
            "ridge_collapsed_log_z": collapsed.log_z(),
            "ridge_collapsed_standard_error": collapsed.standard_error(),
            "ridge_collapsed_var_log_w": collapsed.estimate().var_log_weight(),
            "ridge_tilted_log_z": self.tilted.log_z(),
            "ridge_tilted_standard_error": self.tilted.standard_error(),
            "ridge_tilted_var_log_w": self.tilted.estimate().var_log_weight(),
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
        println!(
            "{:>8} {:>10} {:>10} {:>10}",
            "eps", "modified", "naive", "reference"
        );
        for (eps, modified) in &self.l1[0] {
            let (naive, reference) = (self.l1[1][eps], self.l1[2][eps]);
            println!("{eps:>8} {modified:>10.4} {naive:>10.4} {reference:>10.4}");
        }
        println!("\nVar[log w] at gain 4, {STEPS} stages");
        println!("       modified unmodified       MALA MALA tuned");
        for (name, runs) in ["1-d", "8-d"].iter().zip(&self.to_gain_4) {
            print!("{name:>4}");
            for run in runs {
                print!(" {:>10.3}", run.estimate().var_log_weight());
            }
            println!();
        }
        println!("\ngain 4 (exact 2.732123): {}", self.to_gain_4[0][0]);
        println!("gain 8 (exact 7.235622): {}", self.to_gain_8.summary);
        if let Some(warning) = &self.to_gain_8.warning {
            println!("    warning: {warning}");
        }
        println!("ridges (exact 1.880842): {}", self.ridge);
        println!("projections integrated out: {}", self.collapsed);
        println!("and w drawn with a change factor: {}", self.tilted);
        let [first, second] = self.mean_w().map(|(mean, _)| mean);
        println!("mean of w (exact .34041, -.28746): {first:.4}, {second:.4}");
    }
}

fn gain_4_json(runs: &[Run<DVector<f64>>]) -> Value {
    let names = ["modified", "unmodified", "mala", "mala_tuned"];
    let variances = names.iter().zip(runs).map(|(name, run)| {
        let variance = run.estimate().var_log_weight();
        (format!("var_log_w_{name}"), json!(variance))
    });
    let mut report: Map<String, Value> = variances.collect();
    report.insert("log_z_4".into(), json!(runs[0].log_z()));
    let error = json!(runs[0].standard_error());
    report.insert("log_z_4_standard_error".into(), error);
    report.insert("log_z_4_chains".into(), json!(runs[0].chains()));
    report.insert("log_z_4_steps".into(), json!(STEPS));
    Value::Object(report)
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let results = Results::new(&options)?;
    if options.json {
        println!("{}", results.json());
    } else {
        results.print();
    }
    if let Some(folder) = &options.figures {
        figure::draw(folder)?;
    }
    Ok(())
}
