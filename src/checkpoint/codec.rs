//! Values as bytes, one after another in postcard's format, and back.

use std::fmt::Debug;

use postcard::de_flavors::Slice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Values that are written one after another.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

/// Reads the values that an [`Encoder`] wrote, in the same order.
///
/// The number of entries of a list is known to the caller. Of a list within a value, no more than serde's
/// 1 MiB is allocated ahead of its entries.
pub(crate) struct Decoder<'b>(postcard::Deserializer<'b, Slice<'b>>);

impl Encoder {
    /// Writes a value; `what` names it in an error.
    ///
    /// # Errors
    /// A value that the format cannot hold: a list or map of unknown length, or what serde's `flatten` makes.
    pub(crate) fn put<T: Serialize + ?Sized>(
        &mut self,
        what: &'static str,
        value: &T,
    ) -> Result<()> {
        let written = postcard::to_extend(value, std::mem::take(&mut self.0));
        let expected = "values that postcard can write";
        self.0 = written.map_err(|error| Error::invalid(what, error, expected))?;
        Ok(())
    }

    /// Writes a list.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn put_list<T: Serialize>(
        &mut self,
        what: &'static str,
        values: impl ExactSizeIterator<Item = T>,
    ) -> Result<()> {
        self.put(what, &values.len())?;
        for value in values {
            self.put(what, &value)?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl<'b> Decoder<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(postcard::Deserializer::from_bytes(bytes))
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Bytes that are none; `what` names it.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, what: &'static str) -> Result<T> {
        let read = T::deserialize(&mut self.0);
        read.map_err(|error| Error::invalid(what, error, "what was written"))
    }

    /// Reads a list of so many entries. Refuses another number before it reads one.
    ///
    /// # Errors
    /// As [`take`](Self::take); another number of entries.
    pub(crate) fn take_list<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        count: usize,
    ) -> Result<Vec<T>> {
        Error::check_dimension(what, self.take(what)?, count)?;
        (0..count).map(|_| self.take(what)).collect()
    }

    /// Reads bytes that were written with their number before them, and copies none.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn take_bytes(&mut self, what: &'static str) -> Result<&'b [u8]> {
        let read = <&[u8]>::deserialize(&mut self.0);
        read.map_err(|error| Error::invalid(what, error, "what was written"))
    }

    /// Refuses bytes that are left.
    ///
    /// # Errors
    /// Some are.
    pub(crate) fn finish(self) -> Result<()> {
        let left = self.0.finalize().map_or(0, <[u8]>::len);
        let found = format!("{left} bytes after it");
        Error::check(left == 0, "end of the checkpoint", found, "none")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::hostile::largest_allocation;

    #[test]
    fn what_is_written_is_read() {
        let list = [f64::NEG_INFINITY, -0.0, 1.5];
        let mut encoder = Encoder::default();
        encoder.put("name", "a").unwrap();
        encoder.put_list("list", list.iter()).unwrap();
        encoder.put_list("nothing", [(); 4].iter()).unwrap();
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decoder.take::<String>("name").unwrap(), "a");
        let read: Vec<f64> = decoder.take_list("list", 3).unwrap();
        assert!(
            read.iter()
                .zip(list)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
        decoder.take_list::<()>("nothing", 4).unwrap();
        decoder.finish().unwrap();
    }

    #[test]
    fn another_number_of_entries_is_refused_before_one_is_read() {
        let mut encoder = Encoder::default();
        encoder.put("count", &usize::MAX).unwrap();
        let bytes = encoder.finish();
        let (refused, largest) =
            largest_allocation(|| Decoder::new(&bytes).take_list::<()>("memories", 3));
        let message = refused.unwrap_err().to_string();
        let expected = format!("memories: got {}, expected 3", usize::MAX);
        assert!(message.contains(&expected), "{message}");
        assert!(largest < 1_000, "{largest}");
    }

    #[test]
    fn a_list_in_a_value_that_claims_to_be_long_allocates_little() {
        for count in [1 << 20, 1 << 40, usize::MAX] {
            let mut encoder = Encoder::default();
            encoder.put("count", &count).unwrap();
            encoder.put("entries", &[0_u64; 3]).unwrap();
            let bytes = encoder.finish();
            let (refused, largest) =
                largest_allocation(|| Decoder::new(&bytes).take::<Vec<u64>>("state"));
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("invalid state"), "{message}");
            assert!(largest <= (1 << 20) + bytes.len(), "{largest}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        let mut decoder = Decoder::new(&[7, 0]);
        assert_eq!(decoder.take::<u64>("number").unwrap(), 7);
        let message = decoder.finish().unwrap_err().to_string();
        assert!(message.contains("1 bytes after it"), "{message}");
    }

    #[test]
    fn a_value_without_a_known_length_is_refused_as_it_is_written() {
        struct Endless;
        impl Serialize for Endless {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(std::iter::repeat(1).take_while(|_| true))
            }
        }
        let refused = Encoder::default().put("state", &Endless).unwrap_err();
        assert!(refused.to_string().contains("invalid state"), "{refused}");
    }
}
