//! Arrays of numbers read from files.

use std::fmt::{self, Display, Formatter};

/// An array. Its data has the length that its shape needs, and the last dimension runs fastest.
#[derive(Debug, Clone)]
pub(super) struct Array {
    shape: Vec<usize>,
    dtype: Dtype,
    data: Vec<u8>,
}

impl Array {
    /// Creates an array from `data`. If `fortran_order` is true, the first dimension of `data` runs fastest.
    pub(super) fn new(
        shape: Vec<usize>,
        dtype: Dtype,
        fortran_order: bool,
        data: Vec<u8>,
    ) -> Result<Self, String> {
        let length = dtype.bytes(&shape);
        if length != Some(data.len()) {
            let found = data.len();
            return Err(format!(
                "{found} bytes of data for shape {shape:?} of {dtype}"
            ));
        }
        let data = match fortran_order && shape.len() > 1 {
            true => last_dimension_fastest(&shape, dtype.width, &data),
            false => data,
        };
        Ok(Self { shape, dtype, data })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the numbers; the last dimension runs fastest.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let words = self.data.chunks_exact(self.dtype.width);
        words.map(|word| self.dtype.number(word))
    }

    /// Returns the row of the number at `place`, counted from 0.
    pub(super) fn row_of(&self, place: usize) -> usize {
        let rows = self.shape.first().copied().unwrap_or(1).max(1);
        place / (self.values().count() / rows).max(1)
    }

    /// Refuses an array of so many narrow rows that a vector for each row would take far more memory than the array.
    pub(super) fn check_rows(&self) -> Result<(), String> {
        let (count, rest) = self.shape.split_first().unwrap_or((&0, &[]));
        let units: usize = rest.iter().product();
        if *count > MOST_NARROW_ROWS && units < NARROW {
            return Err(format!(
                "{count} rows of {units}, expected at most {MOST_NARROW_ROWS} rows of fewer than {NARROW}"
            ));
        }
        Ok(())
    }

    /// Returns one flattened row per index of the first dimension. Refuses an array without rows of numbers.
    pub(super) fn rows(&self) -> Result<impl Iterator<Item = impl Iterator<Item = f64>>, String> {
        let shape = &self.shape;
        let (true, Some(&count @ 1..)) = (shape.len() > 1 && !self.data.is_empty(), shape.first())
        else {
            return Err(format!("shape {shape:?}, expected rows of numbers (N, D)"));
        };
        self.check_rows()?;
        let rows = self.data.chunks_exact(self.data.len() / count);
        Ok(rows.map(|row| {
            let words = row.chunks_exact(self.dtype.width);
            words.map(|word| self.dtype.number(word))
        }))
    }
}

/// Rows with fewer units than this are narrow. The vector of a row takes 24 bytes in addition to its units.
const NARROW: usize = 16;

const MOST_NARROW_ROWS: usize = 1 << 20;

fn last_dimension_fastest(shape: &[usize], width: usize, data: &[u8]) -> Vec<u8> {
    let mut reordered = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    while reordered.len() < data.len() {
        let places = index.iter().zip(shape).rev();
        let place = places.fold(0, |place, (i, size)| place * size + i);
        reordered.extend_from_slice(&data[place * width..][..width]);
        for (i, size) in index.iter_mut().zip(shape).rev() {
            *i = (*i + 1) % size;
            if *i > 0 {
                break;
            }
        }
    }
    reordered
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dtype {
    pub(super) kind: Kind,
    /// Bytes per number: 1, 2, 4 or 8.
    pub(super) width: usize,
    pub(super) big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Unsigned,
    Signed,
    Float,
    /// The upper half of a 32-bit float (bfloat16), which NumPy lacks.
    Brain,
}

impl Dtype {
    pub(super) const BYTE: Self = Self::little(Kind::Unsigned, 1);

    pub(super) const fn little(kind: Kind, width: usize) -> Self {
        Self {
            kind,
            width,
            big_endian: false,
        }
    }

    /// Returns the number of bytes of an array with this shape, or `None` if the number overflows.
    pub(super) fn bytes(self, shape: &[usize]) -> Option<usize> {
        let mut sizes = shape.iter();
        sizes.try_fold(self.width, |n, &size| n.checked_mul(size))
    }

    pub(super) fn number(self, bytes: &[u8]) -> f64 {
        let join = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        let word = match self.big_endian {
            true => bytes.iter().fold(0, join),
            false => bytes.iter().rev().fold(0, join),
        };
        match (self.kind, self.width) {
            (Kind::Boolean | Kind::Unsigned, _) => word as f64,
            (Kind::Signed, 1) => f64::from(word as i8),
            (Kind::Signed, 2) => f64::from(word as i16),
            (Kind::Signed, 4) => f64::from(word as i32),
            (Kind::Signed, _) => word as i64 as f64,
            (Kind::Float, 2) => half(word as u16),
            (Kind::Float, 4) => f64::from(f32::from_bits(word as u32)),
            (Kind::Float, _) => f64::from_bits(word),
            (Kind::Brain, _) => f64::from(f32::from_bits((word as u32) << 16)),
        }
    }
}

/// Decodes an IEEE 754 binary16 float (5 exponent bits, 10 fraction bits).
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}

