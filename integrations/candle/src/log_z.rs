// The user's code: log Z of a network of candle.
use annealed::prelude::*;
use candle_core::{Device, Var};

use crate::Energy;

pub fn log_z(energy: &Energy, base: Gaussian) -> annealed::Result<impl LogZ + use<>> {
    let model = BatchModel::new(base.dimension(), |states: &[f32], n| {
        let x = Var::from_slice(states, (n, states.len() / n), &Device::Cpu)?;
        let log_density = energy.forward(&x)?.neg()?;
        let gradients = log_density.backward()?.remove(&x).ok_or("no path to x")?;
        Ok((log_density.to_vec1()?, gradients.flatten_all()?.to_vec1()?))
    })?;
    let path = GeometricPath::new(base, model);
    let rounds = Rounds::new(&path, Hmc::new(0.3, 5)?).until_error(0.1);
    rounds.chains(512).block_size(512).threads(1).run()
}
