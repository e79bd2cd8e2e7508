//! The terminal UI of a run: records in, commands out. The run is this process's, or another's, or is played back.
//!
//! [`run`] is the only part with IO and a clock. It feeds [`state::Input`]s to [`update::update`], does the effects, and
//! draws the state when something visible changed, at most [`FRAMES_PER_SECOND`] times a second.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyModifiers};
use futures_util::StreamExt as _;
use gdrtune_profiles::profile::Profile;
use gdrtune_session::event::Command;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{MissedTickBehavior, interval, sleep_until},
};

pub(crate) mod attach;
mod draw;
mod export;
#[cfg(feature = "test-faults")]
mod fault;
mod filter;
mod ingest;
pub(crate) mod key_table;
pub(crate) mod keys;
mod layout;
mod line_edit;
mod parts;
pub(crate) mod replay;
mod run;
pub(crate) mod start;
mod state;
mod tabs;
mod terminal;
pub(crate) mod text;
mod theme;
mod update;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    state::{Colour, Input, Playback, Source, Speed},
    terminal::Mouse,
    text::ago,
    theme::{Charset, Glyphs, ThemeName},
};
use self::{
    state::{Effect, Play, State},
    terminal::{Screen, Signalled, Signals},
    theme::Theme,
};
use crate::{
    cause_chain,
    profile_file::{self, Openable},
};

/// Frames that follow each other faster than this are one frame.
const FRAMES_PER_SECOND: u32 = 12;

/// How often the elapsed time is looked at while nothing else happens.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// How the UI looks and what it may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UiOptions {
    /// What the records come from.
    pub(crate) source: Source,
    /// The first theme.
    pub(crate) theme: ThemeName,
    /// Whether colours may be used.
    pub(crate) colour: Colour,
    /// Which characters may be drawn.
    pub(crate) charset: Charset,
    /// Whether the mouse is captured.
    pub(crate) mouse: Mouse,
    /// Of a replay only.
    pub(crate) playback: Option<Playback>,
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
        let charset = Charset::of_environment(&variable);
        Self { source, theme, colour, charset, mouse: Mouse::Captured, playback: None }
    }
}

/// How the UI ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UiEnd {
    /// The run was over (or was a replay), and the user left.
    Left,
    /// The user left a run that had not ended yet: the third Ctrl-C.
    Abandoned,
    /// The run has stopped here, to go on in the background.
    Detached,
    /// SIGTERM: the run may still be going.
    Terminated,
    /// The terminal is gone (SIGHUP, or it cannot be read or written): the run may still be going.
    TerminalLost,
}

/// Who does what the user asks of a run.
pub(crate) enum Steering {
    /// The run itself. Called from the event loop; must not block.
    Run(Box<dyn Fn(Command)>),
    /// The player of a replay.
    Player(UnboundedSender<Play>),
    /// Nobody: the run is only watched.
    Nobody,
}

/// Shows what `feed` tells of a run until the user leaves. The terminal is given back before this returns.
///
/// # Errors
/// Standard output is no terminal, or a thread panicked (its message is on the screen then).
pub(crate) async fn run(
    feed: UnboundedReceiver<Input>,
    steering: Steering,
    options: UiOptions,
) -> anyhow::Result<UiEnd> {
    let mut signals = Signals::listen().context("failed to listen to signals")?;
    let mut screen = Screen::enter(options.mouse).context("failed to enter the terminal")?;
    let size = screen.size().context("failed to read the size of the terminal")?;
    let mut state = State::new(size, options.theme, options.colour, options.source);
    state.control.playback = options.playback;
    let speed = options.playback.map_or(Speed::REAL, |playback| playback.speed);
    let mut session = Session { state, clock: RunClock::new(speed), dirty: true };
    match session.drive(feed, &steering, &mut screen, &mut signals, options.charset).await {
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
        mut feed: UnboundedReceiver<Input>,
        steering: &Steering,
        screen: &mut Screen,
        signals: &mut Signals,
        charset: Charset,
    ) -> Result<UiEnd, Stopped> {
        let mut events = EventStream::new();
        let mut feed_open = true;
        let mut ticks = interval(IDLE_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_frame = tokio::time::Instant::now();
        loop {
            if self.state.is_detached() {
                return Ok(UiEnd::Detached);
            }
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
                input = feed.recv(), if feed_open => {
                    feed_open = input.is_some();
                    let input = input.unwrap_or(Input::RecordsClosed);
                    self.clock.hear(&input);
                    input
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
                        screen.suspend(signals, &self.state.suspension_words()).await?;
                        self.dirty = true;
                    }
                    Effect::Command(command) => {
                        if let Steering::Run(run) = steering {
                            run(command);
                        }
                    }
                    Effect::Play(play) => {
                        self.clock.turn(self.state.view.elapsed_ms, play);
                        if let Steering::Player(player) = steering {
                            // A player that is gone has panicked, which ends the UI.
                            player.send(play).ok();
                        }
                    }
                    Effect::Copy(text) => screen.copy(&text)?,
                    Effect::Export(export) => {
                        let done = export::write(&export);
                        update::update(&mut self.state, Input::Done(done));
                        self.dirty = true;
                    }
                    Effect::Load(name) => {
                        let read = read_profile(&name);
                        update::update(&mut self.state, Input::Loaded { name, read });
                        self.dirty = true;
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
        #[cfg(feature = "test-faults")]
        fault::panic_if_asked(&self.state);
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
        TerminalEvent::Paste(text) => Some(Input::Paste(text.clone())),
        TerminalEvent::FocusGained | TerminalEvent::FocusLost => None,
    }
}

/// The run's clock, as far as its records tell it: between records it goes on with the wall clock.
struct RunClock {
    speed: Speed,
    last: Option<(u64, Instant)>,
}

impl RunClock {
    const fn new(speed: Speed) -> Self {
        Self { speed, last: None }
    }

    /// Goes on from what an input tells.
    fn hear(&mut self, input: &Input) {
        match input {
            Input::Record(record) => self.set(record.t_ms),
            Input::Tick(t_ms) => self.set(*t_ms),
            Input::Jumped(jump) => self.set(jump.t_ms),
            _ => {}
        }
    }

    /// Goes on from `elapsed_ms` as a replay does.
    fn turn(&mut self, elapsed_ms: u64, play: Play) {
        self.set(elapsed_ms);
        if let Play::Speed(speed) = play {
            self.speed = speed;
        }
    }

    fn set(&mut self, t_ms: u64) {
        self.last = Some((t_ms, Instant::now()));
    }

    fn elapsed_ms(&self) -> u64 {
        // Without a speed, records alone tell the time.
        let factor = self.speed.factor().unwrap_or(0.0);
        self.last.map_or(0, |(t_ms, at)| t_ms.saturating_add((at.elapsed().as_secs_f64() * 1000.0 * factor) as u64))
    }
}

/// The profile that the user wants to compare with, or one sentence.
fn read_profile(name: &str) -> Result<Box<Profile>, String> {
    let read = profile_file::read(Path::new(name), Openable::Files);
    read.map(|file| Box::new(file.profile)).map_err(|error| cause_chain(&error.into()))
}
