//! Equally weighted draws and log Z, as files for other programs.

use std::io::{Cursor, Write};
use std::path::Path;

use annealed::estimate::{LogZ, Quantities, WeightedSample};
use annealed::{Error, Result};
use serde_json::json;
use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use crate::npy;

/// Equally weighted draws of named quantities, with log Z, for R, Python and other programs.
///
/// ```no_run
/// use annealed::prelude::*;
/// use annealed_files::PosteriorFile;
///
/// let priors = Priors::named([("probability", Prior::uniform(0.0, 1.0)?)])?;
/// let likelihood = FunctionModel::of_slices(|x: &[f64]| 7.0 * x[0].ln() + 3.0 * (1.0 - x[0]).ln());
/// let path = TemperedPath::new(&priors, priors.likelihood(likelihood));
/// let kernel = RandomWalkMetropolis::new(1.0)?;
/// let run = Ais::new(&path, kernel).schedule(Schedule::linear(20)?).run()?;
/// let file = PosteriorFile::new(&run, &priors, 1_000, 1)?;
/// file.write("posterior.csv")?;
/// file.write("posterior.json")?;
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// | name ends in | content | read by |
/// |---|---|---|
/// | `.csv` | a column for each quantity, beside `.chain`, `.iteration` and `.draw` | `posterior::as_draws_df(read.csv(file, check.names = FALSE))` in R, pandas |
/// | `.npz` | an array (1, draws) for each quantity | `numpy.load(file)` |
/// | `.json` | ArviZ's dictionary, with the attributes `log_evidence`, `log_evidence_error`, `inference_library` | `arviz.from_json(file)` |
///
/// ArviZ 1.0 and above has no `from_json`. It reads the `.npz` and the `.json` file together by
///
/// ```text
/// attributes = json.load(open("posterior.json"))["posterior_attrs"]
/// data = arviz.from_dict({"posterior": dict(numpy.load("posterior.npz"))}, attrs={"posterior": attributes})
/// ```
///
/// All draws form one chain, in which copies of a state are adjacent.
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorFile {
    columns: Vec<(String, Vec<f64>)>,
    log_evidence: f64,
    log_evidence_error: f64,
}

impl PosteriorFile {
    /// Draws `draws` states of a run, same as [`WeightedSample::draws`], and evaluates the quantities at each state.
    ///
    /// # Errors
    /// Same as [`WeightedSample::draws`] and [`EqualDraws::columns`](annealed::estimate::EqualDraws::columns).
    pub fn new<'q, R>(
        run: &R,
        quantities: impl Into<Quantities<'q, R::State>>,
        draws: usize,
        seed: u64,
    ) -> Result<Self>
    where
        R: WeightedSample + LogZ,
        R::State: Clone + 'q,
    {
        Ok(Self {
            columns: run.draws(draws, seed)?.columns(quantities)?,
            log_evidence: run.log_z(),
            log_evidence_error: run.standard_error(),
        })
    }

    /// Writes the file. The end of its name determines the format: `.csv`, `.npz` or `.json`.
    ///
    /// # Errors
    /// Another end of the name; [`Error::File`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => self.csv().into_bytes(),
            Some("npz") => self.npz().map_err(|error| Error::file(path, error))?,
            Some("json") => self.json().into_bytes(),
            _ => {
                let expected = "a name that ends in .csv, .npz or .json";
                return Err(Error::invalid("path", path.display(), expected));
            }
        };
        std::fs::write(path, bytes).map_err(|error| Error::io(path, error))
    }

    fn draws(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    fn csv(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| quoted(name));
        let names = [".chain", ".iteration", ".draw"]
            .map(String::from)
            .into_iter()
            .chain(names);
        let mut text = Vec::from_iter(names).join(",") + "\n";
        for draw in 0..self.draws() {
            text += &format!("1,{0},{0}", draw + 1);
            for (_, values) in &self.columns {
                text += &format!(",{:?}", values[draw]);
            }
            text.push('\n');
        }
        text
    }

    fn npz(&self) -> Result<Vec<u8>, ZipError> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, values) in &self.columns {
            archive.start_file(format!("{name}.npy"), SimpleFileOptions::default())?;
            archive.write_all(&npy::format(&[1, values.len()], 8, values.iter().copied()))?;
        }
        Ok(archive.finish()?.into_inner())
    }

    /// Formats the dictionary by hand, because a map of `serde_json` would sort the quantities.
    fn json(&self) -> String {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, values)| format!("{}: [{}]", json!(name), json!(values)));
        let attributes = json!({
            "log_evidence": self.log_evidence,
            "log_evidence_error": self.log_evidence_error,
            "inference_library": "annealed",
            "inference_library_version": env!("CARGO_PKG_VERSION"),
        });
        let columns = Vec::from_iter(columns).join(",\n");
        format!("{{\"posterior\": {{\n{columns}\n}},\n\"posterior_attrs\": {attributes}}}\n")
    }
}

/// Returns a cell of a CSV file, in quotes if it needs them.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npz::Npz;

    fn file() -> PosteriorFile {
        PosteriorFile {
            columns: vec![
                ("z, \"b\"".into(), vec![0.5, -1e-300, 2.0]),
                ("a".into(), vec![1.0, 2.0, 3.0]),
            ],
            log_evidence: -23.25,
            log_evidence_error: 0.125,
        }
    }

    #[test]
    fn csv_has_the_columns_of_posterior() {
        let text = "\
.chain,.iteration,.draw,\"z, \"\"b\"\"\",a
1,1,1,0.5,1.0
1,2,2,-1e-300,2.0
1,3,3,2.0,3.0
";
        assert_eq!(file().csv(), text);
    }

    #[test]
    fn npz_has_an_array_for_each_quantity() {
        let mut npz = Npz::parse(file().npz().unwrap()).unwrap();
        for (name, values) in file().columns {
            let array = npz.get(&name).unwrap().unwrap();
            assert_eq!(array.shape(), [1, 3]);
            assert!(array.values().eq(values));
        }
    }

    #[test]
    fn json_is_a_dictionary_of_groups() {
        let text = file().json();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["posterior"]["z, \"b\""], json!([[0.5, -1e-300, 2.0]]));
        assert_eq!(found["posterior_attrs"]["log_evidence"], json!(-23.25));
        assert_eq!(
            found["posterior_attrs"]["inference_library"],
            json!("annealed")
        );
        assert!(text.find("z, ") < text.find("\"a\""));
    }

    #[test]
    fn another_name_is_refused() {
        for name in ["posterior.nc", "posterior", "no/such/folder/posterior.csv"] {
            let error = file().write(name).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
