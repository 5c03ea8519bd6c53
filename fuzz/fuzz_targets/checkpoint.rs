//! A checkpoint with a forged payload: length and check sum are set right, so that the payload is decoded. The first
//! byte chooses the kind of run. Panics of a run count if they leave it; those that it returns as errors do not.
#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use annealed::Result;
use annealed::adaptive::Rounds;
use annealed::ais::Progress;
use annealed::nested::NestedSmc;
use annealed::path::TemperedPath;
use annealed::population::Resampling;
use annealed::prelude::*;
use annealed::tempering::Tempering;
use annealed_fuzz::{path, within};
use libfuzzer_sys::fuzz_target;
use nalgebra::dvector;

const KINDS: u8 = 5;

/// Chain-steps after which the runs of seeds stop, or `None` for a run that is resumed.
type Stop = Option<u64>;

fn kind(kind: u8, file: &Path, begun: Stop) -> Result<()> {
    let stop = move |at: Progress| match begun.is_some_and(|steps| at.done >= steps) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let normal = |at, deviation| Gaussian::isotropic(dvector![at, 0.0], deviation);
    let line = GeometricPath::new(normal(0.0, 1.0)?, normal(1.0, 0.5)?);
    let walk = RandomWalkMetropolis::new(0.5)?;
    macro_rules! go {
        ($run:expr) => {{
            let run = $run.threads(1).seed(3).progress(stop);
            let kept = run.checkpoint(file).every(Duration::from_secs(3600));
            match begun {
                Some(_) => kept.run().map(drop),
                None => kept.resume().map(drop),
            }
        }};
    }
    match kind {
        0 => go!(Ais::new(&line, walk)
            .schedule(Schedule::linear(5)?)
            .chains(7)
            .block_size(3)),
        1 => {
            let ais = Ais::new(&line, Hmc::new(0.3, 2)?);
            let ais = ais.schedule(Schedule::linear(5)?).chains(8).block_size(4);
            go!(ais.resampling(Resampling::when_ess_below(0.9)?))
        }
        2 => {
            let tempering = Tempering::new(&line, walk).schedule(Schedule::linear(3)?);
            go!(tempering.ladders(2).rounds(3))
        }
        3 => go!(Rounds::new(&line, walk).chains(20).block_size(10).rounds(2)),
        _ => {
            let problem = TemperedPath::new(normal(0.0, 1.0)?, normal(1.0, 0.5)?);
            go!(NestedSmc::new(&problem, walk).chains(20).islands(4))
        }
    }
}

/// The bytes before the payload: magic, version and length, the crate's version, the kind and no label.
fn head(file: &[u8]) -> usize {
    let version = 20 + 1 + usize::from(file[20]);
    version + 1 + usize::from(file[version]) + 1
}

static HEADS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let file = path("head");
    let of_kind = |which| {
        let _ = kind(which, &file, Some(0));
        let bytes = std::fs::read(&file).expect("a run leaves a checkpoint");
        bytes[..head(&bytes)].to_vec()
    };
    (0..KINDS).map(of_kind).collect()
});

/// Writes checkpoints of runs that were stopped, as seeds, to the folder that this variable names.
const SEEDS: &str = "ANNEALED_FUZZ_SEEDS";

fn write_seeds(folder: &Path) {
    let file = path("seed");
    for which in 0..KINDS {
        for steps in [1, 20, u64::MAX] {
            let _ = kind(which, &file, Some(steps));
            let bytes = std::fs::read(&file).expect("a run leaves a checkpoint");
            let payload = &bytes[head(&bytes)..bytes.len() - 4];
            let seed = [&[which], payload].concat();
            std::fs::write(folder.join(format!("{which}-{steps}")), seed)
                .expect("the folder is there");
        }
    }
}

fn prepare() {
    // Panics that a run catches are its errors; one that leaves it aborts the target nonetheless.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(folder) = std::env::var_os(SEEDS) {
        write_seeds(Path::new(&folder));
        std::process::exit(0);
    }
    assert_eq!(HEADS.len(), usize::from(KINDS));
}

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Some((which, payload)) = data.split_first() else {
        return;
    };
    let which = which % KINDS;
    let mut bytes = [&HEADS[usize::from(which)], payload].concat();
    let length = (bytes.len() + 4) as u64;
    bytes[12..20].copy_from_slice(&length.to_le_bytes());
    let mut checksum = flate2::Crc::new();
    checksum.update(&bytes);
    bytes.extend(checksum.sum().to_le_bytes());
    let file = path("checkpoint");
    std::fs::write(&file, &bytes).expect("there is memory for the file");
    // The rest is what a run of this size takes.
    let _ = within((4 << 20) + 64 * bytes.len(), || kind(which, &file, None));
});
