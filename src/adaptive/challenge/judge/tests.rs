use super::*;
use crate::ais::{Ais, Run};
use crate::kernel::RandomWalkMetropolis;
use crate::model::{Gaussian, NormalizedModel};
use crate::path::GeometricPath;
use crate::schedule::Schedule;
use nalgebra::dvector;

/// A result with an estimate, its error, an interval, and perhaps a bound or warnings.
struct Fixed([f64; 2], [f64; 2], Option<f64>, Vec<Warning>);

fn even([lower, upper]: [f64; 2], bound: Option<f64>) -> Fixed {
    let figures = [0.5 * (lower + upper), 0.25 * (upper - lower)];
    Fixed(figures, [lower, upper], bound, Vec::new())
}

impl LogZ for Fixed {
    fn log_z(&self) -> f64 {
        self.0[0]
    }

    fn standard_error(&self) -> f64 {
        self.0[1]
    }

    fn interval_at(&self, _level: f64) -> Result<(f64, f64)> {
        Ok(self.1.into())
    }

    fn certified_lower_bound(&self, _confidence: f64) -> Result<Option<f64>> {
        Ok(self.2)
    }

    fn warnings(&self) -> &[Warning] {
        &self.3
    }

    fn evaluations(&self) -> u64 {
        1
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.1)
    }
}

fn second() -> Run<nalgebra::DVector<f64>> {
    let target = Gaussian::isotropic(dvector![1.0], 0.5).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
    Ais::new(&path, RandomWalkMetropolis::new(0.7).unwrap())
        .schedule(Schedule::linear(50).unwrap())
        .chains(400)
        .run()
        .unwrap()
}

#[test]
fn bounds_that_are_compared_share_the_level() {
    let second = second();
    let bound = |confidence| second.certified_lower_bound(confidence).unwrap().unwrap();
    // Between the bounds at half the level and at the whole level.
    let upper = 0.5 * (bound(0.995) + bound(0.99));
    let judged = |own| {
        let first = even([upper - 0.2, upper], own);
        Judged::new(&first, &second, 0.99).unwrap().judgement()
    };
    let alone = judged(None);
    assert!(
        matches!(alone, Judgement::Contradicted { bound: found, .. } if found == bound(0.99)),
        "{alone:?}"
    );
    let with_another = judged(Some(upper - 10.0));
    assert!(
        !matches!(with_another, Judgement::Contradicted { .. }),
        "{with_another:?}"
    );
    // The only bound may be the first result's.
    let other = even([upper - 0.2, upper], None);
    let judged = Judged::new(&second, &other, 0.99).unwrap();
    let found = judged.certified_lower_bound(0.99).unwrap();
    assert_eq!(found, Some(bound(0.99)));
}

#[test]
fn a_second_run_with_warnings_has_a_say_where_it_lies_above_or_they_do_no_harm() {
    let plain = second();
    let (lower, upper) = plain.interval();
    let judged = |interval, warning| {
        let mut second = plain.clone();
        second.warn([warning]);
        let first = even(interval, None);
        Judged::new(&first, &second, 0.99).unwrap().judgement()
    };
    let concentrated = Warning::ConcentratedVariance {
        stage: 1,
        beta: 0.1,
        share: 0.9,
    };
    let dead = Warning::DeadChains {
        dead: 1,
        chains: 400,
    };
    let heavy = Warning::HeavyTail { k_hat: 0.8 };
    for harmless in [concentrated, dead] {
        let same = judged([lower, upper], harmless);
        assert!(matches!(same, Judgement::Confirmed), "{same:?}");
    }
    assert_eq!(
        judged([lower - 1.0, upper], heavy.clone()),
        Judgement::Undecided
    );
    // The second result lies above the first interval, but its certified bound does not.
    let above = judged([lower - 1.0, lower - 1e-6], heavy);
    assert!(matches!(above, Judgement::Improved { .. }), "{above:?}");
}

#[test]
fn an_improvement_within_the_first_interval_keeps_its_upper_end_and_its_warnings() {
    let plain = second();
    let (lower, upper) = plain.interval();
    let few = Warning::FewFamilies { effective: 2.0 };
    let result = |interval, check: &dyn Fn(Judged<'_>)| {
        let first = Fixed([lower - 1.0, 0.1], interval, None, vec![few.clone()]);
        check(Judged::new(&first, &plain, 0.99).unwrap());
    };
    result([lower - 3.0, upper + 2.0], &|found| {
        let interval = (lower, upper + 2.0);
        let log_z = plain.log_z();
        assert_eq!(found.judgement(), Judgement::Improved { log_z, interval });
        assert_eq!((found.log_z(), found.interval()), (log_z, interval));
        assert_eq!(found.warnings(), std::slice::from_ref(&few));
    });
    // If the second run lies above the first interval, the first result and its warnings do not count.
    result([lower - 3.0, lower - 1e-6], &|found| {
        assert_eq!(found.interval(), plain.interval());
        let low = Warning::FirstRunTooLow {
            first: lower - 1.0,
            bound: None,
        };
        assert_eq!(found.warnings(), [low]);
    });
}

