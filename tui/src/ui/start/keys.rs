//! The key table of the start screen: handler, footer and help read it, as those of a run read theirs.

use crossterm::event::{KeyCode, KeyEvent};

use crate::ui::key_table::{self, Section, char, control, key};

/// Where a key is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// The lists, whichever has the focus.
    Lists,
    /// The list of runs has the focus.
    Runs,
    /// The list of clusters has the focus.
    Clusters,
    /// The form of a new run.
    Form,
    /// A path is asked for.
    Prompt,
    /// Wherever text is typed: characters that are no key of the context go into it.
    Text,
    /// A profile is shown.
    Profile,
    /// The help overlay is open.
    Help,
    /// The terminal is too small to show anything.
    TooSmall,
    /// Everywhere.
    Always,
}

impl Context {
    /// Over its keys in the help.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Lists | Self::Runs | Self::Clusters => "These lists",
            Self::Form => "This form",
            Self::Prompt => "This question",
            Self::Text => "Where text is typed",
            Self::Profile => "This profile",
            Self::Help => "This list",
            Self::TooSmall => "This message",
            Self::Always => "Everywhere",
        }
    }

    /// What the documentation calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Lists => "Start screen",
            Self::Runs => "Start screen, the runs",
            Self::Clusters => "Start screen, the clusters",
            Self::Form => "Start screen, the form of a new run",
            Self::Prompt => "Start screen, the path of a profile",
            Self::Text => "Start screen, where text is typed",
            Self::Profile => "Start screen, a profile",
            Self::Help => "Start screen, the list of keys",
            Self::TooSmall => "Start screen, on a terminal that is too small",
            Self::Always => "Start screen, everywhere",
        }
    }
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Help,
    Open,
    Resume,
    NewRun,
    OpenProfile,
    Demo,
    Reload,
    NextPanel,
    PreviousPanel,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Theme,
    Confirm,
    Back,
    NextField,
    PreviousField,
    NextValue,
    PreviousValue,
    Reset,
    Left,
    Right,
    Home,
    End,
    Backspace,
    Delete,
    KillLine,
    KillWord,
    CloseHelp,
    Interrupt,
    Repaint,
    Suspend,
}

/// One line of the key table.
pub(crate) type Binding = key_table::Binding<Context, Action>;

