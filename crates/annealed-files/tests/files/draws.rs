//! Draws in the layouts of CmdStan, posterior, ArviZ and NumPy (`tests/data/draws/make.py`), and log Z from them.

use std::path::{Path, PathBuf};

use annealed::bidirectional::BridgeSampling;
use annealed::estimate::LogZ;
use annealed::model::{FunctionModel, StudentT, UnnormalizedModel};
use annealed::nalgebra::DVector;
use annealed_files::Draws;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/draws")
        .join(name)
}

/// Returns the density of mu and log sigma, without its constants.
fn normal() -> impl UnnormalizedModel<State = DVector<f64>> {
    FunctionModel::new(|x: &DVector<f64>| {
        -0.5 * (((x[0] - 1.0) / 0.5).powi(2) + ((x[1] - 0.6 * x[0]) / 0.2).powi(2))
    })
}

fn check_normal(draws: &Draws, log_sigma: fn(f64) -> f64) {
    let chains = draws.states_by(|x| Ok(DVector::from_row_slice(&[x[0], log_sigma(x[1])])));
    let chains = chains.unwrap();
    assert_eq!(Vec::from_iter(chains.iter().map(Vec::len)), [200; 4]);
    let found = BridgeSampling::<StudentT>::new(&normal(), &chains, 1).unwrap();
    let exact = (std::f64::consts::TAU * 0.5 * 0.2).ln();
    let error = found.standard_error();
    assert!(
        (found.log_z() - exact).abs() <= 4.0 * error && error < 0.03,
        "{found}, exactly {exact}"
    );
    assert!(found.warnings().is_empty(), "{found}");
}

#[test]
fn every_format_holds_the_same_draws() {
    let r = Draws::read([file("r.csv")]).unwrap();
    let by_draws = Draws::read([file("arviz.csv")]).unwrap();
    let arrays = Draws::read_columns([file("arviz.npz")], ["mu", "sigma"]).unwrap();
    let array = Draws::read([file("draws.npy")]).unwrap();
    assert_eq!(r.names(), ["x[1,1]", "x[2,1]"]);
    assert_eq!(array.names(), ["x[0]", "x[1]"]);
    assert_eq!(by_draws, arrays);
    let logarithms = by_draws.states_by(|x| Ok(DVector::from_row_slice(&[x[0], x[1].ln()])));
    let (logarithms, array_states) = (logarithms.unwrap(), array.states());
    let apart = |one: &DVector<f64>, other: &DVector<f64>| (one - other).amax();
    for (chain, ours) in logarithms.iter().zip(&array_states) {
        for (x, y) in chain.iter().zip(ours) {
            assert!(apart(x, y) < 1e-14);
        }
    }
    let rounded = r.states().concat();
    for (x, y) in rounded.iter().zip(by_draws.states().concat()) {
        assert!(apart(x, &y) < 1e-6);
    }
    for draws in [&r, &by_draws] {
        check_normal(draws, f64::ln);
    }
    check_normal(&array, |x| x);
}

#[test]
fn elements_of_an_array_have_indices() {
    let theta = Draws::read_columns([file("arviz.npz")], ["theta", "mu"]).unwrap();
    assert_eq!(theta.names(), ["theta[0,0]", "theta[0,1]", "mu"]);
    let sigma = Draws::read_columns([file("arviz.npz")], ["theta[0,1]"]).unwrap();
    for (both, one) in theta.states().concat().iter().zip(sigma.states().concat()) {
        assert_eq!((both[0], both[1]), (both[2], one[0]));
    }
    let error = Draws::read([file("arviz.npz")]).unwrap_err().to_string();
    assert!(
        error.ends_with("array data: shape [5], expected (chains, draws, ..)"),
        "{error}"
    );
    let error = Draws::read_columns([file("arviz.npz")], ["tau"])
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("no array tau; the file has mu, sigma, theta, data"),
        "{error}"
    );
}

fn cmdstan() -> [PathBuf; 4] {
    [1, 2, 3, 4].map(|chain| file(&format!("rates_{chain}.csv")))
}

