//! Moments of RBMs, machines with given moments, and moment-averaging splines.

use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::model::Sampleable;
use annealed::random::{Purpose, stream};
use annealed::rbm::{
    BaseRate, BlockGibbs, ContrastiveDivergence, ExactMatching, MomentChains, PersistentMatching,
    Rbm, RbmMatching, RbmMoments, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, testing};
use nalgebra::{DMatrix, DVector};
use rand::RngExt;

/// Strong weights, so that the moments are far from the base's.
fn machine(hidden: usize, visible: usize) -> Rbm<f64> {
    let mut rng = stream(6, Purpose::TRAINING, 1);
    let mut draw = |scale: f64| scale * (rng.random::<f64>() - 0.5);
    let weights = DMatrix::from_fn(hidden, visible, |_, _| draw(5.0));
    let hidden_bias = DVector::from_fn(hidden, |_, _| draw(2.0));
    Rbm::new(
        weights,
        hidden_bias,
        DVector::from_fn(visible, |_, _| draw(3.0)),
    )
    .unwrap()
}

fn matching() -> ExactMatching {
    ExactMatching::default().iterations(1_000).tolerance(1e-4)
}

#[test]
fn exact_matching_finds_a_machine_with_the_moments() {
    for (hidden, visible) in [(3, 7), (6, 4), (12, 5)] {
        let rbm = machine(hidden, visible);
        let moments = rbm.exact_moments().unwrap();
        let base = BaseRate::<f64>::uniform(hidden, visible).unwrap();
        let start = RbmPath::new(base, rbm.clone())
            .unwrap()
            .at(0.0)
            .to_rbm()
            .unwrap();
        let found = matching().match_moments(&start, &moments).unwrap();
        let error = found.exact_moments().unwrap().largest_difference(&moments);
        assert!(error <= 1e-4, "{hidden} x {visible}: {error}");
        // A member of an exponential family is known by its moments, if it is of full rank.
        assert!((found.weights() - rbm.weights()).amax() < 0.1);
    }
}

/// A search used to end at a tenth of the error that it may accept, and returned its start for moments as near as these.
#[test]
fn a_search_that_accepts_any_error_searches_all_the_same() {
    let target = machine(4, 7);
    let base = BaseRate::<f64>::uniform(4, 7).unwrap();
    let near = base
        .moments()
        .average(&target.exact_moments().unwrap(), 0.1);
    let moments = near.unwrap();
    let path = RbmPath::new(base, target).unwrap();
    let start = path.at(0.0).to_rbm().unwrap();
    let error = |matching: ExactMatching| {
        let found = matching.match_moments(&start, &moments).unwrap();
        found.exact_moments().unwrap().largest_difference(&moments)
    };
    let any = ExactMatching::default().tolerance(f64::INFINITY);
    assert!(error(any) < 0.01, "{}", error(any));
    let trap = error(any.stop_at(0.1));
    let unmoved = start.exact_moments().unwrap();
    assert_eq!(trap, unmoved.largest_difference(&moments));
    assert!(trap > 0.02, "{trap}");
}

#[test]
fn knots_have_averaged_moments() {
    let target = machine(4, 7);
    let moments = target.exact_moments().unwrap();
    let base = BaseRate::new(4, DVector::from_element(7, -0.5)).unwrap();
    let knots = Schedule::new([0.0, 0.2, 0.5, 0.9, 1.0]).unwrap();
    let path = RbmPath::moment_spline(base.clone(), target, &moments, knots, &matching()).unwrap();
    for (k, &beta) in path.knots().betas().iter().enumerate() {
        let expected = base.moments().average(&moments, beta).unwrap();
        let found = path.at(beta).to_rbm().unwrap().exact_moments().unwrap();
        assert!(found.largest_difference(&expected) < 1e-4, "knot {k}");
    }
    let log_z = |beta| {
        path.at(beta)
            .to_rbm()
            .unwrap()
            .exact_log_normalizer()
            .unwrap()
    };
    let ratio = log_z(1.0) - log_z(0.0);
    let coarse = Schedule::linear(7).unwrap();
    let check = testing::unbiasedness(&path, BlockGibbs, coarse, ratio, 20_000, 3).unwrap();
    assert!(check.passes() && check.standard_error < 0.1, "{check}");
}

