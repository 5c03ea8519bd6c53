//! The evidence of a Stan model, by the library that BridgeStan compiles of it.
//!
//! ```text
//! make -C bridgestan STAN_THREADS=true $PWD/my_model.so          # my_model.stan
//! cargo run --release -p annealed-stan --example evidence -- my_model.so my.data.json
//! cargo run --release -p annealed-stan --example evidence -- my_model.so my.data.json output_*.csv
//! ```
//!
//! The first run needs no draws: it anneals in twenty stages from Student's t around Laplace's approximation. With draws of
//! CmdStan it prints bridge sampling from them, too, and whether both agree.

use annealed::bidirectional::BridgeSampling;
use annealed::kernel::Preconditioner;
use annealed::model::StudentT;
use annealed::prelude::*;
use annealed_files::Draws;
use annealed_stan::StanModel;

fn main() -> annealed::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, data, outputs @ ..] = arguments.as_slice() else {
        println!(
            "evidence MODEL.so DATA.json [OUTPUT.csv ..]    with \"\" for a model without data"
        );
        return Ok(());
    };
    let stan = StanModel::open(library, data)?;
    let laplace = Gaussian::laplace(&stan, DVector::zeros(stan.state_dimension().unwrap_or(0)))?;
    let shape = Preconditioner::covariance(&laplace.covariance())?;
    let path = GeometricPath::new(StudentT::new(laplace, 5.0)?, &stan);
    let annealed = Ais::new(&path, Hmc::new(0.4, 3)?.preconditioned(shape))
        .schedule(Schedule::power(20, 2.0)?)
        .run()?;
    println!("log evidence: {annealed}");
    if !outputs.is_empty() {
        let draws = Draws::read_columns(outputs, stan.param_names())?;
        let chains = draws.states_by(|parameters| stan.unconstrain(parameters))?;
        let bridge = BridgeSampling::<StudentT>::new(&stan, &chains, 1)?;
        println!("log evidence: {bridge}");
        println!("{}", Agreement::new(&annealed, &bridge)?);
    }
    Ok(())
}
