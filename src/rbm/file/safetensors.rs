//! The `.safetensors` format, in which PyTorch, candle and burn save weights.

use safetensors::{Dtype as Type, SafeTensors};

use crate::rbm::file::array::{Array, Dtype, Kind};

/// A whole file with a valid header.
pub(super) struct Safetensors(Vec<u8>);

impl Safetensors {
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        tensors(&bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let names = tensors(&self.0).map(|tensors| tensors.tensors());
        let mut names: Vec<_> = names.into_iter().flatten().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// Returns the library that wrote the file, where it says so.
    pub(super) fn producer(&self) -> Option<String> {
        let (_, header) = SafeTensors::read_metadata(&self.0).ok()?;
        header.metadata().as_ref()?.get("producer").cloned()
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Array>, String> {
        let tensors = tensors(&self.0)?;
        let Ok(tensor) = tensors.tensor(key) else {
            return Ok(None);
        };
        let (kind, width) = match tensor.dtype() {
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
        let (shape, data) = (tensor.shape().to_vec(), tensor.data().to_vec());
        Array::new(shape, Dtype::little(kind, width), false, data).map(Some)
    }
}

/// Returns whether a file begins with a header length and a brace, as `.safetensors` files do.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return false;
    };
    u64::from_le_bytes(*length) <= rest.len() as u64 && rest.starts_with(b"{")
}

fn tensors(bytes: &[u8]) -> Result<SafeTensors<'_>, String> {
    SafeTensors::deserialize(bytes).map_err(|e| format!("not a whole .safetensors file: {e}"))
}
