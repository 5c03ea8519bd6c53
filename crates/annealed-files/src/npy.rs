//! The formats `.npy` (one NumPy array, NEP 1) and IDX (MNIST).

use std::io::Read;

use crate::array::{Array, Dtype, Kind};
use crate::kind_of;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// First bytes of an IDX file of unsigned bytes; the number of dimensions follows.
pub(super) const IDX_MAGIC: &[u8] = &[0, 0, 8];

/// Largest number of dimensions of an array, which is NumPy's own limit.
const MOST_DIMENSIONS: usize = 64;

/// Longest header. NumPy writes longer headers only for arrays of records.
const LONGEST_HEADER: usize = 65_535;

/// The start of a file, which declares the array that follows.
struct Header {
    /// Number of bytes of the header itself.
    length: usize,
    shape: Vec<usize>,
    dtype: Dtype,
    fortran_order: bool,
}

/// Reads a file of `size` bytes. Memory is allocated only after the header has declared an array of exactly this size.
pub(super) fn read(reader: &mut dyn Read, size: u64) -> Result<Array, String> {
    let header = match exactly(reader, 4)?[..] {
        [0, 0, 8, dimensions] => idx_header(reader, dimensions.into())?,
        [0x93, b'N', b'U', b'M'] => npy_header(reader)?,
        ref other => return Err(format!("{}, expected .npy or IDX of bytes", kind_of(other))),
    };
    let Header {
        length,
        shape,
        dtype,
        fortran_order,
    } = header;
    let found = size.saturating_sub(length as u64);
    let declared = dtype.bytes(&shape).filter(|bytes| *bytes as u64 == found);
    let Some(declared) = declared else {
        return Err(format!(
            "{found} bytes of data for shape {shape:?} of {dtype}"
        ));
    };
    Array::new(shape, dtype, fortran_order, data(reader, declared)?)
}

/// Reads the rest of the file, which must have `length` bytes.
fn data(reader: &mut dyn Read, length: usize) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    let reserved = data.try_reserve_exact(length);
    reserved.map_err(|_| format!("{length} bytes of data, more than the memory holds"))?;
    // One more byte detects surplus bytes. Without surplus, this read lets a decoder compare the check sum.
    let taken = reader.take(length as u64 + 1).read_to_end(&mut data);
    taken.map_err(|error| error.to_string())?;
    match data.len() {
        found if found == length => Ok(data),
        found => {
            let than = if found > length { "more" } else { "less" };
            Err(format!(
                "{than} than the {length} bytes of data that the header declares"
            ))
        }
    }
}

fn exactly(reader: &mut dyn Read, count: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let taken = reader.take(count as u64).read_to_end(&mut bytes);
    taken.map_err(|error| error.to_string())?;
    match bytes.len() {
        found if found == count => Ok(bytes),
        _ => Err("ends within the header".into()),
    }
}

/// Reads the header of a `.npy` file after its first four bytes.
fn npy_header(reader: &mut dyn Read) -> Result<Header, String> {
    let start = exactly(reader, 4)?;
    if start[..2] != MAGIC[4..] {
        return Err("not a complete .npy header".into());
    }
    let digits = exactly(reader, if start[2] == 1 { 2 } else { 4 })?;
    let length = digits.iter().rev();
    let length = length.fold(0, |value, &byte| value << 8 | usize::from(byte));
    if length > LONGEST_HEADER {
        return Err(format!(
            "a header of {length} bytes, expected at most {LONGEST_HEADER}"
        ));
    }
    let text = exactly(reader, length)?;
    let text = std::str::from_utf8(&text).map_err(|_| "not a .npy header of text")?;
    let descr = field(text, "descr")?;
    if descr.starts_with('[') {
        return Err(
            "an array of records, expected numbers: save each field as an array by itself".into(),
        );
    }
    let descr = between(descr, "'", "'").ok_or("no dtype in the header")?;
    let shape = parse_shape(field(text, "shape")?)?;
    let fortran_order = parse_order(field(text, "fortran_order")?)?;
    let dtype = parse_dtype(descr).ok_or_else(|| {
        format!("dtype {descr}, expected floats, integers or Booleans, as numpy.float32")
    })?;
    Ok(Header {
        length: 8 + digits.len() + length,
        shape,
        dtype,
        fortran_order,
    })
}

/// Reads the header of an IDX file after its first four bytes: the size of each dimension.
fn idx_header(reader: &mut dyn Read, dimensions: usize) -> Result<Header, String> {
    let sizes = exactly(reader, 4 * dimensions)?;
    let sizes = sizes.as_chunks::<4>().0.iter();
    let shape: Vec<usize> = sizes
        .map(|size| u32::from_be_bytes(*size) as usize)
        .collect();
    check_dimensions(dimensions)?;
    Ok(Header {
        length: 4 + 4 * dimensions,
        shape,
        dtype: Dtype::BYTE,
        fortran_order: false,
    })
}

fn check_dimensions(found: usize) -> Result<(), String> {
    match found {
        ..=MOST_DIMENSIONS => Ok(()),
        _ => Err(format!(
            "a shape of {found} dimensions, expected at most {MOST_DIMENSIONS}"
        )),
    }
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
    check_dimensions(sizes.clone().count())?;
    sizes
        .map(|size| size.parse().map_err(|_| format!("shape ({size})")))
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn two_images_of_one_by_three() {
        let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        let bytes = [&header[..], &[0, 128, 255, 127, 0, 200]].concat();
        let parse_idx = |bytes: &[u8]| read(&mut &bytes[..], bytes.len() as u64);
        let images = parse_idx(&bytes).unwrap();
        assert_eq!(images.shape(), [2, 1, 3]);
        assert!(images.values().eq([0.0, 128.0, 255.0, 127.0, 0.0, 200.0]));
        for length in 0..bytes.len() {
            assert!(parse_idx(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
