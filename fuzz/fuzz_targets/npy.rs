//! One NumPy array. The magic bytes are given, so that no input is of another format.
#![no_main]

use annealed_fuzz::read_arrays;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    read_arrays(
        &[b"\x93NUMPY", data.get(6..).unwrap_or_default()].concat(),
        0,
    );
});
