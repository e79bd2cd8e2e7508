//! The whole state of the terminal UI: plain data, no IO, no clock. Only `update` changes it; drawing only reads it.

use std::{borrow::Cow, fmt, sync::Arc};

use crossterm::event::{KeyEvent, MouseEvent};
use gdrtune_profiles::{
    profile::Profile,
    vocab::{Choice, Collective, Point},
};
use gdrtune_session::event::{Command, Record, RunEnd};

use super::{
    keys::Context,
    line_edit::LineEdit,
    run::{Run, Summary},
    tabs::{Export, Tab, Tabs},
    theme::ThemeName,
};

/// Everything that can happen to the UI. Closed.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// The run told something. Shared with the player of a replay, which keeps all of them.
    Record(Arc<Record>),
    /// The run will tell nothing more.
    RecordsClosed,
    /// No more can be heard of the run, or nothing of what is left of it: why.
    Severed(String),
    /// A replay goes on from another moment.
    Jumped(Box<Jump>),
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// Milliseconds since the run began.
    Tick(u64),
    /// What came of an effect, for people.
    Done(String),
    /// A profile that was asked for, or what is wrong with it.
    Loaded { name: String, read: Result<Box<Profile>, String> },
}

/// Where a replay goes on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Jump {
    /// The run as it was then.
    pub(crate) run: Run,
    /// Milliseconds since the run began.
    pub(crate) t_ms: u64,
}

/// What the event loop is asked to do. Closed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Something visible changed.
    Redraw,
    /// Paint every cell again.
    Repaint,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Tell the run.
    Command(Command),
    /// Tell the player of a replay.
    Play(Play),
    /// Put a text into the terminal's clipboard.
    Copy(String),
    /// Write a file, and say where it is.
    Export(Export),
    /// Read the profile of this name.
    Load(String),
    /// Leave.
    Quit,
}

/// What the records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A run of this process: it takes commands.
    Live,
    /// A run of another process, which is only watched.
    Attached,
    /// A stored run, played back.
    Replay,
}

/// What the player of a replay is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Play {
    /// Stand still.
    Pause,
    /// Go on.
    Resume,
    /// Go on at another speed.
    Speed(Speed),
    /// Go to a moment, in milliseconds since the run began.
    Seek(u64),
    /// Go to the next event that shows, or the one before, and stand still there.
    Step(Direction),
}

/// Where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Back,
    Forward,
}

/// Run time per wall time of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed(f64);

impl Speed {
    /// As it happened.
    pub(crate) const REAL: Self = Self(1.0);
    /// As fast as it can be shown.
    pub(crate) const MAX: Self = Self(f64::INFINITY);

    /// What the keys choose from.
    const LADDER: [f64; 12] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, f64::INFINITY];

    /// A factor above 0.
    pub(crate) fn new(factor: f64) -> Option<Self> {
        (0.0 < factor).then_some(Self(factor))
    }

    /// The factor; absent where nothing is waited for.
    pub(crate) fn factor(self) -> Option<f64> {
        self.0.is_finite().then_some(self.0)
    }

    /// The next speed of the ladder; the last one stays.
    pub(crate) fn next(self, direction: Direction) -> Self {
        let mut ladder = Self::LADDER.into_iter();
        let next = match direction {
            Direction::Forward => ladder.find(|factor| self.0 < *factor),
            Direction::Back => ladder.rfind(|factor| *factor < self.0),
        };
        next.map_or(self, Self)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor() {
            Some(factor) => write!(f, "{factor}x"),
            None => f.write_str("max speed"),
        }
    }
}

/// What a replay is of, and how it is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Playback {
    /// Seconds since the run began, in the user's life; absent where nobody knows.
    pub(crate) age_s: Option<u64>,
    /// Length of the run in milliseconds.
    pub(crate) total_ms: u64,
    pub(crate) speed: Speed,
}

/// The state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// What the records said.
    pub(crate) run: Run,
    /// What the user looks at.
    pub(crate) view: View,
    /// What the user asked the run to do.
    pub(crate) control: Control,
}

/// What the user looks at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// Columns and rows.
    pub(crate) size: (u16, u16),
    /// Milliseconds since the run began.
    pub(crate) elapsed_ms: u64,
    pub(crate) tab: Tab,
    /// What is looked at in each view.
    pub(crate) tabs: Tabs,
    pub(crate) theme: ThemeName,
    /// Whether themes with colours may be chosen.
    pub(crate) colour: Colour,
    pub(crate) overlay: Option<Overlay>,
    /// What is shown while the display is frozen.
    pub(crate) frozen: Option<Box<Frozen>>,
    /// Answer to the last key, gone with the next one.
    pub(crate) notice: Option<Cow<'static, str>>,
}

