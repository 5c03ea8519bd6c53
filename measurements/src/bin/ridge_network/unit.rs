//! One unit of a network: the search for the direction w with the largest `L(w) = 1/n sum_i f_i(x_i . w)`.

use std::sync::Mutex;

use annealed::Result;
use annealed::ais::{Ais, Merge, Recorder};
use annealed::drift::{
    DriftModifiedLangevin, RidgeFunction, RidgeGibbs, RidgeModifier, RidgePath, RidgeState,
};
use annealed::kernel::{Block, Mala, RandomWalkMetropolis, Sequence, Stage, StepSize};
use annealed::model::{Differentiable, Gaussian, Sampleable, UnnormalizedModel};
use annealed::path::{Intermediate, TemperedPath};
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use annealed_measurements::problems::meter::Meter;
use nalgebra::{DMatrix, DVector};
use rand::RngExt;

pub struct Unit<'a, F> {
    design: &'a DMatrix<f64>,
    /// One ridge function for each datum.
    functions: Vec<F>,
    /// Standard deviation of the reference for w.
    pub reference: f64,
    /// The longest direction that may be the best.
    radius: f64,
    seed: u64,
    /// Counts values of ridge functions.
    meter: Meter,
    /// The largest L that was evaluated, and its direction.
    best: Mutex<(f64, DVector<f64>)>,
}

/// Chains, and the gain along their stages.
pub struct Annealing {
    pub chains: usize,
    pub schedule: Schedule,
    /// The gain at the end.
    pub gain: f64,
}

/// Stages and nodes of the tables of a modifier. They count as evaluations.
const TABLES: (usize, usize) = (8, 65);
/// Noise of the Langevin steps before each sweep of Gibbs, as a share of the variance of a projection.
const NOISE: f64 = 0.01;
/// A climb ends where the gradient is shorter.
const FLAT: f64 = 1e-3;

impl<'a, F: RidgeFunction + Sync> Unit<'a, F> {
    pub fn new(
        design: &'a DMatrix<f64>,
        functions: Vec<F>,
        (reference, radius): (f64, f64),
        seed: u64,
    ) -> Self {
        let best = (f64::NEG_INFINITY, DVector::zeros(design.ncols()));
        Self {
            design,
            functions,
            reference,
            radius,
            seed,
            meter: Meter::default(),
            best: Mutex::new(best),
        }
    }

    /// Returns the largest L that was evaluated, and its direction.
    pub fn best(&self) -> (f64, DVector<f64>) {
        self.best.lock().expect("no panic in a search").clone()
    }

    /// Returns the number of evaluations of L: values of ridge functions over the number of data.
    pub fn evaluations(&self) -> f64 {
        self.meter.spent() as f64 / self.functions.len() as f64
    }

    pub fn value(&self, w: &DVector<f64>) -> f64 {
        let projections = self.design * w;
        let pairs = self.functions.iter().zip(&projections);
        self.remember(w, pairs.map(|(f, &u)| f.value(u)).sum())
    }

    /// Returns L and its gradient.
    fn gradient(&self, w: &DVector<f64>) -> (f64, DVector<f64>) {
        let mut slopes = self.design * w;
        let mut sum = 0.0;
        for (f, slope) in self.functions.iter().zip(&mut slopes) {
            let u = *slope;
            sum += f.value(u);
            *slope = f.derivative(u);
        }
        let gradient = self.design.tr_mul(&slopes) / slopes.len() as f64;
        (self.remember(w, sum), gradient)
    }

    /// Counts an evaluation at w with this sum of ridge functions, and returns L.
    fn remember(&self, w: &DVector<f64>, sum: f64) -> f64 {
        self.meter.add(self.functions.len() as u64);
        let value = sum / self.functions.len() as f64;
        let mut best = self.best.lock().expect("no panic in a search");
        if value > best.0 && w.norm() <= self.radius {
            *best = (value, w.clone());
        }
        value
    }

    fn prior(&self) -> Result<Gaussian> {
        Gaussian::isotropic(DVector::zeros(self.design.ncols()), self.reference)
    }