/// Against a sum over all joint states, from weak weights to ones that fill the range of f64 a
/// single unit at a time: the blocks of states shrink from 32 to 1.
#[test]
fn enumeration_is_exact_at_every_scale() {
    for (hidden, visible) in [(7, 9), (8, 7), (2, 11), (1, 1)] {
        for scale in [0.02, 1.0, 10.0, 25.0, 60.0, 200.0, 1_000.0] {
            let unit = machine(hidden, visible);
            let rbm = Rbm::new(
                unit.weights() * scale,
                unit.hidden_bias() * scale,
                unit.visible_bias() * scale,
            )
            .unwrap();
            let (log_z, moments) = by_joint_states(&rbm);
            let found = rbm.exact_log_normalizer().unwrap();
            let error = (found - log_z).abs() / (1.0 + log_z.abs());
            assert!(
                error < 1e-13,
                "{hidden} x {visible} times {scale}: {error:e}"
            );
            let error = rbm.exact_moments().unwrap().largest_difference(&moments);
            // A log probability is known to the rounding of an energy.
            let rounding = 1e-13 * (1.0 + log_z.abs());
            assert!(
                error < rounding,
                "{hidden} x {visible} times {scale}: {error:e}"
            );
        }
    }
}

/// `log Z` and the moments by summing over `2^(M + D)` states.
fn by_joint_states(rbm: &Rbm<f64>) -> (f64, RbmMoments) {
    let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
    let bits = |state: usize, units: usize| -> Vec<bool> {
        (0..units).map(|i| state >> i & 1 == 1).collect()
    };
    let states: Vec<_> = (0..1 << (hidden + visible))
        .map(|state| (bits(state, visible), bits(state >> visible, hidden)))
        .collect();
    let log_f: Vec<f64> = states.iter().map(|(v, h)| -rbm.energy(v, h)).collect();
    let log_z = annealed::estimate::log_sum_exp(&log_f);
    let mut moments = RbmMoments {
        visible: DVector::zeros(visible),
        hidden: DVector::zeros(hidden),
        interaction: DMatrix::zeros(hidden, visible),
    };
    for ((v, h), log_f) in states.iter().zip(&log_f) {
        let p = (log_f - log_z).exp();
        let v = DVector::from_iterator(visible, v.iter().map(|&on| f64::from(on)));
        let h = DVector::from_iterator(hidden, h.iter().map(|&on| f64::from(on)));
        moments.visible.axpy(p, &v, 1.0);
        moments.hidden.axpy(p, &h, 1.0);
        moments.interaction.ger(p, &h, &v, 1.0);
    }
    (log_z, moments)
}

/// `KL(p || q) + KL(q || p)` by enumerating the joint states.
#[test]
fn mean_energies_give_the_symmetrised_divergence() {
    let (p, q) = (
        machine(3, 5),
        RbmPath::new(BaseRate::uniform(3, 5).unwrap(), machine(3, 5)),
    );
    let q = q.unwrap().at(0.4).to_rbm().unwrap();
    let (s, t) = (p.exact_moments().unwrap(), q.exact_moments().unwrap());
    let found = p.mean_energy(&t) - p.mean_energy(&s) + q.mean_energy(&s) - q.mean_energy(&t);
    let log_z = [&p, &q].map(|rbm| rbm.exact_log_normalizer().unwrap());
    let bits = |state: usize, units: usize| -> Vec<bool> {
        (0..units).map(|i| state >> i & 1 == 1).collect()
    };
    let mut expected = 0.0;
    for state in 0..1 << 8 {
        let (v, h) = (bits(state, 5), bits(state >> 5, 3));
        let log_p = -p.energy(&v, &h) - log_z[0];
        let log_q = -q.energy(&v, &h) - log_z[1];
        expected += (log_p.exp() - log_q.exp()) * (log_p - log_q);
    }
    assert!((found - expected).abs() < 1e-10, "{found} {expected}");
}

