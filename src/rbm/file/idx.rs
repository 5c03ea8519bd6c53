//! The IDX format, in which the files of MNIST are written.

use crate::rbm::file::array::Array;
use crate::rbm::file::dtype::Dtype;

/// How a file of unsigned bytes begins; the number of dimensions follows.
pub(super) const MAGIC: &[u8] = &[0, 0, 8];

/// Parses a file of unsigned bytes. The error says what is wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Array, String> {
    let Some(([0, 0, 8, dimensions], rest)) = bytes.split_first_chunk() else {
        return Err("expected an IDX file of unsigned bytes (00 00 08)".into());
    };
    let Some((sizes, data)) = rest.split_at_checked(4 * usize::from(*dimensions)) else {
        return Err("ends within the header".into());
    };
    let sizes = sizes.as_chunks::<4>().0.iter();
    let shape = sizes.map(|size| u32::from_be_bytes(*size) as usize);
    Array::new(shape.collect(), Dtype::BYTE, false, data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_images_of_one_by_three() {
        let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        let bytes = [&header[..], &[0, 128, 255, 127, 0, 200]].concat();
        let images = parse(&bytes).unwrap();
        assert_eq!(images.shape(), [2, 1, 3]);
        assert!(images.values().eq([0.0, 128.0, 255.0, 127.0, 0.0, 200.0]));
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
