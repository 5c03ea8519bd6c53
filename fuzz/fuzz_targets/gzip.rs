//! A gzip file: as it is, or the gzip file of the input, whose check sum is right.
#![no_main]

use std::io::Write;

use annealed_fuzz::read_arrays;
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = match kind % 2 {
        0 => [&[0x1f, 0x8b], rest.get(2..).unwrap_or_default()].concat(),
        _ => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(rest).expect("a list takes all");
            encoder.finish().expect("a list takes all")
        }
    };
    let size = file
        .last_chunk()
        .map_or(0, |size| u32::from_le_bytes(*size));
    read_arrays(&file, (size as usize).min(1_100 * file.len()));
});
