//! Ends the process at once.
#![expect(unsafe_code, reason = "_exit has no safe wrapper in our dependencies")]

/// Ends the process without running exit handlers: a hung library may hold the locks that its handlers want.
pub(super) fn now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(code) }
}
