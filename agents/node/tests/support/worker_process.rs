//! A worker as a process, with the test as its agent.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use gdrtune_wire::{
    FromWorker, ToWorker,
    codec::{Decoder, encode},
};

/// A worker; killed when dropped.
pub(crate) struct Worker {
    pub(crate) process: Child,
    pub(crate) to: Option<ChildStdin>,
    from: ChildStdout,
    decoder: Decoder,
}

impl Worker {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_gdrtune-worker-fixture"))
            .args(arguments)
            .env("NCCL_SOCKET_IFNAME", "=lo")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { process, to, from, decoder: Decoder::new() }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: &ToWorker) {
        self.send_bytes(&encode(message).unwrap());
    }

    /// The next message; `None` at the end.
    pub(crate) fn receive(&mut self) -> Option<FromWorker> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            match self.from.read(&mut bytes).unwrap() {
                0 => return None,
                n => self.decoder.feed(&bytes[..n]),
            }
        }
    }

    pub(crate) fn failure(&mut self) -> String {
        match self.receive() {
            Some(FromWorker::Failed(why)) => why,
            Some(FromWorker::Unreached { .. }) => self.failure(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
