//! Invertible transitions and importance-weighted training: exact where there is nothing to learn,
//! unbiased whatever the training achieved, bounds in their order.

use annealed::ais::Ais;
use annealed::kernel::{Hmc, Sequence, TransitionKernel};
use annealed::learned::{
    AmortizedTransitions, Coupling, Decoder, Family, InvertibleMap, LearnedTransitions, Likelihood,
    Mean, Noise, Objective, TrainedTransitions, Training, Transition,
};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath, Stationary, TemperedPath};
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use annealed::testing;
use nalgebra::{DVector, dmatrix, dvector};
use rand::RngExt;

use crate::shared::autoencoder::{Autoencoder, BernoulliDecoder};

type Path = GeometricPath<Gaussian, GaussianMixture>;

const COUPLING: Coupling = Coupling { hidden: 8, bins: 4 };

/// From a wide Gaussian to two unequal components of total mass 2.7.
fn path() -> Path {
    let base = Gaussian::new(dvector![0.5, 0.0], dmatrix![9.0, -1.5; -1.5, 7.0]).unwrap();
    let wide = Gaussian::new(dvector![1.2, -0.8], dmatrix![3.0, 1.0; 1.0, 2.0]).unwrap();
    let narrow = Gaussian::isotropic(dvector![-2.0, 1.3], 1.2).unwrap();
    let target = GaussianMixture::new([(2.0, wide), (0.7, narrow)]).unwrap();
    GeometricPath::new(base, target)
}

fn schedule() -> Schedule {
    Schedule::linear(3).unwrap()
}

/// Maps with random weights so small that the tails of the weights stay light.
fn random() -> LearnedTransitions {
    let mut rng = stream(5, Purpose::TESTING, 0);
    let flow = LearnedTransitions::new(COUPLING, 2, 3, 5).unwrap();
    let transitions = flow.transitions().iter().map(|transition| {
        let shape = parameters(transition);
        let drawn = shape.map(|p| p.iter().map(|_| rng.random_range(-0.3..0.3)).collect());
        Transition::Invertible(InvertibleMap::from_parameters(COUPLING, 2, drawn).unwrap())
    });
    LearnedTransitions::from_transitions(transitions.collect()).unwrap()
}

fn parameters(transition: &Transition) -> [&[f64]; 2] {
    match transition {
        Transition::Invertible(map) => map.parameters(),
        other => panic!("{other:?}"),
    }
}

fn check<'p, K>(path: &'p Path, kernel: K)
where
    K: TransitionKernel<<&'p Path as AnnealingPath>::At> + Sync,
{
    let exact = path.target().log_normalizer() - path.base().log_normalizer();
    let check = testing::unbiasedness(path, kernel, schedule(), exact, 20_000, 5).unwrap();
    assert!(check.passes(), "{check}");
    assert!(check.standard_error < 0.05, "{check}");
}

#[test]
fn random_maps_are_unbiased() {
    let path = path();
    let flow = random();
    check(&path, flow.clone());
    check(&path, Sequence(flow.clone(), Hmc::new(0.4, 3).unwrap()));
    check(&path, Sequence(Hmc::new(0.4, 3).unwrap(), flow));
}

#[test]
fn a_step_is_correct_on_a_model_that_it_does_not_leave_invariant() {
    let model = Gaussian::new(dvector![0.4, -0.2], dmatrix![0.8, 0.3; 0.3, 0.9]).unwrap();
    let flow = random();
    let sample = |rng: &mut _| model.sample(rng);
    let product = |x: &DVector<f64>| x[0] * x[0] * x[1];
    let still = Stationary(&model);
    let check = testing::invariance(&still, &flow, sample, product, 1, 50_000, 2).unwrap();
    assert!(check.passes() && check.standard_error < 0.05, "{check}");
}

