//! The one key table: handler, footer and help overlay all read it.
//!
//! It knows nothing of the state; what an action does is decided in `update`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::Source;

/// Where a key is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// The main screen.
    Main,
    /// The main screen of a run of this process.
    Live,
    /// The main screen of a run that is only watched.
    Attached,
    /// The main screen of a replay.
    Replay,
    /// A question waits for its answer.
    Question,
    /// The help overlay is open.
    Help,
}

impl Context {
    /// Those of the main screen.
    pub(crate) const fn main(source: Source) -> &'static [Self] {
        match source {
            Source::Live => &[Self::Main, Self::Live],
            Source::Attached => &[Self::Main, Self::Attached],
            Source::Replay => &[Self::Main, Self::Replay],
        }
    }
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Interrupt,
    Help,
    PauseDisplay,
    PauseSearch,
    PausePlayback,
    Finish,
    SeekForward,
    SeekBack,
    Faster,
    Slower,
    StepForward,
    StepBack,
    SeekStart,
    SeekEnd,
    NextPanel,
    PreviousPanel,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    PreviousCollective,
    NextCollective,
    Theme,
    Repaint,
    Suspend,
    Yes,
    No,
    CloseHelp,
}

/// One key, with or without Control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chord {
    code: KeyCode,
    control: bool,
}

pub(super) const fn key(code: KeyCode) -> Chord {
    Chord { code, control: false }
}

pub(super) const fn char(c: char) -> Chord {
    key(KeyCode::Char(c))
}

pub(super) const fn control(c: char) -> Chord {
    Chord { code: KeyCode::Char(c), control: true }
}

impl Chord {
    /// Whether a key event is this chord. Shift is part of the character that arrives, so it is not compared.
    pub(super) fn matches(self, event: KeyEvent) -> bool {
        let modifiers = event.modifiers - KeyModifiers::SHIFT;
        let wanted = if self.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
        self.code == event.code && modifiers == wanted
    }

    /// The event that a terminal sends for this chord.
    #[cfg(test)]
    pub(crate) fn event(self) -> KeyEvent {
        let modifiers = if self.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
        KeyEvent::new(self.code, modifiers)
    }

    /// The name that help and footer show.
    pub(crate) fn name(self) -> String {
        let name = match self.code {
            KeyCode::Char(' ') => "space".to_owned(),
            KeyCode::Char(c) => c.to_string(),
            KeyCode::F(n) => format!("F{n}"),
            KeyCode::Tab => "Tab".to_owned(),
            KeyCode::BackTab => "Shift-Tab".to_owned(),
            KeyCode::Esc => "Esc".to_owned(),
            KeyCode::Enter => "Enter".to_owned(),
            KeyCode::Up => "Up".to_owned(),
            KeyCode::Down => "Down".to_owned(),
            KeyCode::Left => "Left".to_owned(),
            KeyCode::Right => "Right".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::Home => "Home".to_owned(),
            KeyCode::End => "End".to_owned(),
            other => format!("{other:?}"),
        };
        if self.control { format!("^{}", name.to_uppercase()) } else { name }
    }
}

/// One line of the key table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    /// Where it is read.
    pub(crate) context: Context,
    /// What it asks for.
    pub(crate) action: Action,
    /// The keys, the one that the footer names first.
    pub(crate) keys: &'static [Chord],
    /// The word of the footer; entries without one are in the help only.
    pub(crate) footer: Option<&'static str>,
    /// The sentence of the help.
    pub(crate) help: &'static str,
}

impl Binding {
    /// Whether the footer may name it: keys that only steer a run are of no use when it is over.
    pub(crate) const fn is_useful(&self, over: bool) -> bool {
        let steers =
            matches!(self.action, Action::PauseDisplay | Action::PauseSearch | Action::PausePlayback | Action::Finish);
        !over || !steers
    }

