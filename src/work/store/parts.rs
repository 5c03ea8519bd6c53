//! The files of a run: one for each process that wrote. They are read together.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::file::{Header, read};
use super::place::Place;
use crate::work::bytes::decode;
use crate::work::ledger::Share;
use crate::work::team::{Team, gather};
use crate::{Error, Result};

/// Merged outputs of finished blocks (nodes of the tree): the range of blocks of each, and its bytes.
pub(crate) type Finished = Vec<(Range<usize>, Vec<u8>)>;

/// Outputs of one of several processes: those since the last meeting, and all for its file, if it writes one.
pub(crate) struct Outbox {
    pub(crate) unsent: Finished,
    pub(crate) kept: Option<Finished>,
}

/// The content of a checkpoint. Types that only the run knows are encoded as bytes.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The [`Identity`](crate::work::Identity) of the run.
    pub(crate) title: Vec<u8>,
    /// Number of processes that write the files; 0 if files of different numbers of processes are joined.
    pub(crate) size: usize,
    pub(crate) seconds: f64,
    /// Index of `carried` among the values that tasks carried on. The blocks belong to the task that starts from it.
    pub(crate) turn: u64,
    pub(crate) carried: Option<Vec<u8>>,
    pub(crate) finished: Finished,
    /// Unfinished blocks as bytes, by index.
    pub(crate) under_way: BTreeMap<usize, Vec<u8>>,
}

/// Returns the name of a process's file: `file` for a single process, otherwise `file` with the rank behind a dot.
pub(super) fn file_of(file: &Path, share: Share) -> PathBuf {
    named(file, (share.size > 1).then_some(share.rank))
}

fn named(file: &Path, rank: Option<usize>) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    if let Some(rank) = rank {
        name.push(format!(".{rank}"));
    }
    name.into()
}

/// Returns the ranks of the files whose names are `file`, a dot and a rank; `None` stands for `file` itself.
fn candidates(file: &Path) -> Vec<Option<usize>> {
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")));
    let ranks = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let rank = entry.path().extension()?.to_str()?.parse().ok();
        // `01` and `+1` parse as numbers, but no process writes such a name.
        let is_same = named(file, rank).file_name() == Some(&entry.file_name());
        (rank.is_some() && is_same).then_some(rank)
    });
    // If this fails, the file counts as found, so that reading it reports the reason.
    let whole = file.try_exists().unwrap_or(true).then_some(None);
    let mut found = Vec::from_iter(whole.into_iter().chain(ranks));
    found.sort_unstable();
    found
}

/// Reads one of the [`candidates`]; `None` if the name ends in a rank, but the file is not this rank's checkpoint.
fn read_part(
    file: &Path,
    header: &Header<'_>,
    rank: Option<usize>,
) -> Result<Option<(PathBuf, Saved)>> {
    let path = named(file, rank);
    let is_of = |rank, of: Option<(usize, usize)>| {
        of.is_some_and(|(found, size)| found == rank && size > 1)
    };
    let is_part = |of| rank.is_none_or(|rank| is_of(rank, of));
    let decode = |payload: &[u8]| decode("checkpoint", payload);
    let Some(saved) = read(&path, header, &is_part, decode)? else {
        return Ok(None);
    };
    // Refuses a file that another run is writing.
    Place::new(&path).hold()?;
    Ok(Some((path, saved)))
}

/// A file as a process sees it: rank, length, and time of the last change. Processes compare it to find shared files.
type Seen = (Option<usize>, u64, Option<SystemTime>);

fn seen(file: &Path) -> Vec<Seen> {
    let look = |rank| {
        let found = fs::metadata(named(file, rank)).ok();
        let length = found.as_ref().map_or(0, fs::Metadata::len);
        (rank, length, found.and_then(|found| found.modified().ok()))
    };
    candidates(file).into_iter().map(look).collect()
}

