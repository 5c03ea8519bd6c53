//! A fingerprint of path and kernel, which shows whether a checkpoint belongs to a run.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::runner::Ais;
use crate::kernel::TransitionKernel;
use crate::model::log_densities_of;
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::store::{checksum, decode, encode, guarded};
use crate::work::{Identity, Named, caught};
use crate::{Error, Result};

const CHAINS: usize = 8;

/// Returns the identity of a run, by which a checkpoint is matched to its run: the `settings`, a fingerprint of path
/// and kernel, and probe chains that pass a few stages of `schedule`.
///
/// # Errors
/// As [`fingerprint`].
pub(crate) fn identity<P, K>(
    path: P,
    kernel: &K,
    schedule: &Schedule,
    settings: Named,
) -> Result<Identity>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned + Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let checksum = fingerprint(path.clone(), kernel, schedule)?;
    let run = Ais::with_base_log_z(path, kernel, 0.0).schedule(schedule.clone());
    let probe = run.task().ok().and_then(|task| task.probe());
    Ok(Identity::new(settings, probe, checksum))
}

/// Returns a fingerprint of path, kernel, schedule, engine, machine and crate version. It is a checksum of a few chains
/// that start at samples of the base and pass the first, middle or last stage.
///
/// Differences that do not affect these chains remain undetected. The checksum includes any error or panic in the
/// chains.
///
/// # Errors
/// As [`Population::start`]; states that serde does not read back as written; a panic.
pub(crate) fn fingerprint<P, K>(path: P, kernel: &K, schedule: &Schedule) -> Result<u32>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned>,
    K: TransitionKernel<P::At>,
{
    guarded(|| {
        let probes = (0..3).map(|probe| probed(&path, kernel, schedule, probe));
        Ok(checksum(&probes.collect::<Result<Vec<_>>>()?.concat()))
    })
}

/// Returns, as bytes, the outcome of a few chains that pass the first, middle or last stage (`probe` 0, 1 or 2).
fn probed<P, K>(path: &P, kernel: &K, schedule: &Schedule, probe: usize) -> Result<Vec<u8>>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned>,
    K: TransitionKernel<P::At>,
{
    let (steps, betas) = (schedule.stages(), schedule.betas());
    let stage = [1, steps.div_ceil(2), steps][probe];
    let first = stream(0, Purpose::PROBE, CHAINS * probe);
    let mut population: Population<P> = Population::start(path.clone(), 0, CHAINS, first)?;
    population.place_at(betas[stage - 1])?;
    let mut population = population.at_stage(stage - 1);
    let advanced = caught(&mut || population.advance_to(kernel, betas[stage]));
    let met = match advanced.map(|met| met.map_err(|error| error.to_string())) {
        Ok(Ok(())) => Vec::new(),
        Ok(Err(met)) | Err(met) => encode("what was met", &met)?,
    };
    let log_ratios = encode("log ratios", population.block().log_ratios())?;
    let moved = encode("states", &population.block().saved())?;
    check_survival(path.clone(), &population, &moved)?;
    Ok([met, log_ratios, moved].concat())
}

/// Refuses states that serde does not read back as written, such as unordered maps.
fn check_survival<P>(path: P, population: &Population<P>, written: &[u8]) -> Result<()>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned>,
{
    let beta = population.stage().beta;
    let read = Population::restored(path, beta, &(0..CHAINS), decode("states", written)?)?;
    // Skipped fields are not among the bytes, but they may change the density.
    let log_density = |population: &Population<P>| {
        let (stage, states) = (population.stage(), population.block().states());
        let log_densities = log_densities_of(stage.model, states).into_iter();
        log_densities.map(f64::to_bits).collect::<Vec<_>>()
    };
    let rewritten = encode("states", &read.block().saved())?;
    let same = rewritten == written && log_density(&read) == log_density(population);
    let (found, expected) = ("others once they are read", "the same as were written");
    Error::check(same, "states", found, expected)
}

#[cfg(test)]
mod tests {
    use nalgebra::{DVector, dvector};
    use rand::{Rng, RngExt};
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::kernel::{
        Hmc, Mala, Metropolis, RandomWalkMetropolis, SymmetricProposal, UnadjustedLangevin,
    };
    use crate::model::{FunctionModel, Gaussian};
    use crate::path::GeometricPath;

