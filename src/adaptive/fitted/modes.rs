//! Modes that a fit does not have: draws that a valley of the density parts from it.
//!
//! A mode that is narrow beside another has few draws while the path is wide, too few for a component of a fit. A draw shows it all the
//! same, if the density falls on the way from the nearest component and rises again (the hill-valley test, Ursem 1999). The
//! density of one mode does not, however badly a fit describes it.

use nalgebra::{DMatrix, DVector};

use super::super::base_search::MixtureBase;
use super::mixture::{DEGREES, Laws, SCALE, joined, weighted_covariance, with_own};
use super::pool::{Pool, tempered};
use super::target::CountedTarget;
use crate::model::{Gaussian, NormalizedModel, StudentT, UnnormalizedModel};
use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
use crate::path::AnnealingPath;
use crate::work::Halt;

/// Largest number of modes beside a fit.
const MOST: usize = 2;
/// Least share of a mode in a mixture, and the largest of all modes.
const SHARE: f64 = 0.1;
const MOST_SHARE: f64 = 0.5;
/// Ratio of the tempered target to the mixture from which on a draw may show a mode, and the number of draws that are tested.
const RATIO: f64 = 10.0;
const TESTED: usize = 8;
/// Depth of a valley, in units of the tempered log density.
const DEPTH: f64 = 0.5;
/// Places on the way from a centre to a draw.
const PLACES: [f64; 4] = [0.0, 0.5, 0.75, 1.0];
/// Covariance of a new mode, relative to the covariance of the nearest distribution. Where draws estimate the covariance of a mode, this
/// value counts as much as one draw for each dimension.
const NARROWER: f64 = 0.5;

/// A mixture, the last of whose distributions are modes that a fit does not have.
pub(super) struct WithModes {
    pub(super) laws: Laws,
    modes: usize,
}

impl WithModes {
    pub(super) fn empty() -> Self {
        Self {
            laws: Laws::new(),
            modes: 0,
        }
    }

    fn of(fit: &Laws, modes: &Laws) -> Self {
        let sum: f64 = modes.iter().map(|(share, _)| share).sum();
        let all = sum.min(MOST_SHARE);
        let scaled = (!modes.is_empty()).then_some((all / sum, modes));
        Self {
            laws: joined([(1.0 - all, fit)].into_iter().chain(scaled)),
            modes: modes.len(),
        }
    }

    fn modes(&self) -> impl Iterator<Item = usize> {
        self.laws.len() - self.modes..self.laws.len()
    }

    /// Returns the distribution with the largest density at a state, by its share.
    fn nearest(&self, state: &DVector<f64>) -> &StudentT {
        let mut nearest = (f64::NEG_INFINITY, &self.laws[0].1);
        for law in &self.laws {
            let density = log_part(law, state);
            if density > nearest.0 {
                nearest = (density, &law.1);
            }
        }
        nearest.1
    }

    /// Returns the log of the share that each mode has in each state.
    pub(super) fn shares_of_modes(&self, states: &[DVector<f64>]) -> Vec<Vec<f64>> {
        let of_mode = |mode| {
            let share = |state| {
                let all = self.laws.iter().map(|law| log_part(law, state));
                log_part(&self.laws[mode], state) - log_sum_exp(all)
            };
            states.iter().map(share).collect()
        };
        self.modes().map(of_mode).collect()
    }
}

fn log_part((share, law): &(f64, StudentT), state: &DVector<f64>) -> f64 {
    share.ln() + law.log_density(state) - law.log_normalizer()
}

/// The path at one beta, where modes are sought.
pub(super) struct ModeSearch<'s, P, M> {
    pub(super) path: &'s P,
    pub(super) target: &'s CountedTarget<'s, M>,
    pub(super) beta: f64,
    /// States that may be centres of modes.
    pub(super) leads: &'s [DVector<f64>],
    /// Log densities under the target at these states.
    pub(super) of_leads: &'s [f64],
}

