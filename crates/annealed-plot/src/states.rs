//! The picture of many states: their free energies, and the overlap matrix.

use std::fmt::Write;
use std::path::Path;

use annealed::estimate::{LogZ, Mbar};
use annealed::{Error, Result};

use crate::frame::WIDTH;
use crate::text::write_text;
use crate::{Chart, Drawing, write};

/// Side of the overlap matrix.
const SIDE: f64 = 440.0;
/// Room above and to the left of the matrix, for title and names.
const ROOM: f64 = 60.0;
/// Largest number of states whose overlaps are written as numbers.
const MOST_NUMBERS: usize = 16;

/// Draws many states to an SVG file: the free energy of each in kT, less that of the first one, with its 95% interval; and
/// the overlap matrix, whose rows sum to 1: the shares of the draws of each state (column) in the weights of each state (row).
///
/// ```
/// use annealed::estimate::{Dependence, Mbar};
/// use annealed::nalgebra::DMatrix;
///
/// let x = [-1.1_f64, 0.2, 0.9, -0.6, 0.1, 0.4];
/// let u_kn = DMatrix::from_fn(2, 6, |k, n| [0.5, 2.0][k] * x[n] * x[n]);
/// let found = Mbar::from_reduced_potentials(&u_kn, &[3, 3], Dependence::Independent)?;
/// # let file = std::env::temp_dir().join("annealed-states.svg");
/// annealed_plot::states(&found, &["soft", "stiff"], &file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// Another number of names than of states; [`Error::File`](annealed::Error::File) if the file cannot be written.
pub fn states(found: &Mbar, names: &[impl AsRef<str>], path: impl AsRef<Path>) -> Result<()> {
    let names = Vec::from_iter(names.iter().map(AsRef::as_ref));
    write(path.as_ref(), &picture(found, &names)?.document())
}

fn picture(found: &Mbar, names: &[&str]) -> Result<Drawing> {
    if names.len() != found.overlap_matrix().nrows() {
        let (found, expected) = (names.len(), found.overlap_matrix().nrows());
        return Err(Error::DimensionMismatch {
            argument: "names",
            found,
            expected,
        });
    }
    let mut column = Drawing::empty(WIDTH);
    column.add_row(&[energies(found)?.drawing()?]);
    column.add_row(&[overlaps(found, names)]);
    Ok(column)
}

fn energies(found: &Mbar) -> Result<Chart> {
    let point = |state: usize| {
        let log_z = found.difference(state, 0)?;
        let (lower, upper) = log_z.interval();
        Ok((state as f64, 0.0 - log_z.log_z(), (-upper, -lower)))
    };
    let points = (0..found.overlap_matrix().nrows())
        .map(point)
        .collect::<Result<Vec<_>>>()?;
    let title = "Free energies, less that of the first state, with 95% intervals";
    Ok(Chart::new(title, "state", "F / kT").line_with_errors("", points))
}

fn overlaps(found: &Mbar, names: &[&str]) -> Drawing {
    let (overlap, states) = (found.overlap_matrix(), names.len());
    let (cell, mut svg) = (SIDE / states as f64, String::new());
    write_text(
        &mut svg,
        (WIDTH / 2.0, 20.0),
        "middle",
        " font-size=\"14\"",
        "Overlap matrix",
    );
    let left = (WIDTH - SIDE) / 2.0;
    // Names that would cover each other are left out.
    let shown = |state: &usize| state.is_multiple_of(states / 40 + 1);
    for state in (0..states).filter(shown) {
        let middle = (state as f64 + 0.5) * cell;
        write_text(
            &mut svg,
            (left - 8.0, ROOM + middle + 4.0),
            "end",
            "",
            names[state],
        );
        let (x, y) = (left + middle, ROOM - 8.0);
        let turned = format!(" transform=\"rotate(-30 {x:.2} {y:.2})\"");
        write_text(&mut svg, (x, y), "start", &turned, names[state]);
    }
    for row in 0..states {
        for column in 0..states {
            let share = overlap[(row, column)].clamp(0.0, 1.0);
            let (x, y) = (left + column as f64 * cell, ROOM + row as f64 * cell);
            // The root makes small shares visible.
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{cell:.2}\" height=\"{cell:.2}\" fill=\"#1f5fa8\" \
                 fill-opacity=\"{:.3}\" stroke=\"#ddd\"/>",
                share.sqrt()
            );
            if states <= MOST_NUMBERS && share >= 0.005 {
                let fill = if share > 0.25 { " fill=\"white\"" } else { "" };
                let centre = (x + cell / 2.0, y + cell / 2.0 + 4.0);
                write_text(&mut svg, centre, "middle", fill, &format!("{share:.2}"));
            }
        }
    }
    Drawing {
        svg,
        width: WIDTH,
        height: ROOM + SIDE + 20.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use annealed::estimate::Dependence;
    use annealed::nalgebra::DMatrix;

    #[test]
    fn each_state_has_a_point_and_a_row() {
        let x = [-1.1_f64, 0.2, 0.9, -0.6, 0.1, 0.4, 0.3, -0.2, 0.05];
        let u_kn = DMatrix::from_fn(3, 9, |k, n| [0.5, 1.0, 2.0][k] * x[n] * x[n]);
        let found =
            Mbar::from_reduced_potentials(&u_kn, &[3, 3, 3], Dependence::Independent).unwrap();
        let svg = picture(&found, &["soft", "a < b", "stiff"])
            .unwrap()
            .document();
        assert_eq!(svg.matches("fill-opacity").count(), 9);
        for text in [">soft<", ">a &lt; b<", "Overlap matrix", "F / kT"] {
            assert!(svg.contains(text), "{text}");
        }
        for row in found.overlap_matrix().row_iter() {
            assert!(svg.contains(&format!(">{:.2}<", row[0])));
        }
        assert!(states(&found, &["one"], "states.svg").is_err());
    }
}
