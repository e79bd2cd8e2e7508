//! One rank: the process that runs an engine for an agent.
//!
//! Speaks frames ([`ToWorker`] in, [`FromWorker`] out) over what were standard input and output when it started. The main
//! thread runs the engine, which may hang or crash; a thread of its own reads the frames, so that the end of the input ends
//! the process whatever the engine is doing. It must not interpret results: it measures and says what it saw.

mod deployed;
mod exit;
pub(crate) mod stdio;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab;
use gdrtune_wire::{FromWorker, Script, ToWorker, WorkerInit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::stdio::Outlet;
use crate::{
    engine::{
        Engine, EngineError, RuleSource,
        native::{NativeConfig, NativeEngine},
        nccl::{NcclConfig, NcclEngine},
    },
    probe,
};

/// What the command line of a worker says.
#[derive(Debug, Clone, Default)]
pub struct WorkerArgs {
    /// `--ab DIR`: the folder of emitted files that this worker takes its rules from, and its environment was made of.
    pub ab: Option<PathBuf>,
}

/// Runs a worker until it is told to quit, its input ends or its engine fails.
///
/// Takes over standard input and output; must be called before anything else reads or writes them. A failure is sent as
/// [`FromWorker::Failed`] before the process ends with code 1.
pub fn run(args: &WorkerArgs) -> ExitCode {
    let started = Instant::now();
    let Ok((inlet, outlet)) = stdio::take() else { return ExitCode::FAILURE };
    raise_descriptor_limit();
    // A panic has been printed by its hook; here it becomes a message, as the agent must not take it for silence.
    let mut engine = None;
    let result = catch_unwind(AssertUnwindSafe(|| serve(args, started, (&inlet, &outlet), &mut engine)))
        .unwrap_or_else(|panic| Err(format!("the engine panicked: {}", panic_text(panic.as_ref()))));
    let Err(failure) = result else { return ExitCode::SUCCESS };
    // Where the agent is gone there is nobody left to tell.
    drop(outlet.send(&FromWorker::Failed(failure)));
    // Only now: a library that is to tidy up after a failure may hang.
    drop(engine);
    ExitCode::FAILURE
}

fn serve(
    args: &WorkerArgs,
    started: Instant,
    (inlet, outlet): (&Receiver<ToWorker>, &Outlet),
    engine: &mut Option<Box<dyn Engine>>,
) -> Result<(), String> {
    let Some(ToWorker::Init(init)) = next(inlet) else { return Err(unexpected("init")) };
    let deadline = started + Duration::from_millis(init.deadline_ms);
    let (rank, world) = (init.rank, init.world);
    if let Some(setup) = &init.probe {
        return probe::serve(setup, rank, (inlet, outlet), started);
    }
    let engine = engine.insert(make_engine(init, args)?);
    let during = |what: &str| {
        let what = format!("rank {rank} of {world}, {what}");
        move |error: EngineError| {
            // Which host a rank is on is known to who started it.
            if let EngineError::Unreachable { rank: peer, .. } = error {
                drop(outlet.send(&FromWorker::Unreached { peer }));
            }
            format!("{what}: {error}")
        }
    };
    let bytes = engine.bootstrap().map_err(during("bootstrap"))?;
    if let Some(version) = engine.library_version() {
        outlet.send(&FromWorker::Library { version })?;
    }
    outlet.send(&FromWorker::Bootstrap(bytes))?;
    let peers = match next(inlet) {
        Some(ToWorker::Connect { peers }) => peers,
        Some(ToWorker::Quit) => return Ok(()),
        _ => return Err(unexpected("connect")),
    };
    engine.connect(&peers, deadline).map_err(during("connect"))?;
    let setup_us = started.elapsed().as_micros() as u64;
    outlet.send(&FromWorker::Connected { setup_us, engine: Box::new(engine.report()) })?;
    loop {
        match next(inlet) {
            Some(ToWorker::Run(script)) => run_script(engine.as_mut(), &script, outlet, &during)?,
            Some(ToWorker::Quit) => return Ok(()),
            _ => return Err(unexpected("run or quit")),
        }
    }
}

fn run_script<F: FnOnce(EngineError) -> String>(
    engine: &mut dyn Engine,
    script: &Script,
    outlet: &Outlet,
    during: &impl Fn(&str) -> F,
) -> Result<(), String> {
    let Some(first) = script.items.first() else { return outlet.send(&FromWorker::ScriptDone { script: script.id }) };
    // What the script needs is set up on the first item's time.
    let deadline = Instant::now() + Duration::from_millis(first.lease_ms);
    engine.prepare(&script.items, deadline).map_err(during("prepare a script"))?;
    for (index, item) in script.items.iter().enumerate() {
        let outcome = engine.measure(item).map_err(|error| {
            let choice = item.choice.map_or_else(|| "own choice".to_owned(), |choice| choice.to_string());
            during(&format!("{} with {choice}", item.point))(error)
        })?;
        outlet.send(&FromWorker::Item { script: script.id, item: index as u32, outcome })?;
    }
    outlet.send(&FromWorker::ScriptDone { script: script.id })
}

fn make_engine(init: WorkerInit, args: &WorkerArgs) -> Result<Box<dyn Engine>, String> {
    let rules = args.ab.as_deref().map(|folder| load_rules(folder)).transpose()?;
    match init.engine {
        vocab::Engine::Native if init.register_buffers => {
            Err("the native engine registers no buffers: NCCL does".to_owned())
        }
        vocab::Engine::Native => {
            let config = NativeConfig::from_environment().map_err(|error| error.to_string())?;
            Ok(Box::new(NativeEngine::new(init, config, rules).map_err(|error| error.to_string())?))
        }
        // The rules are its plugin's matter; that they can be read has been seen.
        vocab::Engine::Nccl => {
            let config = NcclConfig::from_environment(args.ab.is_some()).map_err(|error| error.to_string())?;
            Ok(Box::new(NcclEngine::new(init, config)))
        }
        other => Err(format!("no engine {other} runs in a worker of this build: use native or nccl")),
    }
}

fn load_rules(folder: &Path) -> Result<Box<dyn RuleSource>, String> {
    deployed::check_environment(folder, |name| std::env::var(name).ok())?;
    deployed::load_rules(folder)
}

/// The next message; `None` where the reader is gone.
pub(crate) fn next(inlet: &Receiver<ToWorker>) -> Option<ToWorker> {
    inlet.recv().ok()
}

pub(crate) fn unexpected(wanted: &str) -> String {
    format!("the agent sent something else than {wanted}")
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Many ranks times many channels need more descriptors than the usual soft limit of 1024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it fails, the first connection that finds no descriptor says so.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).ok();
}
