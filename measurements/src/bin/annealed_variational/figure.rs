//! Samples after each transition beside the tempered targets.

use annealed::model::UnnormalizedModel;
use annealed::random::{Purpose, StreamRng, stream};
use nalgebra::{DVector, dvector};
use rand::distr::{Distribution, weighted::WeightedIndex};

use annealed_measurements::scatter_sheet::ScatterSheet;

use crate::Options;
use crate::names::{CaseName, ObjectiveName, TransitionName};

const POINTS: usize = 400;
const EDGE: f64 = 7.0;
const CELLS: usize = 140;

/// Draws samples after each transition above exact samples of the tempered targets.
pub fn save(file: &std::path::Path, options: &Options) -> annealed::Result<()> {
    let case = CaseName::Grid.build();
    let path = case.path()?;
    let seed = options.first_seed;
    let (objective, transition) = (ObjectiveName::Annealed, TransitionName::Gated);
    let trained = case.train(&path, objective, transition, seed, options)?;
    let point = |z: &DVector<f64>| (z[0], z[1]);
    let reached = trained.flow.samples(&path, POINTS, seed)?;
    let reached = reached
        .iter()
        .map(|states| states.iter().map(point).collect());
    let mut rng = stream(seed, Purpose::RUN, 1);
    let schedule = case.schedule()?;
    let exact = schedule.betas().iter();
    let exact = exact.map(|&beta| from_grid(&path.at(beta), &mut rng));
    let by_flow = "the flow's samples after each transition";
    let sheet = ScatterSheet::new((-EDGE, EDGE), (-EDGE, EDGE))
        .row(by_flow, &reached.collect::<Vec<_>>())
        .row("the tempered targets", &exact.collect::<Vec<_>>());
    std::fs::write(file, sheet.to_svg()).map_err(|error| annealed::Error::io(file, error))
}

/// Draws cells of a grid in proportion to their density.
fn from_grid(
    model: &impl UnnormalizedModel<State = DVector<f64>>,
    rng: &mut StreamRng,
) -> Vec<(f64, f64)> {
    let centre = |i: usize| EDGE * ((2 * i + 1) as f64 / CELLS as f64 - 1.0);
    let cell = |k: usize| (centre(k % CELLS), centre(k / CELLS));
    let density = |k: usize| {
        let (x, y) = cell(k);
        model.log_density(&dvector![x, y]).exp()
    };
    let law = WeightedIndex::new((0..CELLS * CELLS).map(density)).expect("a positive density");
    (0..POINTS).map(|_| cell(law.sample(rng))).collect()
}