    fn ridge_path(&self, gain: f64, deviation: f64) -> Result<RidgePath<Metered<'_, F>>> {
        let functions = self.functions.iter().map(|function| Metered {
            function,
            meter: &self.meter,
        });
        let design = self.design.clone();
        RidgePath::new(design, functions, gain, self.reference, deviation)
    }

    /// Runs annealed Gibbs sampling. The projections have the standard deviation `deviation`.
    pub fn annealed_gibbs(&self, annealing: &Annealing, deviation: f64) -> Result<()> {
        let path = self.ridge_path(annealing.gain, deviation)?;
        let ais = Ais::new(&path, RidgeGibbs::augmented())
            .schedule(annealing.schedule.clone())
            .recorded_stages(annealing.schedule.stages())
            .recorder(Watch(|state: &RidgeState| self.value(&state.w)))
            .chains(annealing.chains)
            .seed(self.seed);
        ais.run().map(drop)
    }

    /// Runs annealed Gibbs sampling with a modified Langevin step before each sweep.
    pub fn modified_langevin(&self, annealing: &Annealing, deviation: f64) -> Result<()> {
        let path = self.ridge_path(annealing.gain, deviation)?;
        let modifier = RidgeModifier::new(&path, &Schedule::linear(TABLES.0)?, TABLES.1)?;
        let drift = DriftModifiedLangevin::new(modifier, NOISE * deviation * deviation)?;
        let path = path.into_vectors()?;
        let d = self.design.ncols();
        let w = move |state: &DVector<f64>| self.value(&state.rows(0, d).into_owned());
        let ais = Ais::new(&path, Sequence(drift, RidgeGibbs::augmented()))
            .schedule(annealing.schedule.clone())
            .recorded_stages(annealing.schedule.stages())
            .recorder(Watch(w))
            .chains(annealing.chains)
            .seed(self.seed);
        ais.run().map(drop)
    }

    /// Runs annealed importance sampling with MALA, and draws one of the chains by its weight. Only this draw counts,
    /// and not the best state on the way.
    pub fn draw(&self, annealing: &Annealing) -> Result<(f64, DVector<f64>)> {
        let path = TemperedPath::new(self.prior()?, Gained(self, annealing.gain));
        let scale = (self.design.ncols() as f64).cbrt();
        let step = |beta: f64| {
            let precision = self.reference.powi(-2) + 0.5 * beta * annealing.gain;
            (beta, 1.5 / (precision * scale))
        };
        let step = StepSize::knots([0.0, 0.03, 0.1, 0.3, 1.0].map(step))?;
        let run = Ais::new(&path, Mala::new(step)?)
            .schedule(annealing.schedule.clone())
            .chains(annealing.chains)
            .seed(self.seed)
            .run()?;
        let log_z = run.log_z_ratio();
        let shares = run.log_weights().iter().map(|log_w| (log_w - log_z).exp());
        let mut level = stream(self.seed, Purpose::TRAINING, 0).random::<f64>();
        level *= annealing.chains as f64;
        let drawn = shares.enumerate().find(|(_, share)| {
            level -= share;
            level <= 0.0
        });
        let w = run.states()[drawn.map_or(0, |(chain, _)| chain)].clone();
        Ok((self.value(&w), w))
    }

    /// Runs simulated annealing with Metropolis moves, whose proposals have the standard deviations `step`.
    pub fn simulated_annealing(&self, annealing: &Annealing, step: StepSize) -> Result<()> {
        let path = TemperedPath::new(self.prior()?, Gained(self, annealing.gain));
        let ais = Ais::new(&path, RandomWalkMetropolis::new(step)?)
            .schedule(annealing.schedule.clone())
            .chains(annealing.chains)
            .seed(self.seed);
        ais.run().map(drop)
    }

    /// Climbs from draws of the reference, shortened by `shrink`, until so many evaluations are spent.
    pub fn ascent(&self, evaluations: f64, rate: f64, shrink: f64) -> Result<()> {
        let prior = self.prior()?;
        for start in 0.. {
            if self.evaluations() >= evaluations {
                break;
            }
            let w = prior.sample(&mut stream(self.seed, Purpose::TRAINING, start));
            self.climb(w * shrink, rate);
        }
        Ok(())
    }

    /// Climbs in at most 200 steps of length `rate` times the gradient.
    pub fn climb(&self, mut w: DVector<f64>, rate: f64) {
        for _ in 0..200 {
            let (_, gradient) = self.gradient(&w);
            if gradient.norm() < FLAT || w.norm() > 2.0 * self.radius {
                break;
            }
            w += gradient * rate;
        }
    }
}

