//! The exact values of `measurements/src/bin/reference.rs`, each by a second way: enumeration, a closed form, a dense
//! matrix, a published figure.

use std::f64::consts::{PI, TAU};

use annealed::model::{Gaussian, NormalizedModel, UnnormalizedModel};
use nalgebra::{DMatrix, DVector};

use crate::shared::exact::{
    enumerate, field_ring, forward, kalman, kaufman, ln_gamma, log_integral, log_sphere,
    potts_torus, rotor_ring,
};

fn assert_close(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(
        error < 1e-9 * (1.0 + expected.abs()),
        "{found}, expected {expected}"
    );
}

/// `sum over bonds of f(value, neighbour's value)` on a torus.
fn over_bonds(rows: usize, columns: usize, state: &[u8], f: impl Fn(u8, u8) -> f64) -> f64 {
    let at = |i: usize, j: usize| state[i % rows * columns + j % columns];
    let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
    cells
        .map(|(i, j)| f(at(i, j), at(i + 1, j)) + f(at(i, j), at(i, j + 1)))
        .sum()
}

#[test]
fn kaufman_is_the_sum_over_all_spins_on_both_sides_of_the_transition() {
    for (rows, columns) in [(4, 4), (3, 4), (4, 3)] {
        for coupling in [0.1, 0.44, 0.9] {
            let spins = |a: u8, b: u8| if a == b { coupling } else { -coupling };
            let sum = enumerate(rows * columns, 2, |state| {
                over_bonds(rows, columns, state, spins)
            });
            assert_close(kaufman(rows, columns, coupling), sum);
        }
    }
}

#[test]
fn transfer_of_the_potts_model_is_the_sum_over_all_colours() {
    let equal = |a: u8, b: u8| if a == b { 1.1 } else { 0.0 };
    let sum = enumerate(9, 3, |state| over_bonds(3, 3, state, equal));
    assert_close(potts_torus(3, 3, 1.1), sum);
    // Two colours are the Ising model at half the coupling.
    assert_close(potts_torus(6, 2, 0.8) - 72.0 * 0.4, kaufman(6, 6, 0.4));
}

#[test]
fn bessel_functions_of_the_rotor_ring_are_the_transfer_operator() {
    const ANGLES: usize = 64;
    let transfer = DMatrix::from_fn(ANGLES, ANGLES, |i, j| {
        let difference = TAU * (i as f64 - j as f64) / ANGLES as f64;
        (2.0 * difference.cos()).exp() / ANGLES as f64
    });
    assert_close(rotor_ring(16, 2.0), transfer.pow(16).trace().ln());
}

/// If the potential is quadratic, the ring is Gaussian and its precision matrix is circulant.
#[test]
fn transfer_of_the_field_ring_is_the_determinant() {
    let (sites, stiffness, mass) = (16, 2.0, 1.5);
    let eigenvalue = |k: u32| {
        let angle = TAU * f64::from(k) / f64::from(sites);
        mass + 2.0 * stiffness * (1.0 - angle.cos())
    };
    let log_determinant: f64 = (0..sites).map(|k| eigenvalue(k).ln()).sum();
    let exact = 0.5 * (f64::from(sites) * TAU.ln() - log_determinant);
    let found = field_ring(sites, stiffness, 6.0, |x| 0.5 * mass * x * x);
    assert_close(found, exact);
}

#[test]
fn the_forward_recursion_is_the_sum_over_all_paths() {
    let initial = [0.5_f64, 0.3, 0.2];
    let transition = [[0.9_f64, 0.05, 0.05], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]];
    let emission = |t: usize, s: usize| -0.7 * (t as f64 - 2.0 * s as f64).abs();
    let emissions: Vec<Vec<f64>> = (0..6)
        .map(|t| (0..3).map(|s| emission(t, s)).collect())
        .collect();
    let sum = enumerate(6, 3, |path| {
        let at = |t: usize| usize::from(path[t]);
        let moves: f64 = (1..6).map(|t| transition[at(t - 1)][at(t)].ln()).sum();
        let seen: f64 = (0..6).map(|t| emissions[t][at(t)]).sum();
        initial[at(0)].ln() + moves + seen
    });
    assert_close(
        forward(&initial, &transition.map(Vec::from), &emissions),
        sum,
    );
}

#[test]
fn the_kalman_filter_is_the_joint_normal_density() -> annealed::Result<()> {
    let y = DVector::from_vec(vec![3.0, 1.0, 4.0, 1.0, 5.0]);
    let (noise, step, first) = (2.0, 0.7, 9.0);
    let covariance = DMatrix::from_fn(5, 5, |i, j| {
        let own = if i == j { noise } else { 0.0 };
        own + first + step * i.min(j) as f64
    });
    let joint = Gaussian::new(DVector::from_element(5, 2.0), covariance)?;
    let exact = joint.log_density(&y) - joint.log_normalizer();
    assert_close(kalman(y.as_slice(), 2.0, (noise, step, first)), exact);
    Ok(())
}

#[test]
fn special_functions_and_quadrature_have_known_values() {
    assert_close(ln_gamma(6.0), 120f64.ln());
    assert_close(ln_gamma(0.5), 0.5 * PI.ln());
    assert_close(log_sphere(3), (4.0 * PI).ln());
    assert_close(
        log_integral(0.0, 3.0, 200, |x| 3.0 * x.ln()),
        (81f64 / 4.0).ln(),
    );
    let normal = |x: f64| -0.5 * x * x;
    assert_close(log_integral(-10.0, 10.0, 200, normal), 0.5 * TAU.ln());
}

/// Many-well: 164.69567532 (Midgley et al. 2023). Shells: -14.59 (Feroz, Hobson and Bridges 2009).
#[test]
fn many_well_and_shells_have_their_published_values() {
    let well = |x: f64| -x.powi(4) + 6.0 * x * x + 0.5 * x;
    let many = 16.0 * (log_integral(-6.0, 6.0, 2_000, well) + 0.5 * TAU.ln());
    assert!((many - 164.695_675_32).abs() < 1e-6, "{many}");
    let shell = |r: f64| 9.0 * r.ln() - 50.0 * (r - 2.0).powi(2) - (0.1 * TAU.sqrt()).ln();
    let shells = 2f64.ln() + log_sphere(10) + log_integral(1.0, 3.0, 2_000, shell);
    let shells = shells - 10.0 * 12f64.ln();
    assert!((shells + 14.59).abs() < 0.005, "{shells}");
}
