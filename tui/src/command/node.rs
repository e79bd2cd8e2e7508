//! The hidden sub-commands that run on nodes.

use std::{process::ExitCode, time::Duration};

use gdrtune_node::{agent, worker};

use crate::{BUILD_ID, cli::WorkerArgs};

/// The tuner plugin for this target, built with this executable.
const TUNER_PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnccl-tuner-gdrtune.so"));

pub(crate) fn agent() -> ExitCode {
    agent::run(&agent::AgentConfig::product(BUILD_ID, TUNER_PLUGIN))
}

pub(crate) fn watchdog(interval_ms: u64) -> ExitCode {
    agent::watch(Duration::from_millis(interval_ms))
}

pub(crate) fn worker(args: WorkerArgs) -> ExitCode {
    worker::run(&worker::WorkerArgs { ab: args.ab })
}
