//! A file that all ranks map: a barrier, and a slot for each rank's data.

use std::{
    ffi::c_void,
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsRawFd as _,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// Bytes for a rank's data; the file is sparse.
const SLOT_BYTES: usize = 64 << 20;
const MOST_RANKS: usize = 8;
const HEADER_BYTES: usize = 4096;
const BYTES: usize = HEADER_BYTES + MOST_RANKS * SLOT_BYTES;

/// What comes first in the file; a new file is all zeros.
#[repr(C)]
struct Header {
    arrived: AtomicU32,
    generation: AtomicU32,
    /// What each rank is about to run, hashed.
    intents: [AtomicU64; MOST_RANKS],
    /// Bytes that each rank has put into its slot.
    lengths: [AtomicU64; MOST_RANKS],
}

/// A mapped file.
pub(crate) struct Segment {
    base: *mut c_void,
    rank: usize,
    pub(crate) world: usize,
}

impl Segment {
    /// Makes the file and returns its path.
    pub(crate) fn create() -> io::Result<String> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("standin-nccl-{}-{number}", std::process::id()));
        File::create(&path)?.set_len(BYTES as u64)?;
        path.to_str().map(str::to_owned).ok_or_else(|| io::Error::other("a path that is no text"))
    }

    /// Maps the file and waits for the other ranks.
    pub(crate) fn join(path: &str, rank: usize, world: usize) -> io::Result<Self> {
        if MOST_RANKS < world {
            return Err(io::Error::other("more ranks than the stand-in takes"));
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open file that has this size.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, flags, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let segment = Self { base, rank, world };
        segment.barrier();
        if rank == 0 {
            fs::remove_file(path)?;
        }
        Ok(segment)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with the header, whose fields are atomics, valid for zeros.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self) {
        let header = self.header();
        let generation = header.generation.load(Ordering::Acquire);
        if header.arrived.fetch_add(1, Ordering::AcqRel) as usize + 1 == self.world {
            header.arrived.store(0, Ordering::Release);
            header.generation.fetch_add(1, Ordering::AcqRel);
            return;
        }
        while header.generation.load(Ordering::Acquire) == generation {
            std::thread::yield_now();
        }
    }

    fn slot(&self, rank: usize) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.cast::<u8>().add(HEADER_BYTES + rank * SLOT_BYTES) }
    }

    /// Puts this rank's data into its slot and waits for the others. Whether all are about to run the same.
    ///
    /// # Safety
    /// `from` can be read for `bytes`.
    pub(crate) unsafe fn publish(&self, from: *const u8, bytes: usize, intent: u64) -> bool {
        let header = self.header();
        let bytes = bytes.min(SLOT_BYTES);
        // SAFETY: the caller's promise; nobody else writes to this slot.
        unsafe { self.slot(self.rank).copy_from_nonoverlapping(from, bytes) };
        header.lengths[self.rank].store(bytes as u64, Ordering::Release);
        header.intents[self.rank].store(intent, Ordering::Release);
        self.barrier();
        header.intents[..self.world].iter().all(|other| other.load(Ordering::Acquire) == intent)
    }

    /// What a rank has published. Nobody writes to it until the next barrier.
    pub(crate) fn published(&self, rank: usize) -> &[u8] {
        let bytes = self.header().lengths[rank].load(Ordering::Acquire) as usize;
        // SAFETY: within the slot.
        unsafe { std::slice::from_raw_parts(self.slot(rank), bytes) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `join`, unmapped once.
        unsafe { libc::munmap(self.base, BYTES) };
    }
}
