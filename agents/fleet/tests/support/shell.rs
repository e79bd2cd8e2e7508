//! An agent made of a few lines of shell, collected events, and a look at processes.
#![expect(clippy::unwrap_used, reason = "only tests use this")]

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use gdrtune_fleet::FleetEvent;
use gdrtune_wire::{FromAgent, codec};

use crate::messages::{hello, inventory};

/// A shell script that does `extra`, introduces itself as an agent of a build, and ends with its input. Without the argument
/// `agent`, it only starts.
pub(crate) fn agent_script(build_id: &str, extra: &str) -> String {
    let mut bytes = codec::PREAMBLE.to_vec();
    bytes.extend(codec::encode(&FromAgent::Hello(hello(build_id))).unwrap());
    bytes.extend(codec::encode(&FromAgent::Inventory(inventory())).unwrap());
    let mut octal = String::new();
    for byte in bytes {
        write!(octal, "\\{byte:03o}").unwrap();
    }
    format!("#!/bin/sh\ntest \"$1\" = agent || exit 0\n{extra}\nprintf '{octal}'\nexec cat > /dev/null\n")
}

/// Writes an executable file without holding it open here: a fork of another thread would keep it busy.
pub(crate) fn write_executable(path: &Path, text: &str) {
    use std::io::Write as _;
    let script = "cat > \"$1\" && chmod 755 \"$1\"";
    let mut child = Command::new("sh").args(["-c", script, "sh"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

pub(crate) fn executable(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("agent.sh");
    write_executable(&path, text);
    path
}

/// Takes events until one is wanted; gives all of them.
pub(crate) fn events_until(events: &Receiver<FleetEvent>, wanted: impl Fn(&FleetEvent) -> bool) -> Vec<FleetEvent> {
    let end = Instant::now() + Duration::from_secs(20);
    let mut seen = Vec::new();
    loop {
        match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(event) => {
                seen.push(event);
                if seen.last().is_some_and(&wanted) {
                    return seen;
                }
            }
            Err(RecvTimeoutError::Timeout) => panic!("the event did not come; seen: {seen:#?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("no more events; seen: {seen:#?}"),
        }
    }
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Command lines of all processes, with their ids.
pub(crate) fn processes() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
    .collect()
}
