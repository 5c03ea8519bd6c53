//! Values as bytes, for checkpoints and other processes.

pub(crate) use crc32fast::hash as checksum;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::execution::caught_once;
use super::task::Format;
use crate::{Error, Result};

/// Encodes a value in postcard's format; `what` names it in errors.
///
/// # Errors
/// A list or map of unknown length, or serde's `flatten`, which postcard cannot write.
pub(crate) fn encode<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<Vec<u8>> {
    let written = postcard::to_extend(value, Vec::new());
    written.map_err(|error| Error::invalid(what, error, "values that postcard can write"))
}

/// Reads a value that [`encode`] wrote.
///
/// # Errors
/// Bytes that do not decode, or bytes left over.
pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T> {
    let read = postcard::take_from_bytes(bytes);
    let (value, rest) = read.map_err(|error| Error::invalid(what, error, "what was written"))?;
    let found = format!("{} bytes after it", rest.len());
    Error::check(rest.is_empty(), what, found, "none")?;
    Ok(value)
}

impl<T: Serialize + DeserializeOwned> Format<T> {
    pub(crate) fn serde() -> Self {
        Self {
            write: encode,
            read: decode,
        }
    }
}

/// Turns a panic in a user's implementation of serde's traits into an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panic = |message| Error::invalid("states", format!("a panic: {message}"), "none");
    caught_once(work).unwrap_or_else(|message| Err(panic(message)))
}
