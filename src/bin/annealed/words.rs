//! Errors in the words of the command line.

use std::fmt::Display;

/// The text of an error, with the option in the place of the library's argument.
pub fn of(error: impl Display) -> String {
    let text = error.to_string();
    text.replace(" block_size", " --block-size")
}
