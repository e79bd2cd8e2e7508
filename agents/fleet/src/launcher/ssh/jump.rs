//! Turns of hosts that are reached through the same jump host.
//!
//! Every such connection is one more to the jump host's sshd, which drops connections at random where more than ten are not
//! yet authenticated (`MaxStartups 10:30:100`, `sshd_config(5)`). Connections that are open do not count.

use std::{
    collections::HashMap,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{SshOptions, master::configured};
use crate::hosts::Host;

/// Connections at one time through a jump host. Of 60 connections in a window of 8, a default sshd took all; at once, 38.
pub const DEFAULT_JUMP_WINDOW: usize = 8;
/// Processes of `ssh -G` at one time.
const QUESTIONS: usize = 8;

/// The windows, by what ssh says of the way.
#[derive(Debug)]
pub(super) struct Jumps {
    window: usize,
    questions: Semaphore,
    windows: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Jumps {
    pub(super) fn new(window: usize) -> Self {
        let windows = Mutex::new(HashMap::new());
        Self { window: window.max(1), questions: Semaphore::new(QUESTIONS), windows }
    }

    /// Waits for the host's turn; at once where no jump host is on the way.
    pub(super) async fn turn(&self, options: &SshOptions, host: &Host) -> Option<OwnedSemaphorePermit> {
        let settings = {
            // The semaphores are never closed, and without a permit a launch would still be right.
            let _question = self.questions.acquire().await.ok();
            settings(options, host).await
        };
        self.window(way(&settings)?).acquire_owned().await.ok()
    }

    fn window(&self, way: String) -> Arc<Semaphore> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(windows.entry(way).or_insert_with(|| Arc::new(Semaphore::new(self.window))))
    }
}

/// What ssh would do for a host; empty where it cannot say: then connecting says why.
async fn settings(options: &SshOptions, host: &Host) -> String {
    let mut command = Command::new("ssh");
    command.arg("-G").args(configured(options, host)).stdin(Stdio::null()).stderr(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await;
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// The jump host or the command on the way to a host, as `ssh -G` prints it. Commands name the host that they lead to, so
/// all of them share a window.
fn way(settings: &str) -> Option<String> {
    settings.lines().find_map(|line| match line.split_once(' ')? {
        ("proxyjump", jump) if jump != "none" => Some(jump.to_owned()),
        ("proxycommand", command) if command != "none" => Some(String::new()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_read_from_sshs_own_words() {
        for (settings, expected) in [
            ("user root\nhostname n1\nport 22\n", None),
            ("host n1\nproxyjump gate\nport 22\n", Some("gate")),
            ("proxyjump none\n", None),
            ("proxycommand none\nproxyjump ann@gate:2222,inner\n", Some("ann@gate:2222,inner")),
            ("proxycommand nc -X 5 n1 22\n", Some("")),
            ("", None),
        ] {
            assert_eq!(way(settings).as_deref(), expected, "{settings:?}");
        }
    }

    #[test]
    fn each_jump_host_has_a_window_of_its_own() {
        let jumps = Jumps::new(2);
        let first = jumps.window("gate".to_owned()).try_acquire_owned().unwrap();
        let _second = jumps.window("gate".to_owned()).try_acquire_owned().unwrap();
        assert!(jumps.window("gate".to_owned()).try_acquire_owned().is_err());
        assert!(jumps.window("other".to_owned()).try_acquire_owned().is_ok());
        drop(first);
        assert!(jumps.window("gate".to_owned()).try_acquire_owned().is_ok());
    }
}
