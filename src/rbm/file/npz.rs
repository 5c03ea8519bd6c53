//! The `.npz` format, a zip archive of `.npy` files, and gzip.

use std::io::{Cursor, Read};

use flate2::read::GzDecoder;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::rbm::file::array::Array;
use crate::rbm::file::npy;

pub(super) const MAGIC: &[u8] = b"PK";

pub(super) struct Npz(ZipArchive<Cursor<Vec<u8>>>);

impl Npz {
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let archive = ZipArchive::new(Cursor::new(bytes));
        let archive = Self(archive.map_err(|e| format!("not a whole .npz archive: {e}"))?);
        let entries: Vec<_> = archive.0.file_names_raw().collect();
        if entries.iter().any(|entry| entry.ends_with(b"data.pkl")) {
            return Err("a file of torch.save, expected one of safetensors.torch.save_file".into());
        }
        Ok(archive)
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let entries = self.0.file_names_raw().map(String::from_utf8_lossy);
        entries
            .filter_map(|entry| Some(entry.strip_suffix(".npy")?.to_owned()))
            .collect()
    }

    pub(super) fn get(&mut self, key: &str) -> Result<Option<Array>, String> {
        let entry = match self.0.by_name(&format!("{key}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (size, compressed) = (entry.size(), entry.compressed_size());
        let bytes = inflate(entry, size, compressed)?;
        npy::parse(&bytes).map(Some)
    }
}

pub(super) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Largest ratio of deflate (1032), rounded up.
const LARGEST_RATIO: u64 = 1_100;

/// Reads exactly `size` bytes. Allocates as it reads, so that a false `size` costs nothing.
fn inflate(reader: impl Read, size: u64, compressed: u64) -> Result<Vec<u8>, String> {
    if size > compressed.saturating_mul(LARGEST_RATIO) {
        return Err(format!(
            "{size} bytes, says its header, which {compressed} compressed bytes cannot hold"
        ));
    }
    let mut bytes = Vec::new();
    // One byte more detects surplus bytes; without them the decoder compares the check sum.
    let taken = reader.take(size + 1).read_to_end(&mut bytes);
    taken.map_err(|error| error.to_string())?;
    match bytes.len() as u64 {
        found if found == size => Ok(bytes),
        found => {
            let than = if found > size { "more" } else { "less" };
            Err(format!(
                "inflates to {than} than the {size} bytes that its header says"
            ))
        }
    }
}

/// Decompresses a gzip file (RFC 1952) below 4 GiB, whose last four bytes hold the size.
pub(super) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let size = bytes.last_chunk().ok_or("not a whole file of gzip")?;
    let size = u32::from_le_bytes(*size).into();
    inflate(GzDecoder::new(bytes), size, bytes.len() as u64)
        .map_err(|reason| format!("gzip: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn saying(size: u32, mut compressed: Vec<u8>) -> Result<Vec<u8>, String> {
        let end = compressed.len() - 4;
        compressed[end..].copy_from_slice(&size.to_le_bytes());
        gunzip(&compressed)
    }

    #[test]
    fn the_densest_file_is_read() {
        let zeros = vec![0; 10_000_000];
        assert_eq!(gunzip(&gzip(&zeros)).unwrap(), zeros);
    }

    #[test]
    fn a_file_that_lies_about_its_size_is_refused() {
        let file = gzip(&[7; 100_000]);
        for (size, reason) in [
            (99_999, "more than the 99999 bytes"),
            (100_001, "corrupt"),
            (u32::MAX, "cannot hold"),
        ] {
            let error = saying(size, file.clone()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let two = [gzip(&[7; 1_000]), gzip(&[7; 500])].concat();
        assert!(gunzip(&two).unwrap_err().contains("more than the 500"));
    }

    #[test]
    fn every_cut_and_flipped_bit_is_seen() {
        let contents: Vec<u8> = (0..200).collect();
        let file = gzip(&contents);
        for length in 0..file.len() {
            assert!(gunzip(&file[..length]).is_err(), "{length} bytes");
        }
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                gunzip(&damaged).is_ok_and(|read| read == contents) || gunzip(&damaged).is_err()
            );
        }
    }
}
