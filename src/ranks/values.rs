//! Values as messages, in postcard's format, which keeps every bit of a number.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Ranks;
use crate::checkpoint::{Decoder, Encoder};
use crate::{Error, Result};

impl Ranks {
    /// Sends a value, and returns when it is on its way.
    ///
    /// # Errors
    /// A value that the format cannot hold: a list or map of unknown length, or what serde's `flatten` makes.
    pub(crate) fn tell<T: Serialize>(&mut self, to: usize, value: &T) -> Result<()> {
        self.send(to, &written(value)?);
        Ok(())
    }

    /// Sends a value from rank 0 to all others.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub(crate) fn tell_all<T: Serialize>(&mut self, value: &T) -> Result<()> {
        self.send_to_all(&written(value)?);
        Ok(())
    }

    /// The next value that has come, with its sender; `None` where there is none yet.
    ///
    /// # Errors
    /// [`Error::Rank`] once a rank has failed, or where what it sent cannot be read.
    pub(crate) fn look<T: DeserializeOwned>(&mut self) -> Result<Option<(usize, T)>> {
        let message = self.poll()?;
        message
            .map(|(rank, bytes)| Ok((rank, read(rank, &bytes)?)))
            .transpose()
    }

    /// The next value, with its sender.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<(usize, T)> {
        let (rank, bytes) = self.wait()?;
        Ok((rank, read(rank, &bytes)?))
    }
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.put("message to another rank", value)?;
    Ok(encoder.finish())
}

fn read<T: DeserializeOwned>(rank: usize, bytes: &[u8]) -> Result<T> {
    let mut decoder = Decoder::new(bytes);
    let value = decoder.take("message");
    let read = value.and_then(|value| decoder.finish().map(|()| value));
    read.map_err(|error| Error::Rank {
        rank,
        message: error.to_string(),
    })
}
