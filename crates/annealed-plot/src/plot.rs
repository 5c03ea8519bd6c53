//! The method `plot` of results.

use std::path::Path;

use annealed::Result;
use annealed::adaptive::RoundsRun;
use annealed::ais::Run;
use annealed::bidirectional::Bridge;
use annealed::estimate::LogZ;

use crate::{bridge, runs};

/// A result that can be drawn to an SVG file. [`runs`] and [`bridge`](crate::bridge()) offer more options.
pub trait Plot {
    /// Draws the result to an SVG file.
    ///
    /// # Errors
    /// [`Error::File`](annealed::Error::File) if the file cannot be written.
    fn plot(&self, path: impl AsRef<Path>) -> Result<()>;
}

/// Draws the result and its gravest warning; the standard error of log Z, effective sample size, variance and acceptance by
/// stage; and the distribution of log weights.
///
/// ```
/// # use annealed::prelude::*;
/// # let (base, target) = (Gaussian::standard(3)?, Gaussian::isotropic(DVector::repeat(3, 2.0), 0.5)?);
/// # let path = GeometricPath::new(base, target);
/// # let kernel = RandomWalkMetropolis::new(0.5)?;
/// use annealed_plot::Plot;
///
/// let run = Ais::new(&path, kernel).chains(100).run()?;
/// # let file = std::env::temp_dir().join("annealed-run.svg");
/// run.plot(&file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
impl<S, R> Plot for Run<S, R> {
    fn plot(&self, path: impl AsRef<Path>) -> Result<()> {
        runs([("", self)]).save(path)
    }
}

/// Draws the last round as a run, with the warnings of all rounds.
impl<S, K> Plot for RoundsRun<S, K> {
    fn plot(&self, path: impl AsRef<Path>) -> Result<()> {
        runs([("", self.run())])
            .warnings(self.warnings())
            .seed(self.seed())
            .save(path)
    }
}

/// Draws the log weights in both directions, same as [`bridge`](crate::bridge()).
impl Plot for Bridge {
    fn plot(&self, path: impl AsRef<Path>) -> Result<()> {
        bridge(self).save(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{both_directions, path};
    use annealed::adaptive::Rounds;
    use annealed::kernel::RandomWalkMetropolis;

    #[test]
    fn each_result_writes_its_picture() {
        let (run, both) = both_directions();
        let path = path();
        let kernel = RandomWalkMetropolis::new(0.7).unwrap();
        let rounds = Rounds::new(&path, kernel).budget(20_000).run().unwrap();
        let folder = std::env::temp_dir();
        let file = |name: &str| folder.join(format!("annealed-{name}-{}.svg", std::process::id()));
        run.plot(file("run")).unwrap();
        both.plot(file("bridge")).unwrap();
        rounds.plot(file("rounds")).unwrap();
        for (name, shown) in [
            ("run", "Standard error of log Z along the path"),
            ("bridge", ">reverse<"),
            ("rounds", "log Z along the path"),
        ] {
            let svg = std::fs::read_to_string(file(name)).unwrap();
            assert!(svg.contains(shown), "{name}: {svg}");
            std::fs::remove_file(file(name)).unwrap();
        }
        assert!(run.plot(folder.join("no such folder/run.svg")).is_err());
    }
}
