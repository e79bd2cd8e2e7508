//! The terminal UI of a run: records in, commands out.
//!
//! [`run`] is the only part with IO and a clock. It feeds [`state::Input`]s to [`update::update`], does the effects, and
//! draws the state when something visible changed, at most [`FRAMES_PER_SECOND`] times a second.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyModifiers};
use futures_util::StreamExt as _;
use gdrtune_session::event::{Command, Record};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{MissedTickBehavior, interval, sleep_until},
};

mod draw;
mod ingest;
mod keys;
mod layout;
pub(crate) mod replay;
mod run;
mod state;
mod terminal;
mod text;
mod theme;
mod update;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    state::{Colour, Source},
    terminal::Mouse,
    theme::{Charset, ThemeName},
};
use self::{
    state::{Effect, Input, State},
    terminal::{Screen, Signalled, Signals},
    theme::Theme,
};

/// Frames that follow each other faster than this are one frame.
const FRAMES_PER_SECOND: u32 = 12;

/// How often the elapsed time is looked at while nothing else happens.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// How the UI looks and what it may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UiOptions {
    /// A live run, or one played back.
    pub(crate) source: Source,
    /// The first theme.
    pub(crate) theme: ThemeName,
    /// Whether colours may be used.
    pub(crate) colour: Colour,
    /// Which characters may be drawn.
    pub(crate) charset: Charset,
    /// Whether the mouse is captured.
    pub(crate) mouse: Mouse,
    /// Run time per wall time: 1 for a live run, the playback speed of a replay.
    pub(crate) speed: f64,
}

impl UiOptions {
    /// What the environment asks for: `NO_COLOR`, `TERM=dumb` and the locale. `variable` looks a variable up.
    pub(crate) fn from_environment(source: Source, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let (theme, colour) = if set("NO_COLOR").is_some() || dumb {
            (ThemeName::Mono, Colour::Refused)
        } else {
            (ThemeName::Base, Colour::Allowed)
        };
        // The first of these that is set decides about characters (setlocale(3)).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let charset = if utf8 && !dumb { Charset::Unicode } else { Charset::Ascii };
        Self { source, theme, colour, charset, mouse: Mouse::Captured, speed: 1.0 }
    }
}

/// How the UI ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UiEnd {
    /// The run was over (or was a replay), and the user left.
    Left,
    /// The user left a run that had not ended yet: the third Ctrl-C.
    Abandoned,
    /// SIGTERM: the run may still be going.
    Terminated,
    /// The terminal is gone (SIGHUP, or it cannot be read or written): the run may still be going.
    TerminalLost,
}

/// Shows a run until the user leaves.
///
/// `commands` is called from the event loop and must not block. The terminal is given back before this returns.
///
/// # Errors
/// Standard output is no terminal, or a thread panicked (its message is on the screen then).
pub(crate) async fn run(
    records: UnboundedReceiver<Record>,
    commands: impl Fn(Command),
    options: UiOptions,
) -> anyhow::Result<UiEnd> {
    let mut signals = Signals::listen().context("failed to listen to signals")?;
    let mut screen = Screen::enter(options.mouse).context("failed to enter the terminal")?;
    let size = screen.size().context("failed to read the size of the terminal")?;
    let state = State::new(size, options.theme, options.colour, options.source);
    let mut session = Session { state, clock: RunClock::new(options.speed), dirty: true };
    match session.drive(records, &commands, &mut screen, &mut signals, options.charset).await {
        Err(Stopped::Terminal(_)) => Ok(UiEnd::TerminalLost),
        Err(Stopped::Panic) => anyhow::bail!("a thread panicked"),
        Ok(end) => Ok(end),
    }
}

