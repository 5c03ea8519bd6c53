//! The search for a base from which a run finds an RBM's mass.

use std::ops::ControlFlow;

use annealed::Error;
use annealed::estimate::Warning;
use annealed::prelude::*;
use annealed::rbm::{Start, StartSearch};

const HIDDEN: usize = 6;
const VISIBLE: usize = 60;

/// Nine tenths of the mass have the first hidden unit on, with half of the visible units; the base rates of the rest hardly
/// ever turn one of them on.
fn trap() -> annealed::Result<(Rbm<f32>, BaseRate<f32>)> {
    let bias = -2.2_f32;
    let gain =
        |w: f64| ((f64::from(bias) + w).exp().ln_1p() - f64::from(bias).exp().ln_1p()) * 30.0;
    let weights = DMatrix::from_fn(HIDDEN, VISIBLE, |j, i| match j {
        0 if i < 30 => 4.0,
        0 => 0.0,
        _ => 0.3 * ((i * j) as f32).sin(),
    });
    let hidden = DVector::from_fn(HIDDEN, |j, _| match j {
        0 => (9_f64.ln() - gain(4.0)) as f32,
        _ => -0.5,
    });
    let rbm = Rbm::new(weights, hidden, DVector::repeat(VISIBLE, bias))?;
    let base = BaseRate::new(HIDDEN, DVector::repeat(VISIBLE, bias))?;
    Ok((rbm, base))
}

fn run(rbm: &Rbm<f32>, base: &BaseRate<f32>, stages: usize) -> annealed::Result<Run<Vec<bool>>> {
    run_along(&RbmPath::new(base.clone(), rbm.clone())?, stages)
}

fn run_along(path: &RbmPath, stages: usize) -> annealed::Result<Run<Vec<bool>>> {
    let ais = Ais::new(path, BlockGibbs).schedule(Schedule::linear(stages)?);
    ais.chains(256).seed(3).run()
}

/// Six hidden units that share `pixels`: all of them on hold 90% of the mass, and each alone costs some hundred nats. Log Z
/// is the sum over how many of them are on. With the roles of the layers exchanged it is the same.
fn pattern(pixels: usize) -> annealed::Result<(Rbm<f32>, f64)> {
    let (units, bias) = (6, -3.0_f64);
    let softplus = |x: f64| x.exp().ln_1p();
    let weight = f64::from(1.3_f32);
    let gain = pixels as f64 * (softplus(bias + units as f64 * weight) - softplus(bias));
    let hidden = f64::from(((9_f64.ln() - gain) / units as f64) as f32);
    let ways = [1.0_f64, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0];
    let terms = ways.iter().zip(0..).map(|(ways, k)| {
        let on = f64::from(k);
        ways.ln() + on * hidden + pixels as f64 * softplus(bias + on * weight)
    });
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    let log_z = largest + terms.map(|term| (term - largest).exp()).sum::<f64>().ln();
    let weights = DMatrix::repeat(units, pixels, weight as f32);
    let rbm = Rbm::new(
        weights,
        DVector::repeat(units, hidden as f32),
        DVector::repeat(pixels, bias as f32),
    )?;
    Ok((rbm, log_z))
}

/// No short pilot comes to the pattern, so that a base chosen from theirs misses 90% of the mass without a word.
#[test]
fn a_mode_off_the_way_of_all_pilots_is_found() -> annealed::Result<()> {
    let (rbm, log_z) = pattern(80)?;
    assert!((rbm.exact_log_normalizer()? - log_z).abs() < 1e-4);
    let exchanged = Rbm::new(
        rbm.weights().transpose(),
        rbm.visible_bias().clone(),
        rbm.hidden_bias().clone(),
    )?;
    for rbm in [rbm, exchanged] {
        let base = BaseRate::new(rbm.hidden_units(), rbm.visible_bias().clone())?;
        let missed = run(&rbm, &base, 1_000)?;
        assert!(missed.log_z() < log_z - 2.0);
        let is_bound = |warning: &Warning| matches!(warning, Warning::BelowBound { .. });
        assert!(missed.warnings().iter().any(is_bound), "{missed}");
        for seed in 0..4 {
            let start = StartSearch::new(500)
                .given(base.clone())
                .seed(seed)
                .run(&rbm)?;
            let found = run_along(&start.path(rbm.clone())?, 500)?;
            let (error, se) = (found.log_z() - log_z, found.standard_error());
            let is_right = error.abs() < 4.0 * se && se < 0.1;
            // In six visible units the components lie on one another, and not all searches succeed.
            let (lower, upper) = found.interval();
            let is_honest = (lower..upper).contains(&log_z) || !found.warnings().is_empty();
            let is_known = is_honest && rbm.hidden_units() > 6;
            assert!(is_right || is_known, "{start}{found}; {log_z}");
        }
    }
    Ok(())
}