#[test]
fn maps_and_densities_mix() {
    let path = path();
    let noisy = LearnedTransitions::imitating(
        &Hmc::new(0.4, 3).unwrap(),
        Mean::Affine,
        &path,
        &schedule(),
        2_000,
        1,
    );
    let noise = Noise::Student {
        degrees_of_freedom: 5,
    };
    let flows = [random(), random(), noisy.unwrap()];
    let mixed = flows
        .iter()
        .enumerate()
        .map(|(t, flow)| flow.transitions()[t].clone());
    let mixed = LearnedTransitions::from_transitions(mixed.collect()).unwrap();
    check(&path, mixed.with_noise(noise).unwrap());
}

#[test]
fn weights_are_those_of_a_change_of_variables() {
    let path = path();
    let flow = random();
    let transitions = flow.transitions().to_vec();
    let ais = Ais::new(&path, flow).schedule(schedule()).chains(50);
    let run = ais.run().unwrap();
    for (reached, log_weight) in run.states().iter().zip(run.log_weights()) {
        let (mut state, mut log_det) = (reached.clone(), 0.0);
        for transition in transitions.iter().rev() {
            let Transition::Invertible(map) = transition else {
                panic!("{transition:?}")
            };
            state = map.invert(&state).unwrap();
            log_det += map.apply(&state).unwrap().1;
        }
        let [from, to] =
            [(0.0, &state), (1.0, reached)].map(|(beta, state)| path.at(beta).log_density(state));
        let expected = to + log_det - from;
        assert!(
            (log_weight - expected).abs() < 1e-9,
            "{log_weight}, {expected}"
        );
    }
}

#[test]
fn untrained_maps_give_the_weights_of_importance_sampling() {
    let path = path();
    let flow = LearnedTransitions::new(COUPLING, 2, 1, 1).unwrap();
    let one = Schedule::linear(1).unwrap();
    let run = Ais::new(&path, flow)
        .schedule(one)
        .chains(50)
        .run()
        .unwrap();
    for (state, log_weight) in run.states().iter().zip(run.log_weights()) {
        let [from, to] = [0.0, 1.0].map(|beta| path.at(beta).log_density(state));
        assert!((log_weight - (to - from)).abs() < 1e-12, "{log_weight}");
    }
}

/// A short training.
fn train(family: impl Into<Family>, objective: Objective, iterations: usize) -> TrainedTransitions {
    let flow = LearnedTransitions::new(family, 2, 3, 1).unwrap();
    let training = Training::new(objective).batch_size(64);
    let training = training.iterations(iterations).learning_rate(0.01);
    training.train(flow, &path(), &schedule()).unwrap()
}

#[test]
fn objectives_train_maps() {
    let path = path();
    let exact = path.target().log_normalizer();
    let bound = |flow: LearnedTransitions, samples: usize| {
        let ais = Ais::new(&path, flow).schedule(schedule()).chains(2_000);
        let run = ais.run().unwrap();
        run.importance_weighted_bound(samples).unwrap()
    };
    for (objective, gradients, samples) in [
        (Objective::Annealed, 3, 1),
        (Objective::Hierarchical, 1, 1),
        (Objective::ImportanceWeighted { samples: 4 }, 1, 4),
    ] {
        let untrained = LearnedTransitions::new(COUPLING, 2, 3, 1).unwrap();
        let before = bound(untrained, samples);
        let trained = train(COUPLING, objective, 300);
        assert_eq!(trained.target_gradients, 300 * 64 * gradients);
        let after = bound(trained.flow, samples);
        let what = format!("{objective:?}: {before} to {after} of {exact}");
        assert!(after > before + 0.05, "{what}");
        assert!((exact - 0.6..exact + 0.05).contains(&after), "{what}");
    }
}

#[test]
fn groups_of_one_train_the_evidence_lower_bound_bit_for_bit() {
    for family in [Family::from(COUPLING), Mean::Gated { hidden: 5 }.into()] {
        let weighted = train(family, Objective::ImportanceWeighted { samples: 1 }, 40);
        assert_eq!(weighted, train(family, Objective::Hierarchical, 40));
        let groups = train(family, Objective::ImportanceWeighted { samples: 4 }, 40);
        assert_ne!(groups.flow, weighted.flow);
    }
}

