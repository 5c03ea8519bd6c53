//! Small black-and-white images in labelled rows, as SVG: the states of an RBM along a run.

use std::fmt::Write;

const SCALE: usize = 3;
const GAP: usize = 6;
const LABEL_HEIGHT: usize = 16;

/// A label and its images. Pixels are stored row by row from the top, and true is black.
pub type Row = (String, Vec<Vec<bool>>);

/// Draws the sheet as an SVG document, for images of `width` pixels a row.
///
/// # Panics
/// If an image has no pixels, or its last row is not full.
pub fn image_sheet(width: usize, rows: &[Row]) -> String {
    let mut drawn = String::new();
    let (mut y, mut right) = (GAP, GAP);
    for (label, images) in rows {
        if !label.is_empty() {
            y += LABEL_HEIGHT;
        }
        let label = label.replace('&', "&amp;").replace('<', "&lt;");
        drawn += &format!("<text x=\"{GAP}\" y=\"{}\">{label}</text>\n", y - 4);
        for (index, image) in images.iter().enumerate() {
            let x = GAP + index * (width * SCALE + GAP);
            drawn += &format!("{}\n", framed(image, width, x, y));
            right = right.max(x + width * SCALE + GAP);
        }
        let height = images.iter().map(|image| image.len() / width).max();
        y += height.unwrap_or(0) * SCALE + GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{right}\" height=\"{y}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{drawn}</svg>\n"
    )
}

/// Draws one image with a frame; each run of black pixels in a row is a box.
fn framed(image: &[bool], width: usize, x: usize, y: usize) -> String {
    assert!(
        !image.is_empty() && image.len().is_multiple_of(width),
        "an image of {} pixels, expected whole rows of {width}",
        image.len()
    );
    let mut boxes = String::new();
    for (line, pixels) in image.chunks(width).enumerate() {
        let mut start = 0;
        for run in pixels.chunk_by(|a, b| a == b) {
            if run[0] {
                // Writing to a string cannot fail.
                let _ = write!(boxes, "M{start} {line}h{}v1h-{}z", run.len(), run.len());
            }
            start += run.len();
        }
    }
    format!(
        "<g transform=\"translate({x} {y}) scale({SCALE})\"><rect width=\"{width}\" \
         height=\"{}\" fill=\"none\" stroke=\"#bbb\" stroke-width=\".2\"/>\
         <path d=\"{boxes}\"/></g>",
        image.len() / width
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_black_pixels_become_boxes() {
        let image = [0, 1, 1, 1, 0, 1].map(|bit| bit == 1).to_vec();
        let svg = image_sheet(3, &[("a < b".into(), vec![image])]);
        assert!(
            svg.contains("d=\"M1 0h2v1h-2zM0 1h1v1h-1zM2 1h1v1h-1z\""),
            "{svg}"
        );
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    #[should_panic = "an image of 4 pixels, expected whole rows of 3"]
    fn ragged_images_are_refused() {
        image_sheet(3, &[(String::new(), vec![vec![true; 4]])]);
    }
}
