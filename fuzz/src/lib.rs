//! Parts of all targets: a file of the input, and a limit on the memory that reading it may take.

pub mod seeds;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use annealed_files::{BinaryData, DataLayout, DeepLayout, RbmFile, RbmLayout, read_deep};

/// An allocator that counts the bytes in use.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Does `work`, which may hold `limit` bytes at once.
///
/// # Panics
/// If it held more.
pub fn within<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    let peak = PEAK.load(Relaxed) - before;
    assert!(peak <= limit, "held {peak} bytes, more than {limit}");
    done
}

/// The path of a file of this process, in memory where the system has such a folder.
pub fn path(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    folder.join(format!("annealed-fuzz-{}-{name}", std::process::id()))
}

/// Reads a file as data and as machines of every kind. A file declares `declared` bytes beside its own. A number takes
/// at most 8 bytes of memory; a row of data may take 24 beside its units, but narrow rows are limited in number.
pub fn read_arrays(bytes: &[u8], declared: usize) {
    let file = path("arrays");
    std::fs::write(&file, bytes).expect("there is memory for the file");
    let limit = (512 << 10) + 32 * (bytes.len() + declared);
    let layouts = [
        DataLayout::default(),
        DataLayout::default().array("W").threshold(0.5),
        DataLayout::default().array("a").drawn(1),
    ];
    for layout in &layouts {
        let data = within(limit, || BinaryData::read_as(&file, layout));
        let _ = data.map(|data| data.assumed().to_string());
    }
    let layout = RbmLayout::default().square_transposed();
    let _ = within(limit, || RbmFile::<f64>::read(&file).map(drop));
    let _ = within(limit, || RbmFile::<f32>::read_as(&file, &layout).map(drop));
    let layout = DeepLayout::new(["W", "W2"]).biases(["b", "a", "a2"]);
    let _ = within(limit, || read_deep::<f32>(&file, &layout).map(drop));
}