#[test]
fn chains_estimate_the_moments() {
    let rbm = machine(4, 7);
    let exact = rbm.exact_moments().unwrap();
    let chains = MomentChains::full().chains(300).sweeps(400).burn_in(100);
    let found = chains.moments(&rbm).unwrap();
    // 90,000 states whose autocorrelation time is some ten sweeps: a standard error of 0.005.
    let error = found.largest_difference(&exact);
    assert!(error < 0.02 && error > 0.0, "{error}");
    assert_eq!(found, chains.moments(&rbm).unwrap());
    assert_ne!(found, chains.seed(1).moments(&rbm).unwrap());
}

#[test]
fn data_of_the_machine_have_its_moments() {
    let rbm = machine(4, 7);
    let exact = annealed::rbm::EnumeratedRbm::new(rbm.clone()).unwrap();
    let mut rng = stream(1, Purpose::PILOT, 0);
    let data: Vec<_> = (0..20_000).map(|_| exact.sample(&mut rng)).collect();
    let found = RbmMoments::from_data(&rbm, &data).unwrap();
    // 39 moments with a standard error below 0.5 / sqrt(20,000) each.
    let error = found.largest_difference(&rbm.exact_moments().unwrap());
    assert!(error < 4.5 * 0.5 / 20_000_f64.sqrt(), "{error}");
    assert!(RbmMoments::from_data(&rbm, &[]).is_err());
    assert!(RbmMoments::from_data(&rbm, &[vec![true; 6]]).is_err());
}

#[test]
fn persistent_chains_match_moments_roughly() {
    let target = machine(4, 7);
    let moments = target.exact_moments().unwrap();
    let base = BaseRate::<f64>::uniform(4, 7).unwrap();
    let matching = PersistentMatching::cheap()
        .updates(4_000)
        .learning_rate(0.05);
    let knots = Schedule::linear(2).unwrap();
    let path = RbmPath::moment_spline(base.clone(), target, &moments, knots, &matching).unwrap();
    let expected = base.moments().average(&moments, 0.5).unwrap();
    let found = path.at(0.5).to_rbm().unwrap().exact_moments().unwrap();
    let error = found.largest_difference(&expected);
    assert!(error < 0.05, "{error}");
    assert!(base.moments().largest_difference(&expected) > 0.15);
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(20).unwrap());
    let run = ais.seed(2).run().unwrap();
    let error = run.log_z() - path.target().exact_log_normalizer().unwrap();
    assert!(error.abs() < 4.0 * run.standard_error() && run.standard_error() < 0.1);
}

#[test]
fn moments_that_cannot_be_matched_are_errors() {
    let rbm = machine(3, 5);
    let moments = rbm.exact_moments().unwrap();
    let start = BaseRate::<f64>::uniform(3, 5).unwrap();
    let start = RbmPath::new(start, rbm).unwrap().at(0.0).to_rbm().unwrap();
    let few = matching()
        .iterations(2)
        .match_moments(&start, &moments)
        .unwrap_err();
    assert!(matches!(few, Error::NotConverged { .. }), "{few}");
    let persistent = PersistentMatching::cheap();
    // Both units on more often than either.
    let mut impossible = moments.clone();
    impossible.interaction[(1, 2)] = impossible.hidden[1] + 0.1;
    let mut missing = moments.clone();
    missing.visible[0] = f64::NAN;
    let short = machine(2, 5).exact_moments().unwrap();
    for bad in [impossible, missing, short.clone()] {
        for error in [
            matching().match_moments(&start, &bad).unwrap_err(),
            persistent.match_moments(&start, &bad).unwrap_err(),
        ] {
            assert!(error.to_string().contains("moments"), "{error}");
        }
    }
    assert!(moments.average(&short, 0.5).is_err());
    assert!(
        matching()
            .tolerance(f64::NAN)
            .match_moments(&start, &moments)
            .is_err()
    );
    assert!(
        persistent
            .particles(0)
            .match_moments(&start, &moments)
            .is_err()
    );
    assert!(
        persistent
            .learning_rate(-1.0)
            .match_moments(&start, &moments)
            .is_err()
    );
    assert!(
        persistent
            .learning_rate(1e300)
            .match_moments(&start, &moments)
            .is_err()
    );
    assert!(MomentChains::full().chains(0).moments(&start).is_err());
    assert!(MomentChains::full().sweeps(1_000).moments(&start).is_err());
    let large = Rbm::new(
        DMatrix::zeros(26, 30),
        DVector::zeros(26),
        DVector::zeros(30),
    )
    .unwrap();
    let uniform = BaseRate::<f64>::uniform(26, 30).unwrap().moments();
    assert!(matching().match_moments(&large, &uniform).is_err());
}

