//! A data set of handwritten digits, embedded in the crate.

/// Packed images of nine bytes each: bit `i % 8` of byte `i / 8` is pixel i of 64, and the last byte is the label.
const PACKED: &[u8] = include_bytes!("data/digits.bin");

/// 1,797 handwritten digits of 8 x 8 pixels in black and white, with their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digits {
    /// Images of 64 pixels, row by row from the top; true is ink.
    pub images: Vec<Vec<bool>>,
    /// Labels 0 to 9.
    pub labels: Vec<u8>,
}

/// Returns the test digits of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
/// Learning Repository, 1998, <https://doi.org/10.24432/C50P49>, licensed under CC BY 4.0. A pixel is ink if its grey
/// level was at least 8 of 16.
///
/// ```
/// let digits = annealed::data::digits();
/// assert_eq!(digits.images.len(), 1_797);
/// for row in digits.images[0].chunks(8) {
///     println!("{}", row.iter().map(|&ink| if ink { '#' } else { '.' }).collect::<String>());
/// }
/// ```
pub fn digits() -> Digits {
    let records = PACKED.as_chunks::<9>().0;
    let pixels = |record: &[u8; 9]| (0..64).map(|i| record[i / 8] >> (i % 8) & 1 == 1).collect();
    Digits {
        images: records.iter().map(pixels).collect(),
        labels: records.iter().map(|record| record[8]).collect(),
    }
}
