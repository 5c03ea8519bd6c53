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
    let path = RbmPath::new(base.clone(), rbm.clone())?;
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
    ais.chains(256).seed(3).run()
}

#[test]
fn finds_the_mass_that_base_rates_miss() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let exact = rbm.exact_log_normalizer()?;
    let missed = run(&rbm, &base, 300)?;
    assert!(missed.log_z() < exact - 20.0 * missed.standard_error());
    let names = missed.warnings().iter().map(Warning::name);
    assert_eq!(names.collect::<Vec<_>>(), ["BelowBound"]);

    let start = StartSearch::new(256, 300).given(base).run(&rbm)?;
    assert!(start.candidates()[0].log_z < exact - 1.0);
    assert!(!start.too_low().is_empty());
    // The run has said so itself.
    assert!(start.warnings_of(&missed).is_empty());
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
    let found = run(&rbm, start.base(), 300)?;
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
        let start = StartSearch::new(256, stages).run(&rbm)?;
        let warnings = start.warnings_of(&run(&rbm, start.base(), stages)?);
        Ok(warnings
            .iter()
            .any(|warning| warning.name() == "WeakSearch"))
    };
    assert!(weak(1.0, 2)?);
    assert!(!weak(0.1, 300)?);
    Ok(())
}

#[test]
fn a_good_base_is_chosen_at_once() -> annealed::Result<()> {
    let weights = DMatrix::from_fn(4, 10, |j, i| 0.2 * ((i + 3 * j) as f64).sin());
    let rbm = Rbm::new(weights, DVector::zeros(4), DVector::repeat(10, -1.0))?;
    let base = BaseRate::new(4, DVector::repeat(10, -1.0))?;
    let start = StartSearch::new(200, 100).given(base.clone()).run(&rbm)?;
    assert_eq!((start.chosen(), start.candidates().len()), (0, 2));
    assert_eq!(start.base(), &base);
    assert!(start.too_low().is_empty());
    Ok(())
}

#[test]
fn without_base_rates_mean_fields_are_tried() -> annealed::Result<()> {
    let (rbm, _) = trap()?;
    let start = StartSearch::new(256, 300).run(&rbm)?;
    assert_eq!(start.candidates()[0].name, "mean field");
    let found = run(&rbm, start.base(), 300)?;
    let error = found.log_z() - rbm.exact_log_normalizer()?;
    assert!(error.abs() < 4.0 * found.standard_error() && found.standard_error() < 0.05);
    Ok(())
}

#[test]
fn one_seed_gives_one_start_on_any_number_of_threads() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let search = |seed| StartSearch::new(150, 60).given(base.clone()).seed(seed);
    let figures = |start: Start| (start.base().clone(), start.candidates().to_vec());
    let one = figures(search(7).threads(1).run(&rbm)?);
    for threads in [None, Some(3)] {
        assert_eq!(figures(search(7).threads(threads).run(&rbm)?), one);
    }
    assert_ne!(figures(search(8).run(&rbm)?), one);
    Ok(())
}

#[test]
fn pilots_take_at_most_half_of_the_runs_chain_steps() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    for (chains, stages) in [(1, 1_000), (10, 400), (256, 100), (4_096, 8)] {
        let start = StartSearch::new(chains, stages)
            .given(base.clone())
            .run(&rbm)?;
        let steps = |c: &annealed::rbm::Candidate| c.chains * c.stages;
        let spent: usize = start.candidates().iter().map(steps).sum();
        // A pilot has at least one stage, and rounds its share of them.
        let rounding: usize = start.candidates().iter().map(|c| c.chains).sum();
        assert!(
            2 * spent <= chains * stages + 2 * rounding,
            "{chains} {stages}: {spent}"
        );
    }
    Ok(())
}

#[test]
fn bad_input_is_named() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let error = |search: StartSearch<'_>| search.run(&rbm).unwrap_err().to_string();
    for (chains, stages, expected) in [
        (0, 5, "invalid chains: got 0, expected at least 1"),
        (5, 0, "invalid stages: got 0, expected at least 1"),
    ] {
        assert_eq!(error(StartSearch::new(chains, stages)), expected);
    }
    let threads = error(StartSearch::new(10, 10).threads(0));
    assert_eq!(threads, "invalid threads: got 0, expected at least 1");
    let other = error(StartSearch::new(10, 10).given(BaseRate::uniform(HIDDEN, 3)?));
    assert!(other.contains("visible units"), "{other}");
    let stop = StartSearch::new(100, 100)
        .given(base)
        .progress(|_| ControlFlow::Break(()));
    assert!(matches!(stop.run(&rbm), Err(Error::Stopped { .. })));
    Ok(())
}

#[cfg(feature = "serde")]
#[test]
fn a_start_is_saved_to_the_last_bit() -> annealed::Result<()> {
    let (rbm, base) = trap()?;
    let start = StartSearch::new(200, 60).given(base).run(&rbm)?;
    assert!(start.base().components().len() > 1);
    let text = serde_json::to_string(&start).unwrap();
    let read: Start = serde_json::from_str(&text).unwrap();
    assert_eq!(read, start);
    let count = start.candidates().len();
    for (chosen, candidates) in [(count, count), (0, 0)] {
        let mut broken: serde_json::Value = serde_json::from_str(&text).unwrap();
        broken["chosen"] = chosen.into();
        broken["candidates"]
            .as_array_mut()
            .unwrap()
            .truncate(candidates);
        let error = serde_json::from_value::<Start>(broken)
            .unwrap_err()
            .to_string();
        let expected =
            format!("invalid chosen: got {chosen}, expected an index below {candidates}");
        assert_eq!(error, expected);
    }
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