    /// All keys, separated by spaces.
    pub(crate) fn key_names(&self) -> String {
        self.keys.iter().map(|k| k.name()).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! bindings {
    ($($context:ident $action:ident [$($key:expr),+] $footer:expr, $help:literal;)*) => {
        &[$(Binding {
            context: Context::$context, action: Action::$action, keys: &[$($key),+], footer: $footer, help: $help,
        },)*]
    };
}

/// Every key that does something. The footer shows entries in this order and drops them from the end when narrow.
pub(crate) const BINDINGS: &[Binding] = bindings! {
    Live Quit [char('q')] Some("quit"), "leave (asks first while a run is going)";
    Attached Quit [char('q')] Some("quit"), "leave; the run goes on";
    Replay Quit [char('q')] Some("quit"), "leave";
    Main Help [char('?'), key(KeyCode::F(1))] Some("help"), "show this list";
    Replay PausePlayback [char(' ')] Some("pause"), "pause the replay, or go on";
    Replay SeekForward [char('f')] Some("forward"), "go forward by 5 % of the run";
    Replay SeekBack [char('b')] Some("back"), "go back by 5 % of the run";
    Replay Faster [char('>')] Some("faster"), "play faster";
    Replay Slower [char('<')] Some("slower"), "play slower";
    Replay StepForward [char('.')] None, "go to the next trial or decision, and pause";
    Replay StepBack [char(',')] None, "go to the trial or decision before, and pause";
    Replay SeekStart [char('0')] None, "go to the beginning of the run";
    Replay SeekEnd [char('$')] None, "go to the end of the run";
    Main NextCollective [char(']'), key(KeyCode::Right), char('l')] Some("next collective"), "show the next collective in the charts";
    Live PauseDisplay [char('p')] Some("freeze"), "freeze the display only; measuring goes on";
    Attached PauseDisplay [char('p')] Some("freeze"), "freeze the display only; measuring goes on";
    Live PauseSearch [char(' ')] Some("pause run"), "pause the search after its script, or go on";
    Live Finish [char('F')] Some("finish"), "end the search, verify and write (asks first)";
    Main NextPanel [key(KeyCode::Tab)] Some("panel"), "focus the next panel";
    Main Theme [char('t')] Some("theme"), "next colour theme: base, colorblind, mono";
    Main PreviousPanel [key(KeyCode::BackTab)] None, "focus the previous panel";
    Main PreviousCollective [char('['), key(KeyCode::Left), char('h')] None, "show the previous collective in the charts";
    Main Up [key(KeyCode::Up), char('k')] None, "scroll up; in a chart: next smaller size";
    Main Down [key(KeyCode::Down), char('j')] None, "scroll down; in a chart: next larger size";
    Main PageUp [key(KeyCode::PageUp), control('u')] None, "scroll up by a page";
    Main PageDown [key(KeyCode::PageDown), control('d')] None, "scroll down by a page";
    Main Top [char('g'), key(KeyCode::Home)] None, "go to the first line";
    Main Bottom [char('G'), key(KeyCode::End)] None, "go to the last line";
    Live Interrupt [control('c')] None, "stop after the script; again: kill; again: leave";
    Attached Interrupt [control('c')] None, "leave; the run goes on";
    Replay Interrupt [control('c')] None, "leave";
    Main Repaint [control('l')] None, "paint the whole screen again";
    Main Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Question Yes [char('y'), char('Y')] Some("yes"), "do it";
    Question No [char('n'), char('N'), key(KeyCode::Enter), key(KeyCode::Esc), char('q')] Some("no"), "go on as before";
    Question Interrupt [control('c')] None, "stop, kill, leave: the same as without a question";
    Question Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Help CloseHelp [char('?'), key(KeyCode::Esc), key(KeyCode::F(1)), key(KeyCode::Enter), char('q')] Some("close"), "close this list";
    Help Up [key(KeyCode::Up), char('k')] None, "scroll up";
    Help Down [key(KeyCode::Down), char('j')] Some("scroll"), "scroll down";
    Help Interrupt [control('c')] None, "stop, kill, leave: the same as without help";
    Help Suspend [control('z')] None, "suspend to the shell (fg comes back)";
};

/// The entries of some contexts, in table order.
pub(crate) fn bindings(contexts: &[Context]) -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(move |b| contexts.contains(&b.context))
}

/// What a key asks for in some contexts.
pub(crate) fn action_for(contexts: &[Context], event: KeyEvent) -> Option<Action> {
    bindings(contexts).find(|b| b.keys.iter().any(|k| k.matches(event))).map(|b| b.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings_in_one_context() {
        let main = [Source::Live, Source::Attached, Source::Replay].map(Context::main);
        for contexts in main.into_iter().chain([&[Context::Question][..], &[Context::Help]]) {
            let keys: Vec<(Chord, Action)> =
                bindings(contexts).flat_map(|b| b.keys.iter().map(|k| (*k, b.action))).collect();
            for (position, (chord, action)) in keys.iter().enumerate() {
                assert_eq!(action_for(contexts, chord.event()), Some(*action), "{contexts:?} {}", chord.name());
                assert!(keys.iter().skip(position + 1).all(|(other, _)| other != chord), "{}", chord.name());
            }
        }
    }

    #[test]
    fn shift_is_part_of_the_character() {
        let shifted = |code| KeyEvent::new(code, KeyModifiers::SHIFT);
        for (event, expected) in [
            (shifted(KeyCode::Char('F')), Some(Action::Finish)),
            (shifted(KeyCode::Char('G')), Some(Action::Bottom)),
            (shifted(KeyCode::BackTab), Some(Action::PreviousPanel)),
            (KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT), None),
            (KeyEvent::new(KeyCode::Char('p'), KeyModifiers::CONTROL), None),
            (KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE), None),
        ] {
            assert_eq!(action_for(Context::main(Source::Live), event), expected, "{event:?}");
        }
    }
}
