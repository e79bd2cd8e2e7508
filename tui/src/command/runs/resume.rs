//! `gdrtune runs resume`: the run's own command line once more, over what its store has.

use std::{env, ffi::OsString};

use anyhow::Context as _;
use gdrtune_session::{
    resume::{Earlier, ResumeError},
    store::{RunWriter, StoreError},
};

use crate::{
    cli::{Cli, Command, ResumeArgs},
    command::tune::{self, Again},
    exit::{Exit, Failure},
};

pub(super) fn resume(args: ResumeArgs) -> Result<Exit, Failure> {
    let path = super::find(&args.run)?;
    let (writer, run) = RunWriter::reopen(&path).map_err(|error| {
        let is_running = matches!(error, StoreError::Running { .. });
        let failure = Failure::usage(error);
        if is_running { failure.with_hint("wait for it, or end it first") } else { failure }
    })?;
    let earlier = Earlier::read(&run.records).map_err(|error| match &error {
        ResumeError::Finished { run, .. } => {
            let hint = format!("gdrtune runs show {run} shows what came of it");
            Failure::usage(error).with_hint(hint)
        }
        ResumeError::NoRun | ResumeError::TooOld { .. } => {
            Failure::usage(error).with_hint("begin another run with gdrtune tune")
        }
    })?;
    let dir = &earlier.invocation.dir;
    env::set_current_dir(dir).with_context(|| format!("go to {dir}, where the run began")).map_err(Failure::usage)?;
    let words = ["gdrtune"].into_iter().chain(earlier.invocation.args.iter().map(String::as_str));
    let cli = Cli::read(words.map(OsString::from)).context("read the run's arguments").map_err(Failure::usage)?;
    let on_hosts = matches!(&cli.command, Command::Tune(tune) if tune.measure.engine.is_real());
    if args.min_nodes.is_some() && !on_hosts {
        return Err(Failure::usage_text("--min-nodes: this run reaches no hosts: leave it out"));
    }
    let again = Some(Again { writer, records: run.records, earlier });
    match cli.command {
        Command::Tune(mut tune) => {
            tune.show = args.show;
            tune.min_nodes = args.min_nodes.or(tune.min_nodes);
            tune::tune(&tune, again)
        }
        Command::Demo(mut demo) => {
            demo.show = args.show;
            tune::demo(&demo, again)
        }
        _ => Err(Failure::usage_text(format!("{} is not the store of a tune", path.display()))),
    }
}
