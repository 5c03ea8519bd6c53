//! Training images: MNIST from a folder, or the digits that come with the crate.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use annealed::data::digits;
use annealed::rbm::IdxArray;
use annealed::{Error, Result};
use flate2::read::GzDecoder;

/// Black-and-white training images.
#[derive(Debug)]
pub struct Data {
    pub images: Vec<Vec<bool>>,
    /// Pixels in a row of an image. Only one of the two programs draws any.
    #[allow(dead_code)]
    pub width: usize,
}

/// The images of a folder with MNIST's files, or the embedded digits; says which.
pub fn load(folder: Option<&Path>) -> Result<Data> {
    let Some(folder) = folder else {
        let images = digits().images;
        println!(
            "data: {} embedded digits of 8 x 8 pixels, not MNIST (--mnist DIR)",
            images.len()
        );
        return Ok(Data { images, width: 8 });
    };
    let (file, found) = match find(folder, "train-images-idx3-ubyte") {
        Some(file) => (file, "training"),
        None => match find(folder, "t10k-images-idx3-ubyte") {
            Some(file) => (file, "TEST"),
            None => {
                let reason = "expected train-images-idx3-ubyte or t10k-images-idx3-ubyte, plain \
                              or .gz";
                return Err(Error::file(folder, reason));
            }
        },
    };
    let array = read(&file)?;
    let images = array.binarize(128);
    println!(
        "data: {} MNIST {found} images, black from 128 on",
        images.len()
    );
    if found == "TEST" {
        println!("      (no training set there: trained on the test images instead)");
    }
    match array.shape() {
        [_, _, width] if images.len() >= 100 => Ok(Data {
            images,
            width: *width,
        }),
        shape => {
            let reason = format!("shape {shape:?}, expected at least 100 images");
            Err(Error::file(file, reason))
        }
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = folder.join(name);
    let compressed = folder.join(format!("{name}.gz"));
    [plain, compressed].into_iter().find(|file| file.is_file())
}

fn read(file: &Path) -> Result<IdxArray> {
    if file.extension().is_none_or(|extension| extension != "gz") {
        return IdxArray::read(file);
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(|error| Error::io(file, error))?;
    GzDecoder::new(opened)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io(file, error))?;
    IdxArray::from_bytes(&bytes).map_err(|error| Error::file(file, error))
}
