//! Memory that an adapter reads and writes.
//!
//! The adapter is no thread of this program: what it writes shows up as another process's writes to shared memory do. So
//! nothing here hands out a plain reference to a region's bytes. They are copied in and out through raw pointers, or looked
//! at as atomic words; a copy that meets a write sees old and new bytes mixed, which flags and completions tell apart.

use std::{
    alloc::{self, Layout},
    any::Any,
    ffi::c_void,
    fmt,
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ibverbs_sys as ib;
use serde::{Deserialize, Serialize};

use super::Domain;
use crate::verbs::VerbsError;

/// Alignment of host memory: the page of x86-64, and what adapters map memory in. Larger pages only cost a little more.
const PAGE_BYTES: usize = 4096;

/// Page-aligned host memory, zero at first.
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` would.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// This many bytes, at least one; `None` where there is no memory.
    pub fn zeroed(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1);
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(Self { start, bytes })
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where it is. The provenance is exposed: the adapter gets a number.
    pub(super) fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // The same size and alignment made a layout before.
        if let Ok(layout) = Layout::from_size_align(self.bytes, PAGE_BYTES) {
            // SAFETY: allocated above with this layout, freed once.
            unsafe { alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Whose memory a region is of.
pub(super) enum Memory {
    Host(HostMemory),
    /// Not the CPU's to touch; freed when dropped.
    Foreign {
        _owner: Box<dyn Any + Send>,
    },
}

/// A registration.
pub(super) struct Mr {
    pub(super) domain: Arc<Domain>,
    pub(super) mr: NonNull<ib::ibv_mr>,
}

impl Mr {
    /// Takes the memory away from the adapter; whether that worked.
    fn deregister(&self) -> bool {
        // SAFETY: registered once, and called once, from the region's drop.
        unsafe { (self.domain.device().verbs.api.ibv_dereg_mr)(self.mr.as_ptr()) == 0 }
    }
}

/// Registered memory. It may be sent to another thread, but only one thread at a time touches it.
///
/// When it is dropped, it is deregistered first and freed then. Work that still is under way fails with
/// `IBV_WC_LOC_PROT_ERR` then, and a peer's with `IBV_WC_REM_ACCESS_ERR`; neither reaches freed memory.
pub struct Region {
    mr: Mr,
    address: u64,
    bytes: usize,
    memory: ManuallyDrop<Memory>,
}

// SAFETY: registrations belong to no thread, and the memory is owned. Not `Sync`: copies in and out are no atomics.
unsafe impl Send for Region {}

/// What a peer needs to reach a region. It goes over the control channel only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRegion {
    /// Address of its first byte.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its key.
    pub key: u32,
}

impl Region {
    pub(super) fn new(mr: Mr, address: u64, bytes: usize, memory: Memory) -> Self {
        Self { mr, address, bytes, memory: ManuallyDrop::new(memory) }
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// What a peer needs to reach it.
    pub fn remote(&self) -> RemoteRegion {
        // SAFETY: the registration is valid as long as this.
        let key = unsafe { (*self.mr.mr.as_ptr()).rkey };
        RemoteRegion { address: self.address, bytes: self.bytes as u64, key }
    }

    /// Address and key for work of this side, where the range is within it.
    pub(super) fn local(&self, offset: usize, bytes: usize) -> Result<(u64, u32), VerbsError> {
        self.check(offset, bytes)?;
        // SAFETY: as above.
        let key = unsafe { (*self.mr.mr.as_ptr()).lkey };
        Ok((self.address + offset as u64, key))
    }

    /// The protection domain that it is registered in.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.mr.domain
    }

    /// Copies bytes into it.
    ///
    /// # Errors
    /// [`VerbsError::Range`], or [`VerbsError::NotHostMemory`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), VerbsError> {
        let to = self.host(offset, from.len())?;
        // SAFETY: the range is within memory that this region owns; `from` is no part of it, as nobody has references to
        // it; no other thread is here, as this is not `Sync`. The adapter may read old and new bytes mixed.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Copies bytes out of it.
    ///
    /// # Errors
    /// As [`Region::write`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), VerbsError> {
        let from = self.host(offset, to.len())?;
        // SAFETY: as in `write`; the address was given to the adapter, so the compiler assumes nothing of what is there.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// The words from `offset` on, which is a multiple of 8. What a peer wrote before a word shows after the word was
    /// loaded with [`Ordering::Acquire`], as far as adapter and PCIe keep the order of writes.
    ///
    /// # Errors
    /// As [`Region::write`]; an odd offset is out of range, too.
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64], VerbsError> {
        let bytes = count.saturating_mul(size_of::<u64>());
        let start = self.host(offset, bytes)?;
        if !offset.is_multiple_of(size_of::<u64>()) {
            return Err(self.out_of_range(offset, bytes));
        }
        // SAFETY: aligned, as the memory is page-aligned; within the region; atomics may be written by others.
        Ok(unsafe { std::slice::from_raw_parts(start.cast_const().cast::<c_void>().cast::<AtomicU64>(), count) })
    }

    /// Loads the word at `offset`, which is a multiple of 8.
    ///
    /// # Errors
    /// As [`Region::words`].
    pub fn load(&self, offset: usize) -> Result<u64, VerbsError> {
        Ok(self.words(offset, 1)?[0].load(Ordering::Acquire))
    }

    fn host(&self, offset: usize, bytes: usize) -> Result<*mut u8, VerbsError> {
        self.check(offset, bytes)?;
        match &*self.memory {
            // SAFETY: the offset is within the allocation.
            Memory::Host(memory) => Ok(unsafe { memory.start.as_ptr().add(offset) }),
            Memory::Foreign { .. } => Err(VerbsError::NotHostMemory),
        }
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<(), VerbsError> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(self.out_of_range(offset, bytes))
    }

    fn out_of_range(&self, offset: usize, bytes: usize) -> VerbsError {
        VerbsError::Range { side: "local", offset: offset as u64, bytes: bytes as u64, length: self.bytes as u64 }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Memory that the adapter may still write to is never given back: rather lost than overwritten.
        if self.mr.deregister() {
            // SAFETY: dropped once, here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("remote", &self.remote()).finish_non_exhaustive()
    }
}
