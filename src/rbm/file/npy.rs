//! The formats `.npy` (one NumPy array, NEP 1) and IDX (MNIST).

use crate::rbm::file::array::{Array, Dtype, Kind};

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

pub(super) fn parse(bytes: &[u8]) -> Result<Array, String> {
    let (header, data) = split_header(bytes).ok_or("not a complete .npy header")?;
    let descr = between(field(header, "descr")?, "'", "'").ok_or("no dtype in the header")?;
    let shape = parse_shape(field(header, "shape")?)?;
    let fortran_order = parse_order(field(header, "fortran_order")?)?;
    let dtype = parse_dtype(descr).ok_or_else(|| {
        format!("dtype {descr}, expected floats, integers or Booleans, as numpy.float32")
    })?;
    Array::new(shape, dtype, fortran_order, data.to_vec())
}

fn parse_dtype(descr: &str) -> Option<Dtype> {
    let &[order, kind, width] = descr.as_bytes() else {
        return None;
    };
    let kind = match (kind, width) {
        (b'b', b'1') => Kind::Boolean,
        (b'u', b'1' | b'2' | b'4' | b'8') => Kind::Unsigned,
        (b'i', b'1' | b'2' | b'4' | b'8') => Kind::Signed,
        (b'f', b'2' | b'4' | b'8') => Kind::Float,
        _ => return None,
    };
    let little = Dtype::little(kind, usize::from(width - b'0'));
    match order {
        b'<' | b'|' => Some(little),
        b'>' => Some(Dtype {
            big_endian: true,
            ..little
        }),
        _ => None,
    }
}

/// Formats a `.npy` file of little-endian floats of `width` bytes in Fortran order.
pub(super) fn format(shape: &[usize], width: usize, values: impl Iterator<Item = f64>) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header =
        format!("{{'descr': '<f{width}', 'fortran_order': True, 'shape': ({sizes}), }}");
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.extend(std::iter::repeat_n(
        ' ',
        unpadded.next_multiple_of(64) - unpadded,
    ));
    header.push('\n');
    let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes()].concat();
    bytes.extend(header.as_bytes());
    for x in values {
        match width {
            4 => bytes.extend((x as f32).to_le_bytes()),
            _ => bytes.extend(x.to_le_bytes()),
        }
    }
    bytes
}

fn split_header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_at_checked(2)?;
    let (length, rest) = rest.split_at_checked(if version[0] == 1 { 2 } else { 4 })?;
    let length = length.iter().rev();
    let length = length.fold(0, |value, &byte| value << 8 | usize::from(byte));
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// Returns the text after `'name':` in the header's dictionary.
fn field<'a>(header: &'a str, name: &str) -> Result<&'a str, String> {
    let missing = || format!("no '{name}' in the .npy header");
    let (_, rest) = header
        .split_once(&format!("'{name}'"))
        .ok_or_else(missing)?;
    Ok(rest
        .trim_start()
        .strip_prefix(':')
        .ok_or_else(missing)?
        .trim_start())
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    Some(text.strip_prefix(open)?.split_once(close)?.0)
}

fn parse_order(text: &str) -> Result<bool, String> {
    match text.split([',', '}']).next().unwrap_or(text).trim_end() {
        "True" => Ok(true),
        "False" => Ok(false),
        other => Err(format!("fortran_order {other}, expected True or False")),
    }
}

fn parse_shape(text: &str) -> Result<Vec<usize>, String> {
    let sizes = between(text, "(", ")").ok_or("no shape in the .npy header")?;
    let sizes = sizes
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    sizes
        .map(|size| size.parse().map_err(|_| format!("shape ({size})")))
        .collect()
}

/// First bytes of an IDX file of unsigned bytes; the number of dimensions follows.
pub(super) const IDX_MAGIC: &[u8] = &[0, 0, 8];

pub(super) fn parse_idx(bytes: &[u8]) -> Result<Array, String> {
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
        let images = parse_idx(&bytes).unwrap();
        assert_eq!(images.shape(), [2, 1, 3]);
        assert!(images.values().eq([0.0, 128.0, 255.0, 127.0, 0.0, 200.0]));
        for length in 0..bytes.len() {
            assert!(parse_idx(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
