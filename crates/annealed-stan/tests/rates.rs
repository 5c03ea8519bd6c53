//! Poisson counts with gamma rates: BridgeStan's functions for `rates.stan`, written by hand in `rates.c` and compiled by `cc`.

use std::path::{Path, PathBuf};
use std::process::Command;

use annealed::bidirectional::BridgeSampling;
use annealed::kernel::Preconditioner;
use annealed::model::StudentT;
use annealed::prelude::*;
use annealed::testing::gradient_error;
use annealed_files::Draws;
use annealed_stan::StanModel;

/// A compiled library, deleted at the end.
struct Compiled(PathBuf);

impl Compiled {
    fn new(name: &str, options: &[&str]) -> Self {
        let file = format!("annealed-stan-{}-{name}.so", std::process::id());
        let library = std::env::temp_dir().join(file);
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC"]).args(options);
        compiler
            .arg("-o")
            .arg(&library)
            .arg(folder().join("tests/rates.c"))
            .arg("-lm");
        assert!(compiler.status().unwrap().success());
        Self(library)
    }

    fn open(name: &str) -> StanModel {
        StanModel::open(&Self::new(name, &[]).0, "").unwrap()
    }

    fn refused(name: &str, options: &[&str], data: &str) -> String {
        let library = Self::new(name, options);
        let error = StanModel::open(&library.0, data).unwrap_err().to_string();
        let (_, reason) = error.split_once(".so: ").unwrap();
        reason.to_owned()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the log evidence of `rates.json`: a count with a gamma rate has a negative binomial law.
fn exact() -> f64 {
    let counts = [(3, 1.0_f64), (0, 0.5), (11, 2.5), (6, 2.0)];
    let log_law = |(count, exposure): (u32, f64)| -> f64 {
        // Gamma(2 + y) / (Gamma(2) y!) = y + 1
        let (y, inverse_scale) = (f64::from(count), 0.5);
        let total = inverse_scale + exposure;
        (y + 1.0).ln() + 2.0 * (inverse_scale / total).ln() + y * (exposure / total).ln()
    };
    counts.into_iter().map(log_law).sum()
}

fn vector<const N: usize>(numbers: [f64; N]) -> DVector<f64> {
    DVector::from_row_slice(&numbers)
}

fn check(found: &impl LogZ) {
    let (off, error) = (found.log_z() - exact(), found.standard_error());
    assert!(off.abs() <= 4.0 * error && error < 0.03, "{off} +- {error}");
}

#[test]
fn evidence_by_annealing_and_from_draws() {
    let stan = Compiled::open("evidence");
    let laplace = Gaussian::laplace(&stan, DVector::zeros(4)).unwrap();
    let shape = Preconditioner::covariance(&laplace.covariance()).unwrap();
    let path = GeometricPath::new(StudentT::new(laplace, 5.0).unwrap(), &stan);
    let kernel = Hmc::new(0.4, 3).unwrap().preconditioned(shape);
    let schedule = Schedule::power(20, 2.0).unwrap();
    check(&Ais::new(&path, kernel).schedule(schedule).run().unwrap());

    let file = |chain| {
        folder().join(format!(
            "../annealed-files/tests/data/draws/rates_{chain}.csv"
        ))
    };
    let draws = Draws::read_columns([1, 2, 3, 4].map(file), stan.param_names()).unwrap();
    let chains = draws.states_by(|rates| stan.unconstrain(rates)).unwrap();
    check(&BridgeSampling::<StudentT>::new(&stan, &chains, 1).unwrap());

    // CmdStan's `lp__` has the Jacobian, and not the constants: they differ by one number.
    let lp = Draws::read_columns([1, 2, 3, 4].map(file), ["lp__"])
        .unwrap()
        .states();
    let apart = chains.iter().flatten().zip(lp.iter().flatten());
    let apart = apart.map(|(state, lp)| stan.log_density(state) - lp[0]);
    let (least, most) = apart.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    assert!(most - least < 1e-4, "{least} to {most}");
}

#[test]
fn density_gradient_and_coordinates() {
    let stan = Compiled::open("density");
    assert_eq!(stan.param_names(), ["rate.1", "rate.2", "rate.3", "rate.4"]);
    assert_eq!(stan.state_dimension(), Some(4));
    let rates = [0.5, 1.0, 4.0, 2.5];
    let state = stan.unconstrain(&rates).unwrap();
    assert!((&state - DVector::from_row_slice(&rates).map(f64::ln)).amax() < 1e-15);
    let back = stan.constrain(&state).unwrap();
    assert!(
        back.iter().zip(rates).all(|(x, y)| (x - y).abs() < 1e-14),
        "{back:?}"
    );
    assert!(gradient_error(&stan, &state).unwrap() < 1e-6);
    let mut sum = vector([1.0, 1.0, 1.0, 1.0]);
    let value = stan.accumulate_gradient(&state, 2.0, &mut sum);
    assert_eq!(value, stan.log_density(&state));
    assert!((sum - stan.gradient(&state) * 2.0).add_scalar(-1.0).amax() < 1e-12);
    // An exception of Stan is a density of 0, and leaves the gradient alone.
    let far = vector([800.0, 0.0, 0.0, 0.0]);
    let mut kept = vector([1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        stan.accumulate_gradient(&far, 1.0, &mut kept),
        f64::NEG_INFINITY
    );
    assert_eq!(
        (stan.log_density(&far), kept),
        (f64::NEG_INFINITY, vector([1.0, 2.0, 3.0, 4.0]))
    );
}

#[test]
fn wrong_parameters_are_refused() {
    let stan = Compiled::open("parameters");
    let refused = |rates: &[f64]| stan.unconstrain(rates).unwrap_err().to_string();
    assert_eq!(
        refused(&[1.0]),
        "dimension mismatch in parameters: got 1, expected 4"
    );
    assert!(
        refused(&[1.0, -1.0, 1.0, 1.0])
            .ends_with("rate is below 0, but must be greater than or equal to 0")
    );
    let at_bound = refused(&[1.0, 0.0, 1.0, 1.0]);
    assert!(
        at_bound.contains("[1.0, 0.0, 1.0, 1.0] is at a bound"),
        "{at_bound}"
    );
    let short = stan.constrain(&vector([1.0])).unwrap_err().to_string();
    assert_eq!(short, "dimension mismatch in state: got 1, expected 4");
}

#[test]
fn libraries_that_do_not_serve_are_refused() {
    let refused = Compiled::refused;
    let expected = "this model brings its data along; expected none";
    assert_eq!(refused("data", &[], "rates.json"), expected);
    let threads = refused("threads", &["-DWITHOUT_THREADS"], "");
    assert_eq!(threads, "was compiled without STAN_THREADS=true");
    let old = refused("old", &["-Dbs_param_names=other"], "");
    assert!(
        old.starts_with("is no library of BridgeStan 2: ") && old.contains("bs_param_names"),
        "{old}"
    );
    let few = refused("few", &["-DPARAMETERS=3"], "");
    assert_eq!(
        few,
        "4 free of 3 parameters with 4 names, expected a name each"
    );
    let source = StanModel::open(folder().join("tests/rates.c"), "")
        .unwrap_err()
        .to_string();
    assert!(
        source.contains("rates.c: is no library of BridgeStan 2: "),
        "{source}"
    );
    let missing = StanModel::open("missing.so", "").unwrap_err().to_string();
    assert!(missing.starts_with("missing.so: "), "{missing}");
}
