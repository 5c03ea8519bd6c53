//! Log Z of one Gaussian by every kernel for vectors, next to the exact value.
//!
//! Base and target differ in mean, scale and correlation. A first pass tunes each kernel, and each runs the same
//! schedule. Effective sample sizes compare kernels per stage, and seconds show the cost of a stage.
//!
//! ```text
//! cargo run --release --example gaussian
//! ```

use annealed::kernel::{PerfectTransitions, UnadjustedLangevin};
use annealed::path::GaussianPath;
use annealed::prelude::*;
use nalgebra::{dmatrix, dvector};

fn main() -> annealed::Result<()> {
    let base = Gaussian::isotropic(dvector![0.0, 0.0, 0.0], 2.0)?;
    let target = Gaussian::new(
        dvector![1.0, -2.0, 0.5],
        dmatrix![1.0, 0.7, 0.0; 0.7, 0.8, 0.1; 0.0, 0.1, 0.1],
    )?;
    println!("exact log Z = {:.4}\n", target.log_normalizer());
    println!(
        "{:24} {:>8} {:>8} {:>7} {:>8}",
        "kernel", "log Z", "SE", "ESS", "seconds"
    );
    let path = GaussianPath::new(base, target)?;
    let walk = tuned(RandomWalkMetropolis::new(1.0)?, &path)?;
    let hmc = tuned(Hmc::new(0.3, 5)?, &path)?;
    report("random-walk Metropolis", &path, walk.clone())?;
    report("MALA", &path, tuned(Mala::new(0.3)?, &path)?)?;
    report("unadjusted Langevin", &path, UnadjustedLangevin::new(0.02)?)?;
    report("HMC", &path, hmc.clone())?;
    report("coordinate Gibbs", &path, CoordinateGibbs::systematic())?;
    report("perfect transitions", &path, PerfectTransitions)?;
    report("walk, then HMC", &path, Sequence(walk.clone(), hmc.clone()))?;
    report("walk, five times", &path, Repeat::new(walk.clone(), 5)?)?;
    report("walk or HMC", &path, Mixture::new(0.5, walk, hmc)?)
}

fn schedule() -> annealed::Result<Schedule> {
    Schedule::power(100, 2.0)
}

fn tuned<K>(kernel: K, path: &GaussianPath) -> annealed::Result<K>
where
    K: Tunable + TransitionKernel<<GaussianPath as AnnealingPath>::At> + Clone + Send + Sync,
{
    Ok(FirstPass::new(path, kernel).seed(1).run()?.kernel)
}

fn report<K>(name: &str, path: &GaussianPath, kernel: K) -> annealed::Result<()>
where
    K: TransitionKernel<<GaussianPath as AnnealingPath>::At> + Sync,
{
    let run = Ais::new(path, kernel)
        .schedule(schedule()?)
        .chains(2_000)
        .seed(1)
        .run()?;
    println!(
        "{name:24} {:>8.4} {:>8.4} {:>7.0} {:>8.3}",
        run.log_z(),
        run.standard_error(),
        run.effective_sample_size(),
        run.seconds()
    );
    for warning in run.warnings() {
        println!("    warning: {warning}");
    }
    let error = run.log_z() - path.target().log_normalizer();
    assert!(error.abs() <= 4.0 * run.standard_error());
    Ok(())
}
