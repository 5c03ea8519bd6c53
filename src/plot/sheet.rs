//! Sheets of small black-and-white images.

use std::fmt::Write;
use std::path::Path;

use crate::{Error, Result};

/// Pixels of the drawing for a pixel of an image.
const SCALE: usize = 3;
const GAP: usize = 6;
const LABEL_HEIGHT: usize = 16;

/// Black-and-white images in labelled rows, as SVG: the states of an RBM along a run.
///
/// ```
/// use annealed::plot::ImageSheet;
///
/// let digits = annealed::data::digits().images;
/// let svg = ImageSheet::new(8)?.row("digits", &digits[..10])?.to_svg();
/// assert_eq!(svg.matches("<path").count(), 10);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct ImageSheet {
    width: usize,
    rows: Vec<(String, Vec<Vec<bool>>)>,
}

impl ImageSheet {
    /// For images of `width` pixels a row.
    ///
    /// # Errors
    /// A width of 0.
    pub fn new(width: usize) -> Result<Self> {
        Error::check_at_least("width", width, 1)?;
        let rows = Vec::new();
        Ok(Self { width, rows })
    }

    /// Adds a row of images, pixels row by row from the top, true black.
    ///
    /// # Errors
    /// An image without pixels, or whose last row is not full.
    pub fn row(mut self, label: &str, images: &[Vec<bool>]) -> Result<Self> {
        for image in images {
            if image.is_empty() || image.len() % self.width != 0 {
                return Err(Error::invalid(
                    "image",
                    format!("{} pixels", image.len()),
                    format!("whole rows of {}", self.width),
                ));
            }
        }
        self.rows.push((label.into(), images.to_vec()));
        Ok(self)
    }

    /// The sheet as an SVG document.
    pub fn to_svg(&self) -> String {
        let mut drawn = String::new();
        let (mut y, mut right) = (GAP, GAP);
        for (label, images) in &self.rows {
            if !label.is_empty() {
                y += LABEL_HEIGHT;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(
                drawn,
                "<text x=\"{GAP}\" y=\"{}\">{}</text>",
                y - 4,
                escaped(label)
            );
            for (index, image) in images.iter().enumerate() {
                let x = GAP + index * (self.width * SCALE + GAP);
                let _ = writeln!(drawn, "{}", self.drawn(image, x, y));
                right = right.max(x + self.width * SCALE + GAP);
            }
            let height = images.iter().map(|image| image.len() / self.width).max();
            y += height.unwrap_or(0) * SCALE + GAP;
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{right}\" height=\"{y}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{drawn}</svg>\n"
        )
    }

    /// Writes the sheet to an SVG file.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::write(path.as_ref(), &self.to_svg())
    }

    /// One image with a frame: a path of one box for each run of black pixels in a row.
    fn drawn(&self, image: &[bool], x: usize, y: usize) -> String {
        let height = image.len() / self.width;
        let mut boxes = String::new();
        for (line, pixels) in image.chunks(self.width).enumerate() {
            let mut start = 0;
            for run in pixels.chunk_by(|a, b| a == b) {
                if run[0] {
                    let _ = write!(boxes, "M{start} {line}h{}v1h-{}z", run.len(), run.len());
                }
                start += run.len();
            }
        }
        format!(
            "<g transform=\"translate({x} {y}) scale({SCALE})\"><rect width=\"{}\" \
             height=\"{height}\" fill=\"none\" stroke=\"#bbb\" stroke-width=\".2\"/>\
             <path d=\"{boxes}\"/></g>",
            self.width
        )
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_black_pixels_become_boxes() {
        let image = [0, 1, 1, 1, 0, 1].map(|bit| bit == 1).to_vec();
        let sheet = ImageSheet::new(3).unwrap().row("a < b", &[image]).unwrap();
        let svg = sheet.to_svg();
        assert!(
            svg.contains("d=\"M1 0h2v1h-2zM0 1h1v1h-1zM2 1h1v1h-1z\""),
            "{svg}"
        );
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn ragged_images_are_refused() {
        assert!(ImageSheet::new(0).is_err());
        let sheet = ImageSheet::new(3).unwrap();
        assert!(sheet.clone().row("", &[vec![true; 4]]).is_err());
        assert!(sheet.row("", &[vec![]]).is_err());
    }
}
