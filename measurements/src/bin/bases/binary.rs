//! RBMs of 0/1 units.

use std::path::Path;
use std::time::Instant;

use annealed::Result;
use annealed::data::digits;
use annealed::model::NormalizedModel;
use annealed::rbm::{
    BaseRate, BlockGibbs, ContrastiveDivergence, MAX_ENUMERATED_UNITS, MomentChains, Rbm, RbmPath,
};
use annealed_files::RbmFile;

use crate::{Options, print_header, print_rows};

const STARTS: usize = 16;
/// Chains and sweeps of the base from Gibbs chains; the last half is averaged.
const CHAINS: usize = 100;
const SWEEPS: usize = 100;
/// Smoothing of the probabilities from Gibbs chains or enumeration.
const SMOOTHING: f64 = 1e-3;

pub fn compare_on_digits(options: &Options) -> Result<()> {
    let images = digits().images;
    let trained = ContrastiveDivergence::new(1)
        .persistent(true)
        .epochs(30)
        .train(Rbm::from_data(16, &images, 0)?, &images)?;
    let base = BaseRate::from_data(16, &images, 1.0)?;
    let exact = trained.rbm.exact_log_normalizer()?;
    compare("digits", &trained.rbm, Some(base), Some(exact), options)
}

pub fn compare_on_file(file: &Path, options: &Options) -> Result<()> {
    let RbmFile {
        rbm,
        base,
        log_z_exact,
        ..
    } = RbmFile::read(file)?;
    compare(
        &file.display().to_string(),
        &rbm,
        base,
        log_z_exact,
        options,
    )
}

fn compare(
    name: &str,
    rbm: &Rbm,
    data: Option<BaseRate>,
    exact: Option<f64>,
    options: &Options,
) -> Result<()> {
    let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
    println!("\n{name}: {hidden} x {visible} units, log Z = {exact:?}");
    let mut bases = vec![("fair coins", BaseRate::uniform(hidden, visible)?)];
    bases.extend(data.map(|base| ("base rates", base)));
    let one = timed("one mean field", || BaseRate::mean_field(rbm, 1, 0))?;
    bases.push(("one mean field", one));
    let mean = timed("mean fields", || BaseRate::mean_field(rbm, STARTS, 0))?;
    bases.push(("mean fields", mean));
    let chains = MomentChains::full().chains(CHAINS).sweeps(SWEEPS);
    let gibbs = timed("Gibbs chains", || {
        let moments = chains.burn_in(SWEEPS / 2).moments(rbm)?;
        BaseRate::from_moments(&moments, SMOOTHING)
    })?;
    bases.push(("Gibbs chains", gibbs));
    if hidden.min(visible) <= MAX_ENUMERATED_UNITS {
        let moments = rbm.exact_moments()?;
        bases.push((
            "exact moments",
            BaseRate::from_moments(&moments, SMOOTHING)?,
        ));
    }
    print_header();
    for (name, base) in bases {
        let base_log_z = base.log_normalizer();
        let path = RbmPath::new(base, rbm.clone())?;
        print_rows(name, &path, BlockGibbs, base_log_z, exact, options)?;
    }
    Ok(())
}

fn timed(name: &str, find: impl FnOnce() -> Result<BaseRate>) -> Result<BaseRate> {
    let begun = Instant::now();
    let base = find()?;
    println!("{name} found in {:.2} s", begun.elapsed().as_secs_f64());
    Ok(base)
}