impl Display for Dtype {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bits = 8 * self.width;
        match self.kind {
            Kind::Boolean => f.write_str("bool"),
            Kind::Unsigned => write!(f, "uint{bits}"),
            Kind::Signed => write!(f, "int{bits}"),
            Kind::Float => write!(f, "float{bits}"),
            Kind::Brain => f.write_str("bfloat16"),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_array_in_fortran_order() {
        // numpy.arange(12).reshape(2, 3, 2).ravel("F")
        let data = vec![0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11];
        let array = Array::new(vec![2, 3, 2], Dtype::BYTE, true, data).unwrap();
        assert!(array.values().eq((0..12).map(f64::from)));
        let rows: Vec<Vec<f64>> = array.rows().unwrap().map(Iterator::collect).collect();
        assert_eq!(rows[1], [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape() {
        for shape in [vec![], vec![3, 2], vec![usize::MAX, 2], vec![0, usize::MAX]] {
            let array = Array::new(shape.clone(), Dtype::BYTE, true, vec![0; 5]);
            assert!(array.unwrap_err().contains("5 bytes"), "{shape:?}");
        }
        for shape in [vec![], vec![1], vec![1, 0], vec![0, 1]] {
            let data = vec![0; shape.iter().product()];
            let array = Array::new(shape.clone(), Dtype::BYTE, false, data).unwrap();
            assert!(array.rows().is_err(), "{shape:?}");
        }
    }

    fn big(kind: Kind, bytes: &[u8]) -> f64 {
        let dtype = Dtype {
            big_endian: true,
            ..Dtype::little(kind, bytes.len())
        };
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        let number = dtype.number(bytes);
        let little = Dtype::little(kind, bytes.len()).number(&reversed);
        assert!(number == little || number.is_nan() && little.is_nan());
        number
    }

    #[test]
    fn numbers_of_every_type() {
        for (kind, bytes, expected) in [
            (Kind::Boolean, &[1][..], 1.0),
            (Kind::Unsigned, &[255], 255.0),
            (Kind::Unsigned, &[1, 2], 258.0),
            (Kind::Signed, &[0xff], -1.0),
            (Kind::Signed, &[0xff, 0xfe], -2.0),
            (Kind::Signed, &[0xff, 0xff, 0xff, 0xfd], -3.0),
            (Kind::Signed, &(-4_i64).to_be_bytes(), -4.0),
            (Kind::Float, &0.1_f32.to_be_bytes(), f64::from(0.1_f32)),
            (Kind::Float, &0.1_f64.to_be_bytes(), 0.1),
            (Kind::Brain, &[0xbf, 0xc0], -1.5),
            // Half precision: 1, -2, the smallest normal and subnormal numbers, the largest number, -infinity.
            (Kind::Float, &[0x3c, 0x00], 1.0),
            (Kind::Float, &[0xc0, 0x00], -2.0),
            (Kind::Float, &[0x04, 0x00], 2_f64.powi(-14)),
            (Kind::Float, &[0x00, 0x01], 2_f64.powi(-24)),
            (Kind::Float, &[0x7b, 0xff], 65504.0),
            (Kind::Float, &[0xfc, 0x00], f64::NEG_INFINITY),
        ] {
            assert_eq!(big(kind, bytes), expected, "{kind:?} {bytes:?}");
        }
        assert!(big(Kind::Float, &[0x7e, 0x00]).is_nan());
    }
}
