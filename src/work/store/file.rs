//! The format of a checkpoint file: header, payload and checksum.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"annealed";

/// Version of the format. Change it with the layout of the file or of anything that a run writes to it.
const VERSION: u32 = 14;

/// Number of bytes before the header: [`MAGIC`], version of the format, and length of the file.
const START: usize = MAGIC.len() + 4 + 8;

/// Number of bytes of the checksum at the end.
const END: usize = 4;

/// The header of a file. A run resumes only from a file with its own kind and label.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Header<'a> {
    /// Kind of run, such as "ais".
    pub(super) kind: &'a str,
    /// The user's label.
    pub(super) label: Option<&'a str>,
    /// Rank of the process that writes the file, and number of processes. Any number of processes may resume from it.
    pub(super) of: (usize, usize),
}

/// Version of this crate, because another version may compute other bits.
const CRATE: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
enum Fault {
    #[error("begins with {0:?}, expected \"annealed\": it is no checkpoint of this crate")]
    NotACheckpoint(String),
    #[error("has version {0} of the format, expected {VERSION}")]
    Version(u32),
    #[error("has {found} bytes, expected {expected}: it was cut short or added to")]
    Length { found: usize, expected: u64 },
    #[error("has the checksum {computed:08x}, expected {stated:08x}: it is damaged")]
    Damaged { computed: u32, stated: u32 },
    #[error("has a header that cannot be read ({0}), expected version, kind and label")]
    Header(postcard::Error),
    #[error("was written by version {0} of this crate, expected {CRATE}")]
    Crate(String),
    #[error("is a checkpoint of {found:?}, expected one of {expected:?}")]
    Kind { found: String, expected: String },
    #[error("is labelled {}, expected {}", named(found), named(expected))]
    Label {
        found: Option<String>,
        expected: Option<String>,
    },
}

fn named(label: &Option<String>) -> String {
    label
        .as_ref()
        .map_or("not at all".to_owned(), |label| format!("{label:?}"))
}

/// Writes a checkpoint in place of an older one. A complete file exists at every moment.
///
/// # Errors
/// [`Error::File`] if it cannot be written.
pub(super) fn write(place: &Place<'_>, header: &Header<'_>, payload: &[u8]) -> Result<()> {
    place.replace(|file| frame(header, payload, file))
}

/// Reads a checkpoint, and decodes its payload with `decode`. `is_part` gets the rank and the number of processes that
/// the file states, if any. If `is_part` returns false, the result is `None`.
///
/// # Errors
/// [`Error::File`] for a file that is unreadable, damaged, has another kind or label, or fails in `decode`.
pub(super) fn read<T>(
    path: &Path,
    expected: &Header<'_>,
    is_part: &dyn Fn(Option<(usize, usize)>) -> bool,
    decode: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, error))?;
    let fault = |fault| Error::file(path, fault);
    let opened = open(&bytes);
    let of = match &opened {
        // A file of the user may have a name that ends in a rank, so `is_part` decides whether this is an error.
        Err(Fault::NotACheckpoint(_)) => None,
        Err(fault) => return Err(Error::file(path, fault)),
        Ok((header, _)) => Some(header.of),
    };
    if !is_part(of) {
        return Ok(None);
    }
    let (header, payload) = opened.map_err(fault)?;
    compare(&header, expected).map_err(fault)?;
    let decoded = decode(payload).map_err(|error| Error::file(path, error))?;
    Ok(Some(decoded))
}

