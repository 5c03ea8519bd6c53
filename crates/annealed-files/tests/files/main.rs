//! Files of other programs, and every way in which a file can be wrong.

mod deep;
mod draws;
mod python_files;
mod rbm_files;
mod rust_files;
