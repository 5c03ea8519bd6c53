//! A `.npz` archive: as it is, or an archive of entries taken from the input, whose check sums are right.
#![no_main]

use std::io::{Cursor, Write};

use annealed_fuzz::read_arrays;
use libfuzzer_sys::fuzz_target;
use zip::CompressionMethod::{Deflated, Stored};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const KEYS: [&str; 8] = ["W", "a", "b", "b_base", "log_z_exact", "chains", "W2", "a2"];

/// Entries of the input: for each a byte that chooses the key, two bytes of its length, and its bytes.
fn archive(mut rest: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    while let Some(([key, low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (entry, after) = after.split_at(length);
        let options = SimpleFileOptions::default().compression_method(method);
        // A key that is there already is refused.
        if zip
            .start_file(format!("{}.npy", KEYS[usize::from(key % 8)]), options)
            .is_ok()
        {
            zip.write_all(entry).expect("a list takes all");
        }
        rest = after;
    }
    zip.finish().expect("a list takes all").into_inner()
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = match kind % 3 {
        0 => [b"PK", rest.get(2..).unwrap_or_default()].concat(),
        1 => archive(rest, Stored),
        _ => archive(rest, Deflated),
    };
    // No entry is larger than deflate makes it; the allocator's limit holds for each.
    let declared = match kind % 3 {
        0 => 1_100 * file.len(),
        _ => rest.len(),
    };
    read_arrays(&file, declared);
});