fn frame(header: &Header<'_>, payload: &[u8], file: &mut dyn Write) -> io::Result<()> {
    let header = postcard::to_extend(&(CRATE, header), Vec::new());
    let header = header.expect("texts can be written");
    let length = START + header.len() + payload.len() + END;
    let (version, length) = (VERSION.to_le_bytes(), (length as u64).to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    let pieces: [&[u8]; 5] = [&MAGIC, &version, &length, &header, payload];
    for piece in pieces {
        checksum.update(piece);
        file.write_all(piece)?;
    }
    file.write_all(&checksum.finalize().to_le_bytes())
}

/// Returns header and payload of an undamaged file of this version.
fn open(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), Fault> {
    let found = bytes.len();
    let start = &bytes[..found.min(MAGIC.len())];
    if !MAGIC.starts_with(start) {
        let found = String::from_utf8_lossy(start).into_owned();
        return Err(Fault::NotACheckpoint(found));
    }
    let length = |expected| Fault::Length { found, expected };
    if found < START + END {
        return Err(length((START + END) as u64));
    }
    let version = u32::from_le_bytes(array(&bytes[MAGIC.len()..]));
    // Checked before length and checksum, which another version may store in another way.
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let stated = u64::from_le_bytes(array(&bytes[MAGIC.len() + 4..]));
    if stated != found as u64 {
        return Err(length(stated));
    }
    let (rest, end) = bytes.split_at(found - END);
    let (computed, stated) = (crc32fast::hash(rest), u32::from_le_bytes(array(end)));
    if computed != stated {
        return Err(Fault::Damaged { computed, stated });
    }
    let read = postcard::take_from_bytes(&rest[START..]);
    let ((by, header), payload): ((&str, Header<'_>), _) = read.map_err(Fault::Header)?;
    match by == CRATE {
        true => Ok((header, payload)),
        false => Err(Fault::Crate(by.to_owned())),
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

fn compare(found: &Header<'_>, expected: &Header<'_>) -> Result<(), Fault> {
    if found.kind != expected.kind {
        return Err(Fault::Kind {
            found: found.kind.to_owned(),
            expected: expected.kind.to_owned(),
        });
    }
    if found.label != expected.label {
        return Err(Fault::Label {
            found: found.label.map(str::to_owned),
            expected: expected.label.map(str::to_owned),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::super::Folder;
    use super::*;
    use crate::random::{Purpose, stream};

    const HEADER: Header<'static> = Header {
        kind: "ais",
        label: Some("posterior of May"),
        of: (0, 1),
    };

    fn payload<'b>(bytes: &'b [u8], expected: &Header<'_>) -> Result<&'b [u8], Fault> {
        let (header, payload) = open(bytes)?;
        compare(&header, expected).map(|()| payload)
    }

    fn content(path: &Path, header: &Header<'_>) -> Result<Vec<u8>> {
        let content = read(path, header, &|_| true, |payload| Ok(payload.to_vec()))?;
        Ok(content.expect("it is a part"))
    }

    fn framed(header: &Header<'_>, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame(header, payload, &mut bytes).unwrap();
        bytes
    }

    /// Corrects length and checksum, so that the other checks are reached.
    fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
        let length = bytes.len();
        bytes[12..20].copy_from_slice(&(length as u64).to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..length - 4]);
        bytes[length - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn payload_of_all_bytes() -> Vec<u8> {
        (0..=255).cycle().take(3_000).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = Folder::new("written_is_read");
        let path = folder.file("run");
        for payload in [Vec::new(), payload_of_all_bytes()] {
            for label in [None, HEADER.label] {
                let header = Header { label, ..HEADER };
                write(&Place::new(&path), &header, &payload).unwrap();
                assert_eq!(content(&path, &header).unwrap(), payload);
            }
        }
        assert_eq!(folder.files(), ["run"]);
    }

    #[test]
    fn each_fault_is_named() {
        let bytes = framed(&HEADER, &[7; 100]);
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        let fault = |bytes: &[u8]| payload(bytes, &HEADER).unwrap_err();
        let length = bytes.len();
        assert_eq!(
            fault(b"PK\x03\x04"),
            Fault::NotACheckpoint("PK\x03\x04".into())
        );
        let newer = VERSION + 1;
        assert_eq!(fault(&with(8, newer as u8)), Fault::Version(newer));
        for found in (0..length).chain([length + 1]) {
            let mut bytes = bytes.clone();
            bytes.resize(found, 0);
            let expected = if found < START + END {
                START + END
            } else {
                length
            } as u64;
            assert_eq!(fault(&bytes), Fault::Length { found, expected });
        }
        assert!(matches!(fault(&with(length - 9, 8)), Fault::Damaged { .. }));
        let header = fault(&repaired(with(START, 200)));
        assert!(matches!(header, Fault::Header(_)));
    }

    #[test]
    fn another_header_is_named() {
        let bytes = framed(&HEADER, &[7; 100]);
        let other = |header| payload(&bytes, &header).unwrap_err().to_string();
        let kind = Header {
            kind: "tempering",
            ..HEADER
        };
        assert_eq!(
            other(kind),
            "is a checkpoint of \"ais\", expected one of \"tempering\""
        );
        let label = Header {
            label: None,
            ..HEADER
        };
        assert_eq!(
            other(label),
            "is labelled \"posterior of May\", expected not at all"
        );
        let at = START + 1;
        assert_eq!(bytes[at..at + CRATE.len()], *CRATE.as_bytes());
        let mut other = bytes.clone();
        other[at] = b'x';
        let fault = payload(&repaired(other), &HEADER).unwrap_err().to_string();
        assert!(fault.contains("version x"), "{fault}");
    }

    #[test]
    fn a_file_that_is_no_part_is_left_alone() {
        let folder = Folder::new("no_part");
        let path = folder.file("run.1");
        let found = |of: Option<(usize, usize)>| {
            let seen = |found: Option<(usize, usize)>| {
                assert_eq!(found, of);
                false
            };
            read(&path, &HEADER, &seen, |_| Ok(())).unwrap()
        };
        fs::write(&path, b"text").unwrap();
        assert!(found(None).is_none());
        let of = (1, 3);
        let other = Header {
            kind: "another",
            label: None,
            of,
        };
        write(&Place::new(&path), &other, &[]).unwrap();
        assert!(found(Some(of)).is_none());
    }

    #[test]
    fn errors_name_the_file() {
        let folder = Folder::new("errors_name_the_file");
        let path = folder.file("run");
        let message = |path: &Path| {
            let refuse = |_: &[u8]| Err::<(), _>(Error::invalid("x", 1, "2"));
            let refused = read(path, &HEADER, &|_| true, refuse);
            refused.unwrap_err().to_string()
        };
        let name = path.display().to_string();
        assert!(message(&path).starts_with(&name), "no file");
        fs::write(&path, b"text").unwrap();
        assert!(message(&path).starts_with(&name), "a text");
        write(&Place::new(&path), &HEADER, &[]).unwrap();
        assert_eq!(
            message(&path),
            format!("{name}: invalid x: got 1, expected 2")
        );
        for nowhere in [
            folder.file("no/run"),
            folder.file(""),
            "/".into(),
            "".into(),
        ] {
            let error = write(&Place::new(&nowhere), &HEADER, &[]).unwrap_err();
            assert!(matches!(error, Error::File { .. }), "{error}");
        }
        assert_eq!(folder.files(), ["run"]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_survives() {
        let folder = Folder::new("survives");
        let path = folder.file("run");
        write(&Place::new(&path), &HEADER, &[1]).unwrap();
        // A killed process left it behind. A folder of that name blocks the next write.
        fs::create_dir(folder.file("run.tmp")).unwrap();
        assert!(write(&Place::new(&path), &HEADER, &[2]).is_err());
        assert_eq!(content(&path, &HEADER).unwrap(), [1]);
        fs::remove_dir(folder.file("run.tmp")).unwrap();
        fs::write(folder.file("run.tmp"), [9; 1_000]).unwrap();
        write(&Place::new(&path), &HEADER, &[2]).unwrap();
        assert_eq!(content(&path, &HEADER).unwrap(), [2]);
        assert_eq!(folder.files(), ["run"]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let original = framed(&HEADER, &payload_of_all_bytes());
        let mut rng = stream(1, Purpose::TESTING, 0);
        for trial in 0..1_000 {
            let mut bytes = original.clone();
            let at = rng.random_range(0..bytes.len());
            match trial % 3 {
                0 => bytes[at] ^= 1 << rng.random_range(0..8),
                1 => bytes.truncate(at),
                _ => bytes.insert(at, rng.random()),
            }
            assert!(payload(&bytes, &HEADER).is_err(), "trial {trial}");
        }
    }
}
