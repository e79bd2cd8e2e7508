//! Signals as events: blocked in every thread, taken by one.
//!
//! No handler is installed, so nothing runs at a bad moment. Children get an empty mask back.
#![expect(unsafe_code, reason = "the standard library has no signal masks")]

use std::{io, mem::MaybeUninit, ptr};

/// What ends an agent politely; the same path as a lost client.
const ENDING: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// The signals that [`wait`] takes. Made by [`block`] alone.
pub(super) struct Blocked(libc::sigset_t);

/// Blocks the ending signals and `SIGCHLD` in this thread and in those that it starts from now on.
pub(super) fn block() -> io::Result<Blocked> {
    // SAFETY: `SIG_DFL` is a valid disposition. An inherited `SIG_IGN` would let the kernel reap children behind our back.
    if unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    let mut set = empty_set();
    for signal in ENDING.into_iter().chain([libc::SIGCHLD]) {
        // SAFETY: the set is initialised and the signals exist.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the set is initialised; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(Blocked(set)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Blocked {
    /// Waits for the next of the blocked signals and returns its number.
    pub(super) fn wait(&self) -> io::Result<i32> {
        let mut signal = 0;
        // SAFETY: both pointers are valid for the call, and the set is blocked in all threads.
        match unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } {
            0 => Ok(signal),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Unblocks everything. For a child between fork and exec: async-signal-safe.
pub(super) fn unblock_all() -> io::Result<()> {
    let set = empty_set();
    // SAFETY: the set is initialised; `sigprocmask` is async-signal-safe, and the child has one thread.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the whole set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}
