//! Replacing a file as a whole: at every moment there is the old one or the new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// What writes the content of a file.
type Content<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Writes the file. The content goes to a temporary file beside it first, of the same name and `.tmp`, which takes
/// its place once it is on the disk.
///
/// # Errors
/// [`Error::File`]; the old file is still there then, unless the folder alone could not be synced.
pub(super) fn replace(
    path: &Path,
    content: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let written = temporary(path).and_then(|temporary| {
        let moved = write(&temporary, &content).and_then(|()| fs::rename(&temporary, path));
        moved.inspect_err(|_| {
            // It is of no use, and the error at hand says more than another one.
            let _ = fs::remove_file(&temporary);
        })?;
        sync_folder(path)
    });
    written.map_err(|error| Error::io(path, error))
}

fn temporary(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not the name of a file",
        ));
    };
    let mut name = OsString::from(name);
    name.push(".tmp");
    Ok(path.with_file_name(name))
}

fn write(path: &Path, content: Content<'_>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    content(&mut file)?;
    file.into_inner()?.sync_all()
}

/// Brings the new name of a file to the disk.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}