/// Coins of 200 visible units turn none of the six hidden units on.
#[test]
fn the_bound_of_a_short_run_begins_at_coins_of_the_hidden_units() -> annealed::Result<()> {
    let (rbm, log_z) = pattern(200)?;
    let base = BaseRate::new(HIDDEN, rbm.visible_bias().clone())?;
    let bound = RbmPath::new(base, rbm)?.lower_bound(&[], 10_000)?;
    assert!(
        bound > log_z - 0.2 && bound < log_z + 1e-3,
        "{bound}, {log_z}"
    );
    Ok(())
}

#[test]
fn the_start_is_a_mixture_of_all_bases_that_found_mass() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let start = StartSearch::new(300).given(base).run(&rbm)?;
    let shares = start.candidates().iter().map(|one| one.share);
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-12);
    for one in start.candidates() {
        let found = one.log_z + 3.0 * one.standard_error > start.bound().value - 4.0;
        let is_all = one.name == "all of these";
        assert!(one.share == 0.0 || one.share > 0.03, "{start}");
        assert!(!is_all || one.share == 0.0, "{start}");
        assert!(
            !found || is_all || one.share > 0.03 || one.base.components().len() > 2,
            "{start}"
        );
    }
    let mut components: Vec<_> = start
        .base()
        .components()
        .map(|(_, logits)| logits.into_owned())
        .collect();
    let count = components.len();
    components.dedup();
    assert_eq!(components.len(), count);
    Ok(())
}

#[test]
fn finds_the_mass_that_base_rates_miss() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let exact = rbm.exact_log_normalizer()?;
    let missed = run(&rbm, &base, 300)?;
    assert!(missed.log_z() < exact - 20.0 * missed.standard_error());
    let names = missed.warnings().iter().map(Warning::name);
    assert_eq!(names.collect::<Vec<_>>(), ["BelowBound"]);

    let start = StartSearch::new(300).given(base).run(&rbm)?;
    assert!(start.candidates()[0].log_z < exact - 1.0);
    assert!(!start.too_low().is_empty());
    // The run has said itself that a bound is above it.
    let more = start.warnings_of(&missed);
    assert_eq!(
        more.iter().map(Warning::name).collect::<Vec<_>>(),
        ["HigherPilot"]
    );
    start.check(&rbm)?;
    let other = Rbm::new(
        rbm.weights() * 2.0,
        rbm.hidden_bias().clone(),
        rbm.visible_bias().clone(),
    )?;
    assert!(
        start
            .check(&other)
            .unwrap_err()
            .to_string()
            .contains("other parameters")
    );
    assert!(start.path(other).is_err());
    let found = run_along(&start.path(rbm.clone())?, 300)?;
    let error = found.log_z() - exact;
    assert!(
        error.abs() < 4.0 * found.standard_error(),
        "{start}{found}; exact {exact}"
    );
    assert!(
        found.standard_error() < 0.05 && found.effective_sample_size() > 128.0,
        "{found}"
    );
    assert!(found.warnings().is_empty() && start.warnings_of(&found).is_empty());
    Ok(())
}

/// Many hidden units of strong weights: two stages are too few for any pilot.
#[test]
fn a_search_by_few_effective_samples_says_so() -> annealed::Result<()> {
    let weights = |size: f32| DMatrix::from_fn(40, 60, |j, i| size * ((1 + i * j) as f32).sin());
    let weak = |size, stages| -> annealed::Result<bool> {
        let rbm = Rbm::new(weights(size), DVector::zeros(40), DVector::zeros(60))?;
        let start = StartSearch::new(stages).run(&rbm)?;
        let run = run_along(&start.path(rbm)?, stages)?;
        assert!(start.warnings_of(&run).is_empty());
        Ok(run
            .warnings()
            .iter()
            .any(|warning| warning.name() == "WeakSearch"))
    };
    assert!(weak(1.0, 2)?);
    assert!(!weak(0.1, 300)?);
    Ok(())
}

#[test]
fn the_search_ends_early_if_the_first_base_is_good() -> annealed::Result<()> {
    let weights = DMatrix::from_fn(4, 10, |j, i| 0.2 * ((i + 3 * j) as f32).sin());
    let rbm = Rbm::new(weights, DVector::zeros(4), DVector::repeat(10, -1.0))?;
    let base = BaseRate::new(4, DVector::repeat(10, -1.0))?;
    let start = StartSearch::new(100).given(base).run(&rbm)?;
    assert_eq!(start.candidates().len(), 3);
    let run = run_along(&start.path(rbm)?, 100)?;
    assert!(run.effective_sample_size() > 230.0, "{start}{run}");
    assert!(start.too_low().is_empty());
    Ok(())
}

#[test]
fn without_base_rates_mean_fields_are_tried() -> annealed::Result<()> {
    let (rbm, _) = trap()?;
    let start = StartSearch::new(300).run(&rbm)?;
    assert_eq!(start.candidates()[0].name, "mean field");
    let found = run(&rbm, start.base(), 300)?;
    let error = found.log_z() - rbm.exact_log_normalizer()?;
    assert!(error.abs() < 4.0 * found.standard_error() && found.standard_error() < 0.05);
    Ok(())
}

