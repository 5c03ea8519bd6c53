//! A file that is replaced as a whole: at every moment the old file or the new file exists.

use std::ffi::OsString;
#[cfg(unix)]
use std::fs::TryLockError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::{thread, time::Duration};

use crate::{Error, Result};

type Content<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// The place of a file. Once its file is locked, no other process writes there.
pub(super) struct Place<'a> {
    path: &'a Path,
    /// The current file, locked.
    held: Mutex<Option<File>>,
}

impl<'a> Place<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self {
            path,
            held: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// Locks the file against other processes, if the file exists.
    ///
    /// # Errors
    /// [`Error::File`] if another process holds it, or if it is not a regular file.
    pub(super) fn hold(&self) -> Result<()> {
        let held = self.take_hold(&mut self.held());
        held.map(drop).map_err(|error| Error::io(self.path, error))
    }

    /// Writes the file, first under its name with `.tmp`, and replaces the old file once the new one is on the disk.
    /// Follows a link.
    ///
    /// # Errors
    /// The errors of [`hold`](Self::hold); a failed write, which leaves the old file unless only the folder's sync
    /// failed.
    pub(super) fn replace(&self, content: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let replaced = self.try_replace(&content);
        replaced.map_err(|error| Error::io(self.path, error))
    }

    fn try_replace(&self, content: Content<'_>) -> io::Result<()> {
        let mut held = self.held();
        let path = self.take_hold(&mut held)?;
        let temporary = temporary(&path)?;
        // Not truncated, because another run may be writing it.
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(&temporary)?;
        lock(&file, &temporary)?;
        let moved = write(&file, content).and_then(|()| fs::rename(&temporary, &path));
        moved.inspect_err(|_| {
            // The file is of no use, and the first error is more informative.
            let _ = fs::remove_file(&temporary);
        })?;
        // The new file has been locked before its renaming, and the old lock ends here: at every moment one is held.
        *held = Some(file);
        sync_folder(&path)
    }

    fn held(&self) -> MutexGuard<'_, Option<File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the file, unless it is locked already, and returns its path.
    fn take_hold(&self, held: &mut Option<File>) -> io::Result<PathBuf> {
        match fs::metadata(self.path) {
            Ok(found) if !found.is_file() => Err(invalid("not a regular file")),
            Ok(_) => {
                let path = fs::canonicalize(self.path)?;
                if held.is_none() {
                    let file = File::open(&path)?;
                    lock(&file, &path)?;
                    *held = Some(file);
                }
                Ok(path)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.path.to_owned()),
            Err(error) => Err(error),
        }
    }
}

/// Locks a file until it is closed. Does nothing without file locks, as on some network drives. Checks that the path
/// still leads to this file. Tries several times, because a child process shares this run's locks for a moment.
#[cfg(unix)]
fn lock(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let name = |of: fs::Metadata| (of.dev(), of.ino());
    let is_there = || {
        fs::metadata(path)
            .is_ok_and(|there| file.metadata().is_ok_and(|of| name(of) == name(there)))
    };
    let mut found = file.try_lock();
    for _ in 0..20 {
        if !matches!(found, Err(TryLockError::WouldBlock)) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        found = file.try_lock();
    }
    match found {
        Err(TryLockError::Error(_)) => Ok(()),
        Ok(()) if is_there() => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another run is writing it",
        )),
    }
}

#[cfg(not(unix))]
fn lock(_file: &File, _path: &Path) -> io::Result<()> {
    Ok(())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn temporary(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name();
    let mut name = OsString::from(name.ok_or_else(|| invalid("not the name of a file"))?);
    name.push(".tmp");
    Ok(path.with_file_name(name))
}

fn write(file: &File, content: Content<'_>) -> io::Result<()> {
    file.set_len(0)?;
    let mut writer = BufWriter::new(file);
    content(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.sync_all()
}

/// Syncs the folder, so that the new name is on the disk.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Folder;
    use super::*;

    fn put(place: &Place<'_>, byte: u8) -> Result<()> {
        place.replace(|file| file.write_all(&[byte]))
    }

    #[cfg(unix)]
    #[test]
    fn a_place_has_one_holder_at_a_time() {
        let folder = Folder::new("one_holder");
        let file = folder.file("run");
        let (one, two) = (Place::new(&file), Place::new(&file));
        two.hold().unwrap();
        for byte in [1, 2] {
            put(&one, byte).unwrap();
            assert!(
                put(&two, 9)
                    .unwrap_err()
                    .to_string()
                    .contains("another run")
            );
            assert!(two.hold().is_err());
            assert_eq!(fs::read(&file).unwrap(), [byte]);
        }
        drop(one);
        put(&two, 3).unwrap();
        assert_eq!(fs::read(&file).unwrap(), [3]);
        assert_eq!(folder.files(), ["run"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_what_is_no_file_is_left_alone() {
        let folder = Folder::new("link_stays");
        let (file, link) = (folder.file("run"), folder.file("link"));
        put(&Place::new(&file), 1).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        put(&Place::new(&link), 2).unwrap();
        assert_eq!(fs::read(&file).unwrap(), [2]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let error = put(&Place::new(Path::new("/dev/zero")), 3).unwrap_err();
        assert_eq!(error.to_string(), "/dev/zero: not a regular file");
    }
}