#[test]
fn cmdstan_files_lose_their_warm_up() {
    let draws = Draws::read(cmdstan()).unwrap();
    assert_eq!(
        draws.names(),
        ["rate.1", "rate.2", "rate.3", "rate.4", "total"]
    );
    let states = draws.states();
    assert_eq!(
        Vec::from_iter(states.iter().map(Vec::len)),
        [250, 250, 250, 200]
    );
    for x in states.iter().flatten() {
        // The rows of the warm-up have rates of 1,000.
        assert!(
            (x.rows(0, 4).sum() - x[4]).abs() < 1e-6 * x[4] && x[4] < 100.0,
            "{x}"
        );
    }
    let log_densities = Draws::read_columns(cmdstan(), ["lp__"]).unwrap();
    let first = std::fs::read_to_string(file("rates_1.csv")).unwrap();
    let row = first
        .lines()
        .skip_while(|line| !line.contains("0.2, 0.5"))
        .nth(1);
    let numbers = row.unwrap().split(',').map(|cell| cell.parse().unwrap());
    let numbers: Vec<f64> = numbers.collect();
    assert_eq!(log_densities.states()[0][0].as_slice(), &numbers[..1]);
    assert_eq!(states[0][0].as_slice(), &numbers[7..]);
}

/// The column tells chains apart, whichever of the three names it has.
#[test]
fn columns_of_chains_are_no_parameters() {
    let folder = std::env::temp_dir().join(format!("annealed-chains-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["chain", ".chain", "chain__"] {
        let path = folder.join("draws.csv");
        let rows = (0..60).map(|i| format!("{},{}\n", i % 3, f64::from(i) / 7.0));
        std::fs::write(&path, format!("{name},x\n{}", rows.collect::<String>())).unwrap();
        let draws = Draws::read([path]).unwrap();
        assert_eq!(draws.names(), ["x"]);
        let states = draws.states();
        assert_eq!(Vec::from_iter(states.iter().map(Vec::len)), [20, 20, 20]);
        assert_eq!(states[1][1].as_slice(), [4.0 / 7.0]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_is_given_twice_is_refused() {
    let [first, second, ..] = cmdstan();
    let error = Draws::read([first.clone(), second, first]).unwrap_err();
    let expected = "the draws of chain 0 again as chain 2, expected each chain once";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// Gamma rates of Poisson counts have independent posteriors, and negative binomial evidences.
#[test]
fn log_evidence_from_draws_of_cmdstan() {
    const COUNTS: [(f64, f64); 4] = [(3.0, 1.0), (0.0, 0.5), (11.0, 2.5), (6.0, 2.0)];
    let log_factorial = |y: f64| (1..=y as u32).map(|i| f64::from(i).ln()).sum::<f64>();
    // A rate e^u has the prior gamma(2, 1/2), and the Jacobian e^u.
    let log_density = |u: &DVector<f64>| -> f64 {
        let of_one = |(u, (y, exposure)): (&f64, (f64, f64))| {
            2.0 * (u + 0.5_f64.ln()) - 0.5 * u.exp() + y * (u + exposure.ln())
                - exposure * u.exp()
                - log_factorial(y)
        };
        u.iter().zip(COUNTS).map(of_one).sum()
    };
    let of_count = |(y, exposure): (f64, f64)| {
        let total = 0.5 + exposure;
        (y + 1.0).ln() + 2.0 * (0.5 / total).ln() + y * (exposure / total).ln()
    };
    let exact: f64 = COUNTS.into_iter().map(of_count).sum();
    let draws = Draws::read_columns(cmdstan(), ["rate"]).unwrap();
    let chains = draws.states_by(|x| Ok(DVector::from_row_slice(x).map(f64::ln)));
    let target = FunctionModel::new(log_density);
    let found = BridgeSampling::<StudentT>::new(&target, &chains.unwrap(), 1).unwrap();
    let error = found.standard_error();
    assert!(
        (found.log_z() - exact).abs() <= 4.0 * error && error < 0.03,
        "{found}, exactly {exact}"
    );
}

#[test]
fn files_of_unequal_parameters_are_refused() {
    let error = Draws::read([file("r.csv"), file("arviz.csv")])
        .unwrap_err()
        .to_string();
    let expected =
        "arviz.csv: parameters mu, sigma, expected those of the first file: x[1,1], x[2,1]";
    assert!(error.ends_with(expected), "{error}");
    let none: [&str; 0] = [];
    let error = Draws::read(none).unwrap_err().to_string();
    assert_eq!(error, "invalid files: got none, expected at least one");
    let error = Draws::read(["missing.csv"]).unwrap_err().to_string();
    assert!(error.starts_with("missing.csv: "), "{error}");
}