/// The shares of the chains that are effective, on the straight path and on the spline from the
/// uniform base to a machine of digits, sharpened. The seed is that of its training.
fn efficiencies(seed: u64) -> [f64; 2] {
    let images = annealed::data::digits().images;
    let start = Rbm::<f32>::from_data(8, &images, seed).unwrap();
    let training = ContrastiveDivergence::new(1).epochs(20).seed(seed);
    let trained = training.train(start, &images).unwrap().rbm;
    let target = Rbm::new(
        trained.weights() * 3.0,
        trained.hidden_bias() * 3.0,
        trained.visible_bias() * 3.0,
    );
    let target = target.unwrap();
    let moments = target.exact_moments().unwrap();
    let exact = target.exact_log_normalizer().unwrap();
    let base = BaseRate::uniform(8, target.visible_units()).unwrap();
    let straight = RbmPath::new(base.clone(), target.clone()).unwrap();
    let knots = Schedule::linear(10).unwrap();
    let matching = ExactMatching::default().iterations(300);
    let spline = RbmPath::moment_spline(base, target, &moments, knots, &matching).unwrap();
    [straight, spline].map(|path| {
        let run = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(300).unwrap())
            .chains(400)
            .seed(1)
            .run()
            .unwrap();
        let error = run.log_z() - exact;
        assert!(error.abs() < 4.0 * run.standard_error(), "{error}");
        run.effective_sample_size() / 400.0
    })
}

/// Over 150 machines that differ in their seed the median share is .39, and .18 on the straight path;
/// the ratio has a median of 2.1, and 137 machines have one above 1. A heavy weight may spoil any
/// single run. The medians of nine machines fall to the bounds below in one draw of some 700.
#[test]
fn the_spline_beats_the_straight_path_from_the_uniform_base() {
    let machines: Vec<_> = (1..=9).map(efficiencies).collect();
    let median = |value: fn(&[f64; 2]) -> f64| {
        let mut values: Vec<f64> = machines.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = median(|[straight, spline]| spline / straight);
    let share = median(|[_, spline]| *spline);
    assert!(ratio > 1.25 && share > 0.26, "{machines:?}");
}

/// The acceptance run of the moment-averaging spline: 20 x 784 units, from the uniform base, nine
/// knots with exact moments. Minutes: `cargo test --release --test it rbm::moments -- --ignored
/// --nocapture`.
#[test]
#[ignore = "enumerates 2^20 states some 300 times"]
fn the_spline_reaches_a_machine_trained_on_digits() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rbm20_cd1.npz");
    let file = annealed_files::RbmFile::<f32>::read(path).unwrap();
    let base = BaseRate::uniform(20, 784).unwrap();
    let moments = file.rbm.exact_moments().unwrap();
    let knots = Schedule::linear(10).unwrap();
    let begun = std::time::Instant::now();
    let path = RbmPath::moment_spline(
        base.clone(),
        file.rbm,
        &moments,
        knots,
        &ExactMatching::default(),
    )
    .unwrap();
    eprintln!("matched in {:.0} s", begun.elapsed().as_secs_f64());
    for (k, &beta) in path.knots().betas().iter().enumerate() {
        let expected = base.moments().average(&moments, beta).unwrap();
        let found = path.at(beta).to_rbm().unwrap().exact_moments().unwrap();
        let error = found.largest_difference(&expected);
        eprintln!("knot {k}: a moment is off by {error:.4}");
        assert!(error <= 0.01, "knot {k}: {error}");
    }
    for seed in 1..=3 {
        let run = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(10_000).unwrap())
            .chains(500)
            .seed(seed)
            .run()
            .unwrap();
        let error = run.log_z() - file.log_z_exact.unwrap();
        let share = run.effective_sample_size() / 500.0;
        let standard_error = run.standard_error();
        eprintln!("seed {seed}: error {error:+.3} ({standard_error:.3}), ESS/N {share:.3}");
        assert!(error.abs() < 0.3 && share > 0.2, "{error} {share}");
    }
}
