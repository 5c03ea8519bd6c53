//! The RBMs of both papers: five trained here on the binarised MNIST training set, one published.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use annealed::rbm::{BaseRate, ContrastiveDivergence, MAX_ENUMERATED_UNITS, Rbm};
use annealed::{Error, Result};
use annealed_files::{BinaryData, RbmFile};
use clap::ValueEnum;
use flate2::read::GzDecoder;

const BATCH: usize = 100;

/// An RBM, named by its training and its number of hidden units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    Pcd20,
    Cd1_20,
    Cd25_20,
    Pcd500,
    Cd1_500,
    /// The one that Salakhutdinov and Murray (2008) published
    Cd25_500,
}

use Machine::*;

impl Machine {
    pub const SMALL: [Self; 3] = [Pcd20, Cd1_20, Cd25_20];
    pub const LARGE: [Self; 3] = [Pcd500, Cd1_500, Cd25_500];

    pub fn name(self) -> String {
        format!("{}({})", self.training().0, self.hidden_units())
    }

    pub fn hidden_units(self) -> usize {
        if Self::SMALL.contains(&self) { 20 } else { 500 }
    }

    /// Returns the name, the sweeps per update, whether chains persist, and the first learning rate.
    fn training(self) -> (&'static str, usize, bool, f64) {
        match self {
            Pcd20 | Pcd500 => ("PCD", 1, true, 0.05),
            Cd1_20 | Cd1_500 => ("CD1", 1, false, 0.1),
            Cd25_20 | Cd25_500 => ("CD25", 25, false, 0.1),
        }
    }

    /// Returns the number of updates: the paper's 250,000 for small machines, and our own choice for large ones.
    fn updates(self) -> usize {
        if self.hidden_units() == 20 {
            250_000
        } else {
            60_000
        }
    }

    pub fn stem(self) -> String {
        self.name()
            .to_lowercase()
            .replace('(', "-")
            .replace(')', "")
    }

    fn file(self, folder: &Path) -> PathBuf {
        folder.join(self.stem() + ".npz")
    }

    pub fn read(self, folders: &Folders) -> Result<RbmFile> {
        match self {
            Cd25_500 => RbmFile::read(&folders.published),
            _ => RbmFile::read(self.file(&folders.trained)),
        }
    }

    pub fn log_z_exact(self, folders: &Folders) -> Result<Option<f64>> {
        match self.hidden_units() {
            20 => Ok(self.read(folders)?.log_z_exact),
            _ => Ok(None),
        }
    }

    /// Trains the RBM and writes it, unless its file exists.
    pub fn train(self, folders: &Folders) -> Result<()> {
        let file = self.file(&folders.trained);
        if self == Cd25_500 || file.is_file() {
            return Ok(());
        }
        let images = folders.training_images()?;
        let (_, sweeps, persistent, rate) = self.training();
        let epochs = self.updates().div_ceil(images.len() / BATCH);
        let begun = Instant::now();
        let trained = ContrastiveDivergence::new(sweeps)
            .persistent(persistent)
            .batch_size(BATCH)
            .epochs(epochs)
            .learning_rate(rate, 0.0)
            .train(
                Rbm::<f32>::from_data(self.hidden_units(), &images, 0)?,
                &images,
            )?;
        eprintln!(
            "{}: trained in {:.0} s",
            self.name(),
            begun.elapsed().as_secs_f64()
        );
        let exact = self.hidden_units() <= MAX_ENUMERATED_UNITS;
        let file_of = RbmFile {
            log_z_exact: exact
                .then(|| trained.rbm.exact_log_normalizer())
                .transpose()?,
            base: Some(BaseRate::from_data(self.hidden_units(), &images, 1.0)?),
            rbm: trained.rbm,
            chains: None,
        };
        file_of.write(file)
    }
}

// Folders and files. (A doc comment would become the program's help.)
#[derive(Debug, Clone, clap::Args)]
pub struct Folders {
    /// Folder of the RBMs that were trained
    #[arg(
        long = "machines",
        global = true,
        default_value = "measurements/reproduction/machines"
    )]
    pub trained: PathBuf,
    /// The CD25(500) RBM of Salakhutdinov and Murray (2008)
    #[arg(
        long,
        global = true,
        default_value = "../shared/data/rbm/rbm500_cd25_sm08.npz"
    )]
    pub published: PathBuf,
    /// Folder with MNIST: the binarised training set, the test images and labels
    #[arg(long, global = true, default_value = "../shared/data/mnist")]
    pub mnist: PathBuf,
}

impl Folders {
    /// Returns the folder of knots that were matched exactly.
    pub fn knots(&self) -> PathBuf {
        self.trained.join("knots")
    }

    /// Reads the 60,000 training images, binarised once.
    pub fn training_images(&self) -> Result<Vec<Vec<bool>>> {
        self.images("train-images-binarized-idx3-ubyte.gz")
    }

    /// Reads the test images with pixels black from half grey on, and with digit i repeated i + 1 times.
    pub fn biased_images(&self) -> Result<Vec<Vec<bool>>> {
        let images = self.images("t10k-images-idx3-ubyte.gz")?.into_iter();
        let images = images.zip(self.test_labels()?);
        Ok(images
            .flat_map(|(image, digit)| std::iter::repeat_n(image, 1 + usize::from(digit)))
            .collect())
    }

    fn images(&self, name: &str) -> Result<Vec<Vec<bool>>> {
        BinaryData::read(self.mnist.join(name)).map(BinaryData::into_rows)
    }

    /// Reads labels of one byte each, after a header of eight.
    fn test_labels(&self) -> Result<Vec<u8>> {
        let file = self.mnist.join("t10k-labels-idx1-ubyte.gz");
        let opened = File::open(&file).map_err(|error| Error::io(&file, error))?;
        let mut bytes = Vec::new();
        let read = GzDecoder::new(opened).read_to_end(&mut bytes);
        read.map_err(|error| Error::io(&file, error))?;
        Ok(bytes.split_off(bytes.len().min(8)))
    }
}