    fn path(deviation: f64) -> GeometricPath<Gaussian, Gaussian> {
        let normal = |deviation| Gaussian::isotropic(dvector![0.0, 1.0], deviation).unwrap();
        GeometricPath::new(normal(1.0), normal(deviation))
    }

    fn walk(size: f64) -> RandomWalkMetropolis {
        RandomWalkMetropolis::new(size).unwrap()
    }

    #[test]
    fn it_shows_another_path_kernel_or_schedule_and_nothing_else() {
        let schedule = Schedule::linear(10).unwrap();
        let usual = fingerprint(&path(0.5), &walk(0.3), &schedule).unwrap();
        assert_eq!(
            fingerprint(&path(0.5), &&walk(0.3), &schedule).unwrap(),
            usual
        );
        let curved = Schedule::power(10, 2.0).unwrap();
        let further = f64::from_bits(0.5_f64.to_bits() + 1);
        let others = [
            fingerprint(&path(further), &walk(0.3), &schedule).unwrap(),
            fingerprint(&path(0.5), &walk(0.300_001), &schedule).unwrap(),
            fingerprint(&path(0.5), &Hmc::new(0.3, 1).unwrap(), &schedule).unwrap(),
            fingerprint(&path(0.5), &walk(0.3), &curved).unwrap(),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(*other, usual, "{i}");
            assert!(!others[..i].contains(other), "{i}");
        }
    }

    #[test]
    fn what_goes_wrong_on_the_way_is_a_part_of_it() {
        let schedule = Schedule::linear(4).unwrap();
        let base = || Gaussian::standard(1).unwrap();
        let nan = GeometricPath::new(base(), FunctionModel::new(|_: &DVector<f64>| f64::NAN));
        let panics = GeometricPath::new(
            base(),
            FunctionModel::new(|x: &DVector<f64>| if x[0] < 2.0 { 0.0 } else { panic!("far") }),
        );
        let flat = GeometricPath::new(base(), FunctionModel::new(|_: &DVector<f64>| 0.0));
        let found = [
            fingerprint(&nan, &walk(9.0), &schedule).unwrap(),
            fingerprint(&panics, &walk(9.0), &schedule).unwrap(),
            fingerprint(&flat, &walk(9.0), &schedule).unwrap(),
        ];
        assert!(found[0] != found[1] && found[0] != found[2] && found[1] != found[2]);
        assert_eq!(fingerprint(&nan, &walk(9.0), &schedule).unwrap(), found[0]);
    }

    #[test]
    fn a_path_that_cannot_be_started_on_is_an_error() {
        let ends = (
            Gaussian::standard(1).unwrap(),
            Gaussian::standard(2).unwrap(),
        );
        let path = GeometricPath::new(ends.0, ends.1);
        let schedule = Schedule::linear(4).unwrap();
        assert!(fingerprint(&path, &Mala::new(0.1).unwrap(), &schedule).is_err());
        let langevin = UnadjustedLangevin::new(0.1).unwrap();
        assert!(fingerprint(&path, &langevin, &schedule).is_err());
    }

    /// A state that is rounded when it is read.
    #[derive(Clone)]
    struct Rounded(f64);

    impl Serialize for Rounded {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Rounded {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            f64::deserialize(deserializer).map(|x| Self(x.round()))
        }
    }

    struct Turn;

    impl SymmetricProposal<Rounded> for Turn {
        fn propose<R: Rng + ?Sized>(
            &self,
            _beta: f64,
            state: &Rounded,
            proposal: &mut Rounded,
            _rng: &mut R,
        ) {
            proposal.0 = -state.0;
        }
    }

    #[test]
    fn states_that_are_not_read_as_they_were_written_are_refused() {
        let model = || FunctionModel::new(|x: &Rounded| -x.0 * x.0);
        let base = model().with_sampler(|rng| Rounded(rng.random()));
        let path = GeometricPath::new(base, model());
        let refused = fingerprint(&path, &Metropolis(Turn), &Schedule::linear(4).unwrap());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("once they are read"), "{message}");
    }
}
