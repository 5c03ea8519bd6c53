//! A kernel of your own, checked with the `testing` module: coordinate-wise slice sampling (Neal 2003).
//!
//! ```text
//! cargo run --release --example own_kernel
//! ```

use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::{Intermediate, Stationary};
use annealed::prelude::*;
use annealed::testing;
use nalgebra::{dmatrix, dvector};
use rand::{Rng, RngExt};

/// A kernel that draws a height uniformly below the density, then a point uniformly from the slice above it.
#[derive(Debug, Clone, Copy)]
struct SliceSampler {
    width: f64,
}

impl SliceSampler {
    /// Moves one coordinate. `log_density` takes the coordinate's value.
    fn move_coordinate<R: Rng + ?Sized>(
        &self,
        from: f64,
        mut log_density: impl FnMut(f64) -> Result<f64, NonFinite>,
        rng: &mut R,
    ) -> Result<f64, NonFinite> {
        let height = log_density(from)? + rng.random::<f64>().ln();
        let mut low = from - self.width * rng.random::<f64>();
        let mut high = low + self.width;
        while log_density(low)? > height {
            low -= self.width;
        }
        while log_density(high)? > height {
            high += self.width;
        }
        loop {
            let to = rng.random_range(low..high);
            if log_density(to)? > height {
                return Ok(to);
            }
            if to < from { low = to } else { high = to }
        }
    }
}

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for SliceSampler {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        for i in 0..state.len() {
            let from = state[i];
            let log_density = |value| {
                state[i] = value;
                NonFinite::check_log_density(
                    "log density on the slice",
                    stage.model.log_density(state),
                )
            };
            let to = self.move_coordinate(from, log_density, rng)?;
            state[i] = to;
        }
        Ok(Step::invariant())
    }
}

fn main() -> annealed::Result<()> {
    let target = GaussianMixture::new([
        (
            3.0,
            Gaussian::new(dvector![-2.0, 0.0], dmatrix![0.5, 0.2; 0.2, 0.3])?,
        ),
        (
            1.0,
            Gaussian::new(dvector![2.0, 1.0], dmatrix![0.2, 0.0; 0.0, 1.0])?,
        ),
    ])?;
    let kernel = SliceSampler { width: 2.0 };

    let (model, sample) = (Stationary(&target), |rng: &mut _| target.sample(rng));
    let check = testing::invariance(&model, &kernel, sample, |x| x[0] * x[1], 2, 20_000, 1)?;
    println!("invariance:   {check}");
    assert!(check.passes());

    let base = Gaussian::new(dvector![0.0, 0.0], dmatrix![4.0, 0.0; 0.0, 4.0])?;
    let exact = target.log_normalizer();
    let log_ratio = exact - base.log_normalizer();
    let path = GeometricPath::new(base, target);
    let coarse = Schedule::linear(5)?;
    let check = testing::unbiasedness(&path, kernel, coarse, log_ratio, 20_000, 1)?;
    println!("unbiasedness: {check}");
    assert!(check.passes());

    let run = Ais::new(&path, kernel)
        .schedule(Schedule::linear(100)?)
        .seed(1)
        .run()?;
    println!("{run}\nexact: {exact:.3}");
    assert!((run.log_z() - exact).abs() <= 4.0 * run.standard_error());
    Ok(())
}
