//! A run that was planned, from its store and its thread to the exit code and the last words.

use std::{
    io::{self, IsTerminal, Write},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::Context as _;
use gdrtune_profiles::vocab::Engine;
use gdrtune_session::{
    control::Controls,
    event::{Command, Record, RunEnd},
    output::OutputDir,
    recorder::Recorder,
    run::{self, RunConfig, RunOutcome},
    store::RunWriter,
};
use tokio::sync::{mpsc, oneshot};

use super::Again;
use crate::{
    cli::ShowArgs,
    command::{self, detach, report},
    exit::{Exit, Failure},
    headless::{JsonLines, PlainLines, Progress},
    interrupt, paths,
    ui::{self, Source, Steering, UiEnd},
};

/// What is done when a run is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtEnd {
    /// Whether it is to end with a code of its own where the defaults stay.
    pub(super) expect_gain: bool,
    /// Whether its reports are written beside the profile.
    pub(super) report: bool,
}

impl AtEnd {
    /// Writes the reports of a run that has a result. That one is on disk already, and without them it is as good.
    fn reports(self, out: &OutputDir, store: &Path, outcome: &RunOutcome) -> anyhow::Result<Vec<PathBuf>> {
        if self.report && !outcome.written.is_empty() { report::write_beside(out, store) } else { Ok(Vec::new()) }
    }
}

/// Runs, shows, and says at the end what came of it.
pub(super) fn execute(
    mut config: RunConfig,
    show: &ShowArgs,
    at_end: AtEnd,
    again: Option<Again>,
) -> Result<Exit, Failure> {
    let (writer, told, earlier) = match again {
        Some(Again { writer, records, earlier }) => {
            config.run_id.clone_from(&earlier.run);
            (writer, records, Some(earlier))
        }
        None => (create_store(&config.run_id)?, Vec::new(), None),
    };
    let store = writer.path().to_owned();
    // Dropping it ends the fleet under the session, which would then record that nodes were lost: not on the way out of a panic.
    let runtime = ManuallyDrop::new(command::runtime()?);
    let controls = Controls::new();
    let use_ui = !show.is_headless() && io::stdout().is_terminal() && io::stdin().is_terminal();

    let (records, receiver) = mpsc::unbounded_channel();
    let listener: Box<dyn FnMut(&Record) + Send> = if use_ui {
        // What a resumed run has done is shown as its own.
        for record in told {
            // The UI takes them as soon as it runs.
            drop(records.send(ui::Input::Record(Arc::new(record))));
        }
        // A UI that was left does not need the records any more.
        Box::new(move |record| drop(records.send(ui::Input::Record(Arc::new(record.clone())))))
    } else {
        headless_listener(show, &told, controls.clone())
    };
    let recorder = match &earlier {
        Some(earlier) => Recorder::resume(writer, listener, earlier),
        None => Recorder::new(writer, listener),
    };
    let measured = earlier.map(|earlier| earlier.measured);
    let engine = config.target.engine();
    let (done, finished) = oneshot::channel();
    let handle = runtime.handle().clone();
    let session_controls = controls.clone();
    let its_store = store.clone();
    let session = thread::Builder::new().name("session".to_owned()).spawn(move || {
        let outcome = run::tune(&config, measured, &recorder, &session_controls, &handle);
        // Now, and not when the user has looked at the end for long enough.
        let ended = outcome.map(|outcome| (at_end.reports(&config.out, &its_store, &outcome), outcome));
        // The receiver waits until the end, unless this process is leaving anyway.
        done.send(()).ok();
        ended
    })?;

    if use_ui {
        let ui_controls = controls.clone();
        let options = command::ui_options(Source::Live, &show.look);
        let steering = Steering::Run(Box::new(move |command| ui_controls.apply(command)));
        let end = runtime.block_on(ui::run(receiver, steering, options))?;
        match end {
            UiEnd::Left => {}
            UiEnd::Detached => {
                // The store is the background's when the session has let go of it.
                drop(session.join());
                drop(ManuallyDrop::into_inner(runtime));
                return detach::hand_over(&store);
            }
            // The third Ctrl-C: the agents see the end of their stdin and clean up by themselves.
            UiEnd::Abandoned => return Ok(Exit::Interrupted),
            UiEnd::Terminated | UiEnd::TerminalLost => controls.apply(Command::Kill),
        }
    } else {
        runtime.block_on(async {
            interrupt::watch(controls.clone())?;
            // An error means that the session thread died: its join says why.
            drop(finished.await);
            io::Result::Ok(())
        })?;
    }
    let joined = session.join().ok();
    let ended = joined.with_context(|| format!("the session thread panicked; the run store is {}", store.display()))?;
    let (reports, outcome) = ended.map_err(|error| failure(error, engine, &store))?;
    let reports = reports.unwrap_or_else(|error| {
        command::say(&format!("warning: the run's report is not written: {error:#}"));
        Vec::new()
    });
    Ok(conclude(&outcome, (&store, &reports), use_ui, at_end.expect_gain))
}

