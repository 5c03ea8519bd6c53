//! VAROPT (Kiwaki 2015): a pilot run measures where the path is steep, and the schedule puts its stages there.
//!
//! The target is much narrower than the base, as a posterior is narrower than its prior. Most of the change happens
//! close to beta 0, where a linear schedule has hardly any stages.
//!
//! ```text
//! cargo run --release --example varopt
//! ```

use annealed::path::GaussianPath;
use annealed::prelude::*;

const DIMENSION: usize = 5;
const STAGES: usize = 500;

fn main() -> annealed::Result<()> {
    let base = Gaussian::standard(DIMENSION)?;
    let target = Gaussian::isotropic(DVector::from_element(DIMENSION, 0.5), 0.05)?;
    let exact = target.log_normalizer();
    let path = GaussianPath::new(base, target)?;
    let kernel = CoordinateGibbs::systematic();

    // The pilot is a cheap run: 100 chains, along the linear schedule.
    let pilot = Pilot::new(100, STAGES);
    let survey = pilot.survey(&path, &kernel, 1)?;
    let varopt = VarOpt::default();
    let (linear, optimal) = (Schedule::linear(STAGES)?, varopt.schedule(&survey, STAGES)?);

    println!("beta after a share of the {STAGES} stages:");
    for share in [0.1, 0.25, 0.5, 0.75, 1.0] {
        let stage = (share * STAGES as f64) as usize;
        let (even, found) = (linear.betas()[stage], optimal.betas()[stage]);
        println!(
            "  {:>3.0}%   linear {even:.3}   VAROPT {found:.6}",
            100.0 * share
        );
    }

    // If chains mix at once, J is the variance of log w times the number of stages.
    let g = varopt.metric(&survey)?;
    println!("\nexact log Z = {exact:.4}");
    println!(
        "{:8} {:>8} {:>9} {:>7} {:>5}",
        "schedule", "J", "log Z", "SE", "ESS"
    );
    for (name, schedule) in [("linear", linear), ("VAROPT", optimal)] {
        let action = g.action(&schedule);
        let run = Ais::new(&path, &kernel).schedule(schedule).seed(1).run()?;
        let (log_z, error) = (run.log_z(), run.standard_error());
        let ess = run.effective_sample_size();
        println!("{name:8} {action:>8.1} {log_z:>9.4} {error:>7.4} {ess:>5.0}");
        for warning in run.warnings() {
            println!("    warning: {warning}");
        }
        if name == "VAROPT" {
            assert!((log_z - exact).abs() <= 4.0 * error);
        }
    }
    Ok(())
}
