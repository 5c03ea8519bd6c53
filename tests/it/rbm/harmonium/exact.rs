//! Densities, conditionals, log Z and samples, against sums and integrals by hand.

use annealed::harmonium::{
    CategoricalUnits, EnumeratedHarmonium, GaussianUnits, Harmonium, HarmoniumPath, VisibleUnits,
};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{BetaDerivative, Intermediate};
use annealed::random::{Purpose, stream};
use nalgebra::{DVector, dvector};

use super::{assert_close, biases_of, bits, categorical, gaussian, normal, triples, wide};

/// `log f(v, h)` of a Gaussian machine, from its definition.
fn gaussian_joint(machine: &Harmonium<GaussianUnits>, v: &DVector<f64>, h: &[bool]) -> f64 {
    let (means, deviations) = (machine.visible().means(), machine.visible().deviations());
    let mut log_f = 0.0;
    for i in 0..v.len() {
        log_f -= ((v[i] - means[i]) / deviations[i]).powi(2) / 2.0;
        for j in (0..h.len()).filter(|&j| h[j]) {
            log_f += machine.weights()[(j, i)] * v[i];
        }
    }
    log_f + biases_of(machine.hidden_bias(), h)
}

/// `log f(v, h)` of a categorical machine, from its definition.
fn categorical_joint(machine: &Harmonium<CategoricalUnits>, v: &[usize], h: &[bool]) -> f64 {
    let categories = machine.visible().categories();
    let mut log_f = 0.0;
    for (i, &k) in v.iter().enumerate() {
        log_f += machine.visible().biases()[(k, i)];
        for j in (0..h.len()).filter(|&j| h[j]) {
            log_f += machine.weights()[(j, categories * i + k)];
        }
    }
    log_f + biases_of(machine.hidden_bias(), h)
}

/// The log of the integral over the plane: sums over a grid converge as fast as a Gaussian falls off.
fn log_plane_integral(log_f: impl Fn(&DVector<f64>) -> f64) -> f64 {
    let (step, count) = (0.125, 320);
    let at = |i: i32| step * f64::from(i);
    let points = (-count..=count).flat_map(|i| (-count..=count).map(move |j| (i, j)));
    let values = points.map(|(i, j)| log_f(&dvector![at(i), at(j)]).exp());
    (values.sum::<f64>() * step * step).ln()
}

#[test]
fn densities_and_hidden_conditionals_are_those_of_the_joint_density() {
    let (gaussian, categorical) = (gaussian(4), categorical(4));
    let v = dvector![1.1, -2.0];
    let joint = |h: &Vec<bool>| gaussian_joint(&gaussian, &v, h).exp();
    check_marginal(
        joint,
        gaussian.log_density(&v),
        &gaussian.hidden_probabilities(&v),
    );
    for v in triples() {
        let joint = |h: &Vec<bool>| categorical_joint(&categorical, &v, h).exp();
        let probabilities = categorical.hidden_probabilities(&v);
        check_marginal(joint, categorical.log_density(&v), &probabilities);
    }
    assert_eq!(categorical.log_density(&vec![0, 3, 0]), f64::NEG_INFINITY);
}

fn check_marginal(joint: impl Fn(&Vec<bool>) -> f64, log_f: f64, probabilities: &DVector<f64>) {
    let total: f64 = bits(4).map(|h| joint(&h)).sum();
    assert_close(log_f, total.ln());
    for (j, p) in probabilities.iter().enumerate() {
        let on: f64 = bits(4).filter(|h| h[j]).map(|h| joint(&h)).sum();
        assert_close(*p, on / total);
    }
}

