//! A `.safetensors` file: as it is, or with the length of its header set right.
#![no_main]

use annealed_fuzz::read_arrays;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = match (kind % 2, rest.iter().position(|byte| *byte == 0)) {
        (0, _) => rest.to_vec(),
        // A header that ends at the first 0, as none holds.
        (_, end) => {
            let (header, data) = rest.split_at(end.unwrap_or(rest.len()));
            let length = (header.len() as u64).to_le_bytes();
            [&length, header, data.get(1..).unwrap_or_default()].concat()
        }
    };
    read_arrays(&file, 0);
});