fn create_store(run: &str) -> Result<RunWriter, Failure> {
    RunWriter::create(&paths::runs_dir()?, run).map_err(|error| {
        Failure::new(Exit::Unexpected, error).with_hint("set GDRTUNE_STATE_DIR to a folder that can be written")
    })
}

/// Shows what comes as lines; `told` is what an earlier process of the run has shown.
fn headless_listener(show: &ShowArgs, told: &[Record], controls: Controls) -> Box<dyn FnMut(&Record) + Send> {
    let mut progress: Box<dyn Progress> = if show.json {
        Box::new(JsonLines(io::stdout()))
    } else {
        Box::new(PlainLines::new(io::stderr(), show.detail()))
    };
    for record in told {
        progress.catch_up(record);
    }
    let progress = Arc::new(Mutex::new(progress));
    Box::new(move |record| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.show(record).is_err() {
            // Nobody reads any more (`gdrtune ... --json | head`): end the run instead of measuring for nobody.
            controls.apply(Command::Stop);
        }
    })
}

/// A run without an outcome, with its exit code and the next step.
fn failure(error: run::RunError, engine: Engine, store: &Path) -> Failure {
    let exit = match &error {
        run::RunError::Connect(_) | run::RunError::Unusable(_) => Exit::Preflight,
        run::RunError::Usage(_) | run::RunError::Diverged(_) => Exit::Usage,
        run::RunError::NodesLost(_) => Exit::NodesLost,
        run::RunError::Interrupted => Exit::Interrupted,
        run::RunError::Output(_) | run::RunError::Store(_) | run::RunError::Broken(_) | run::RunError::Internal(_) => {
            Exit::Unexpected
        }
    };
    let hint = match &error {
        run::RunError::Connect(refused) if let Some(hint) = refused.hint() => hint.to_owned(),
        run::RunError::Diverged(_) => {
            "the machine, the files or gdrtune are not what they were: put them back, or begin \
                                       another run with gdrtune tune"
                .to_owned()
        }
        // A resumed run would lose it again.
        run::RunError::NodesLost(_) if engine == Engine::Sim => format!(
            "the cluster file says so: take its lost-node out, or give fewer --trials; what was measured is in {}",
            store.display()
        ),
        run::RunError::Interrupted => {
            let run = store.file_stem().unwrap_or_default().display();
            format!("gdrtune runs resume {run} goes on from here; what was measured is in {}", store.display())
        }
        run::RunError::NodesLost(_) => {
            let run = store.file_stem().unwrap_or_default().display();
            format!(
                "gdrtune runs resume {run} goes on from here once they are back; with --min-nodes N it begins anew on the \
                 others, if N are left; what was measured is in {}",
                store.display()
            )
        }
        // What failed is not measured again by a resume.
        run::RunError::Broken(_) if engine.is_real() => format!(
            "`gdrtune doctor`, with the same hosts, names what is wrong on them and between them; then begin another run: the failures \
             of this one are in {}",
            store.display()
        ),
        _ => format!("everything that was measured is in {}", store.display()),
    };
    Failure::new(exit, error).with_hint(hint)
}

/// The exit code, and the last words on stderr.
fn conclude(outcome: &RunOutcome, (store, reports): (&Path, &[PathBuf]), after_ui: bool, expect_gain: bool) -> Exit {
    let mut last_words = String::new();
    if after_ui {
        last_words = format!("{}\n", outcome.summary);
        for file in &outcome.written {
            last_words.push_str(&["  ", &file.display().to_string(), "\n"].concat());
        }
    }
    if outcome.end == RunEnd::Interrupted {
        let run = store.file_stem().unwrap_or_default().display();
        last_words.push_str(&["gdrtune runs resume ", &run.to_string(), " goes on from here\n"].concat());
    }
    if let Some(report) = reports.first() {
        last_words.push_str(&["report: ", &report.display().to_string(), "\n"].concat());
    }
    last_words.push_str(&["run store: ", &store.display().to_string(), "\n"].concat());
    // A closed stderr changes nothing about the exit code.
    drop(io::stderr().write_all(last_words.as_bytes()));
    match outcome.end {
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::NodesLost => Exit::NodesLost,
        RunEnd::Failed => Exit::Unexpected,
        // The result is of another cluster than was asked for, which whoever deploys it must know first of all.
        RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive if !outcome.left_out.is_empty() => Exit::NodesLost,
        RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive if outcome.failed_trials > 0 => Exit::TrialsFailed,
        RunEnd::DefaultsBest | RunEnd::Inconclusive if expect_gain => Exit::NoGain,
        RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive => Exit::Done,
    }
}