#[test]
fn importance_weighted_objectives_rise_to_log_z_with_their_samples() {
    // On one minibatch of the same transitions: groups of 2 k are pairs of groups of k.
    let path = path();
    let exact = path.target().log_normalizer() - path.base().log_normalizer();
    for family in [Family::from(COUPLING), Mean::Gated { hidden: 5 }.into()] {
        let bound = |samples: usize| {
            let flow = LearnedTransitions::new(family, 2, 3, 1).unwrap();
            let objective = Objective::ImportanceWeighted { samples };
            let training = Training::new(objective).batch_size(8_192).iterations(1);
            training.train(flow, &path, &schedule()).unwrap().curve[0].objective
        };
        let bounds = [1, 2, 8, 64, 8_192].map(bound);
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        assert!(
            bounds[0] < exact - 0.5 && bounds[1] < exact,
            "{bounds:?}, {exact}"
        );
        if let Family::Invertible(_) = family {
            // All as one group: the estimate itself. These weights have light tails.
            assert!((bounds[4] - exact).abs() < 0.1, "{bounds:?}, {exact}");
        }
    }
}

#[test]
fn importance_weighting_widens_what_it_fits() {
    // The ELBO pays for mass between two modes; a group of samples needs only one of them right.
    let modes = [-2.0, 2.0].map(|x| (0.5, Gaussian::isotropic(dvector![x, 0.0], 0.5).unwrap()));
    let path = GeometricPath::new(
        Gaussian::standard(2).unwrap(),
        GaussianMixture::new(modes).unwrap(),
    );
    let one = Schedule::linear(1).unwrap();
    let deviation = |objective| {
        let flow = LearnedTransitions::new(Mean::Affine, 2, 1, 1).unwrap();
        let training = Training::new(objective).iterations(800).batch_size(64);
        let flow = training
            .learning_rate(0.01)
            .train(flow, &path, &one)
            .unwrap()
            .flow;
        let samples = flow.samples(&path, 2_000, 1).unwrap();
        let square = samples[1].iter().map(|z| z[0] * z[0]).sum::<f64>() / 2_000.0;
        let mean = samples[1].iter().map(|z| z[0]).sum::<f64>() / 2_000.0;
        (square - mean * mean).sqrt()
    };
    let narrow = deviation(Objective::Hierarchical);
    let wide = deviation(Objective::ImportanceWeighted { samples: 16 });
    assert!(wide > 1.5 * narrow, "{narrow}, {wide}");
}

#[test]
fn an_autoencoder_of_maps_scores_itself_without_bias() {
    let linear = Schedule::linear(2).unwrap();
    let data = [dvector![1.0, 0.0, 1.0], dvector![0.0, 0.0, 1.0]];
    let encoder = AmortizedTransitions::new(COUPLING, 2, 3, 2, 7).unwrap();
    let decoder = BernoulliDecoder::new(2, 4, 3, 1);
    let training = Training::new(Objective::ImportanceWeighted { samples: 4 });
    let training = training.iterations(300).batch_size(64).learning_rate(0.01);
    let trained = Autoencoder::train(training, encoder, decoder, &data, &linear).unwrap();
    for x in &data {
        let exact = evidence(&trained.decoder, x);
        assert!(
            exact > -1.2,
            "two images can have half of the mass each: {exact}"
        );
        let likelihood = Likelihood::new(&trained.decoder, x).unwrap();
        let path = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
        let flow = trained.encoder.flow.given(x).unwrap();
        let check = testing::unbiasedness(&path, flow, linear.clone(), exact, 20_000, 2).unwrap();
        assert!(check.passes() && check.standard_error < 0.05, "{check}");
    }
}

/// `log int p(x|z) N(z; 0, I) dz` over two numbers z, by the trapezoid rule.
fn evidence(decoder: &BernoulliDecoder, x: &DVector<f64>) -> f64 {
    let step = 0.05;
    let points = (-160..=160).map(|i| step * f64::from(i));
    let density =
        |a: f64, b: f64| (decoder.log_likelihood(x, &dvector![a, b]) - 0.5 * (a * a + b * b)).exp();
    let sum: f64 = points
        .clone()
        .map(|a| points.clone().map(|b| density(a, b)).sum::<f64>())
        .sum();
    (sum * step * step / std::f64::consts::TAU).ln()
}

