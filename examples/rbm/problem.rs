//! The RBM at hand, and the path to it.

use std::path::PathBuf;
use std::time::Instant;

use annealed::rbm::{
    BaseRate, ContrastiveDivergence, ExactMatching, MAX_ENUMERATED_UNITS, MomentChains,
    PersistentMatching, Rbm, RbmFile, RbmLayout, RbmPath,
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
    /// How the RBM came about, and how data were read.
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

/// Reads the RBM of a file, and the data that the options name.
pub fn read(path: &PathBuf, options: &Options) -> Result<Problem> {
    let file = RbmFile::read_as(path, &layout(options)?)?;
    let (hidden, visible) = (file.rbm.hidden_units(), file.rbm.visible_units());
    let mut note = String::new();
    let base = match (options.base, &options.base_data, file.base) {
        (Base::Uniform, _, _) => BaseRate::uniform(hidden, visible)?,
        (Base::DataRate, Some(source), _) => {
            let (training, read) = source.read(options.data_layout(), &file.rbm)?;
            note += &read;
            BaseRate::from_data(hidden, &training, 1.0)?
        }
        (Base::DataRate, None, Some(base)) => base,
        (Base::DataRate, None, None) => {
            let reason = "has no base rates to start from; expected --base-data with a file of training data, the key \
                          b_base (D), or --base uniform, which needs more stages";
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
        note,
    })
}

/// Where the file has the parameters.
fn layout(options: &Options) -> Result<RbmLayout> {
    let layout = match options.square_transposed {
        true => RbmLayout::default().square_transposed(),
        false => RbmLayout::default(),
    };
    match options.names.as_slice() {
        [] => Ok(layout),
        [w, a, b] => Ok(layout.weights(w).hidden_bias(a).visible_bias(b)),
        names => Err(Error::invalid("--names", names.join(","), "three names")),
    }
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
