//! The `.npy` format, in which NumPy writes one array of numbers (NEP 1).

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array read from a file, whatever its precision there.
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) fortran_order: bool,
    /// The values in the order in which they are stored, which `fortran_order` tells.
    pub(super) values: Vec<f64>,
}

impl Array {
    /// Parses a file of 32- or 64-bit floats of either endianness, or of one of the `others`: dtypes of
    /// integers, bytes or Booleans. The error says what is wrong.
    pub(super) fn parse(bytes: &[u8], others: &[&str]) -> Result<Self, String> {
        let (header, data) = split_header(bytes).ok_or("not a complete .npy header")?;
        let descr = between(field(header, "descr")?, "'", "'").ok_or("no dtype in the header")?;
        let shape = parse_shape(field(header, "shape")?)?;
        let count = shape
            .iter()
            .try_fold(1_usize, |n, &size| n.checked_mul(size));
        let other = others.contains(&descr);
        let read: fn(&[u8]) -> f64 = match descr {
            "<f4" => |b| f64::from(f32::from_le_bytes(word(b))),
            ">f4" => |b| f64::from(f32::from_be_bytes(word(b))),
            "<f8" => |b| f64::from_le_bytes(word(b)),
            ">f8" => |b| f64::from_be_bytes(word(b)),
            "|b1" | "|u1" if other => |b| f64::from(b[0]),
            "<i4" if other => |b| f64::from(i32::from_le_bytes(word(b))),
            ">i4" if other => |b| f64::from(i32::from_be_bytes(word(b))),
            "<i8" if other => |b| i64::from_le_bytes(word(b)) as f64,
            ">i8" if other => |b| i64::from_be_bytes(word(b)) as f64,
            other => return Err(format!("dtype {other}, expected float32 or float64")),
        };
        let width = match descr.as_bytes() {
            [.., b'1'] => 1,
            [.., b'4'] => 4,
            _ => 8,
        };
        if count.and_then(|n| n.checked_mul(width)) != Some(data.len()) {
            let found = data.len();
            return Err(format!(
                "{found} bytes of data for shape {shape:?} of dtype {descr}"
            ));
        }
        Ok(Self {
            shape,
            fortran_order: parse_order(field(header, "fortran_order")?)?,
            values: data.chunks_exact(width).map(read).collect(),
        })
    }
}

/// A file of little-endian floats of `width` bytes in Fortran order.
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

/// What follows `'name':` in the header's dictionary.
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

/// The chunks that are passed in have exactly N bytes.
fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}
