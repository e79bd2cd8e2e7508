//! A call allocates nothing, not even the one that logs, and not while calls are recorded.
#![expect(unsafe_code, reason = "an allocator, and a C interface")]

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ffi::{c_char, c_ulong},
};

use gdrtune_nccl_tuner::{LogFunction, gdrtune_tuner_set};
use support::{ALL_REDUCE, BROADCAST, Query, RING, SIMPLE, Tuner, last, turn};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts by thread.
struct Counting;

// SAFETY: Everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: The caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: The caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static MESSAGES: Cell<u64> = const { Cell::new(0) };
}

unsafe extern "C" fn count_message(_: i32, _: c_ulong, _: *const c_char, _: i32, _: *const c_char, _: *const c_char) {
    MESSAGES.with(|count| count.set(count.get() + 1));
}

type Fixed = unsafe extern "C" fn(i32, c_ulong, *const c_char, i32, *const c_char, *const c_char);

#[test]
fn calls_allocate_nothing() {
    let _turn = turn();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "allreduce,0,8,tree,ll,1,-1,-1\nallreduce,0,8,ring,simple,2,-1,-1\n").unwrap();
    support::set_variable("GDRTUNE_RULES", Some(file.path()));
    // SAFETY: As in `support::log_function`.
    let log = unsafe { std::mem::transmute::<Fixed, LogFunction>(count_message) };
    let tuner = Tuner::start_with(4, 32, 4, Some(log));
    let v2 = Tuner::start_with(2, 32, 4, Some(log));
    let asks = |is_matched: bool, n_messages: u64| {
        let mut query = if is_matched { Query::new(ALL_REDUCE, 8).forbid(0, 0) } else { Query::new(BROADCAST, 8) };
        let before = (ALLOCATIONS.get(), MESSAGES.get());
        for _ in 0..100 {
            tuner.ask(&mut query);
            v2.ask_v2(query.collective, 8);
        }
        assert_eq!((ALLOCATIONS.get(), MESSAGES.get()), (before.0, before.1 + n_messages));
        query.preferred()
    };
    assert_eq!(asks(true, 3), Some((RING, SIMPLE, 2)), "skipped and applied, and applied by v2");
    assert_eq!(asks(false, 0), None);
    assert_eq!(last(), None);
    assert_eq!(asks(true, 0), Some((RING, SIMPLE, 2)), "recorded");
    assert_eq!(gdrtune_tuner_set(-1, 1, 2, 4), 0);
    assert_eq!(asks(true, 0), Some((RING, SIMPLE, 4)), "live");
    assert_eq!(last().map(|decision| decision.calls), Some(400));
}