/// The densities of the visible units given the hidden ones, and their normalisers.
#[test]
fn visible_conditionals_are_those_of_the_joint_density() {
    let (gaussian, categorical) = (gaussian(3), categorical(3));
    for h in bits(3) {
        let given = gaussian.visible_given(&h);
        let bias = biases_of(gaussian.hidden_bias(), &h);
        for v in [dvector![1.1, -2.0], dvector![-0.3, 0.0]] {
            assert_close(
                given.log_density(&v) + bias,
                gaussian_joint(&gaussian, &v, &h),
            );
        }
        let log_z = log_plane_integral(|v| gaussian_joint(&gaussian, v, &h));
        assert_close(given.log_normalizer() + bias, log_z);

        let given = categorical.visible_given(&h);
        let bias = biases_of(categorical.hidden_bias(), &h);
        let joint = |v: &Vec<usize>| categorical_joint(&categorical, v, &h);
        triples().for_each(|v| assert_close(given.log_density(&v) + bias, joint(&v)));
        let z: f64 = triples().map(|v| joint(&v).exp()).sum();
        assert_close(given.log_normalizer() + bias, z.ln());
        let on: f64 = triples()
            .filter(|v| v[1] == 2)
            .map(|v| joint(&v).exp())
            .sum();
        assert_close(given.probabilities()[(2, 1)], on / z);
    }
}

/// Eight hidden units make several chunks and tasks, three less than one.
#[test]
fn enumeration_gives_the_log_z_of_sums_and_integrals() {
    for hidden in [1, 3, 8] {
        let machine = gaussian(hidden);
        let log_z = log_plane_integral(|v| machine.log_density(v));
        assert_close(machine.exact_log_normalizer().unwrap(), log_z);
        let machine = categorical(hidden);
        let z: f64 = triples().map(|v| machine.log_density(&v).exp()).sum();
        assert_close(machine.exact_log_normalizer().unwrap(), z.ln());
        let exact = EnumeratedHarmonium::new(machine).unwrap();
        assert_close(exact.log_normalizer(), z.ln());
    }
}

#[test]
fn exact_samples_have_the_law_of_the_machine() {
    let exact = EnumeratedHarmonium::new(categorical(7)).unwrap();
    let mut rng = stream(1, Purpose::TESTING, 0);
    let draws = 40_000;
    let mut counts = [0.0; 27];
    for _ in 0..draws {
        let v = exact.sample(&mut rng);
        counts[v[0] + 3 * v[1] + 9 * v[2]] += 1.0;
    }
    let probability = |v: &Vec<usize>| (exact.log_density(v) - exact.log_normalizer()).exp();
    let terms = triples().zip(counts).map(|(v, count): (_, f64)| {
        let expected = f64::from(draws) * probability(&v);
        (count - expected).powi(2) / expected
    });
    // Chi-squared with 26 degrees of freedom: above 63 once in ten thousand.
    let statistic: f64 = terms.sum();
    assert!(statistic < 63.0, "{statistic}");
}

/// The path from independent units to a machine, at its ends and between them.
fn check_path<V: VisibleUnits>(path: &HarmoniumPath<V>, states: &[V::State]) {
    for v in states {
        assert_close(path.at(0.0).log_density(v), path.base().log_density(v));
        assert_close(path.at(1.0).log_density(v), path.target().log_density(v));
        for (from, to) in [(0.0, 1e-3), (0.2, 0.9), (0.9, 1.0)] {
            let (from, to) = (path.at(from), path.at(to));
            let difference = to.log_density(v) - from.log_density(v);
            assert_close(to.log_ratio(&from, v), difference);
        }
        let (below, above) = (path.at(0.4 - 1e-5), path.at(0.4 + 1e-5));
        let slope = (above.log_density(v) - below.log_density(v)) / 2e-5;
        let derivative = path.at(0.4).beta_derivative(v);
        assert!(
            (derivative - slope).abs() < 1e-7 * (1.0 + slope.abs()),
            "{derivative} {slope}"
        );
    }
}

#[test]
fn the_path_leads_from_the_base_to_the_target() {
    let path = HarmoniumPath::new(wide(), gaussian(4)).unwrap();
    check_path(&path, &[dvector![1.1, -2.0], dvector![-3.0, 0.5]]);
    // The constants of the blended units are those of the blended densities.
    let log_z = log_plane_integral(|v| path.at(0.4).visible().log_density(v));
    assert_close(path.at(0.4).visible().log_normalizer(), log_z);
    let base = CategoricalUnits::new(normal(3, 3, 1.0, 9)).unwrap();
    let path = HarmoniumPath::new(base, categorical(4)).unwrap();
    check_path(&path, &triples().collect::<Vec<_>>());
    let (from, to) = (path.at(0.2), path.at(0.5));
    assert_eq!(to.log_ratio(&from, &vec![0, 0, 3]), f64::NEG_INFINITY);
}
