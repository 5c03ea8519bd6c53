//! Files that a run leaves on its way, to go on from after an interruption.
//!
//! A file is untrusted: it may be damaged, or made to do harm. A checksum finds damage. Beyond it, every count is
//! compared with that of the run before anything of that number is read.

mod codec;
mod file;
#[cfg(test)]
pub(crate) mod hostile;
mod replace;

pub(crate) use codec::{Decoder, Encoder};
pub(crate) use crc32fast::hash as checksum;
pub(crate) use file::{Header, read, write};
