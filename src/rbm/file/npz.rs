//! The `.npz` format: a zip archive of `.npy` files.

use std::io::Cursor;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::rbm::file::array::Array;
use crate::rbm::file::{inflate, npy};

pub(super) const MAGIC: &[u8] = b"PK";

/// An archive whose arrays are read when they are asked for.
pub(super) struct Npz(ZipArchive<Cursor<Vec<u8>>>);

impl Npz {
    /// Parses a file. The error says what is wrong.
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

    /// The array of a key; nothing where there is no such key.
    pub(super) fn get(&mut self, key: &str) -> Result<Option<Array>, String> {
        let entry = match self.0.by_name(&format!("{key}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (size, compressed) = (entry.size(), entry.compressed_size());
        let bytes = inflate::read(entry, size, compressed)?;
        npy::parse(&bytes).map(Some)
    }
}
