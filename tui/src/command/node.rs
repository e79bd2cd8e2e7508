//! The hidden sub-commands that run on nodes.

use std::process::ExitCode;

use gdrtune_node::{agent, worker};

use crate::{BUILD_ID, cli::WorkerArgs};

pub(crate) fn agent() -> ExitCode {
    agent::run(&agent::AgentConfig::product(BUILD_ID))
}

pub(crate) fn worker(args: WorkerArgs) -> ExitCode {
    worker::run(&worker::WorkerArgs { ab: args.ab })
}