#[test]
fn the_samples_of_a_group_are_of_one_observation() {
    // One group: its bound is the evidence of one of two images, not that of their mixture.
    let linear = Schedule::linear(1).unwrap();
    let data = [1.0, 0.0].map(|bit| DVector::from_element(64, bit));
    let decoder = BernoulliDecoder::new(2, 4, 64, 1);
    let evidences = data.each_ref().map(|x| evidence(&decoder, x));
    assert!((evidences[0] - evidences[1]).abs() > 1.5, "{evidences:?}");
    let mut seen = [0; 2];
    for seed in 0..8 {
        let encoder = AmortizedTransitions::new(COUPLING, 2, 64, 1, 7).unwrap();
        let training = Training::new(Objective::ImportanceWeighted { samples: 512 });
        let training = training.iterations(1).batch_size(512).seed(seed);
        let trained = Autoencoder::train(training, encoder, decoder.clone(), &data, &linear);
        let bound = trained.unwrap().encoder.curve[0].objective;
        let errors = evidences.map(|evidence| (bound - evidence).abs());
        assert!(errors[0].min(errors[1]) < 0.3, "{bound} of {evidences:?}");
        seen[usize::from(errors[1] < errors[0])] += 1;
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn couplings_that_do_not_fit_are_refused() {
    let path = path();
    let error = LearnedTransitions::new(COUPLING, 1, 2, 1).unwrap_err();
    assert!(
        error.to_string().contains("got 1, expected at least 2"),
        "{error}"
    );
    let coupling = |hidden, bins| Coupling { hidden, bins };
    for (coupling, dimension, stages) in [
        (coupling(0, 4), 2, 2),
        (COUPLING, 2, 0),
        (COUPLING, usize::MAX, 2),
        (coupling(usize::MAX, 4), 4, 2),
    ] {
        assert!(LearnedTransitions::new(coupling, dimension, stages, 1).is_err());
    }
    let [two, three] = [2, 3].map(|d| {
        let flow = LearnedTransitions::new(COUPLING, d, 1, 1).unwrap();
        flow.transitions()[0].clone()
    });
    assert!(LearnedTransitions::from_transitions(vec![two, three]).is_err());
    for (samples, batch_size) in [(0, 64), (3, 64), (128, 64)] {
        let training = Training::new(Objective::ImportanceWeighted { samples });
        let training = training.iterations(1).batch_size(batch_size);
        let refused = training.train(random(), &path, &schedule());
        assert!(refused.is_err(), "{samples}, {batch_size}");
    }
    let short = Ais::new(&path, random()).schedule(Schedule::linear(2).unwrap());
    assert!(short.run().is_err());
}

#[cfg(feature = "serde")]
#[test]
fn saved_maps_are_validated_as_they_are_read() {
    let flow = random();
    let json = serde_json::to_string(&flow).unwrap();
    let read = |json: &str| serde_json::from_str::<LearnedTransitions>(json);
    assert_eq!(read(&json).unwrap(), flow);
    for (from, to) in [
        ("\"dimension\":2", "\"dimension\":3"),
        ("\"dimension\":2", "\"dimension\":18446744073709551615"),
        ("\"hidden\":8", "\"hidden\":9"),
        ("\"context\":0", "\"context\":1"),
        ("\"bins\":4", "\"bins\":5"),
    ] {
        let damaged = json.replacen(from, to, 1);
        assert!(damaged != json && read(&damaged).is_err(), "{from} to {to}");
    }
    let mixture = Family::Mixture {
        mean: Mean::Affine,
        components: 2,
    };
    let flow = LearnedTransitions::new(mixture, 2, 3, 5).unwrap();
    let json = serde_json::to_string(&flow).unwrap();
    assert_eq!(read(&json).unwrap(), flow);
    for (from, to) in [
        ("\"dimension\":2", "\"dimension\":1"),
        ("\"context\":0", "\"context\":1"),
    ] {
        let damaged = json.replacen(from, to, 1);
        assert!(damaged != json && read(&damaged).is_err(), "{from} to {to}");
    }
}
