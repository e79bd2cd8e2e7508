//! Everything that the start screen shows, and the closed sets of what changes it and of what it asks for. No IO, no clock.

use crossterm::event::{KeyEvent, MouseEvent};

use super::{
    form::{FieldId, Form},
    keys::Context,
    layout,
    profile::{PageLine, ProfilePage},
};
use crate::ui::{Colour, ThemeName, line_edit::LineEdit};

/// What changes the state. Closed.
#[derive(Debug)]
pub(crate) enum Input {
    /// A key.
    Key(KeyEvent),
    /// A text that was pasted.
    Paste(String),
    /// The mouse.
    Mouse(MouseEvent),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// What there is to choose from.
    Stock(Box<Stock>),
    /// A profile that was asked for; or why it cannot be shown.
    Opened(Result<ProfilePage, String>),
    /// What files and hosts say of a command line: which hosts these are, where it does not name them; or what is wrong.
    Checked { words: Vec<String>, result: Result<Option<String>, String> },
}

/// What the event loop is asked to do. Closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Something visible changed.
    Redraw,
    /// Paint every cell again.
    Repaint,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Let somebody find something out.
    Ask(Request),
    /// Leave.
    Leave,
    /// Leave, and run gdrtune with these words.
    Go(Vec<String>),
}

/// What needs files. Closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Read the run store again.
    Reload,
    /// Read the profile at this path.
    Open(String),
    /// Check this command line.
    Check(Vec<String>),
}

/// What there is to choose from.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stock {
    /// The runs, newest first.
    pub(crate) runs: Vec<RunLine>,
    /// The clusters.
    pub(crate) clusters: Vec<ClusterLine>,
    /// Folder of the run store.
    pub(crate) dir: String,
    /// Runs that are still to be read.
    pub(crate) n_left: usize,
    /// Runs that cannot be read.
    pub(crate) n_unreadable: usize,
    /// Why there are no runs, or no more of them.
    pub(crate) problem: Option<String>,
}

/// A run of the store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunLine {
    /// The name that other commands take.
    pub(crate) name: String,
    /// Seconds since it began.
    pub(crate) age_s: Option<u64>,
    /// Folded.
    pub(crate) hosts: String,
    pub(crate) engine: String,
    pub(crate) ranks: u32,
    pub(crate) end: RunState,
    /// Whether `gdrtune runs resume` goes on with it.
    pub(crate) can_resume: bool,
    /// Geometric mean of what was verified.
    pub(crate) gain: Option<f64>,
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Its process lives.
    Running,
    /// Its process is gone, and nobody wrote an end.
    Killed,
    /// It ended before its time, in this word.
    CutOff(String),
    /// It failed.
    Failed(String),
    /// It came to its end without an answer, in this word.
    Undecided(String),
    /// It came to its end, in this word.
    Ended(String),
}

/// A cluster that is known, and how the form names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterLine {
    pub(crate) name: String,
    /// In a few words.
    pub(crate) about: String,
    /// What is to be filled in.
    pub(crate) fields: Vec<(FieldId, String)>,
}

/// Lines with a cursor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) cursor: usize,
    /// First row that is shown.
    pub(crate) top: usize,
}

impl<T> List<T> {
    const fn new() -> Self {
        Self { rows: Vec::new(), cursor: 0, top: 0 }
    }

    pub(crate) fn selected(&self) -> Option<&T> {
        self.rows.get(self.cursor)
    }

    /// Puts other rows there; the cursor stays at what is the `same`.
    pub(crate) fn replace(&mut self, rows: Vec<T>, same: impl Fn(&T, &T) -> bool) {
        let place =
            self.selected().filter(|_| 0 < self.cursor).and_then(|old| rows.iter().position(|row| same(old, row)));
        self.rows = rows;
        if let Some(place) = place {
            self.cursor = place;
        }
    }

    /// Keeps the cursor in the list, and within `n_shown` rows of it.
    pub(crate) fn settle(&mut self, n_shown: usize) {
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
        let lowest = (self.cursor + 1).saturating_sub(n_shown);
        self.top = self.top.clamp(lowest, self.cursor.max(lowest)).min(self.rows.len().saturating_sub(n_shown));
    }
}

