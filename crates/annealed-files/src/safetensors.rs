//! The `.safetensors` format, in which PyTorch, candle and burn save weights.

use safetensors::Dtype as Type;
use safetensors::tensor::Metadata;

use crate::array::{Array, Dtype, Kind};

/// A whole file with a valid header.
pub(super) struct Safetensors {
    metadata: Metadata,
    bytes: Vec<u8>,
    /// Place of the first tensor in `bytes`.
    start: usize,
}

/// Longest header. A header for 10,000 tensors is shorter; in memory a header takes several times its bytes.
const LONGEST_HEADER: usize = 1 << 20;

impl Safetensors {
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let start = start(&bytes).ok_or("not a whole .safetensors file")?;
        if start > LONGEST_HEADER {
            return Err(format!(
                "a header of {start} bytes, expected at most {LONGEST_HEADER}"
            ));
        }
        // The crate's own function for whole files adds sizes without a check.
        let metadata: Metadata = serde_json::from_slice(&bytes[8..start])
            .map_err(|error| format!("not a .safetensors header: {error}"))?;
        let (found, declared) = (bytes.len() - start, metadata.data_len());
        match found == declared {
            true => Ok(Self {
                metadata,
                bytes,
                start,
            }),
            false => Err(format!(
                "{found} bytes of data, not a whole .safetensors file: its header declares {declared}"
            )),
        }
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let mut names = self.metadata.offset_keys();
        names.sort();
        names
    }

    /// Returns the library that wrote the file, if the file names it.
    pub(super) fn producer(&self) -> Option<&str> {
        let said = self.metadata.metadata().as_ref()?.get("producer")?;
        Some(said)
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Array>, String> {
        let Some(tensor) = self.metadata.info(key) else {
            return Ok(None);
        };
        let (kind, width) = match tensor.dtype {
            Type::BOOL => (Kind::Boolean, 1),
            Type::U8 => (Kind::Unsigned, 1),
            Type::U16 => (Kind::Unsigned, 2),
            Type::U32 => (Kind::Unsigned, 4),
            Type::U64 => (Kind::Unsigned, 8),
            Type::I8 => (Kind::Signed, 1),
            Type::I16 => (Kind::Signed, 2),
            Type::I32 => (Kind::Signed, 4),
            Type::I64 => (Kind::Signed, 8),
            Type::F16 => (Kind::Float, 2),
            Type::F32 => (Kind::Float, 4),
            Type::F64 => (Kind::Float, 8),
            Type::BF16 => (Kind::Brain, 2),
            other => return Err(format!("dtype {other:?}, expected float16 to float64")),
        };
        let (begin, end) = tensor.data_offsets;
        let data = self.bytes[self.start..][begin..end].to_vec();
        let (shape, dtype) = (tensor.shape.clone(), Dtype::little(kind, width));
        Array::new(shape, dtype, false, data).map(Some)
    }
}

/// Returns true if a file begins with a header length and a brace, as `.safetensors` files do.
pub(super) fn begins(bytes: &[u8]) -> bool {
    start(bytes).is_some() && bytes[8..].starts_with(b"{")
}

/// Returns the place of the first tensor, or `None` if the header is incomplete.
fn start(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then(|| 8 + length)
}