impl<P, M> ModeSearch<'_, P, M>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    M: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    /// Returns a fit with the modes of the mixture before that are still parted from it and, before the target, with new ones.
    pub(super) fn beside(
        &self,
        fit: &Laws,
        before: &WithModes,
        pool: &Pool<'_, MixtureBase<P, StudentT>>,
    ) -> Result<WithModes, Halt> {
        let alone = WithModes::of(fit, &Laws::new());
        let known = Vec::from_iter(before.modes().map(|mode| &before.laws[mode].1));
        let centres = Vec::from_iter(known.iter().map(|law| law.gaussian().mean()));
        let parted = self.parted(&alone, &centres)?;
        let kept = known.into_iter().zip(parted).filter(|(_, parted)| *parted);
        let mut modes: Laws = kept.map(|(law, _)| self.moved(fit, law, pool)).collect();
        let mut all = WithModes::of(fit, &modes);
        while self.beta < 1.0 && modes.len() < MOST {
            let outlying = self.outlying(&all, pool);
            let parted = self.parted(&all, &outlying)?;
            let mut found = outlying.into_iter().zip(parted);
            let Some((centre, _)) = found.find(|(_, parted)| *parted) else {
                break;
            };
            let scale = all.nearest(centre).gaussian().covariance() * NARROWER;
            let Some(law) = student(centre.clone(), scale) else {
                break;
            };
            modes.push((SHARE, law));
            all = WithModes::of(fit, &modes);
        }
        Ok(all)
    }

    fn log_density(&self, state: &DVector<f64>, target: f64) -> f64 {
        let base = self.path.base();
        let own = base.log_density(state) - base.log_normalizer();
        tempered(self.beta, own, target)
    }

    /// Returns whether a valley parts each state from the centre of the nearest distribution.
    fn parted(&self, mixture: &WithModes, states: &[&DVector<f64>]) -> Result<Vec<bool>, Halt> {
        let way = |state: &&DVector<f64>| {
            let centre = mixture.nearest(state).gaussian().mean();
            PLACES.map(|place| centre + (*state - centre) * place)
        };
        let places = Vec::from_iter(states.iter().flat_map(way));
        let values = self.target.log_densities(&places)?;
        let pairs = places.iter().zip(values);
        let values = Vec::from_iter(pairs.map(|(state, value)| self.log_density(state, value)));
        let is_parted = |way: &[f64]| way[0].min(way[3]) - way[1].min(way[2]) > DEPTH;
        Ok(values.chunks(PLACES.len()).map(is_parted).collect())
    }

    /// Returns the draws and leads at which the ratio of the tempered target to the mixture is largest.
    fn outlying<'p>(
        &'p self,
        mixture: &WithModes,
        pool: &'p Pool<'_, MixtureBase<P, StudentT>>,
    ) -> Vec<&'p DVector<f64>> {
        let base = with_own(self.path, mixture.laws.clone());
        let least = RATIO.ln() + log_mean_exp(&Vec::from_iter(pool.log_weights(self.beta)));
        let leads = self.leads.iter().zip(self.of_leads);
        let leads = leads.map(|(state, &target)| (state, self.log_density(state, target)));
        let all = pool.log_densities(self.beta).chain(leads);
        let ratios = all.map(|(state, log_density)| (log_density - base.log_density(state), state));
        let mut outlying = Vec::from_iter(ratios.filter(|(ratio, _)| *ratio > least));
        outlying.sort_by(|one, other| other.0.total_cmp(&one.0));
        outlying.truncate(TESTED);
        outlying.into_iter().map(|(_, state)| state).collect()
    }

    /// Returns a mode, with its mass, by the draws in it.
    fn moved(
        &self,
        fit: &Laws,
        mode: &StudentT,
        pool: &Pool<'_, MixtureBase<P, StudentT>>,
    ) -> (f64, StudentT) {
        let both = WithModes::of(fit, &vec![(SHARE, mode.clone())]);
        let shares = both.shares_of_modes(&pool.states).concat();
        let all = WeightSums::of(pool.log_weights(self.beta));
        let of_mode = pool.log_weights(self.beta).zip(shares).map(|(w, r)| w + r);
        let of_mode = Vec::from_iter(of_mode);
        let sums = WeightSums::of(&of_mode);
        let count = sums.effective_sample_size();
        if count == 0.0 {
            return (SHARE, mode.clone());
        }
        let shares = Vec::from_iter(of_mode.iter().map(|&weight| sums.share(weight)));
        let mut states = DMatrix::from_columns(&pool.states);
        let mean = &states * DVector::from_column_slice(&shares);
        states.column_iter_mut().for_each(|mut x| x -= &mean);
        let dimension = mean.len() as f64;
        let near = WithModes::of(fit, &Laws::new());
        let near = near.nearest(mode.gaussian().mean()).gaussian().covariance() * NARROWER;
        let own = weighted_covariance(&states, &shares) * SCALE;
        let scale = (near * dimension + own * count) / (dimension + count);
        let law = student(mean, scale).unwrap_or_else(|| mode.clone());
        let mass = (sums.log_sum() - all.log_sum()).exp();
        (mass.max(SHARE), law)
    }
}

