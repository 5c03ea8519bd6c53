//! An IDX file of bytes. The magic bytes are given.
#![no_main]

use annealed_fuzz::read_arrays;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    read_arrays(&[&[0, 0, 8], data.get(3..).unwrap_or_default()].concat(), 0);
});
