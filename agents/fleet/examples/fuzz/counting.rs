//! An allocator that knows how much is allocated, and how much was at most.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait; it only counts and hands on to the system's")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer is from `alloc`, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Begins to count anew.
pub(crate) fn reset() {
    let now = NOW.load(Ordering::Relaxed);
    BASE.store(now, Ordering::Relaxed);
    PEAK.store(now, Ordering::Relaxed);
}

/// The most that was allocated at one time since the last reset, in bytes.
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed) - BASE.load(Ordering::Relaxed)
}