fn student(mean: DVector<f64>, scale: DMatrix<f64>) -> Option<StudentT> {
    let symmetric = (&scale + scale.transpose()) * 0.5;
    let gaussian = Gaussian::new(mean, symmetric).ok()?;
    StudentT::exact(gaussian, DEGREES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GaussianMixture, Sampleable};
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};
    use crate::work::Pulse;

    fn at(mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(3, mean), deviation).unwrap()
    }

    /// Returns the modes beside a distribution at -3 that draws of it and of the base show, for a target with modes of two
    /// deviations.
    fn modes(shares: [f64; 2], deviation: f64, beta: f64, leads: &[DVector<f64>]) -> Laws {
        let [wide, narrow] = shares;
        let target =
            GaussianMixture::new([(wide, at(-3.0, 1.0)), (narrow, at(3.0, deviation))]).unwrap();
        let path = &GeometricPath::new(at(0.0, 3.0), target);
        let pulse = Pulse::new(0..1, None, &|_, _| Ok(()));
        let counted = CountedTarget::new(path.at(1.0), &pulse);
        let mut rng = stream(1, Purpose::TESTING, 0);
        let fit = vec![(1.0, StudentT::exact(at(-3.0, 1.0), DEGREES).unwrap())];
        let base = with_own(&path, joined([(0.8, &fit)]));
        let states = Vec::from_iter((0..2_000).map(|_| base.sample(&mut rng)));
        let values = counted.log_densities(&states).unwrap();
        let mut pool = Pool::new(&[]);
        pool.add(&path, &base, &states, &values);
        let of_leads = counted.log_densities(leads).unwrap();
        let search = ModeSearch {
            path: &path,
            target: &counted,
            beta,
            leads,
            of_leads: &of_leads,
        };
        let mut found = search.beside(&fit, &WithModes::empty(), &pool).unwrap();
        // A mode moves to its draws, and stays while the fit does not have it.
        found = search.beside(&fit, &found, &pool).unwrap();
        let with_mode = Vec::from_iter(found.modes().map(|mode| found.laws[mode].clone()));
        let kept = search.beside(&found.laws, &found, &pool).unwrap();
        assert_eq!(kept.modes, 0, "a fit that has a mode needs it no more");
        let sum: f64 = found.laws.iter().map(|(share, _)| share).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        with_mode
    }

    #[test]
    fn a_draw_beyond_a_valley_shows_a_mode() {
        let found = modes([0.5, 0.5], 0.6, 0.5, &[]);
        let centre = found[0].1.gaussian().mean();
        let distance = (centre - DVector::from_element(3, 3.0)).norm();
        assert!(found.len() == 1 && distance < 1.0, "{distance}");
        // Draws of the base hardly reach a mode of deviation .02.
        assert!(modes([0.5, 0.5], 0.02, 0.5, &[]).is_empty());
        let lead = DVector::from_element(3, 3.0);
        assert!(!modes([0.5, 0.5], 0.02, 0.5, &[lead]).is_empty());
    }

    #[test]
    fn a_single_mode_has_none_beside_it() {
        // The wide distribution lies within the tail of the fit, where ratios are large.
        assert!(modes([1.0, 1e-300], 0.6, 0.5, &[]).is_empty());
    }
}