/// Every key that does something. The footer shows entries in this order and drops them from the end when narrow.
pub(crate) const BINDINGS: &[Binding] = key_table::table! {
    Lists Quit [char('q')] Some("quit"), "leave";
    Lists Help [char('?'), key(KeyCode::F(1))] Some("help"), "show this list";
    Runs Open [key(KeyCode::Enter)] Some("open"), "watch the run if it is going on, else play it back";
    Clusters Open [key(KeyCode::Enter)] Some("tune"), "fill in the form of a new run on this cluster";
    Lists NewRun [char('n')] Some("new run"), "go to the form of a new run, as it was left";
    Lists Demo [char('d')] Some("demo"), "tune four ranks on this machine in about half a minute; needs no hardware";
    Lists OpenProfile [char('o')] Some("profile"), "open a profile: its rules, environment and evidence";
    Runs Resume [char('r')] Some("resume"), "go on with a run that was ended too early";
    Lists NextPanel [key(KeyCode::Tab)] Some("panel"), "focus the next list";
    Lists PreviousPanel [key(KeyCode::BackTab)] None, "focus the previous list";
    Lists Reload [char('R'), key(KeyCode::F(5))] None, "read the run store again (it happens by itself, too)";
    Lists Theme [char('t')] Some("theme"), "next colour theme: base, colorblind, mono";
    Lists Up [key(KeyCode::Up), char('k')] None, "line before";
    Lists Down [key(KeyCode::Down), char('j')] None, "next line";
    Lists PageUp [key(KeyCode::PageUp), control('u')] None, "a page up";
    Lists PageDown [key(KeyCode::PageDown), control('d')] None, "a page down";
    Lists Top [char('g'), key(KeyCode::Home)] None, "first line";
    Lists Bottom [char('G'), key(KeyCode::End)] None, "last line";
    Form Back [key(KeyCode::Esc)] Some("back"), "go back to the lists; the form stays as it is";
    Form Help [key(KeyCode::F(1))] Some("help"), "show this list";
    Form Confirm [key(KeyCode::Enter)] Some("next/start"), "go to the next field; on [ start ]: start the run";
    Form NextField [key(KeyCode::Tab), key(KeyCode::Down)] Some("next"), "next field";
    Form NextValue [key(KeyCode::PageDown)] Some("other value"), "next of the values or names that come along";
    Form PreviousField [key(KeyCode::BackTab), key(KeyCode::Up)] Some("before"), "field before";
    Form PreviousValue [key(KeyCode::PageUp)] None, "the one before";
    Form Reset [control('r')] Some("reset"), "empty the form";
    Prompt Back [key(KeyCode::Esc)] Some("back"), "go back to the lists";
    Prompt Help [key(KeyCode::F(1))] Some("help"), "show this list";
    Prompt Confirm [key(KeyCode::Enter)] Some("open"), "open it";
    Text Left [key(KeyCode::Left), control('b')] None, "a character left; of a choice: the value before";
    Text Right [key(KeyCode::Right), control('f')] None, "a character right; of a choice: the next value";
    Text Home [key(KeyCode::Home), control('a')] None, "go to the beginning of the line";
    Text End [key(KeyCode::End), control('e')] None, "go to the end of the line";
    Text Backspace [key(KeyCode::Backspace), control('h')] None, "remove the character before the cursor";
    Text Delete [key(KeyCode::Delete), control('d')] None, "remove the character under the cursor";
    Text KillLine [control('u')] None, "remove all before the cursor";
    Text KillWord [control('w')] None, "remove the word before the cursor";
    Profile Back [key(KeyCode::Esc), char('q')] Some("back"), "go back to the lists";
    Profile Help [char('?'), key(KeyCode::F(1))] Some("help"), "show this list";
    Profile OpenProfile [char('o')] Some("another"), "open another profile";
    Profile Up [key(KeyCode::Up), char('k')] None, "scroll up";
    Profile Down [key(KeyCode::Down), char('j')] Some("scroll"), "scroll down";
    Profile PageUp [key(KeyCode::PageUp), control('u')] None, "scroll up by a page";
    Profile PageDown [key(KeyCode::PageDown), control('d')] None, "scroll down by a page";
    Profile Top [char('g'), key(KeyCode::Home)] None, "go to the first line";
    Profile Bottom [char('G'), key(KeyCode::End)] None, "go to the last line";
    Profile Theme [char('t')] Some("theme"), "next colour theme: base, colorblind, mono";
    Help CloseHelp [key(KeyCode::Esc), char('?'), key(KeyCode::F(1)), key(KeyCode::Enter), char('q')] Some("close"), "close this list";
    Help Up [key(KeyCode::Up), char('k')] None, "scroll up";
    Help Down [key(KeyCode::Down), char('j')] Some("scroll"), "scroll down";
    Help PageUp [key(KeyCode::PageUp), control('u')] None, "scroll up by a page";
    Help PageDown [key(KeyCode::PageDown), control('d'), char(' ')] None, "scroll down by a page";
    Help Top [char('g'), key(KeyCode::Home)] None, "go to the first line";
    Help Bottom [char('G'), key(KeyCode::End)] None, "go to the last line";
    TooSmall Quit [char('q')] Some("quit"), "leave";
    Always Interrupt [control('c')] None, "leave";
    Always Repaint [control('l')] None, "paint the whole screen again";
    Always Suspend [control('z')] None, "suspend to the shell (fg comes back)";
};

/// The entries of some contexts, in table order.
pub(crate) fn bindings(contexts: &[Context]) -> impl Iterator<Item = &'static Binding> {
    key_table::bindings(BINDINGS, contexts)
}

/// All entries by where they are read, in table order.
pub(crate) fn sections() -> Vec<Section> {
    key_table::sections(BINDINGS, Context::name)
}

/// What a key asks for in some contexts.
pub(crate) fn action_for(contexts: &[Context], event: KeyEvent) -> Option<Action> {
    key_table::action_for(BINDINGS, contexts, event)
}
