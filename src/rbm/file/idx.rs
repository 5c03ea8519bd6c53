//! The IDX format, in which the files of MNIST are written.

use std::path::Path;

use crate::{Error, Result};

/// An array of bytes from an IDX file, such as images (count x height x width, 0 to 255) or labels
/// (count).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdxArray {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl IdxArray {
    /// Reads an uncompressed file of unsigned bytes.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be read, is compressed, holds another type than
    /// bytes, or is shorter or longer than its header says.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        Self::parse(&bytes).map_err(|reason| Error::file(path, reason))
    }

    /// Parses the contents of an uncompressed file, for programs that decompress by themselves.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).map_err(|reason| Error::file("IDX data in memory", reason))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Err("compressed by gzip, expected the output of gunzip".into());
        }
        let Some(([0, 0, 8, dimensions], rest)) = bytes.split_first_chunk() else {
            return Err("expected an IDX file of unsigned bytes (00 00 08)".into());
        };
        let Some((sizes, data)) = rest.split_at_checked(4 * usize::from(*dimensions)) else {
            return Err("ends within the header".into());
        };
        let sizes = sizes.as_chunks::<4>().0.iter();
        let shape: Vec<usize> = sizes
            .map(|size| u32::from_be_bytes(*size) as usize)
            .collect();
        let count = shape
            .iter()
            .try_fold(1_usize, |n, &size| n.checked_mul(size));
        if shape.is_empty() || count != Some(data.len()) {
            return Err(format!("{} bytes of data for shape {shape:?}", data.len()));
        }
        Ok(Self {
            shape,
            bytes: data.to_vec(),
        })
    }

    /// Sizes of the dimensions, the number of items first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All bytes, the last dimension running fastest.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The items as rows of bits, which are on where the byte is `threshold` or more.
    pub fn binarize(&self, threshold: u8) -> Vec<Vec<bool>> {
        let length = self.bytes.len() / self.shape[0].max(1);
        let items = self.bytes.chunks_exact(length.max(1));
        items
            .map(|item| item.iter().map(|&byte| byte >= threshold).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_images_of_one_by_three() {
        let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        let bytes = [&header[..], &[0, 128, 255, 127, 0, 200]].concat();
        let images = IdxArray::from_bytes(&bytes).unwrap();
        assert_eq!(images.shape(), [2, 1, 3]);
        let expected = [vec![false, true, true], vec![false, false, true]];
        assert_eq!(images.binarize(128), expected);
        for length in 0..bytes.len() {
            assert!(
                IdxArray::from_bytes(&bytes[..length]).is_err(),
                "{length} bytes"
            );
        }
        assert!(
            IdxArray::parse(&[0x1f, 0x8b, 8, 0])
                .unwrap_err()
                .contains("gunzip")
        );
    }
}
