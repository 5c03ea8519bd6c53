//! Hidden labels and levels with an exact log Z: a hidden Markov chain, a mixture and a random-walk level.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::prelude::*;
use rand::{Rng, RngExt};

use super::advice::{Advice, Problem};
use super::exact::{enumerate, forward, kalman, ln_gamma};
use super::sites::{Fair, HeatBath, Sites};

/// Earthquakes of magnitude 7 and more, 1900 to 1949 (Zucchini and MacDonald 2009).
const EARTHQUAKES: [u8; 50] = [
    13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14, 23,
    18, 17, 19, 20, 22, 19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21, 23, 24, 27, 41, 31, 27, 35, 26,
    28, 36,
];
const INITIAL: [f64; 3] = [0.45, 0.4, 0.15];
const TRANSITION: [[f64; 3]; 3] = [[0.95, 0.03, 0.02], [0.05, 0.9, 0.05], [0.01, 0.19, 0.8]];
const RATES: [f64; 3] = [13.1, 19.7, 29.7];

/// A law of paths of the hidden state. If all `log_emissions` are zero, it is the Markov chain alone.
struct HiddenMarkov {
    log_transition: [[f64; 3]; 3],
    log_emissions: Vec<[f64; 3]>,
}

impl HiddenMarkov {
    fn new(log_emissions: Vec<[f64; 3]>) -> Self {
        Self {
            log_transition: TRANSITION.map(|row| row.map(f64::ln)),
            log_emissions,
        }
    }

    fn log_move(&self, from: u8, to: u8) -> f64 {
        self.log_transition[usize::from(from)][usize::from(to)]
    }
}

impl UnnormalizedModel for HiddenMarkov {
    type State = Vec<u8>;

    fn log_density(&self, state: &Vec<u8>) -> f64 {
        let emissions = self.log_emissions.iter().zip(state);
        let moves = state.windows(2).map(|pair| self.log_move(pair[0], pair[1]));
        INITIAL[usize::from(state[0])].ln()
            + moves.sum::<f64>()
            + emissions.map(|(row, &s)| row[usize::from(s)]).sum::<f64>()
    }
}

impl NormalizedModel for HiddenMarkov {
    fn log_normalizer(&self) -> f64 {
        let transition = TRANSITION.map(Vec::from);
        let emissions: Vec<Vec<f64>> = self.log_emissions.iter().map(|row| row.to_vec()).collect();
        forward(&INITIAL, &transition, &emissions)
    }
}

/// Draws from the Markov chain alone.
impl Sampleable for HiddenMarkov {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<u8> {
        let mut state = vec![draw(&INITIAL, rng)];
        while state.len() < self.log_emissions.len() {
            let last = usize::from(state[state.len() - 1]);
            state.push(draw(&TRANSITION[last], rng));
        }
        state
    }
}

fn draw<R: Rng + ?Sized>(probabilities: &[f64; 3], rng: &mut R) -> u8 {
    let height = rng.random::<f64>();
    u8::from(height >= probabilities[0]) + u8::from(height >= probabilities[0] + probabilities[1])
}

impl Sites for HiddenMarkov {
    fn values(&self) -> u8 {
        3
    }

    fn log_at(&self, state: &[u8], site: usize, value: u8) -> f64 {
        let before = match site {
            0 => INITIAL[usize::from(value)].ln(),
            _ => self.log_move(state[site - 1], value),
        };
        let after = match state.get(site + 1) {
            Some(&next) => self.log_move(value, next),
            None => 0.0,
        };
        before + after + self.log_emissions[site][usize::from(value)]
    }
}

/// Sets up the likelihood of three seismic states with Poisson counts, from the Markov chain alone.
pub fn earthquakes(advice: &Advice) -> Result<Problem> {
    let emissions = |&count: &u8| {
        let count = f64::from(count);
        RATES.map(|rate| count * rate.ln() - rate - ln_gamma(count + 1.0))
    };
    let base = HiddenMarkov::new(vec![[0.0; 3]; EARTHQUAKES.len()]);
    let target = HiddenMarkov::new(EARTHQUAKES.iter().map(emissions).collect());
    let exact = target.log_normalizer();
    advice.follow(exact, GeometricPath::new(base, target), HeatBath)
}

/// Height of cross-fertilised minus self-fertilised maize, in eighths of an inch (Darwin 1876; Fisher 1935).
const MAIZE: [f64; 15] = [
    49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0,
];

/// Labels of two clusters of equal weight, `N(m, 15^2)`. The mean `m ~ N(0, 50^2)` of each is integrated out.
struct TwoClusters;

