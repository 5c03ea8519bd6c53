//! Power and cost of the certain bound that each run of an RBM computes.

use std::path::Path;
use std::time::Instant;

use annealed::Result;
use annealed::ais::Ais;
use annealed::estimate::{LogZ, Warning};
use annealed::rbm::{BaseRate, BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed_files::RbmFile;

use crate::Options;

/// Number of states that a run gives to the search for its bound.
const STATES: usize = 256;

/// Prints how many runs from base rates a bound warns of, the mean bound, and its seconds as a share of the run's.
pub fn compare_on_file(file: &Path, options: &Options) -> Result<()> {
    let RbmFile { rbm, base, .. } = RbmFile::<f32>::read(file)?;
    let fallback = BaseRate::uniform(rbm.hidden_units(), rbm.visible_units())?;
    let path = RbmPath::new(base.unwrap_or(fallback), rbm)?;
    for &stages in &options.stages {
        let (mut warned, mut sum, mut seconds) = (0, 0.0, [0.0; 2]);
        for seed in 0..options.seeds {
            let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
            let run = ais.chains(options.chains).seed(seed).threads(1).run()?;
            let is_bound = |warning: &Warning| matches!(warning, Warning::BelowBound { .. });
            warned += usize::from(run.warnings().iter().any(is_bound));
            let mut chains = Vec::from_iter(run.log_weights().iter().zip(run.states()));
            chains.sort_by(|one, other| other.0.total_cmp(one.0));
            let states = Vec::from_iter(chains.into_iter().take(STATES).map(|(_, state)| state));
            let begun = Instant::now();
            sum += path.lower_bound(&states, (options.chains * stages) as u64)?;
            seconds[0] += begun.elapsed().as_secs_f64();
            seconds[1] += run.seconds();
        }
        println!(
            "| {} | {} x {stages} | {} | {warned} | {:.3} | {:.0}% |",
            file.display(),
            options.chains,
            options.seeds,
            sum / options.seeds as f64,
            100.0 * seconds[0] / seconds[1],
        );
    }
    Ok(())
}
