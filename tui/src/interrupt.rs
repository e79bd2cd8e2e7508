//! The ladder of Ctrl-C without the terminal UI: stop after the current script, kill the trial, leave at once.

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
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            presses += 1;
            match presses {
                1 => {
                    say("stopping after the current trials; Ctrl-C again kills them");
                    controls.apply(Command::Stop);
                }
                2 => {
                    say("killing the current trial; Ctrl-C again leaves at once");
                    controls.apply(Command::Kill);
                }
                // The agents see the end of their stdin and clean up by themselves.
                _ => std::process::exit(Exit::Interrupted as i32),
            }
        }
    });
    Ok(())
}

fn say(text: &str) {
    drop(writeln!(io::stderr(), "gdrtune: {text}"));
}