/// Returns the content of all files that any process has, each once. If several processes see a file on one disk, the
/// first of them reads it.
///
/// # Errors
/// A file that is unreadable or damaged; the failure of another process.
pub(super) fn gathered(
    file: &Path,
    header: &Header<'_>,
    team: Option<&Team<'_>>,
) -> Result<Vec<(String, Saved)>> {
    let rank = team.map_or(0, |team| team.share().rank);
    let all = gather(team, Ok(seen(file)))?;
    let mut mine = all[rank].clone();
    mine.retain(|one| !all[..rank].iter().any(|lower| lower.contains(one)));
    let read = || {
        let parts = mine.into_iter().map(|(rank, ..)| {
            let part = read_part(file, header, rank)?;
            Ok(part.map(|(path, saved)| (path.display().to_string(), saved)))
        });
        parts.filter_map(Result::transpose).collect::<Result<_>>()
    };
    let all: Vec<Vec<(String, Saved)>> = gather(team, read())?;
    Ok(all.into_iter().flatten().collect())
}

impl Saved {
    pub(super) fn without_blocks(&self) -> Self {
        Self {
            title: self.title.clone(),
            carried: self.carried.clone(),
            finished: Finished::new(),
            under_way: BTreeMap::new(),
            ..*self
        }
    }

    fn of_first_blocks(mut self, blocks: usize) -> Self {
        self.finished.retain(|(range, _)| range.end <= blocks);
        // A block that cannot be saved in progress leaves a piece without bytes, and begins anew.
        self.under_way
            .retain(|block, piece| *block < blocks && !piece.is_empty());
        self
    }

    /// Joins the files of two processes. Blocks count only if they belong to the task that starts from the last value
    /// carried.
    fn joined_with(self, other: Self) -> Self {
        let size = if self.size == other.size {
            self.size
        } else {
            0
        };
        let seconds = self.seconds.max(other.seconds);
        let (mut all, before) = match self.turn < other.turn {
            true => (other, self),
            false => (self, other),
        };
        if before.turn == all.turn {
            all.finished.extend(before.finished);
            all.under_way.extend(before.under_way);
        }
        Self {
            size,
            seconds,
            ..all
        }
    }
}

/// Joins the files of a run, at least one. `usable` refuses a file of another run, or returns the number of its usable
/// blocks. Refused files are ignored if there are others, because an earlier run of more processes may have left them.
///
/// # Errors
/// The first error of `usable`, with the name of the file, if it refuses all.
pub(super) fn joined(
    parts: Vec<(String, Saved)>,
    usable: &dyn Fn(&Saved) -> Result<usize>,
) -> Result<Saved> {
    let (mut usable_parts, mut refused) = (Vec::new(), None);
    for (path, part) in parts {
        match usable(&part) {
            Ok(blocks) => usable_parts.push(part.of_first_blocks(blocks)),
            Err(error) => drop(refused.get_or_insert(Error::file(path, error))),
        }
    }
    let all = usable_parts.into_iter().reduce(Saved::joined_with);
    let mut all = all.ok_or_else(|| refused.expect("there is a file"))?;
    all.finished = largest(all.finished);
    Ok(all)
}

/// Returns the largest nodes from left to right. The other nodes lie within them and have the same content.
fn largest(mut finished: Finished) -> Finished {
    finished.sort_by_key(|(blocks, _)| (blocks.start, std::cmp::Reverse(blocks.end)));
    let mut next = 0;
    finished.retain(|(blocks, _)| {
        let is_new = blocks.start >= next;
        next = next.max(blocks.end);
        is_new
    });
    finished
}