/// The log density `gain L(w)`.
struct Gained<'a, F>(&'a Unit<'a, F>, f64);

impl<F: RidgeFunction + Sync> UnnormalizedModel for Gained<'_, F> {
    type State = DVector<f64>;

    fn log_density(&self, w: &DVector<f64>) -> f64 {
        self.1 * self.0.value(w)
    }
}

impl<F: RidgeFunction + Sync> Differentiable for Gained<'_, F> {
    fn accumulate_gradient(
        &self,
        w: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (value, slope) = self.0.gradient(w);
        gradient.axpy(scale * self.1, &slope, 1.0);
        self.1 * value
    }
}

/// A ridge function that counts its values. A derivative is not counted, since a value comes with it.
struct Metered<'a, F> {
    function: &'a F,
    meter: &'a Meter,
}

impl<F: RidgeFunction> RidgeFunction for Metered<'_, F> {
    fn value(&self, z: f64) -> f64 {
        self.meter.add(1);
        self.function.value(z)
    }

    fn upper_bound(&self) -> f64 {
        self.function.upper_bound()
    }

    /// Counts the values at both ends.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        self.meter.add(2);
        self.function.upper_bound_on(low, high)
    }

    fn derivative(&self, z: f64) -> f64 {
        self.function.derivative(z)
    }
}

/// A recorder that evaluates L at each state.
#[derive(Clone)]
struct Watch<V>(V);

impl<M: Intermediate, V: Fn(&M::State) -> f64 + Clone> Recorder<M> for Watch<V> {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        for state in block.states() {
            (self.0)(state);
        }
    }
}

impl<V> Merge for Watch<V> {
    fn merge(&mut self, _right: Self) {}
}

/// Appends `sin` or another function of a unit's projections to the columns, and returns the residuals of least squares
/// and the coefficients.
pub fn refit(
    columns: &mut DMatrix<f64>,
    column: DVector<f64>,
    targets: &DVector<f64>,
) -> (DVector<f64>, DVector<f64>) {
    let units = columns.ncols();
    *columns = std::mem::take(columns).insert_column(units, 0.0);
    columns.set_column(units, &column);
    let svd = columns.clone().svd(true, true);
    let coefficients = svd.solve(targets, 1e-9);
    let coefficients = coefficients.unwrap_or_else(|_| DVector::zeros(units + 1));
    (targets - &*columns * &coefficients, coefficients)
}

#[cfg(test)]
mod tests {
    use annealed::drift::Sinusoid;

    use super::*;

    fn waves() -> (DMatrix<f64>, Vec<Sinusoid>) {
        let design = DMatrix::from_fn(7, 2, |i, j| ((3 * i + 5 * j) % 7) as f64 / 3.0 - 1.0);
        let wave = |i: usize| Sinusoid {
            amplitude: i as f64 - 2.5,
            frequency: 1.0,
            phase: 0.0,
        };
        (design, (0..7).map(wave).collect())
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let (design, functions) = waves();
        let unit = Unit::new(&design, functions, (1.0, 10.0), 1);
        let w = DVector::from_vec(vec![0.3, -0.8]);
        let (_, gradient) = unit.gradient(&w);
        for i in 0..2 {
            let mut step = DVector::zeros(2);
            step[i] = 1e-5;
            let slope = (unit.value(&(&w + &step)) - unit.value(&(&w - &step))) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-8);
        }
    }

    #[test]
    fn evaluations_are_counted_and_the_best_lies_within_the_radius() {
        let (design, functions) = waves();
        let unit = Unit::new(&design, functions, (1.0, 0.5), 1);
        let far = unit.value(&DVector::from_vec(vec![0.3, -0.8]));
        assert!(unit.best().0 < far);
        let near = DVector::from_vec(vec![0.1, 0.2]);
        assert_eq!(unit.best().0.max(unit.gradient(&near).0), unit.best().0);
        assert_eq!(unit.best().1, near);
        assert_eq!(unit.evaluations(), 2.0);
        let annealing = Annealing {
            chains: 1,
            schedule: Schedule::linear(5).unwrap(),
            gain: 1.0,
        };
        unit.annealed_gibbs(&annealing, 0.3).unwrap();
        // Each stage has a proposal for each projection, the weight and the recorder.
        assert!(unit.evaluations() >= 2.0 + 5.0 * 3.0);
    }
}
