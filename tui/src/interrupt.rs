//! Signals without the terminal UI. The ladder of Ctrl-C: stop after the current script, kill the trial, leave at once. SIGTERM,
//! which schedulers send some time before they kill: write the best so far; whatever comes next leaves at once.

use std::io::{self, Write};

use gdrtune_session::{control::Controls, event::Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;

/// Watches signals for as long as the run goes.
///
/// # Errors
/// Where a signal handler cannot be installed.
pub(crate) fn watch(controls: Controls) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        let mut presses = 0;
        let mut is_winding_up = false;
        loop {
            let is_term = tokio::select! {
                _ = interrupt.recv() => false,
                _ = terminate.recv() => true,
                _ = hangup.recv() => false,
            };
            presses += 1;
            match presses {
                1 if is_term => {
                    is_winding_up = true;
                    say("SIGTERM: the best so far is written after the current trials; another signal ends at once");
                    controls.apply(Command::WindUp);
                }
                2 if is_winding_up => leave(),
                1 => {
                    say("stopping after the current trials; Ctrl-C again kills them");
                    controls.apply(Command::Stop);
                }
                2 => {
                    say("killing the current trial; Ctrl-C again leaves at once");
                    controls.apply(Command::Kill);
                }
                _ => leave(),
            }
        }
    });
    Ok(())
}

/// The agents see the end of their stdin and clean up by themselves.
fn leave() -> ! {
    std::process::exit(Exit::Interrupted as i32)
}

fn say(text: &str) {
    drop(writeln!(io::stderr(), "gdrtune: {text}"));
}