/// Removes files of ranks that no longer exist, once the files of `size` processes hold everything.
pub(super) fn remove_others(file: &Path, header: &Header<'_>, size: usize) {
    let is_old = |rank: &Option<usize>| match rank {
        None => size > 1,
        Some(rank) => size == 1 || *rank >= size,
    };
    for rank in candidates(file).into_iter().filter(is_old) {
        // Read before it is removed, because the name alone does not make it a checkpoint of this kind and label.
        if let Ok(Some((path, _))) = read_part(file, header, rank) {
            // Another process may have removed it. A file that stays is of use: its blocks are blocks of this run.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::super::Folder;
    use super::super::file::write;
    use super::*;
    use crate::work::store::encode;

    const HEADER: Header<'static> = Header {
        kind: "ais",
        label: None,
        of: (0, 1),
    };

    fn part(title: u8, turn: u64, blocks: &[Range<usize>]) -> Saved {
        let node = |blocks: &Range<usize>| (blocks.clone(), Vec::new());
        Saved {
            title: vec![title],
            size: 3,
            turn,
            seconds: 10.0 - turn as f64,
            carried: Some(vec![turn as u8]),
            finished: blocks.iter().map(node).collect(),
            ..Saved::default()
        }
    }

    fn put(folder: &Folder, name: &str, of: (usize, usize), saved: &Saved) {
        let header = Header { of, ..HEADER };
        let payload = encode("checkpoint", saved).unwrap();
        write(&Place::new(&folder.file(name)), &header, &payload).unwrap();
    }

    fn blocks(saved: &Saved) -> Vec<Range<usize>> {
        saved
            .finished
            .iter()
            .map(|(blocks, _)| blocks.clone())
            .collect()
    }

    #[test]
    fn the_furthest_of_this_run_counts() {
        let named = |part| ("file".to_owned(), part);
        let parts = [
            part(1, 9, slice::from_ref(&(0..1))),
            part(2, 3, &[0..1, 2..3]),
            part(2, 4, &[1..2, 4..6]),
            part(2, 4, &[4..5, 2..4, 8..9]),
        ];
        let usable = |part: &Saved| match part.title[..] {
            [2] => Ok(8),
            _ => Err(Error::invalid("seed", 1, "2")),
        };
        let saved = joined(parts.clone().map(named).into(), &usable).unwrap();
        assert_eq!((saved.turn, saved.carried.as_deref()), (4, Some(&[4][..])));
        assert_eq!(blocks(&saved), [1..2, 2..4, 4..6]);
        assert_eq!((saved.seconds, saved.size), (7.0, 3));
        let [other, ..] = parts;
        let refused = joined(vec![named(other)], &usable).unwrap_err();
        assert!(refused.to_string().starts_with("file: "), "{refused}");
        let of_two = Saved {
            size: 2,
            ..part(2, 1, &[])
        };
        let parts = vec![named(part(2, 1, &[])), named(of_two)];
        assert_eq!(joined(parts, &usable).unwrap().size, 0);
    }

    #[test]
    fn files_of_something_else_are_neither_read_nor_removed() {
        let folder = Folder::new("something_else");
        let file = folder.file("run");
        let saved = part(1, 1, &[]);
        put(&folder, "run", (0, 1), &saved);
        put(&folder, "run.1", (1, 3), &saved);
        put(&folder, "run.2", (0, 1), &saved); // a run of its own, of that name
        put(&folder, "run.03", (3, 4), &saved);
        fs::write(folder.file("run.4"), b"text").unwrap();
        put(&folder, "run.5", (5, 6), &saved);
        let found = gathered(&file, &HEADER, None).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let named = |name: &str| folder.file(name).display().to_string();
        assert_eq!(names, [named("run"), named("run.1"), named("run.5")]);
        remove_others(&file, &HEADER, 2);
        assert_eq!(folder.files(), ["run.03", "run.1", "run.2", "run.4"]);
        remove_others(&file, &HEADER, 1);
        assert_eq!(folder.files(), ["run.03", "run.2", "run.4"]);
        fs::write(folder.file("run.1"), b"annealed").unwrap();
        assert!(gathered(&file, &HEADER, None).is_err());
    }
}
