//! Takes standard input and output away from everybody but the frames.
//!
//! Libraries print to descriptor 1 and read from 0 without asking. So both are moved to high descriptors that no child
//! inherits, and the old numbers point to harmless places. Reads and writes nothing itself.

use std::{fs::File, io};

use rustix::{io::fcntl_dupfd_cloexec, stdio};

/// Lowest number of a moved descriptor: out of reach of code that assumes small ones.
const LOWEST_DESCRIPTOR: i32 = 64;

/// The moved descriptors.
pub(super) struct Streams {
    /// Frames from gdrtune.
    pub(super) input: File,
    /// Frames to gdrtune.
    pub(super) output: File,
    /// JSON log lines.
    pub(super) log: File,
}

/// Moves descriptors 0 and 1 up, then points 0 to `/dev/null` and 1 to standard error.
pub(super) fn take() -> io::Result<Streams> {
    let input = fcntl_dupfd_cloexec(stdio::stdin(), LOWEST_DESCRIPTOR)?;
    let output = fcntl_dupfd_cloexec(stdio::stdout(), LOWEST_DESCRIPTOR)?;
    let log = fcntl_dupfd_cloexec(stdio::stderr(), LOWEST_DESCRIPTOR)?;
    stdio::dup2_stdin(File::open("/dev/null")?)?;
    stdio::dup2_stdout(&log)?;
    Ok(Streams { input: input.into(), output: output.into(), log: log.into() })
}
