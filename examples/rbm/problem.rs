//! The RBM at hand, and the path to it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use annealed::rbm::{
    BaseRate, ContrastiveDivergence, ExactMatching, IdxArray, MAX_ENUMERATED_UNITS, MomentChains,
    PersistentMatching, Rbm, RbmFile, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result, data};

use crate::options::{Base, Matching, Options, PathKind};

/// An RBM, where to start from, and what is known of it.
pub struct Problem {
    pub rbm: Rbm,
    pub base: BaseRate,
    pub log_z_exact: Option<f64>,
    pub held_out: Vec<Vec<bool>>,
    /// How the RBM came about.
    pub note: String,
}

pub fn anneal_along(options: &Options, problem: &Problem) -> Result<RbmPath> {
    let (base, rbm) = (problem.base.clone(), problem.rbm.clone());
    if options.path == PathKind::Geometric {
        return RbmPath::new(base, rbm);
    }
    let knots = Schedule::linear(10)?;
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    let default = match smaller {
        0..=20 => Matching::Exact,
        _ => Matching::Chains,
    };
    match options.matching.unwrap_or(default) {
        Matching::Exact => {
            let moments = rbm.exact_moments()?;
            RbmPath::moment_spline(base, rbm, &moments, knots, &ExactMatching::default())
        }
        Matching::Chains => {
            let chains = MomentChains::full().chains(200).sweeps(1_000).burn_in(300);
            let moments = chains.seed(options.seed).moments(&rbm)?;
            let matching = PersistentMatching::full().updates(5_000).seed(options.seed);
            RbmPath::moment_spline(base, rbm, &moments, knots, &matching)
        }
    }
}

/// The images of an IDX file, for an RBM of that many visible units.
pub fn images(file: &Path, visible_units: usize) -> Result<Vec<Vec<bool>>> {
    let images = IdxArray::read(file)?.binarize(128);
    match images.first() {
        Some(image) if image.len() == visible_units => Ok(images),
        other => {
            let pixels = other.map_or(0, Vec::len);
            let reason = format!(
                "has images of {pixels} pixels, expected {visible_units}, the visible units of the RBM"
            );
            Err(Error::file(file, reason))
        }
    }
}

/// Reads the RBM of a file.
pub fn read(path: &PathBuf, options: &Options) -> Result<Problem> {
    let file = RbmFile::read(path)?;
    let (hidden, visible) = (file.rbm.hidden_units(), file.rbm.visible_units());
    let base = match (options.base, file.base) {
        (Base::Uniform, _) => BaseRate::uniform(hidden, visible)?,
        (Base::DataRate, Some(base)) => base,
        (Base::DataRate, None) => {
            let reason = "has no b_base, which --base data-rate starts from; expected the key \
                          b_base (D), or --base uniform";
            return Err(Error::file(path, reason));
        }
    };
    let log_z_exact = if options.exact {
        enumerate(&file.rbm)?
    } else {
        file.log_z_exact
    };
    Ok(Problem {
        rbm: file.rbm,
        base,
        log_z_exact,
        held_out: Vec::new(),
        note: String::new(),
    })
}

/// The exact log Z, or `None` where no layer is small enough.
fn enumerate(rbm: &Rbm) -> Result<Option<f64>> {
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    if smaller > MAX_ENUMERATED_UNITS {
        eprintln!("{smaller} units in the smaller layer are too many to enumerate");
        return Ok(None);
    }
    rbm.exact_log_normalizer().map(Some)
}

/// Trains an RBM on four fifths of the digits and enumerates it.
pub fn train(options: &Options) -> Result<Problem> {
    let digits = data::digits().images;
    let (held_out, training): (Vec<_>, Vec<_>) = digits
        .into_iter()
        .enumerate()
        .partition(|(index, _)| index % 5 == 0);
    let images = |rows: Vec<(usize, Vec<bool>)>| -> Vec<Vec<bool>> {
        rows.into_iter().map(|(_, image)| image).collect()
    };
    let (held_out, training) = (images(held_out), images(training));

    eprintln!("training an RBM on {} digits", training.len());
    let begun = Instant::now();
    let start = Rbm::from_data(20, &training, options.seed)?;
    let trained = ContrastiveDivergence::new(1)
        .persistent(true)
        .epochs(200)
        .learning_rate(0.05, 0.0)
        .seed(options.seed)
        .train(start, &training)?;
    let note = format!(
        "trained an RBM, 64 visible and 20 hidden units, on {} handwritten digits in {:.1} s\n",
        training.len(),
        begun.elapsed().as_secs_f64()
    );
    let base = match options.base {
        Base::DataRate => BaseRate::from_data(20, &training, 1.0)?,
        Base::Uniform => BaseRate::uniform(20, 64)?,
    };
    Ok(Problem {
        log_z_exact: enumerate(&trained.rbm)?,
        rbm: trained.rbm,
        base,
        held_out,
        note,
    })
}
