//! One log Z from both ends of a path, for 10 to 3,000 stages: the picture of the README.
//!
//! Trains an RBM with 16 hidden units on embedded handwritten digits. Forward runs start at the base rates and reverse runs
//! at exact samples of the RBM. Bennett's estimate joins the two.
//!
//! ```text
//! cargo run --release -p annealed-plot --example both_directions -- picture.svg
//! ```

use annealed::prelude::*;
use annealed_plot::Chart;

fn main() -> annealed::Result<()> {
    let images = annealed::data::digits().images;
    let start = Rbm::<f32>::from_data(16, &images, 1)?;
    let training = ContrastiveDivergence::new(1).persistent(true).epochs(100);
    let rbm = training.train(start, &images)?.rbm;
    let path = RbmPath::new(BaseRate::from_data(16, &images, 1.0)?, rbm.clone())?;
    let samples = TargetSamples::exact(rbm.exact_samples(200, 1)?);

    let (mut forward, mut joint, mut reverse) = (Vec::new(), Vec::new(), Vec::new());
    for stages in [10, 30, 100, 300, 1_000, 3_000] {
        let ais = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(stages)?)
            .chains(200);
        let runs = (ais.run()?, ais.reverse(&samples)?);
        let bridge = Bridge::new(&runs.0, &runs.1)?;
        println!("{stages} stages: {bridge}");
        let point = |result: &dyn LogZ| (stages as f64, result.log_z(), result.interval());
        forward.push(point(&runs.0));
        joint.push(point(&bridge));
        reverse.push(point(&runs.1));
    }
    let chart = Chart::new("log Z from both ends of the path", "stages K", "log Z")
        .logarithmic_x()
        .line_with_band("reverse, from samples of the RBM", reverse)
        .line_with_band("both, by Bennett's estimate", joint)
        .line_with_band("forward, from the base rates", forward)
        .horizontal("exact", rbm.exact_log_normalizer()?);
    match std::env::args().nth(1) {
        Some(file) => chart.save(file),
        None => Ok(()),
    }
}