#[test]
fn one_seed_gives_one_start_on_any_number_of_threads() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let search = |seed| StartSearch::new(60).given(base.clone()).seed(seed);
    let figures = |start: Start| (start.base().clone(), start.candidates().to_vec());
    let one = figures(search(7).threads(1).run(&rbm)?);
    for threads in [None, Some(3)] {
        assert_eq!(figures(search(7).threads(threads).run(&rbm)?), one);
    }
    assert_ne!(figures(search(8).run(&rbm)?), one);
    Ok(())
}

#[test]
fn pilots_take_1024_chain_steps_for_each_stage() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    for stages in [1, 8, 300] {
        let start = StartSearch::new(stages).given(base.clone()).run(&rbm)?;
        let steps = |c: &annealed::rbm::Candidate| c.chains * c.stages;
        let spent: usize = start.candidates().iter().map(steps).sum();
        // A pilot has at least one stage, and rounds its share of them.
        assert!(spent <= 1_024 * stages + 6 * 512, "{stages}: {spent}");
    }
    Ok(())
}

/// Twelve hidden units with thirty pixels each, all of them on or off with probability 1/2. Log Z is a sum over the units.
fn blocks() -> annealed::Result<(Rbm<f32>, f64)> {
    let (units, pixels, weight, bias) = (12, 30, 4.0, -2.2);
    let softplus = |x: f64| x.exp().ln_1p();
    let of_one = f64::from(pixels) * softplus(f64::from(bias));
    let hidden = of_one - f64::from(pixels) * softplus(f64::from(bias + weight));
    let weights = DMatrix::from_fn(units, units * pixels as usize, |j, i| {
        weight * f32::from(u8::from(i / pixels as usize == j))
    });
    let visible = DVector::repeat(weights.ncols(), bias);
    let rbm = Rbm::new(weights, DVector::repeat(units, hidden as f32), visible)?;
    Ok((rbm, units as f64 * (2_f64.ln() + of_one)))
}

#[test]
fn a_second_round_of_pilots_follows_a_first_without_many_effective_chains() -> annealed::Result<()>
{
    let (trap, _) = trap()?;
    let (blocks, log_z) = blocks()?;
    let exact = trap.exact_log_normalizer()?;
    for (rbm, log_z, stages) in [(trap, exact, 375), (blocks, log_z, 1_125)] {
        let start = StartSearch::new(4_000).run(&rbm)?;
        assert_eq!(start.candidates()[0].stages, stages, "{start}");
        let found = run_along(&start.path(rbm)?, 4_000)?;
        let (error, se) = (found.log_z() - log_z, found.standard_error());
        assert!(
            error.abs() < 4.0 * se && se < 0.3,
            "{start}{found}; {log_z}"
        );
    }
    Ok(())
}

#[test]
fn a_run_knows_the_certain_bound_of_its_path() -> annealed::Result<()> {
    let (rbm, log_z) = pattern(80)?;
    let base = BaseRate::new(HIDDEN, rbm.visible_bias().clone())?;
    let path = RbmPath::new(base, rbm)?;
    let found = run_along(&path, 100)?;
    let mut chains = Vec::from_iter(found.log_weights().iter().zip(found.states()));
    chains.sort_by(|one, other| other.0.total_cmp(one.0));
    let states = Vec::from_iter(chains.into_iter().map(|(_, state)| state));
    let bound = path.lower_bound(&states, 256 * 100)?;
    assert_eq!(found.certain_lower_bound(), Some(bound));
    assert!(bound > log_z - 0.2 && found.log_z() < bound, "{bound}");
    Ok(())
}

#[test]
fn bad_input_is_named() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let error = |search: StartSearch<'_>| search.run(&rbm).unwrap_err().to_string();
    let expected = "invalid stages: got 0, expected at least 1";
    assert_eq!(error(StartSearch::new(0)), expected);
    let threads = error(StartSearch::new(10).threads(0));
    assert_eq!(threads, "invalid threads: got 0, expected at least 1");
    let other = error(StartSearch::new(10).given(BaseRate::uniform(HIDDEN, 3)?));
    assert!(other.contains("visible units"), "{other}");
    let stop = StartSearch::new(100)
        .given(base)
        .progress(|_| ControlFlow::Break(()));
    assert!(matches!(stop.run(&rbm), Err(Error::Stopped { .. })));
    Ok(())
}

#[cfg(feature = "serde")]
#[test]
fn a_start_is_saved_to_the_last_bit() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let start = StartSearch::new(60).given(base).run(&rbm)?;
    assert!(start.base().components().len() > 1);
    let text = serde_json::to_string(&start).unwrap();
    let read: Start = serde_json::from_str(&text).unwrap();
    assert_eq!(read, start);
    let base = serde_json::to_string(start.base()).unwrap();
    for (from, to) in [
        ("\"shares\":[", "\"shares\":[2.0,"),
        ("\"hidden_units\":6", "\"hidden_units\":0"),
    ] {
        let broken = base.replacen(from, to, 1);
        assert!(
            serde_json::from_str::<BaseRate<f32>>(&broken).is_err(),
            "{from}"
        );
    }
    Ok(())
}
