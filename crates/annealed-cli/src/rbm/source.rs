//! A file of data, as named by an option.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use annealed::{Error, Result};
use annealed_files::{BinaryData, DataLayout};

/// A file, with the name of the array if the file has several: `mnist.npz:x_test`.
#[derive(Debug, Clone)]
pub struct Source {
    file: PathBuf,
    array: Option<String>,
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let named = text.rsplit_once(':').filter(|_| !Path::new(text).exists());
        let (file, array) = named.map_or((text, None), |(file, array)| (file, Some(array)));
        Ok(Self {
            file: file.into(),
            array: array.map(str::to_owned),
        })
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.array
            .iter()
            .try_for_each(|array| write!(f, ":{array}"))
    }
}

impl Source {
    /// Reads the rows for a machine with these numbers of units. Returns them with a line on how they were read.
    pub fn read(
        &self,
        mut layout: DataLayout,
        (visible, hidden): (usize, usize),
    ) -> Result<(Vec<Vec<bool>>, String)> {
        if let Some(array) = &self.array {
            layout = layout.array(array);
        }
        let data = BinaryData::read_as(&self.file, &layout)?;
        let (count, units) = (data.rows().len(), data.rows()[0].len());
        if units != visible {
            let hint = match (units == hidden, count == visible) {
                (true, _) => {
                    ": are these states of hidden units, or its hidden and visible biases exchanged?"
                }
                (_, true) => ": it has as many rows, so save it transposed (data.T)",
                _ => "",
            };
            let reason = format!(
                "has rows of {units} units, expected {visible}, the visible units of the machine, which has {hidden} \
                 hidden ones{hint}",
            );
            return Err(Error::file(&self.file, reason));
        }
        let note = format!(
            "{self}: {count} rows of {units}, read as {}\n",
            data.assumed()
        );
        Ok((data.into_rows(), note))
    }
}
