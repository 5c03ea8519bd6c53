// The user's code: log Z of a network of burn.
use annealed::prelude::*;
use burn::tensor::Tensor;

use crate::Energy;

pub fn log_z(energy: &Energy, base: Gaussian) -> annealed::Result<impl LogZ + use<>> {
    let model = BatchModel::new(base.dimension(), |states: &[f32], n| {
        let rows = Tensor::<1>::from_floats(states, &energy.device);
        let x = rows.reshape([n, states.len() / n]).require_grad();
        let log_density = energy.forward(x.clone()).neg();
        let gradients = x.grad(&log_density.backward()).ok_or("no path to x")?;
        Ok((log_density.try_into_vec_as()?, gradients.try_into_vec_as()?))
    })?;
    let path = GeometricPath::new(base, model);
    let rounds = Rounds::new(&path, Hmc::new(0.3, 5)?).until_error(0.1);
    rounds.chains(512).block_size(512).threads(1).run()
}
