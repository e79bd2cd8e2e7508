//! Programs that are asked where no file tells. Started without a shell, waited for no longer than a deadline, and nothing of them is
//! left.

use std::{
    ffi::OsStr,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::ChildStdout,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal},
};

use super::device_users::printable;
use crate::agent::process::{self, Child, ChildSpec, Status};

/// Most bytes of an answer. A line about a process has about 100, and `nvidia-smi -q -x` some 25,000 a GPU, mostly of the clocks that it
/// could have.
const ANSWER_BYTES: usize = 4 << 20;

/// Time that a killed program may take to go away. Longer means stuck in the driver; the agent reaps it at its end.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// Time between two looks whether it has ended.
const END_POLL: Duration = Duration::from_millis(2);

/// The first absolute folder of `search_path` that has the program.
///
/// Relative folders are left out: what lies there depends on where the agent was started.
pub(super) fn find(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(is_program)
}

/// What a program prints, if it ends well before `until`. Nothing of it is left afterwards, unless it is stuck in the
/// kernel.
pub(super) fn run(spec: &ChildSpec<'_>, until: Instant) -> Result<String, String> {
    let started = Instant::now();
    let Child { pid, stdin, stdout, stderr } = process::start(spec).map_err(|error| format!("start it: {error}"))?;
    drop(stdin);
    let result = read(stdout, until).and_then(|text| match wait(pid, until) {
        Some(Status::Exit(0)) => Ok(text),
        Some(Status::Exit(code)) => Err(format!("exit code {code}: {}", first_line(&text))),
        Some(Status::Signal(signal)) => Err(format!("ended by signal {signal}")),
        None => Err(String::new()),
    });
    drop(stderr);
    process::signal_group(pid, Signal::KILL);
    wait(pid, Instant::now() + KILL_PATIENCE);
    process::reap(pid);
    // An empty cause is the deadline, wherever it was met.
    result.map_err(|why| match why.as_str() {
        "" => format!("no answer within {:.1} s; it was killed", started.elapsed().as_secs_f64()),
        _ => why,
    })
}

fn first_line(text: &str) -> String {
    printable(text.trim().lines().next().unwrap_or("it says nothing"))
}

/// Everything until the end of the stream; an empty error is the deadline.
fn read(mut stdout: ChildStdout, until: Instant) -> Result<String, String> {
    let mut bytes = vec![];
    let mut buffer = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(String::new()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(format!("wait for its answer: {error}")),
        }
        match stdout.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(count) if bytes.len() + count <= ANSWER_BYTES => bytes.extend_from_slice(&buffer[..count]),
            Ok(_) => return Err(format!("prints more than {ANSWER_BYTES} bytes")),
            Err(error) => return Err(format!("read its answer: {error}")),
        }
    }
}

fn wait(pid: Pid, until: Instant) -> Option<Status> {
    loop {
        let end = process::peek_end(pid);
        if end.is_some() || until <= Instant::now() {
            return end;
        }
        thread::sleep(END_POLL);
    }
}