/// Why the event loop could not go on.
enum Stopped {
    Terminal(#[expect(dead_code, reason = "the terminal is gone, there is nobody to show it to")] io::Error),
    Panic,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// The state and what the event loop keeps beside it.
struct Session {
    state: State,
    clock: RunClock,
    dirty: bool,
}

impl Session {
    async fn drive(
        &mut self,
        mut records: UnboundedReceiver<Record>,
        commands: &impl Fn(Command),
        screen: &mut Screen,
        signals: &mut Signals,
        charset: Charset,
    ) -> Result<UiEnd, Stopped> {
        let mut events = EventStream::new();
        let mut records_open = true;
        let mut ticks = interval(IDLE_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_frame = tokio::time::Instant::now();
        loop {
            let now = tokio::time::Instant::now();
            if self.dirty && next_frame <= now {
                self.draw(screen, charset)?;
                next_frame = now + Duration::from_secs(1) / FRAMES_PER_SECOND;
            }
            let input = tokio::select! {
                biased;
                () = terminal::panicked() => return Err(Stopped::Panic),
                signal = signals.next() => match signal {
                    Signalled::Interrupt => {
                        Input::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))
                    }
                    Signalled::Terminate => return Ok(UiEnd::Terminated),
                    Signalled::HangUp => return Ok(UiEnd::TerminalLost),
                    Signalled::Continued => {
                        screen.resume()?;
                        self.dirty = true;
                        continue;
                    }
                },
                event = events.next() => match event {
                    None => return Ok(UiEnd::TerminalLost),
                    Some(event) => match input_of(&event?) {
                        Some(input) => input,
                        None => continue,
                    },
                },
                record = records.recv(), if records_open => {
                    if let Some(record) = record {
                        self.clock.heard(record.t_ms);
                        Input::Record(Box::new(record))
                    } else {
                        records_open = false;
                        Input::RecordsClosed
                    }
                }
                _ = ticks.tick(), if self.ticking() => Input::Tick(self.clock.elapsed_ms()),
                () = sleep_until(next_frame), if self.dirty => continue,
            };
            for effect in update::update(&mut self.state, input) {
                match effect {
                    Effect::Redraw => self.dirty = true,
                    Effect::Repaint => {
                        screen.repaint()?;
                        self.dirty = true;
                    }
                    Effect::Suspend => {
                        screen.suspend(signals).await?;
                        self.dirty = true;
                    }
                    Effect::Command(command) => {
                        // A replay stood still: its time goes on from here.
                        if command == Command::Resume && self.state.control.source == Source::Replay {
                            self.clock.heard(self.state.view.elapsed_ms);
                        }
                        commands(command);
                    }
                    Effect::Quit if self.state.may_leave() => return Ok(UiEnd::Left),
                    Effect::Quit => return Ok(UiEnd::Abandoned),
                }
            }
        }
    }

    /// Time stands still when the run is over and while a replay is paused.
    fn ticking(&self) -> bool {
        let paused_replay = self.state.control.source == Source::Replay && self.state.control.paused;
        !self.state.run.summary.is_over() && !paused_replay
    }

    fn draw(&mut self, screen: &mut Screen, charset: Charset) -> io::Result<()> {
        let size = screen.size()?;
        if size != self.state.view.size {
            update::update(&mut self.state, Input::Resize(size.0, size.1));
        }
        self.dirty = false;
        let theme = Theme::new(self.state.view.theme, charset);
        screen.draw(size, |buffer| draw::draw(&self.state, &theme, buffer.area, buffer))
    }
}

/// What a terminal event means for the state, if anything.
fn input_of(event: &TerminalEvent) -> Option<Input> {
    match event {
        TerminalEvent::Key(key) => Some(Input::Key(*key)),
        TerminalEvent::Mouse(mouse) => Some(Input::Mouse(*mouse)),
        TerminalEvent::Resize(columns, rows) => Some(Input::Resize(*columns, *rows)),
        TerminalEvent::FocusGained | TerminalEvent::FocusLost | TerminalEvent::Paste(_) => None,
    }
}

/// The run's clock, as far as its records tell it: between records it goes on with the wall clock.
struct RunClock {
    speed: f64,
    last: Option<(u64, Instant)>,
}

impl RunClock {
    const fn new(speed: f64) -> Self {
        Self { speed, last: None }
    }

    fn heard(&mut self, t_ms: u64) {
        self.last = Some((t_ms, Instant::now()));
    }

    fn elapsed_ms(&self) -> u64 {
        self.last.map_or(0, |(t_ms, at)| t_ms + (at.elapsed().as_secs_f64() * 1000.0 * self.speed) as u64)
    }
}
