//! NCCL's log: lines of level INFO, to the file that `NCCL_DEBUG_FILE` names.

use std::{
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    fs::OpenOptions,
    io::Write as _,
};

/// `ncclDebugLogger_t` with the one argument that our plugin's format takes. NCCL's own takes any number: such a function
/// cannot be written in Rust, and on Linux's targets arguments in the place of `...` are passed as declared ones are.
unsafe extern "C" fn log(
    _level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin passes strings.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    debug_assert_eq!(format, c"%s", "another plugin than ours");
    info(&text.to_string_lossy());
}

/// What a plugin gets to log with.
pub(crate) fn log_function() -> *mut c_void {
    log as *mut c_void
}

/// Writes a line as NCCL would, where it is to log at all.
pub(crate) fn info(text: &str) {
    if std::env::var("NCCL_DEBUG").as_deref() != Ok("INFO") {
        return;
    }
    let Ok(path) = std::env::var("NCCL_DEBUG_FILE") else { return };
    let line = format!("standin:{0}:{0} [0] NCCL INFO {text}\n", std::process::id());
    // As with NCCL, a log that cannot be written is no error.
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        file.write_all(line.as_bytes()).ok();
    }
}