#[test]
fn an_undecided_challenge_warns() {
    let mut plain = second();
    let first = even(plain.interval().into(), None);
    plain.warn([Warning::HeavyTail { k_hat: 0.8 }]);
    let judged = Judged::new(&first, &plain, 0.99).unwrap();
    assert_eq!(judged.judgement(), Judgement::Undecided);
    assert_eq!(judged.interval(), first.interval());
    let [Warning::ChallengeUndecided { reason, .. }] = judged.warnings() else {
        panic!("{judged}");
    };
    assert_eq!(reason, "has warnings");
}

#[test]
fn without_a_comparison_of_the_normaliser_a_second_run_proves_nothing() {
    let plain = second();
    let (lower, upper) = plain.interval();
    for interval in [[lower - 3.0, lower - 2.0], [lower - 3.0, upper]] {
        let first = even(interval, Some(-7.0));
        assert!(Judged::new(&first, &plain, 0.99).unwrap().is_better());
        let found = Judged::from_base(&first, &plain, 0.99, false).unwrap();
        assert_eq!(found.judgement(), Judgement::Undecided);
        assert_eq!(found.certified_lower_bound(0.99).unwrap(), Some(-7.0));
        let text = found.to_string();
        assert!(text.contains("could not be compared"), "{text}");
    }
    // A first result above the second: another normaliser would not help it.
    let first = even([upper + 1.0, upper + 2.0], None);
    let found = Judged::from_base(&first, &plain, 0.99, false).unwrap();
    let text = found.to_string();
    assert!(text.contains("lies below the first"), "{text}");
    let first = even([lower, upper], None);
    let same = Judged::from_base(&first, &plain, 0.99, false).unwrap();
    assert_eq!(same.judgement(), Judgement::Confirmed);
}

#[test]
fn each_judgement_has_its_case() {
    let second = second();
    let (lower, upper) = second.interval();
    let log_z = Gaussian::isotropic(dvector![1.0], 0.5)
        .unwrap()
        .log_normalizer();
    assert!(lower < log_z && log_z < upper);
    let judged = |interval: [f64; 2], own| {
        let first = even(interval, own);
        Judged::new(&first, &second, 0.99).unwrap().judgement()
    };
    assert_eq!(judged([lower, upper], None), Judgement::Confirmed);
    let wide = judged([lower - 1.0, upper], None);
    assert!(matches!(wide, Judgement::Improved { .. }), "{wide:?}");
    // With skewed weights the first interval contains log Z, although log Z is several standard errors away.
    let skewed = |error| {
        let first = Fixed(
            [lower - 0.04, error],
            [lower - 0.05, upper],
            None,
            Vec::new(),
        );
        let judged = Judged::new(&first, &second, 0.99).unwrap();
        matches!(judged.judgement(), Judgement::Improved { .. })
    };
    assert!(upper - lower > 0.05, "so narrow that its width decides");
    assert!(skewed(0.009) && !skewed(0.011));
    // A narrower interval that lies lower is no improvement.
    let high = judged([lower, upper + 0.5], None);
    assert!(matches!(high, Judgement::Confirmed), "{high:?}");
    let end = second.interval_at(0.99).unwrap().1;
    let near = judged([end - 1e-6, end + 1.0], None);
    assert!(matches!(near, Judgement::Confirmed), "{near:?}");
    for (first, own) in [
        ([end + 1e-6, end + 1.0], None),
        ([upper, end + 1.0], Some(upper + 1e-6)),
    ] {
        assert_eq!(judged(first, own), Judgement::Undecided);
    }
}

/// Chains that do not follow a valley are too slow in the second run, too.
#[test]
fn a_better_second_run_keeps_the_warning_that_chains_do_not_follow_the_target() {
    let second = second();
    let merged = Warning::MergedFamilies {
        effective: 5.0,
        chains: 256,
        stages: 100,
        barrier: 10.0,
        may_fit: true,
    };
    let heavy = Warning::HeavyTail { k_hat: 0.8 };
    let (lower, bound) = (second.interval().0, second.certified_lower_bound(0.99));
    for upper in [lower - 1e-6, bound.unwrap().unwrap() - 1.0] {
        let mut first = even([upper - 0.2, upper], None);
        first.3 = vec![merged.clone(), heavy.clone()];
        let judged = Judged::new(&first, &second, 0.99).unwrap();
        let warnings = judged.warnings();
        assert!(
            warnings.contains(&merged) && !warnings.contains(&heavy),
            "{judged}"
        );
        let told = |warning: &Warning| matches!(warning, Warning::FirstRunTooLow { .. });
        assert!(warnings.iter().any(told), "{judged}");
    }
}

/// Two exact results that differ by rounding confirm each other, whichever is larger.
#[test]
fn rounding_decides_nothing() {
    for (one, other) in [(612.742, 612.742 + 2e-13), (612.742 + 2e-13, 612.742)] {
        let (first, second) = (
            even([one, one], Some(one)),
            even([other, other], Some(other)),
        );
        let judged = Judged::new(&first, &second, 0.99).unwrap();
        assert_eq!(judged.judgement(), Judgement::Confirmed, "{judged}");
    }
}
