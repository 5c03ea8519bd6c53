use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector};
use rand::RngExt;

use super::*;
use crate::ais::Ais;
use crate::estimate::{Estimate, Warning};
use crate::kernel::{Hmc, Mala, RandomWalkMetropolis, StepSize, TransitionKernel, Tunable};
use crate::model::{
    Differentiable, FunctionModel, Gaussian, Latent, LatentGradient, LatentPrior, Sampleable,
    UnnormalizedModel,
};
use crate::num::Moments;
use crate::path::{TemperedAt, TemperedPath};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Execution, Job};
use crate::{Error, Result};

/// A linear decoder: `x = W z + noise` with noise of deviation `NOISE` in each coordinate.
#[derive(Clone)]
struct Linear {
    weights: DMatrix<f64>,
    data: Vec<DVector<f64>>,
    /// Factor of the gradients, to make them wrong.
    slope: f64,
}

const NOISE: f64 = 0.5;

impl Linear {
    /// Draws weights of `observed` x `latent`, and data from the decoder. Some data get a larger scale.
    fn simulated(latent: usize, observed: usize, data: usize, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::DATA, 0);
        let normal = |rng: &mut _, n| Gaussian::standard(n).unwrap().sample(rng);
        let weights = normal(&mut rng, latent * observed) / (latent as f64).sqrt();
        let weights = DMatrix::from_column_slice(observed, latent, weights.as_slice());
        let mut datum = |i: usize| {
            let scale = if i % 5 == 4 { 2.0 } else { 1.0 };
            let z = normal(&mut rng, latent) * scale;
            &weights * z + normal(&mut rng, observed) * NOISE
        };
        let data = (0..data).map(&mut datum).collect();
        Self {
            weights,
            data,
            slope: 1.0,
        }
    }

    /// Returns the exact log p(x) of each datum.
    fn exact(&self) -> Vec<f64> {
        let n = self.weights.nrows();
        let covariance =
            &self.weights * self.weights.transpose() + DMatrix::identity(n, n) * (NOISE * NOISE);
        let factor = covariance.cholesky().unwrap();
        let log_det = 2.0 * factor.l().diagonal().map(f64::ln).sum();
        let constant = log_det + n as f64 * std::f64::consts::TAU.ln();
        let of = |x: &DVector<f64>| -0.5 * (constant + x.dot(&factor.solve(x)));
        self.data.iter().map(of).collect()
    }

    /// Returns `log p(x|z)` and adds its gradient. The sums have one order, whatever the number of rows.
    fn value(
        &self,
        datum: usize,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let off = &self.data[datum] - &self.weights * z;
        let precision = 1.0 / (NOISE * NOISE);
        gradient.gemv_tr(self.slope * scale * precision, &self.weights, &off, 1.0);
        let n = off.len() as f64;
        -0.5 * precision * off.norm_squared() - n * (NOISE * std::f64::consts::TAU.sqrt()).ln()
    }
}

impl UnnormalizedModel for Linear {
    type State = Latent;

