//! The `.npz` format, a zip archive of `.npy` files.

use std::io::Cursor;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::array::Array;
use crate::{gzip, npy};

pub(super) const MAGIC: &[u8] = b"PK";

/// Largest number of entries in an archive. Archives of RBMs and data have only a few.
const MOST_ENTRIES: usize = 4_096;

/// First bytes of an entry in the directory.
const ENTRY: &[u8] = b"PK\x01\x02";

pub(super) struct Npz(ZipArchive<Cursor<Vec<u8>>>);

impl Npz {
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        // This check precedes the reading, because an entry of 46 bytes takes hundreds of bytes in memory.
        let entries = bytes.windows(ENTRY.len()).filter(|window| *window == ENTRY);
        if entries.count() > MOST_ENTRIES {
            return Err(format!("an archive of more than {MOST_ENTRIES} entries"));
        }
        let archive = ZipArchive::new(Cursor::new(bytes));
        let archive = Self(archive.map_err(|e| format!("not a whole .npz archive: {e}"))?);
        let has = |end: &[u8]| archive.0.file_names_raw().any(|entry| entry.ends_with(end));
        if has(b"data.pkl") {
            return Err("a file of torch.save, expected one of safetensors.torch.save_file".into());
        }
        if has(b"model.weights.h5") {
            let expected = "expected its arrays (model.get_weights()) in an .npz by numpy.savez";
            return Err(format!("a file of Keras, {expected}"));
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
        let mut entry = match self.0.by_name(&format!("{key}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (size, compressed) = (entry.size(), entry.compressed_size());
        gzip::check_ratio(size, compressed)?;
        npy::read(&mut entry, size).map(Some)
    }
}
