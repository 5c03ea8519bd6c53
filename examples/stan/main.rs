//! The evidence of a Stan model, by the library that BridgeStan compiles of it.
//!
//! ```text
//! cargo run --release --example stan                             # Poisson counts with gamma rates, beside the exact value
//! make -C bridgestan STAN_THREADS=true $PWD/my_model.so          # my.stan
//! cargo run --release --example stan -- my_model.so my.data.json
//! ```
//!
//! Stan's log density is that of prior and likelihood in unbounded coordinates. The base is Student's t around
//! Laplace's approximation. The evidence is that of the program as written, with the constants of `~` statements and
//! the Jacobian. A prior has to integrate to 1 for it: write `normal(0, 1) T[0, ]` for a `sigma` above 0.
//!
//! Without arguments the program compiles `rates.c` by `cc`: BridgeStan's functions for `rates.stan`, by hand.

mod bridge;

use std::path::{Path, PathBuf};
use std::process::Command;

use annealed::kernel::Preconditioner;
use annealed::model::StudentT;
use annealed::prelude::*;
use annealed::{Error, Result};
use bridge::StanModel;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument.starts_with('-')) {
        println!("stan                        a model compiled here, beside its exact evidence");
        println!(
            "stan MODEL.so [DATA.json]   a model compiled by BridgeStan with STAN_THREADS=true"
        );
        return Ok(());
    }
    if let [library, data @ ..] = arguments.as_slice() {
        let data = data.first().map_or("", String::as_str);
        println!("log evidence: {}", evidence(Path::new(library), data)?);
        return Ok(());
    }
    let library = compiled("rates.c")?;
    let found = evidence(&library, "");
    std::fs::remove_file(&library).map_err(|error| Error::io(&library, error))?;
    let (run, exact) = (found?, exact_evidence());
    println!("log evidence: {run}");
    println!("exact: {exact:.4}");
    assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
    Ok(())
}

/// Returns log Z of a model, by twenty stages from Laplace's approximation.
fn evidence(library: &Path, data: &str) -> Result<Run<DVector<f64>>> {
    let stan = StanModel::load(library, data)?;
    let target = GradientModel::new(stan.dimension(), |x: &[f64], gradient: &mut [f64]| {
        stan.log_density_gradient(x, gradient)
    })?;
    let laplace = Gaussian::laplace(&target, DVector::zeros(stan.dimension()))?;
    let shape = Preconditioner::covariance(&laplace.covariance())?;
    let path = GeometricPath::new(StudentT::new(laplace, 5.0)?, &target);
    Ais::new(&path, Hmc::new(0.4, 3)?.preconditioned(shape))
        .schedule(Schedule::power(20, 2.0)?)
        .run()
}

/// Compiles a C file beside this one to a shared library.
fn compiled(source: &str) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/stan")
        .join(source);
    let library = std::env::temp_dir().join(format!("annealed-stan-{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    compiler.arg(&library).arg(&source).arg("-lm");
    let status = compiler.status().map_err(|error| Error::io("cc", error))?;
    match status.success() {
        true => Ok(library),
        false => Err(Error::file(source, "cannot be compiled by cc")),
    }
}

/// Returns the exact evidence of `rates.json`: a count with a gamma rate has a negative binomial law.
fn exact_evidence() -> f64 {
    let counts = [(3, 1.0_f64), (0, 0.5), (11, 2.5), (6, 2.0)];
    let log_law = |(count, exposure): (u32, f64)| -> f64 {
        // Gamma(2 + y) / (Gamma(2) y!) = y + 1
        let (y, inverse_scale) = (f64::from(count), 0.5);
        let total = inverse_scale + exposure;
        (y + 1.0).ln() + 2.0 * (inverse_scale / total).ln() + y * (exposure / total).ln()
    };
    counts.into_iter().map(log_law).sum()
}