/// The lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panel {
    Runs,
    Clusters,
}

/// What the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// Runs and clusters.
    Lists,
    /// The form of a new run.
    Form,
    /// The question for the path of a profile, over the lists.
    Prompt,
    /// A profile.
    Profile,
}

/// The path of a profile that is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) input: LineEdit,
    /// What is wrong with it.
    pub(crate) problem: Option<String>,
    /// It is being read.
    pub(crate) is_reading: bool,
}

/// The profile that is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) page: ProfilePage,
    /// Its lines, wrapped for the width of the screen.
    pub(crate) lines: Vec<PageLine>,
    /// First line.
    pub(crate) top: usize,
}

impl Shown {
    /// From its beginning.
    pub(crate) fn new(page: ProfilePage, columns: u16) -> Self {
        let mut shown = Self { page, lines: Vec::new(), top: 0 };
        shown.fit(columns);
        shown
    }

    /// Wraps it for another width.
    pub(crate) fn fit(&mut self, columns: u16) {
        self.lines = self.page.wrapped(columns.into());
        self.top = self.top.min(self.lines.len().saturating_sub(1));
    }
}

/// The state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) size: (u16, u16),
    pub(crate) theme: ThemeName,
    pub(crate) colour: Colour,
    pub(crate) page: Page,
    /// The first line of the help, where it is open.
    pub(crate) help: Option<usize>,
    pub(crate) focus: Panel,
    pub(crate) runs: List<RunLine>,
    pub(crate) clusters: List<ClusterLine>,
    /// What else is known of the store; none before it was read.
    pub(crate) stock: Option<Stock>,
    pub(crate) form: Form,
    pub(crate) prompt: Prompt,
    pub(crate) profile: Option<Shown>,
    /// Said in the place of the keys until the next one.
    pub(crate) notice: Option<String>,
}

impl State {
    /// Before anything was read.
    pub(crate) fn new(size: (u16, u16), theme: ThemeName, colour: Colour) -> Self {
        Self {
            size,
            theme,
            colour,
            page: Page::Lists,
            help: None,
            focus: Panel::Runs,
            runs: List::new(),
            clusters: List::new(),
            stock: None,
            form: Form::new(&[]),
            prompt: Prompt::default(),
            profile: None,
            notice: None,
        }
    }

    /// Where the lists lie.
    pub(crate) fn lists_layout(&self) -> layout::Lists {
        layout::Lists::of(self.size, self.runs.rows.len(), self.clusters.rows.len())
    }

    /// Where keys are read now.
    pub(crate) fn contexts(&self) -> &'static [Context] {
        match (layout::is_too_small(self.size), self.help) {
            (true, _) => &[Context::TooSmall, Context::Always],
            (false, Some(_)) => &[Context::Help, Context::Always],
            (false, None) => self.page_contexts(),
        }
    }

    /// Where keys are read when nothing lies over the page.
    pub(crate) const fn page_contexts(&self) -> &'static [Context] {
        match (self.page, self.focus) {
            (Page::Lists, Panel::Runs) => &[Context::Lists, Context::Runs, Context::Always],
            (Page::Lists, Panel::Clusters) => &[Context::Lists, Context::Clusters, Context::Always],
            (Page::Form, _) => &[Context::Form, Context::Text, Context::Always],
            (Page::Prompt, _) => &[Context::Prompt, Context::Text, Context::Always],
            (Page::Profile, _) => &[Context::Profile, Context::Always],
        }
    }

    /// The command line after the program that Enter runs here; none where it runs nothing.
    pub(crate) fn command(&self) -> Option<Vec<String>> {
        match (self.page, self.focus) {
            (Page::Form, _) => Some(self.form.words()),
            (Page::Lists, Panel::Runs) => self.runs.selected().map(|run| match run.end {
                RunState::Running => of_run(&["attach"], &run.name),
                _ => of_run(&["replay"], &run.name),
            }),
            _ => None,
        }
    }
}

/// A command about a run.
pub(crate) fn of_run(command: &[&str], name: &str) -> Vec<String> {
    // What begins with a dash would be an option.
    let end_of_options = name.starts_with('-').then_some("--");
    command.iter().copied().chain(end_of_options).chain([name]).map(str::to_owned).collect()
}
