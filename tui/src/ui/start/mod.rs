//! The start screen: what `gdrtune` without arguments shows on a terminal. Recent runs, clusters, the form of a new run, a
//! profile. What it chooses is a command line of gdrtune's, which the caller runs.
//!
//! [`run`] is the only part with IO and a clock. What needs files is asked of others ([`Request`]), who answer with [`Input`]s.

mod draw;
mod form;
pub(crate) mod keys;
mod layout;
mod profile;
mod state;
#[cfg(test)]
mod tests;
mod update;

use std::{io, time::Duration};

use anyhow::Context as _;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyModifiers};
use futures_util::StreamExt as _;
use tokio::{sync::mpsc::UnboundedReceiver, time::sleep_until};

pub(crate) use self::{
    form::{FieldId, shell_line},
    profile::ProfilePage,
    state::{ClusterLine, Input, Request, RunLine, RunState, Stock},
};
use self::{
    state::{Effect, State},
    update::update,
};
use super::{
    Charset, FRAMES_PER_SECOND, Stopped, UiOptions,
    terminal::{self, Screen, Signalled, Signals},
    theme::Theme,
};

/// How the start screen ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartEnd {
    /// The user left.
    Left,
    /// gdrtune shall be run with these words.
    Go(Vec<String>),
    /// SIGTERM, or the terminal is gone.
    Ended,
}

/// Shows the start screen until the user leaves it or chooses something. `feed` answers what `ask` is called with, which must
/// not block. The terminal is given back before this returns.
///
/// # Errors
/// Standard output is no terminal, or a thread panicked (its message is on the screen then).
pub(crate) async fn run(
    mut feed: UnboundedReceiver<Input>,
    ask: impl Fn(Request),
    options: UiOptions,
) -> anyhow::Result<StartEnd> {
    let mut signals = Signals::listen().context("failed to listen to signals")?;
    let mut screen = Screen::enter(options.mouse).context("failed to enter the terminal")?;
    let size = screen.size().context("failed to read the size of the terminal")?;
    let mut state = State::new(size, options.theme, options.colour);
    match drive(&mut state, &mut feed, &ask, &mut screen, &mut signals, options.charset).await {
        Err(Stopped::Terminal(_)) => Ok(StartEnd::Ended),
        Err(Stopped::Panic) => anyhow::bail!("a thread panicked"),
        Ok(end) => Ok(end),
    }
}

async fn drive(
    state: &mut State,
    feed: &mut UnboundedReceiver<Input>,
    ask: &impl Fn(Request),
    screen: &mut Screen,
    signals: &mut Signals,
    charset: Charset,
) -> Result<StartEnd, Stopped> {
    let mut events = EventStream::new();
    let mut dirty = true;
    let mut next_frame = tokio::time::Instant::now();
    loop {
        let now = tokio::time::Instant::now();
        if dirty && next_frame <= now {
            dirty = false;
            paint(state, screen, charset)?;
            next_frame = now + Duration::from_secs(1) / FRAMES_PER_SECOND;
        }
        let input = tokio::select! {
            biased;
            () = terminal::panicked() => return Err(Stopped::Panic),
            signal = signals.next() => match signal {
                Signalled::Interrupt => Input::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
                Signalled::Terminate | Signalled::HangUp => return Ok(StartEnd::Ended),
                Signalled::Continued => {
                    screen.resume()?;
                    dirty = true;
                    continue;
                }
            },
            event = events.next() => match event {
                None => return Ok(StartEnd::Ended),
                Some(event) => match input_of(&event?) {
                    Some(input) => input,
                    None => continue,
                },
            },
            Some(input) = feed.recv() => input,
            () = sleep_until(next_frame), if dirty => continue,
        };
        for effect in update(state, input) {
            match effect {
                Effect::Redraw => dirty = true,
                Effect::Repaint => {
                    screen.repaint()?;
                    dirty = true;
                }
                Effect::Suspend => {
                    screen.suspend(signals, "").await?;
                    dirty = true;
                }
                Effect::Ask(request) => ask(request),
                Effect::Leave => return Ok(StartEnd::Left),
                Effect::Go(words) => return Ok(StartEnd::Go(words)),
            }
        }
    }
}

fn paint(state: &mut State, screen: &mut Screen, charset: Charset) -> io::Result<()> {
    let size = screen.size()?;
    if size != state.size {
        update(state, Input::Resize(size.0, size.1));
    }
    let theme = Theme::new(state.theme, charset);
    screen.draw(size, |buffer| draw::draw(state, &theme, buffer.area, buffer))
}

/// What a terminal event means for the state, if anything.
fn input_of(event: &TerminalEvent) -> Option<Input> {
    match event {
        TerminalEvent::Key(key) => Some(Input::Key(*key)),
        TerminalEvent::Mouse(mouse) => Some(Input::Mouse(*mouse)),
        TerminalEvent::Resize(columns, rows) => Some(Input::Resize(*columns, *rows)),
        TerminalEvent::Paste(text) => Some(Input::Paste(text.clone())),
        TerminalEvent::FocusGained | TerminalEvent::FocusLost => None,
    }
}