    fn log_density(&self, state: &Latent) -> f64 {
        let mut unused = DVector::zeros(state.vector.len());
        self.value(state.datum(), &state.vector, 0.0, &mut unused)
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl LatentGradient for Linear {
    fn accumulate_gradients(
        &self,
        data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    ) {
        for (row, &datum) in data.iter().enumerate() {
            let z = latents.row(row).transpose();
            let mut gradient = gradients.row(row).transpose();
            log_likelihoods[row] = self.value(datum, &z, scale, &mut gradient);
            gradients.row_mut(row).copy_from(&gradient.transpose());
        }
    }
}

/// One datum of a linear decoder, for runs of a single datum.
struct One(Linear, usize);

impl UnnormalizedModel for One {
    type State = DVector<f64>;

    fn log_density(&self, z: &DVector<f64>) -> f64 {
        self.0.value(self.1, z, 0.0, &mut DVector::zeros(z.len()))
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl Differentiable for One {
    fn accumulate_gradient(&self, z: &DVector<f64>, scale: f64, to: &mut DVector<f64>) -> f64 {
        self.0.value(self.1, z, scale, to)
    }
}

type Many<'e, K> = LogLikelihoods<'e, Gaussian, Linear, K>;

fn many<'e, K>(model: &Linear, kernel: K) -> Many<'e, K> {
    let prior = Gaussian::standard(model.weights.ncols()).unwrap();
    LogLikelihoods::new(prior, model.clone(), model.data.len(), kernel)
}

/// Step sizes that differ between data.
const SIZES: [f64; 5] = [0.3, 1.7, 0.9, 0.2, 1.1];

fn sizes() -> StepSize {
    let of = |size| StepSize::constant(size).unwrap();
    StepSize::of_data(SIZES.map(of).to_vec()).unwrap()
}

/// Compares one run of five data with runs of each datum alone, by the plain kernel with the datum's step size.
fn check_bits<K>(kernel: K)
where
    K: Tunable + Clone + Send + Sync,
    for<'p> K: TransitionKernel<TemperedAt<'p, LatentPrior<Gaussian>, Linear>>,
    for<'p> K: TransitionKernel<TemperedAt<'p, Gaussian, One>>,
{
    let (model, chains) = (Linear::simulated(3, 4, 5, 1), 6);
    let schedule = Schedule::linear(8).unwrap();
    let run = |data_per_block| {
        let run = many(&model, kernel.clone()).chains(chains);
        let run = run.data_per_block(data_per_block).seed(3);
        let execution = Execution::new();
        let mut job = Job::new(&execution).unwrap();
        let kernel = kernel.with_step_size(sizes());
        run.run_at(schedule.clone(), &kernel, &mut job).unwrap()
    };
    let together = run(5);
    for (datum, size) in SIZES.into_iter().enumerate() {
        let prior = Gaussian::standard(3).unwrap();
        let path = TemperedPath::new(prior, One(model.clone(), datum));
        let ais = Ais::new(&path, kernel.with_step_size(size.try_into().unwrap()));
        let ais = ais.schedule(schedule.clone()).seed(3).block_size(chains);
        let mine = datum * chains..(datum + 1) * chains;
        let part = ais.chains(5 * chains).run_range(mine).unwrap();
        let log_weights = &part.nodes[0].value.chains.log_weights;
        let estimate = Estimate::from_log_weights(log_weights).unwrap();
        assert_eq!(together.data()[datum].estimate, estimate, "datum {datum}");
    }
    for data_per_block in [1, 2, 16] {
        assert_eq!(run(data_per_block).data(), together.data());
    }
}

#[test]
fn data_in_one_run_and_in_a_run_for_each_have_the_same_bits() {
    check_bits(Hmc::new(1.0, 4).unwrap());
    check_bits(Mala::new(1.0).unwrap());
    check_bits(RandomWalkMetropolis::new(1.0).unwrap());
}

#[test]
fn linear_decoders_agree_with_the_closed_form() {
    let model = Linear::simulated(10, 12, 30, 2);
    let run = many(&model, Hmc::new(0.2, 5).unwrap()).stages(80).seed(5);
    let run = run.run().unwrap();
    let (exact, mut squares, mut sample_size) = (model.exact(), 0.0, 0.0);
    for found in run.data() {
        let estimate = &found.estimate;
        let error = (estimate.value() - exact[found.datum]) / estimate.standard_error();
        squares += error * error / 30.0;
        sample_size += estimate.effective_sample_size() / 30.0;
    }
    let mean = run.mean();
    let exact = exact.iter().sum::<f64>() / 30.0;
    let error = mean.value - exact;
    println!("{run}\nerror {error:.4}, mean square of z {squares:.3}, ESS {sample_size:.1}");
    assert!(
        error.abs() < 4.0 * mean.standard_error && mean.standard_error < 0.12,
        "{mean}"
    );
    let (lower, upper) = mean.interval_at(0.9999).unwrap();
    assert!(lower < exact && exact < upper);
    assert!(sample_size > 4.0, "{sample_size}");
    // The mean of 30 squared errors; 1 if they were normal.
    assert!((0.3..3.0).contains(&squares), "{squares}");
}

#[test]
fn random_walks_and_threads() {
    let model = Linear::simulated(2, 3, 7, 3);
    let settings = || {
        let kernel = RandomWalkMetropolis::new(0.5).unwrap();
        many(&model, kernel).stages(40).data_per_block(2).seed(1)
    };
    let run = settings().threads(1).run().unwrap();
    assert_eq!(run.data(), settings().threads(3).run().unwrap().data());
    let (mean, exact) = (run.mean(), model.exact().iter().sum::<f64>() / 7.0);
    println!("{run}\nexact {exact:.4}");
    assert!((mean.value - exact).abs() < 4.0 * mean.standard_error);
    assert!(mean.standard_error < 0.15, "{mean}");
}

/// Checks that step sizes adapt to the data: the likelihood of datum 1 is a hundred times narrower.
#[test]
fn each_datum_gets_its_own_step_size() {
    let log_likelihood = |state: &Latent| {
        let precision = [1.0, 1e4][state.datum()];
        -0.5 * precision * state.vector.norm_squared()
    };
    let model = FunctionModel::new(log_likelihood);
    let kernel = RandomWalkMetropolis::new(1.0).unwrap();
    let prior = Gaussian::standard(1).unwrap();
    let run = LogLikelihoods::new(prior, model, 2, kernel)
        .chains(64)
        .seed(2);
    let run = run.stages(100);
    let found = run.run().unwrap();
    for (datum, precision) in [(0, 1.0), (1, 1e4)] {
        let estimate = &found.data()[datum].estimate;
        let exact = -0.5 * f64::ln(1.0 + precision);
        let error = estimate.value() - exact;
        assert!(
            error.abs() < 4.0 * estimate.standard_error(),
            "{datum}: {estimate}, {exact}"
        );
        assert!(
            estimate.effective_sample_size() > 6.0,
            "{datum}: {estimate}"
        );
    }
}

/// The schedule of all data would otherwise take thousands of stages.
#[test]
fn an_outlying_datum_does_not_hold_up_the_others() {
    let mut model = Linear::simulated(2, 3, 4, 3);
    model.data[1] *= 1e6;
    let exact = model.exact();
    let run = many(&model, Hmc::new(0.3, 5).unwrap()).stages(50);
    let run = run.run().unwrap();
    assert!(run.evaluations() < 200_000, "{}", run.evaluations());
    for datum in [0, 2, 3].map(|datum| &run.data()[datum]) {
        let off = datum.estimate.value() - exact[datum.datum];
        assert!(off.abs() < 4.0 * datum.estimate.standard_error(), "{off}");
        assert!(datum.estimate.standard_error() < 0.4 && datum.warnings.is_empty());
    }
    let doubt = "1 of 4 data are in doubt, with the indices [1]: run them apart";
    assert!(run.to_string().contains(doubt), "{run}");
    assert!(run.to_string().ends_with("or its p(x) may be infinite"));
}

/// All 30 data warn, because half of them have few effective chains.
#[test]
fn an_outlying_datum_is_named_among_data_that_all_warn() {
    let mut model = Linear::simulated(10, 12, 30, 2);
    model.data[7] *= 1e3;
    let run = many(&model, Hmc::new(0.2, 5).unwrap())
        .stages(40)
        .chains(64);
    let text = run.seed(5).run().unwrap().to_string();
    let doubt = "30 of 30 data are in doubt, most of all those with the indices [";
    let listed = text.split_once(doubt).unwrap().1.split_once(']').unwrap().0;
    assert!(listed.split(", ").any(|index| index == "7"), "{text}");
}

#[test]
fn bad_input_is_refused() {
    let model = Linear::simulated(2, 3, 4, 4);
    let kernel = || Hmc::new(0.3, 2).unwrap();
    let fails = |run: Many<'_, Hmc>, text: &str| {
        let message = run.run().unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    };
    fails(many(&model, kernel()).chains(1), "chains");
    fails(many(&model, kernel()).stages(0), "stages");
    fails(many(&model, kernel()).data_per_block(0), "data_per_block");
    fails(many(&model, kernel()).moves(0), "moves");
    let none = Linear {
        data: vec![],
        ..model.clone()
    };
    fails(many(&none, kernel()), "data");
    let wrong = Linear {
        slope: -1.0,
        ..model.clone()
    };
    let found = many(&wrong, kernel()).run();
    assert!(
        matches!(found, Err(Error::WrongGradient { .. })),
        "{found:?}"
    );
    let mut nan = model.clone();
    nan.data[2][0] = f64::NAN;
    let found = many(&nan, kernel()).run();
    assert!(matches!(found, Err(Error::NonFinite { .. })), "{found:?}");
    let nowhere = FunctionModel::new(|state: &Latent| match state.datum() {
        1 => f64::NEG_INFINITY,
        _ => 0.0,
    });
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    let found = LogLikelihoods::new(Gaussian::standard(1).unwrap(), nowhere, 3, walk).run();
    let message = found.unwrap_err().to_string();
    assert!(message.contains("datum 1"), "{message}");
}

/// Checks bias, error and interval of the mean over data with normal log weights, whose mean weight is 1.
#[test]
fn the_mean_is_corrected_for_the_bias_of_each_datum() -> Result<()> {
    let (data, deviation) = (2_000, 1.0);
    let mut rng = stream(6, Purpose::TESTING, 0);
    let mut weights = || {
        let normal = Gaussian::standard(16).unwrap().sample(&mut rng);
        normal.map(|x| deviation * (x - 0.5 * deviation))
    };
    let data = (0..data).map(|datum| run::DatumLogZ::new(datum, weights().as_slice()));
    let run = LogLikelihoodsRun {
        data: data.collect::<Result<_>>()?,
        evaluations: 0,
        seconds: 0.0,
    };
    let mean = run.mean();
    println!("{mean}");
    // By 40,000 simulated data: bias -.0464, deviation of a corrected estimate .327.
    assert!((mean.bias + 0.044).abs() < 4.0 * 0.002, "{mean}");
    assert!((mean.standard_error - 0.00715).abs() < 0.0006, "{mean}");
    assert!(
        (mean.value + 0.003).abs() < 4.0 * mean.standard_error,
        "{mean}"
    );
    let (lower, upper) = mean.interval_at(0.999)?;
    assert!(lower < 0.0 && 0.0 < upper, "{mean}");
    // The jackknife's error is a little too small for such weights, and the rest counts as spread.
    assert!(mean.spread < 0.2, "{mean}");
    Ok(())
}

#[test]
fn the_index_of_the_state_is_the_source_of_the_datum() {
    let model = Linear::simulated(2, 3, 3, 5);
    let path = TemperedPath::new(
        LatentPrior {
            prior: Gaussian::standard(2).unwrap(),
            data: 3,
            chains: 2,
        },
        model.clone(),
    );
    let mut rng = stream(1, Purpose::TESTING, 0);
    let vectors = [0; 6].map(|_| DVector::from_fn(2, |_, _| rng.random::<f64>()));
    let advanced = |data: [usize; 6]| {
        let states = vectors
            .iter()
            .zip(data)
            .map(|(z, datum)| Latent::new(datum, z.clone()));
        let streams: Vec<_> = (0..6).map(|i| stream(1, Purpose::RUN, data[i])).collect();
        let kernel = Hmc::new(sizes(), 2).unwrap();
        let states = states.collect();
        let mut at =
            crate::population::Population::from_states(&path, 0.0, 0, states, streams).unwrap();
        at.advance_to(&kernel, 0.5).unwrap();
        let found = at.block().states().iter().map(Latent::datum);
        assert_eq!(Vec::from_iter(found), data);
        at.block().log_weights().to_vec()
    };
    let data = [2, 0, 0, 1, 2, 1];
    for ((found, z), datum) in advanced(data).iter().zip(&vectors).zip(data) {
        let exact = 0.5 * model.log_density(&Latent::new(datum, z.clone()));
        assert!((found - exact).abs() < 1e-12, "{found}, {exact}");
    }
}

/// Checks estimates from both sides against the closed form, and with too few stages.
#[test]
fn simulated_data_are_bounded_from_both_sides() {
    let mut model = Linear::simulated(3, 4, 40, 7);
    let mut rng = stream(8, Purpose::DATA, 0);
    let mut normal = |n| Gaussian::standard(n).unwrap().sample(&mut rng);
    let latents: Vec<_> = (0..40).map(|_| normal(3)).collect();
    model.data = (latents.iter())
        .map(|z| &model.weights * z + normal(4) * NOISE)
        .collect();
    let exact = model.exact();
    let gap = |stages| {
        let run = many(&model, Hmc::new(0.3, 4).unwrap()).stages(stages);
        let run = run.seed(9).run_simulated(&latents).unwrap();
        println!("{run}");
        let below = run.forward().data().iter();
        let errors_below = below.map(|datum| datum.estimate.value() - exact[datum.datum]);
        let errors_above = run
            .upper()
            .iter()
            .zip(&exact)
            .map(|(upper, exact)| upper - exact);
        let [below, above] = [
            Moments::from_iter(errors_below),
            Moments::from_iter(errors_above),
        ];
        let (gap, error) = run.gap();
        assert!((gap - (above.mean() - below.mean())).abs() < 1e-12);
        assert!(
            below.mean() < 3.0 * below.standard_error(),
            "{}",
            below.mean()
        );
        assert!(
            above.mean() > -3.0 * above.standard_error(),
            "{}",
            above.mean()
        );
        (gap, error)
    };
    let (narrow, error) = gap(150);
    assert!(
        narrow.abs() < 0.1 + 3.0 * error && error < 0.05,
        "{narrow} +- {error}"
    );
    let (wide, error) = gap(3);
    assert!(wide > 1.0 && wide > 4.0 * error, "{wide} +- {error}");
    let run = many(&model, Hmc::new(0.3, 4).unwrap());
    let message = run.run_simulated(&latents[1..]).unwrap_err().to_string();
    assert!(message.contains("latents"), "{message}");
    let short = vec![DVector::zeros(2); 40];
    let message = run.run_simulated(&short).unwrap_err().to_string();
    assert!(message.contains("latent vector"), "{message}");
}

/// Eight stages are too few for ten coordinates: most data lack their largest weights.
#[test]
fn all_data_are_in_doubt_if_half_have_few_effective_chains() {
    let model = Linear::simulated(10, 12, 30, 2);
    let run = |stages| {
        let run = many(&model, Hmc::new(0.2, 5).unwrap())
            .stages(stages)
            .seed(5);
        run.run().unwrap()
    };
    let low = |warning: &Warning| matches!(warning, Warning::LowSampleSizes { .. });
    let warned = |run: &LogLikelihoodsRun| {
        let data = run.data().iter();
        data.filter(|datum| datum.warnings.iter().any(low)).count()
    };
    let (few, many) = (run(8), run(80));
    assert_eq!((warned(&few), warned(&many)), (30, 0), "{few}\n{many}");
}
