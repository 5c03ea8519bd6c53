//! Moment averaging (Grosse, Maddison and Salakhutdinov 2013): a comparison of the geometric path with the path that
//! averages the *moments* of its ends, each with a linear schedule and with the optimal binned one.
//!
//! Between two distant correlated Gaussians the geometric path narrows, and chains miss regions that the wider
//! moment-averaged path shows them. For a restricted Boltzmann machine the path is a spline: the machine at each knot
//! has the averaged moments. log Z is known for both.
//!
//! ```text
//! cargo run --release --example moment_averaging
//! ```

use annealed::data;
use annealed::path::{GaussianPath, MomentPath};
use annealed::pilot::BinnedSchedule;
use annealed::prelude::*;
use annealed::rbm::ExactMatching;
use nalgebra::{dmatrix, dvector};

fn main() -> annealed::Result<()> {
    gaussians()?;
    machine()
}

/// Compares both paths between the two Gaussians of the paper's Section 5.1.
fn gaussians() -> annealed::Result<()> {
    let base = Gaussian::new(dvector![-10.0, 0.0], dmatrix![1.0, -0.85; -0.85, 1.0])?;
    let target = Gaussian::new(dvector![10.0, 0.0], dmatrix![1.0, 0.85; 0.85, 1.0])?;
    let exact = target.log_normalizer();
    header("Two Gaussians, Gibbs sampling", exact);
    let gibbs = CoordinateGibbs::systematic();
    let geometric = GaussianPath::new(base.clone(), target.clone())?;
    compare("geometric", &geometric, &gibbs, 1_000, exact)?;
    let averaged = MomentPath::new(base, target)?;
    compare("moment-averaged", &averaged, &gibbs, 1_000, exact)
}

/// Compares both paths from base rates to a machine that is trained on handwritten digits.
fn machine() -> annealed::Result<()> {
    let images = data::digits().images;
    let start = Rbm::<f64>::from_data(12, &images, 1)?;
    let training = ContrastiveDivergence::new(1).persistent(true).epochs(100);
    let rbm = training.train(start, &images)?.rbm;
    let exact = rbm.exact_log_normalizer()?;
    header("RBM of 64 x 12 units, block Gibbs sampling", exact);
    let base = BaseRate::from_data(12, &images, 1.0)?;
    let geometric = RbmPath::new(base.clone(), rbm.clone())?;
    compare("geometric", &geometric, &BlockGibbs, 100, exact)?;
    let (moments, knots) = (rbm.exact_moments()?, Schedule::linear(10)?);
    let averaged = RbmPath::moment_spline(base, rbm, &moments, knots, &ExactMatching::default())?;
    compare("moment-averaged", &averaged, &BlockGibbs, 100, exact)
}

fn header(title: &str, exact: f64) {
    println!("\n{title}: exact log Z = {exact:.4}");
    println!(
        "{:16} {:8} {:>9} {:>7} {:>5}",
        "path", "schedule", "log Z", "SE", "ESS"
    );
}

/// Runs a path with a linear schedule and with the best one of ten segments. Chains at the knots measure their costs.
fn compare<P, K>(name: &str, path: P, kernel: &K, stages: usize, exact: f64) -> annealed::Result<()>
where
    P: AnnealingPath<State: Send, Base: NormalizedModel> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let optimal = BinnedSchedule::default().optimize(path.clone(), kernel, stages, 1)?;
    for (schedule, of) in [
        ("linear", Schedule::linear(stages)?),
        ("binned", optimal.schedule),
    ] {
        let run = Ais::new(path.clone(), kernel)
            .schedule(of)
            .chains(1_000)
            .seed(1)
            .run()?;
        let (log_z, error) = (run.log_z(), run.standard_error());
        let ess = run.effective_sample_size();
        println!("{name:16} {schedule:8} {log_z:>9.4} {error:>7.4} {ess:>5.0}");
        assert!((log_z - exact).abs() <= 4.0 * error);
    }
    Ok(())
}
