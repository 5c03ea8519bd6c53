//! Shared runs that are interrupted and go on, on as many ranks or on other numbers of them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path as File, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::shared;
use annealed::adaptive::{Challenge, Rounds};
use annealed::ais::Progress;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::Hmc;
use annealed::model::Gaussian;
use annealed::nested::NestedSmc;
use annealed::path::TemperedPath;
use annealed::population::Resampling;
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use annealed::{Error, Result};
use nalgebra::DVector;

use super::{Channels, ais, expect_failure, on_ranks, said, walk};
use crate::shared::gaussians::narrow_path;

/// Where ranks have their files: in one folder, or each in one of its own.
pub struct Disks {
    pub folder: PathBuf,
    are_local: bool,
}

impl Disks {
    pub fn new(name: &str, are_local: bool) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("annealed-ranks-{name}-{number}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let disks = Self { folder, are_local };
        (0..3).for_each(|rank| fs::create_dir_all(disks.of(rank).parent().unwrap()).unwrap());
        disks
    }

    pub fn of(&self, rank: usize) -> PathBuf {
        match self.are_local {
            true => self.folder.join(rank.to_string()).join("run"),
            false => self.folder.join("run"),
        }
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap());
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Disks {
    /// Copies the files as they are, as if all processes were killed now.
    pub fn copy_to(&self, copies: &Self) {
        for name in self.names() {
            if !name.ends_with("tmp") {
                fs::copy(self.folder.join(&name), copies.folder.join(&name)).unwrap();
            }
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Stops a run once a share of it is done.
pub fn stop(share: f64) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    move |at| match at.done as f64 >= share * at.total as f64 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

pub fn expect_stopped<T>(outcome: Result<T>) {
    if let Err(error) = outcome {
        assert!(matches!(error, Error::Stopped { .. }), "{error}");
    }
}

/// Interrupts a run three times, each part on another number of ranks. Its end has the bits of one process.
macro_rules! assert_goes_on {
    ($make:expr, $said:expr, $turns:expr) => {{
        let (make, said) = ($make, $said);
        let whole = said(&make().run().unwrap());
        for are_local in [false, true] {
            for sizes in $turns {
                let disks = Disks::new("goes_on", are_local);
                for (i, size) in sizes.into_iter().enumerate() {
                    let found = on_ranks(size, |world: Channels| {
                        let run = make().threads(2).progress(stop(0.25 * (i + 1) as f64));
                        let saved = run.checkpoint(disks.of(world.rank));
                        let saved = saved.every(Duration::from_millis(2)).ranks(&world);
                        match i {
                            0 => expect_stopped(saved.run()),
                            3 => return Some(said(&saved.resume().unwrap())),
                            _ => expect_stopped(saved.resume()),
                        }
                        None
                    });
                    let same =
                        |found: &Option<_>| found.as_ref().is_none_or(|found| *found == whole);
                    assert!(found.iter().all(same), "{sizes:?}, {i}");
                }
                if !are_local {
                    let last = if sizes[2] == 1 { 1 } else { sizes[2] };
                    assert_eq!(
                        disks.names().len(),
                        last,
                        "{:?} after {sizes:?}",
                        disks.names()
                    );
                }
                let again = make().checkpoint(disks.of(0)).resume();
                // On local disks one process has a part of the run alone.
                assert!(said(&again.unwrap()) == whole, "{sizes:?}, by one process");
            }
        }
    }};
}

const TURNS: [[usize; 3]; 4] = [[3, 3, 3], [3, 1, 2], [1, 2, 3], [2, 3, 1]];
const FEW: [[usize; 3]; 2] = [[3, 1, 2], [2, 2, 2]];

#[test]
fn annealed_runs_go_on() {
    let path = narrow_path();
    let plain = || ais(&path).chains(1_010);
    assert_goes_on!(plain, said, TURNS);
    assert_goes_on!(
        || plain().resampling(Resampling::every(3).unwrap()),
        said,
        FEW
    );
    // Fewer blocks than ranks.
    assert_goes_on!(|| plain().chains(70), said, FEW);
    assert_goes_on!(|| plain().chains(100_000).until_error(0.05), said, FEW);
}

#[test]
fn tempered_runs_go_on() {
    let path = narrow_path();
    let kernel = Hmc::new(0.3, 2).unwrap();
    let tempering = || {
        Tempering::with_base_log_z(&path, &kernel, 0.0)
            .schedule(Schedule::linear(5).unwrap())
            .ladders(5)
            .block_size(2)
            .rounds(7)
    };
    assert_goes_on!(tempering, said, TURNS);
}

#[test]
fn runs_of_several_passes_go_on() {
    let path = narrow_path();
    let likelihood = shared::function(|x: &DVector<f64>| -8.0 * x.norm_squared());
    let problem = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
    let nested = || {
        NestedSmc::new(&problem, walk())
            .islands(7)
            .chains(16)
            .moves(8)
            .kept(50)
    };
    assert_goes_on!(
        nested,
        |run: &annealed::nested::NestedSmcRun<_>| said(run),
        FEW
    );
    let rounds = || {
        Rounds::new(&path, walk())
            .chains(60)
            .rounds(3)
            .block_size(20)
    };
    let rounds_said = |run: &annealed::adaptive::RoundsRun<_, _>| {
        (run.log_z(), run.evaluations(), run.run().states().to_vec())
    };
    assert_goes_on!(rounds, rounds_said, FEW);
    let first = rounds().run().unwrap();
    assert_goes_on!(
        || Challenge::new(&path, walk(), &first).budget(20_000),
        |run: &annealed::adaptive::ChallengeRun<'_, _>| {
            (
                run.log_z(),
                run.evaluations(),
                run.second().states().to_vec(),
            )
        },
        [[2, 1, 3]]
    );
}

#[test]
fn a_finished_run_takes_more_chains() {
    let (path, disks) = (narrow_path(), Disks::new("more", false));
    let part = |size, chains| {
        on_ranks(size, |world: Channels| {
            let ais = ais(&path).chains(chains);
            let saved = ais.checkpoint(disks.of(world.rank)).ranks(&world);
            said(&saved.resume_or_run().unwrap())
        })
    };
    part(3, 330);
    let expected = said(&ais(&path).chains(1_000).run().unwrap());
    assert!(part(2, 1_000).iter().all(|found| *found == expected));
    assert_eq!(disks.names(), ["run.0", "run.1"]);
}

/// Files of an earlier run of more ranks, which no process looked after, are no part of a later one.
#[test]
fn files_of_an_earlier_run_are_left_aside() {
    let (path, disks) = (narrow_path(), Disks::new("earlier", true));
    let run = |size, seed| {
        on_ranks(size, |world: Channels| {
            let ais = ais(&path).seed(seed);
            said(
                &ais.checkpoint(disks.of(world.rank))
                    .ranks(&world)
                    .run()
                    .unwrap(),
            )
        })
    };
    run(3, 1);
    let expected = run(2, 2);
    let found = on_ranks(3, |world: Channels| {
        let ais = ais(&path).seed(2);
        said(
            &ais.checkpoint(disks.of(world.rank))
                .ranks(&world)
                .resume()
                .unwrap(),
        )
    });
    assert!(found.iter().all(|found| *found == expected[0]));
}

#[test]
fn a_file_that_cannot_be_read_ends_all_ranks() {
    let (path, disks) = (narrow_path(), Disks::new("unreadable", true));
    let resumed = || {
        on_ranks(2, |world: Channels| {
            let ais = ais(&path);
            ais.checkpoint(disks.of(world.rank)).ranks(&world).resume()
        })
    };
    let nothing = resumed()
        .into_iter()
        .map(|found| found.expect_err("a failure").to_string());
    assert!(
        nothing
            .into_iter()
            .all(|found| found.contains("there is no checkpoint to go on from"))
    );
    on_ranks(2, |world: Channels| {
        let ais = ais(&path);
        let saved = ais.checkpoint(disks.of(world.rank)).ranks(&world);
        let _ = saved.run().unwrap();
    });
    let file = disks.of(1).with_extension("1");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    expect_failure(resumed(), 1, "it is damaged");
    let other = on_ranks(2, |world: Channels| {
        let ais = ais(&path).seed(9);
        fs::remove_file(File::new(&file)).ok();
        ais.checkpoint(disks.of(world.rank))
            .ranks(&world)
            .resume()
            .err()
            .unwrap()
            .to_string()
    });
    assert!(
        other.iter().all(|found| found.contains("which has seed 3")),
        "{other:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_and_later_a_warning() {
    let (path, disks) = (narrow_path(), Disks::new("unwritable", true));
    let found = on_ranks(2, |world: Channels| {
        let file = [disks.of(0), "/no/such/folder/run".into()][world.rank].clone();
        ais(&path).checkpoint(file).ranks(&world).run()
    });
    expect_failure(found, 1, "there is no folder");
    // Where one rank cannot write any more all results say so.
    let found = on_ranks(2, |world: Channels| {
        let file = disks.of(world.rank);
        let ais = ais(&path).progress(|_| {
            if world.rank == 1 {
                let _ = fs::remove_dir_all(file.parent().unwrap());
            }
        });
        let run = ais.checkpoint(&file).ranks(&world).run().unwrap();
        run.warnings().to_vec()
    });
    let warned = |warning: &Warning| matches!(warning, Warning::CheckpointNotWritten { .. });
    assert!(
        found.iter().all(|found| found.iter().any(warned)),
        "{found:?}"
    );
}
