//! Reads gzip files, and limits the size of all data compressed by deflate.

use flate2::read::GzDecoder;

use crate::array::Array;
use crate::npy;

pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

/// Largest compression ratio of deflate (1032), rounded up.
const LARGEST_RATIO: u64 = 1_100;

/// Refuses a size that is impossible for compressed data of this length.
pub(super) fn check_ratio(size: u64, compressed: u64) -> Result<(), String> {
    match size <= compressed.saturating_mul(LARGEST_RATIO) {
        true => Ok(()),
        false => Err(format!(
            "the header declares {size} bytes, which {compressed} compressed bytes cannot hold"
        )),
    }
}

/// Reads the array of a gzip file (RFC 1952) below 4 GiB. Its last four bytes contain the decompressed size. The data
/// are decompressed only if the array's header declares the same size. An archive in gzip is refused, because its
/// entries are compressed twice and could be a million times larger than the file.
pub(super) fn read(bytes: &[u8]) -> Result<Array, String> {
    let size = bytes.last_chunk().ok_or("not a whole file of gzip")?;
    let size = u32::from_le_bytes(*size).into();
    check_ratio(size, bytes.len() as u64)
        .and_then(|()| npy::read(&mut GzDecoder::new(bytes), size))
        .map_err(|reason| format!("gzip: {reason}"))
}

#[cfg(test)]
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use flate2::{Compression, read::GzEncoder};
    let mut compressed = Vec::new();
    let mut encoder = GzEncoder::new(bytes, Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut compressed).unwrap();
    compressed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IDX file of one dimension.
    fn idx(values: &[u8]) -> Vec<u8> {
        let size = (values.len() as u32).to_be_bytes();
        [&[0, 0, 8, 1][..], &size, values].concat()
    }

    fn refused(bytes: &[u8]) -> String {
        read(bytes).map(drop).unwrap_err()
    }

    fn saying(size: u32, mut compressed: Vec<u8>) -> String {
        let end = compressed.len() - 4;
        compressed[end..].copy_from_slice(&size.to_le_bytes());
        refused(&compressed)
    }

    #[test]
    fn the_densest_file_is_read() {
        let zeros = vec![0; 10_000_000];
        let array = read(&gzip(&idx(&zeros))).unwrap();
        assert!(array.values().eq(zeros.into_iter().map(f64::from)));
    }

    #[test]
    fn a_file_that_lies_about_its_size_is_refused() {
        let file = gzip(&idx(&[7; 100_000]));
        for (size, reason) in [
            (100_007, "99999 bytes of data for shape [100000]"),
            (100_009, "100001 bytes of data for shape [100000]"),
            (u32::MAX, "cannot hold"),
        ] {
            let error = saying(size, file.clone());
            assert!(error.contains(reason), "{error}");
        }
        let two = [gzip(&idx(&[7; 1_000])), gzip(&idx(&[7; 500]))].concat();
        assert!(refused(&two).contains("500 bytes of data for shape [1000]"));
        let mut more = idx(&[7; 1_000]);
        more.extend([7; 500]);
        assert!(saying(1_008, gzip(&more)).contains("more than the 1000 bytes"));
        let mut less = idx(&[7; 1_000]);
        less.truncate(600);
        assert!(saying(1_008, gzip(&less)).contains("corrupt"));
    }

    #[test]
    fn every_cut_and_flipped_bit_is_seen() {
        let contents: Vec<u8> = (0..200).collect();
        let file = gzip(&idx(&contents));
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length} bytes");
        }
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let same = |array: Array| array.values().eq((0..200).map(f64::from));
            assert!(read(&damaged).map_or(true, same), "{bit}");
        }
    }
}