/// Whether colours may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Yes.
    Allowed,
    /// The user refused them (`NO_COLOR`, `--color never`).
    Refused,
}

/// The run as it was when the display was frozen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frozen {
    pub(crate) summary: Summary,
    pub(crate) n_trials: usize,
    pub(crate) log_end: usize,
    pub(crate) elapsed_ms: u64,
    /// Records that came since.
    pub(crate) n_records_since: u64,
}

/// What lies over the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The key list, scrolled by some rows.
    Help { scroll: u16 },
    /// A question.
    Question(Question),
    /// A line that is being typed, in the footer.
    Prompt(Prompt),
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) asks: Asks,
    pub(crate) line: LineEdit,
    /// What is wrong with it.
    pub(crate) error: Option<String>,
}

/// What a line is typed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The filter of the present view.
    Filter,
    /// A knob and its value.
    Pin,
    /// Time or trials to add.
    Budget,
    /// The file of a profile to compare with.
    Load,
}

/// What is asked before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// How to leave a run that is going.
    Leave,
    Finish,
    /// Give up a choice at a point.
    Drop(Point, Choice),
}

/// What the user asked the run to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Control {
    pub(crate) source: Source,
    /// Of a replay only.
    pub(crate) playback: Option<Playback>,
    /// The search is paused (or will be, after its current script); of a replay, the playback.
    pub(crate) paused: bool,
    /// The search was told to end early.
    pub(crate) finishing: bool,
    /// The run is stopped here to go on in the background.
    pub(crate) is_detaching: bool,
    pub(crate) stop: Stop,
}

/// The ladder of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Not asked for.
    No,
    /// Asked to stop after the current script.
    Stopping,
    /// Asked to kill the current trial.
    Killing,
}

impl State {
    /// The state before the first record.
    pub(crate) fn new(size: (u16, u16), theme: ThemeName, colour: Colour, source: Source) -> Self {
        Self {
            run: Run::default(),
            view: View {
                size,
                elapsed_ms: 0,
                tab: Tab::Overview,
                tabs: Tabs::default(),
                theme,
                colour,
                overlay: None,
                frozen: None,
                notice: None,
            },
            control: Control {
                source,
                playback: None,
                paused: false,
                finishing: false,
                is_detaching: false,
                stop: Stop::No,
            },
        }
    }

    /// The aggregates to show: those of now, or of when the display was frozen.
    pub(crate) fn shown(&self) -> &Summary {
        self.view.frozen.as_ref().map_or(&self.run.summary, |f| &f.summary)
    }

    /// The elapsed time to show, in milliseconds.
    pub(crate) fn shown_elapsed_ms(&self) -> u64 {
        self.view.frozen.as_ref().map_or(self.view.elapsed_ms, |f| f.elapsed_ms)
    }

    /// How many trials to show.
    pub(crate) fn n_shown_trials(&self) -> usize {
        self.view.frozen.as_ref().map_or(self.run.trials.len(), |f| f.n_trials)
    }

    /// The number after the last log line to show.
    pub(crate) fn shown_log_end(&self) -> usize {
        self.view.frozen.as_ref().map_or_else(|| self.run.log.end(), |f| f.log_end)
    }

    /// The collective in the charts.
    pub(crate) fn collective(&self) -> Option<Collective> {
        self.shown().collectives.get(self.view.tabs.overview.collective).copied()
    }

    /// Where the next key is read.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        match self.view.overlay {
            None => Context::of(self.control.source, self.view.tab),
            Some(Overlay::Help { .. }) => vec![Context::Help],
            Some(Overlay::Question(Question::Leave)) => vec![Context::Leaving],
            Some(Overlay::Question(_)) => vec![Context::Question],
            Some(Overlay::Prompt(_)) => vec![Context::Prompt],
        }
    }

    /// Answers the last key in the footer.
    pub(crate) fn notice(&mut self, text: impl Into<Cow<'static, str>>) {
        self.view.notice = Some(text.into());
    }

    /// Whether the run has stopped here so that the background can go on with it.
    pub(crate) fn is_detached(&self) -> bool {
        let ended = self.run.summary.ended.as_ref();
        // One that had come to its end by then is shown as such.
        self.control.is_detaching && ended.is_some_and(|ended| matches!(ended.end, Some(RunEnd::Interrupted) | None))
    }

    /// Whether leaving needs no question: there is no run to lose.
    pub(crate) fn may_leave(&self) -> bool {
        self.run.summary.is_over() || self.control.source != Source::Live
    }
}
