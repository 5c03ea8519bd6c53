//! Checks of log Z, calls and files of the integration.

use annealed_burn::common::{checks, rbm};
use annealed_burn::{Energy, rbm::Rbm};

#[test]
fn log_z_is_that_of_quadrature() {
    checks::agrees_with_quadrature::<Energy>();
}

#[test]
fn batches_agree_with_single_states() {
    checks::agrees_with_single_states::<Energy>();
}

#[test]
fn a_stage_costs_few_calls() {
    checks::calls_are_few::<Energy>();
}

#[test]
fn the_users_code_is_short_and_on_the_page() {
    checks::snippet_is_short(include_str!("../src/log_z.rs"));
}

#[test]
fn rbms_are_read_from_their_files() {
    for hidden in [4, 6] {
        let machine = Rbm::with(&rbm::parameters(6, hidden));
        let path =
            std::env::temp_dir().join(format!("annealed-burn-{}-{hidden}", std::process::id()));
        machine.save_to(&path).unwrap();
        rbm::check(
            &path,
            hidden == 6,
            &machine.log_densities(&rbm::states(6)).unwrap(),
        );
        std::fs::remove_file(path).unwrap();
    }
}
