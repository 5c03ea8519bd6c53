//! Types of numbers in files.

use std::fmt::{self, Display, Formatter};

/// A type of number, as its bytes lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dtype {
    pub(super) kind: Kind,
    /// Bytes of a number: 1, 2, 4 or 8.
    pub(super) width: usize,
    pub(super) big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Unsigned,
    Signed,
    Float,
    /// The upper half of a float of 32 bits, of which NumPy knows nothing.
    #[cfg_attr(not(feature = "safetensors"), allow(dead_code))]
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

    pub(super) fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Brain)
    }

    /// The number in `width` bytes.
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

/// A float of 16 bits (IEEE 754 binary16): 5 bits of exponent, 10 of fraction.
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

/// As NumPy and PyTorch name it.
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
            // From IEEE 754: one, the smallest normal and subnormal numbers, the largest number.
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
