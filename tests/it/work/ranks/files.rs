//! The engine of `docs/many-machines.md`, which gathers by files in a folder that all processes see.

use std::cell::Cell;
use std::{fs, path::PathBuf, thread, time::Duration};

use annealed::{Error, Result, ranks::Ranks};

use super::{ais, said};
use crate::shared::gaussians::narrow_path;

struct Files {
    folder: PathBuf,
    rank: usize,
    size: usize,
    next: Cell<usize>,
}

impl Ranks for Files {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let turn = self.next.replace(self.next.get() + 1);
        let name = |turn: usize, rank: usize| self.folder.join(format!("{turn}.{rank}"));
        let failed = |error: std::io::Error| {
            Error::invalid("folder of messages", error, "one that all can write")
        };
        let draft = self.folder.join(format!("draft.{}", self.rank));
        let written = fs::write(&draft, mine);
        written
            .and_then(|()| fs::rename(&draft, name(turn, self.rank)))
            .map_err(failed)?;
        let wait = |rank: usize| loop {
            match fs::read(name(turn, rank)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    thread::sleep(Duration::from_millis(5));
                }
                read => break read.map_err(failed),
            }
        };
        let all = (0..self.size).map(wait).collect::<Result<_>>()?;
        if turn > 0 {
            // Who is in this turn has read the one before.
            fs::remove_file(name(turn - 1, self.rank)).map_err(failed)?;
        }
        Ok(all)
    }
}

#[test]
fn ranks_can_gather_through_a_folder() {
    let name = format!("annealed-ranks-files-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let whole = said(&ais(&narrow_path()).run().unwrap());
    let run = &|rank| {
        let world = Files {
            folder: folder.clone(),
            rank,
            size: 3,
            next: Cell::new(0),
        };
        said(&ais(&narrow_path()).ranks(&world).run().unwrap())
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..3).map(|rank| scope.spawn(move || run(rank))).collect();
        let found = ranks.into_iter().map(|rank| rank.join().unwrap());
        assert!(found.into_iter().all(|found| found == whole));
    });
    // The last messages are left.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    fs::remove_dir_all(&folder).unwrap();
}
