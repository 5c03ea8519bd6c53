//! Draws of a sampler, for bridge sampling.

use std::path::Path;

use annealed::nalgebra::DVector;
use annealed::{Error, Result};

use crate::{Arrays, array_draws, csv, text_of};

/// Posterior draws by Stan, PyMC, nuts-rs or any other sampler, separated by chain. They are the input of
/// [`BridgeSampling`](annealed::bidirectional::BridgeSampling).
///
/// ```no_run
/// use annealed::bidirectional::BridgeSampling;
/// use annealed::model::{FunctionModel, StudentT};
/// use annealed::nalgebra::DVector;
/// use annealed_files::Draws;
///
/// let log_density = |x: &DVector<f64>| -0.5 * ((x[0] - 2.0) / 0.3).powi(2);
/// let chains = Draws::read(["draws.csv"])?.states();
/// let found = BridgeSampling::<StudentT>::new(&FunctionModel::new(log_density), &chains, 1)?;
/// println!("{found}");
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The contents of a file determine its format:
///
/// - **CSV with a header.** A column `chain` or `.chain` separates the chains; without it the file is one chain.
///   `draw`, `iteration`, `.draw` and `.iteration` must rise within a chain.
/// - **CSV as CmdStan or RStan writes it**, a file for each chain. The comments state how many rows are warm-up, and
///   these rows are dropped. A file is refused if its comments and rows disagree, or if its method is not `sample`. The
///   sampler's own columns (`lp__`, `energy__`, ..) are no parameters. [`divergences`](Self::divergences) counts the
///   draws with a `divergent__` other than 0.
/// - **`.npz`** as ArviZ writes it, an array (chains, draws, ..) for each variable.
/// - **`.npy`**, one array (draws, parameters) or (chains, draws, parameters).
///
/// Only CmdStan's files state their warm-up. Remove the warm-up from other files before you read them.
#[derive(Debug, Clone, PartialEq)]
pub struct Draws {
    names: Vec<String>,
    /// The draws of each chain, stored one after another.
    chains: Vec<Vec<f64>>,
    divergences: usize,
}

impl Draws {
    /// Reads all parameters from some files. The chains of one file follow the chains of the file before it.
    ///
    /// # Errors
    /// [`Error::File`] with the line or the array: an unreadable or damaged file, another format, no draws, rows of
    /// unequal lengths, a number that is not finite, parameters that differ from the first file, a
    /// column of weights, a chain that an earlier file has, or an unclear warm-up.
    pub fn read<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<Self> {
        Self::read_chosen(files, None)
    }

    /// Reads some columns from files, in the order of `names`. The other columns may contain anything.
    ///
    /// A name selects a column (`theta[1]` also finds CmdStan's `theta.1`) or all elements of a variable (`theta`).
    ///
    /// ```no_run
    /// use annealed_files::Draws;
    ///
    /// let files = ["output_1.csv", "output_2.csv"];
    /// let parameters = Draws::read_columns(files, ["mu", "theta"])?;
    /// let log_densities = Draws::read_columns(files, ["lp__"])?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`read`](Self::read); also a name that a file lacks, or two names for one column.
    pub fn read_columns<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self> {
        let names = Vec::from_iter(names.into_iter().map(Into::into));
        Self::read_chosen(files, Some(&names))
    }

    fn read_chosen<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        wanted: Option<&[String]>,
    ) -> Result<Self> {
        let mut all: Option<Self> = None;
        for file in files {
            let path = file.as_ref();
            let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
            let found = Self::parse(bytes, wanted).and_then(|draws| match all.take() {
                Some(before) => before.joined(draws),
                None => Ok(draws),
            });
            all = Some(found.map_err(|reason| Error::file(path, reason))?);
        }
        all.ok_or_else(|| Error::invalid("files", "none", "at least one"))
    }

    pub(super) fn parse(bytes: Vec<u8>, wanted: Option<&[String]>) -> Result<Self, String> {
        match text_of(bytes) {
            Ok(text) if text.trim().is_empty() => Err("an empty file".to_owned()),
            Ok(text) => csv::read(&text, wanted),
            Err(bytes) => array_draws::take(Arrays::parse(bytes)?, wanted),
        }
    }

    /// Creates draws from checked chains. Each chain contains only whole rows.
    pub(super) fn new(names: Vec<String>, chains: Vec<Vec<f64>>, divergences: usize) -> Self {
        Self {
            names,
            chains,
            divergences,
        }
    }

    fn joined(mut self, next: Self) -> Result<Self, String> {
        if next.names != self.names {
            let [found, expected] = [&next, &self].map(|draws| crate::listed(&draws.names));
            return Err(format!(
                "parameters {found}, expected those of the first file: {expected}"
            ));
        }
        let earlier = self.chains.len();
        let is_again = |chain: &Vec<f64>| {
            let repeated = |other: &Vec<f64>| other == chain && chain.len() > self.names.len();
            self.chains.iter().position(repeated)
        };
        if let Some((i, other)) = (0..)
            .zip(&next.chains)
            .find_map(|(i, chain)| Some((i, is_again(chain)?)))
        {
            let chain = earlier + i;
            return Err(format!(
                "the draws of chain {other} again as chain {chain}, expected each chain once"
            ));
        }
        self.chains.extend(next.chains);
        self.divergences += next.divergences;
        Ok(self)
    }

    /// Returns the names of the parameters as in the file. In arrays an element has a name such as `theta[0,1]`,
    /// counted from 0.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of divergent transitions after the warm-up, by the column `divergent__` of Stan's files; 0 if
    /// there is no such column. Pass it to
    /// [`with_divergences`](annealed::bidirectional::BridgeSampling::with_divergences).
    pub fn divergences(&self) -> usize {
        self.divergences
    }

    /// Returns the draws of each chain as vectors.
    pub fn states(&self) -> Vec<Vec<DVector<f64>>> {
        let rows = self.chains.iter().map(|chain| self.rows(chain));
        rows.map(|rows| rows.map(DVector::from_row_slice).collect())
            .collect()
    }

    /// Returns the states of each chain, made from draws by `state`, as in `|x| Ok(dvector![x[0], x[1].ln()])`.
    ///
    /// # Errors
    /// Errors of `state`. If an argument is invalid, its value ends with the draw and the chain.
    pub fn states_by<S>(&self, mut state: impl FnMut(&[f64]) -> Result<S>) -> Result<Vec<Vec<S>>> {
        let chains = self.chains.iter().enumerate();
        let states = chains.map(|(chain, rows)| {
            let rows = self.rows(rows).enumerate();
            let named = |(draw, row)| {
                state(row).map_err(|error| match error {
                    Error::InvalidArgument {
                        argument,
                        value,
                        expected,
                    } => {
                        let value = format!("{value} at draw {draw} of chain {chain}");
                        Error::invalid(argument, value, expected)
                    }
                    other => other,
                })
            };
            rows.map(named).collect()
        });
        states.collect()
    }

    fn rows<'d>(&self, chain: &'d [f64]) -> impl Iterator<Item = &'d [f64]> + use<'d> {
        chain.chunks_exact(self.names.len())
    }
}