impl TwoClusters {
    /// Returns the log joint density of data and labels.
    fn log_marginal(label: impl Fn(usize) -> u8) -> f64 {
        let mut clusters = [(0.0, 0.0); 2];
        for (i, y) in MAIZE.iter().enumerate() {
            let (count, sum) = &mut clusters[usize::from(label(i))];
            *count += 1.0;
            *sum += y;
        }
        let (noise, spread): (f64, f64) = (225.0, 2500.0);
        let squares: f64 = MAIZE.iter().map(|y| y * y).sum();
        let of_cluster = |(count, sum): (f64, f64)| {
            let precision = 1.0 / spread + count / noise;
            (sum / noise).powi(2) / precision - (spread * precision).ln()
        };
        let fitted: f64 = clusters.map(of_cluster).iter().sum();
        0.5 * (fitted - squares / noise - 15.0 * (TAU * noise).ln()) - 15.0 * 2f64.ln()
    }
}

impl UnnormalizedModel for TwoClusters {
    type State = Vec<u8>;

    fn log_density(&self, state: &Vec<u8>) -> f64 {
        Self::log_marginal(|i| state[i])
    }
}

impl Sites for TwoClusters {
    fn values(&self) -> u8 {
        2
    }

    fn log_at(&self, state: &[u8], site: usize, value: u8) -> f64 {
        Self::log_marginal(|i| if i == site { value } else { state[i] })
    }
}

/// Sets up the marginal likelihood of the mixture, a sum over 2^15 labellings, from fair labels.
pub fn maize(advice: &Advice) -> Result<Problem> {
    let exact = enumerate(15, 2, |state| TwoClusters.log_density(state));
    let base = Fair {
        sites: 15,
        values: 2,
    };
    advice.follow(exact, GeometricPath::new(base, TwoClusters), HeatBath)
}

/// The yearly flow of the Nile at Aswan, 1871 to 1920 (Cobb 1978).
const NILE: [f64; 50] = [
    1120., 1160., 963., 1210., 1160., 1160., 813., 1230., 1370., 1140., 995., 935., 1110., 994.,
    1020., 960., 1180., 799., 958., 1140., 1100., 1210., 1150., 1250., 1260., 1220., 1030., 1100.,
    774., 840., 874., 694., 940., 833., 701., 916., 692., 1020., 1050., 969., 831., 726., 456.,
    824., 702., 1120., 1100., 832., 764., 821.,
];
/// Standard deviations of an observation, of a year's step of the level, and of the first level.
const DEVIATIONS: (f64, f64, f64) = (122.9, 38.33, 300.0);

/// The likelihood of the flow. The state contains the steps of the level, in units of their deviations.
struct Level;

impl Level {
    /// Returns the flow minus the level, in units of the noise.
    fn residuals<'a>(z: &'a DVector<f64>) -> impl Iterator<Item = f64> + 'a {
        let (noise, step, first) = DEVIATIONS;
        let mut level = 1000.0;
        NILE.iter()
            .zip(z.as_slice())
            .enumerate()
            .map(move |(t, (y, z))| {
                level += z * if t == 0 { first } else { step };
                (y - level) / noise
            })
    }

    fn log_likelihood(squares: f64) -> f64 {
        let variance = DEVIATIONS.0 * DEVIATIONS.0;
        -0.5 * (squares + NILE.len() as f64 * (TAU * variance).ln())
    }
}

impl UnnormalizedModel for Level {
    type State = DVector<f64>;

    fn log_density(&self, z: &DVector<f64>) -> f64 {
        Self::log_likelihood(Self::residuals(z).map(|r| r * r).sum())
    }
}

impl Differentiable for Level {
    fn accumulate_gradient(
        &self,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (noise, step, first) = DEVIATIONS;
        let residuals: Vec<f64> = Self::residuals(z).collect();
        // A step moves all later levels.
        let mut later = 0.0;
        for (t, r) in residuals.iter().enumerate().rev() {
            later += r / noise;
            gradient[t] += scale * later * if t == 0 { first } else { step };
        }
        Self::log_likelihood(residuals.iter().map(|r| r * r).sum())
    }
}

/// Sets up a random-walk level observed with noise (Durbin and Koopman 2001); the Kalman filter is exact.
pub fn nile(advice: &Advice) -> Result<Problem> {
    let (noise, step, first) = DEVIATIONS;
    let variances = (noise * noise, step * step, first * first);
    let path = TemperedPath::new(Gaussian::standard(NILE.len())?, Level);
    advice.leap(kalman(&NILE, 1000.0, variances), path)
}
