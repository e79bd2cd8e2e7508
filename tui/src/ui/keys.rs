//! The keys of a run: handler, footer, help, manual page and docs all read this table.
//!
//! It knows nothing of the state; what an action does is decided in `update`.

use crossterm::event::{KeyCode, KeyEvent};

use super::{
    key_table::{self, Section, char, control, key},
    line_edit::Edit,
    state::Source,
    tabs::Tab,
};

/// Where a key is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// Every view.
    Main,
    /// Every view of a run of this process.
    Live,
    /// Every view of a run that is only watched.
    Attached,
    /// Every view of a replay.
    Replay,
    /// A view with rows.
    Rows,
    /// A view whose rows can be filtered.
    Filtered,
    /// A view whose rows can be sorted.
    Sorted,
    /// A view whose rows can be marked.
    Marked,
    Overview,
    Sizes,
    Search,
    /// The search view of a run of this process.
    LiveSearch,
    /// Every other view of a run of this process.
    LiveElsewhere,
    Cluster,
    Trials,
    Profile,
    Log,
    /// A question waits for its answer.
    Question,
    /// The question how to leave a run waits for its answer.
    Leaving,
    /// The help overlay is open.
    Help,
    /// A line is being typed.
    Prompt,
}

impl Context {
    /// Those of a view.
    pub(crate) fn of(source: Source, tab: Tab) -> Vec<Self> {
        let of_source: &[Self] = match (source, tab) {
            (Source::Live, Tab::Search) => &[Self::Main, Self::Live, Self::LiveSearch],
            (Source::Live, _) => &[Self::Main, Self::Live, Self::LiveElsewhere],
            (Source::Attached, _) => &[Self::Main, Self::Attached],
            (Source::Replay, _) => &[Self::Main, Self::Replay],
        };
        tab.contexts().iter().chain(of_source).copied().collect()
    }

    /// What it is called where all keys are listed.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "Everywhere",
            Self::Live | Self::LiveElsewhere => "A run of this process",
            Self::LiveSearch => "Search, in a run of this process",
            Self::Attached => "A run that is watched",
            Self::Replay => "Replay",
            Self::Rows => "Views with rows",
            Self::Filtered => "Views that can be filtered",
            Self::Sorted => "Views that can be sorted",
            Self::Marked => "Views whose rows can be marked",
            Self::Overview => "Overview",
            Self::Sizes => "Sizes",
            Self::Search => "Search",
            Self::Cluster => "Cluster",
            Self::Trials => "Trials",
            Self::Profile => "Profile",
            Self::Log => "Log",
            Self::Question => "Questions",
            Self::Leaving => "The question how to leave",
            Self::Help => "Help",
            Self::Prompt => "Typing a line",
        }
    }

    /// The heading of its keys in the help.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Main => "Everywhere",
            Self::Live | Self::LiveElsewhere | Self::LiveSearch => "This run",
            Self::Attached => "A run that is watched",
            Self::Replay => "Replay",
            Self::Question | Self::Leaving => "Question",
            Self::Help => "Help",
            Self::Prompt => "Typing",
            Self::Rows
            | Self::Filtered
            | Self::Sorted
            | Self::Marked
            | Self::Overview
            | Self::Sizes
            | Self::Search
            | Self::Cluster
            | Self::Trials
            | Self::Profile
            | Self::Log => "This view",
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
    Skip,
    Pin,
    AddBudget,
    WriteNow,
    Detach,
    SeekForward,
    SeekBack,
    Faster,
    Slower,
    StepForward,
    StepBack,
    SeekStart,
    SeekEnd,
    Show(Tab),
    NextTab,
    PreviousTab,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    PreviousCollective,
    NextCollective,
    Filter,
    Back,
    Sort,
    ReverseSort,
    Mark,
    NextMark,
    Copy,
    Export,
    OpenDetail,
    Toggle,
    Expand,
    Collapse,
    NextLevel,
    NextSection,
    PreviousSection,
    Load,
    Left,
    Right,
    NextPoint,
    PreviousPoint,
    NextEnvironment,
    PreviousEnvironment,
    Follow,
    TurnPart,
    DropChoice,
    Theme,
    Repaint,
    Suspend,
    Yes,
    No,
    CloseHelp,
    Type(Edit),
    Enter,
    Cancel,
}

/// One line of the key table.
pub(crate) type Binding = key_table::Binding<Context, Action>;

impl Binding {
    /// Whether the footer may name it: keys that only steer a run are of no use when it is over.
    pub(crate) const fn is_useful(&self, over: bool) -> bool {
        let steers = matches!(
            self.action,
            Action::PauseDisplay
                | Action::PauseSearch
                | Action::PausePlayback
                | Action::Finish
                | Action::DropChoice
                | Action::Skip
                | Action::Pin
                | Action::AddBudget
                | Action::WriteNow
        );
        !over || !steers
    }
}

/// Every key that does something. The footer shows entries in this order and drops them from the end when narrow.
pub(crate) const BINDINGS: &[Binding] = key_table::table! {
    Live Quit [char('q')] Some("quit"), "leave (asks first while a run is going)";
    Attached Quit [char('q')] Some("quit"), "leave; the run goes on";
    Replay Quit [char('q')] Some("quit"), "leave";
    Main Help [char('?'), key(KeyCode::F(1))] Some("help"), "show this list";
    Main NextTab [key(KeyCode::Tab)] Some("view"), "show the next view";
    Main PreviousTab [key(KeyCode::BackTab)] None, "show the view before";
    Main Show(Tab::Overview) [char('1')] None, "Overview: progress, gains, what is being tried";
    Main Show(Tab::Sizes) [char('2')] None, "Sizes: default, best, certainty of each point";
    Main Show(Tab::Search) [char('3')] None, "Search: each choice at a point, environments, knobs";
    Main Show(Tab::Cluster) [char('4')] None, "Cluster: nodes, GPUs, HCAs and rails";
    Main Show(Tab::Trials) [char('5')] None, "Trials: every measurement";
    Main Show(Tab::Profile) [char('6')] None, "Profile: what would ship now";
    Main Show(Tab::Log) [char('7')] None, "Log: what was said";
    Replay PausePlayback [char(' ')] Some("pause"), "pause the replay, or go on";
    Replay SeekForward [char('f')] Some("forward"), "go forward by 5 % of the run";
    Replay SeekBack [char('b')] Some("back"), "go back by 5 % of the run";
    Replay Faster [char('>')] Some("faster"), "play faster";
    Replay Slower [char('<')] Some("slower"), "play slower";
    Replay StepForward [char('.')] None, "go to the next trial or decision, and pause";
    Replay StepBack [char(',')] None, "go to the trial or decision before, and pause";
    Replay SeekStart [char('0')] None, "go to the beginning of the run";
    Replay SeekEnd [char('$')] None, "go to the end of the run";
    Live PauseSearch [char(' ')] Some("pause run"), "pause the run after what runs now, or go on";
    Live PauseDisplay [char('p')] Some("freeze"), "freeze the display only; measuring goes on";
    Attached PauseDisplay [char('p')] Some("freeze"), "freeze the display only; measuring goes on";
    Overview NextCollective [char(']'), key(KeyCode::Right), char('l')] Some("collective"), "show the next collective in the charts";
    Overview PreviousCollective [char('['), key(KeyCode::Left), char('h')] None, "show the previous collective in the charts";
    Overview Up [key(KeyCode::Up), char('k')] None, "read the next smaller size off the charts";
    Overview Down [key(KeyCode::Down), char('j')] Some("size"), "read the next larger size off the charts";
    Overview Top [char('g'), key(KeyCode::Home)] None, "read the smallest size off the charts";
    Overview Bottom [char('G'), key(KeyCode::End)] None, "read the largest size off the charts";
    Cluster Toggle [key(KeyCode::Enter)] Some("open"), "show what a node or a group has, or no more";
    Cluster Expand [key(KeyCode::Right), char('l')] None, "show what is below the row, or go there";
    Cluster Collapse [key(KeyCode::Left), char('h')] None, "fold the row, or go to the one above it in the tree";
    Trials OpenDetail [key(KeyCode::Enter)] Some("detail"), "show the trial in detail: samples, settings, log";
    Profile NextSection [char(']'), key(KeyCode::Right), char('l')] Some("section"), "show the next part: rules, differences, each file";
    Profile PreviousSection [char('['), key(KeyCode::Left), char('h')] None, "show the part before";
    Profile Load [char('o')] Some("compare"), "load a profile to compare with";
    Search TurnPart [char('v'), key(KeyCode::Enter)] Some("table"), "go to environments and knobs, or back to the choices";
    Search NextPoint [char(']')] Some("point"), "show the next collective or size";
    Search PreviousPoint [char('[')] None, "show the previous collective or size";
    Search NextEnvironment [char('}')] Some("environment"), "show the choices in the next environment";
    Search PreviousEnvironment [char('{')] None, "show the choices in the environment before";
    Search Follow [char('='), key(KeyCode::Esc)] Some("follow"), "go along with the search again: its point, the best";
    Search Left [key(KeyCode::Left), char('h')] None, "go to fewer channels";
    Search Right [key(KeyCode::Right), char('l')] None, "go to more channels";
    LiveSearch DropChoice [char('x')] Some("drop"), "give up the choice at this point (asks first)";
    Log NextLevel [char('v')] Some("level"), "show info, warnings, errors only; then all again";
    Filtered Filter [char('/')] Some("filter"), "filter the rows by words; ! in front shows the others";
    Filtered Back [key(KeyCode::Esc)] None, "close the detail, or show all rows again";
    Sorted Sort [char('s')] Some("sort"), "sort by the next column";
    Sorted ReverseSort [char('S')] None, "sort the other way round";
    Marked Mark [char('m')] Some("mark"), "mark the row; e exports the marked ones only";
    Marked NextMark [char('\'')] None, "go to the next marked row";
    Rows Up [key(KeyCode::Up), char('k')] None, "go up";
    Rows Down [key(KeyCode::Down), char('j')] None, "go down";
    Rows PageUp [key(KeyCode::PageUp), control('u')] None, "go up by a page";
    Rows PageDown [key(KeyCode::PageDown), control('d')] None, "go down by a page";
    Rows Top [char('g'), key(KeyCode::Home)] None, "go to the first row";
    Rows Bottom [char('G'), key(KeyCode::End)] None, "go to the last row";
    LiveElsewhere Skip [char('x')] Some("skip"), "give up the measurement that runs; the run goes on";
    Live Pin [char('P')] Some("pin"), "search with one value of a knob only, or all again";
    Live AddBudget [char('B')] Some("budget"), "add time or trials to the budget";
    Live WriteNow [char('w')] Some("write"), "write what would ship now, marked not verified";
    Live Finish [char('F')] Some("finish"), "end the search, verify and write (asks first)";
    Main Copy [char('y')] None, "copy the row, or what the view is about (OSC 52)";
    Main Export [char('e')] Some("export"), "write what the view shows to a file of this folder";
    Main Theme [char('t')] Some("theme"), "next colour theme: base, colorblind, mono";
    Live Interrupt [control('c')] None, "stop after what runs now; again: kill; again: leave";
    Attached Interrupt [control('c')] None, "leave; the run goes on";
    Replay Interrupt [control('c')] None, "leave";
    Main Repaint [control('l')] None, "paint the whole screen again";
    Main Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Leaving Detach [char('d')] Some("detach"), "hand the run over to the background, and leave";
    Leaving Yes [char('s'), char('y'), char('Y')] Some("stop"), "stop the run";
    Question Yes [char('y'), char('Y')] Some("yes"), "do it";
    Question No [char('n'), char('N'), key(KeyCode::Enter), key(KeyCode::Esc), char('q')] Some("no"), "go on as before";
    Question Interrupt [control('c')] None, "stop, kill, leave: the same as without a question";
    Question Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Leaving No [char('c'), char('n'), char('N'), key(KeyCode::Enter), key(KeyCode::Esc), char('q')] Some("cancel"), "go on as before";
    Leaving Interrupt [control('c')] None, "stop, kill, leave: the same as without a question";
    Leaving Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Help CloseHelp [char('?'), key(KeyCode::Esc), key(KeyCode::F(1)), key(KeyCode::Enter), char('q')] Some("close"), "close this list";
    Help Up [key(KeyCode::Up), char('k')] None, "scroll up";
    Help Down [key(KeyCode::Down), char('j')] Some("scroll"), "scroll down";
    Help PageUp [key(KeyCode::PageUp), control('u')] None, "scroll up by a page";
    Help PageDown [key(KeyCode::PageDown), control('d'), char(' ')] None, "scroll down by a page";
    Help Top [char('g'), key(KeyCode::Home)] None, "go to the first line";
    Help Bottom [char('G'), key(KeyCode::End)] None, "go to the last line";
    Help Interrupt [control('c')] None, "stop, kill, leave: the same as without help";
    Help Suspend [control('z')] None, "suspend to the shell (fg comes back)";
    Prompt Enter [key(KeyCode::Enter)] Some("done"), "take what was typed";
    Prompt Cancel [key(KeyCode::Esc)] Some("cancel"), "go on as before";
    Prompt Type(Edit::Left) [key(KeyCode::Left), control('b')] None, "go left";
    Prompt Type(Edit::Right) [key(KeyCode::Right), control('f')] None, "go right";
    Prompt Type(Edit::Home) [key(KeyCode::Home), control('a')] None, "go to the start";
    Prompt Type(Edit::End) [key(KeyCode::End), control('e')] None, "go to the end";
    Prompt Type(Edit::DeleteBack) [key(KeyCode::Backspace)] None, "delete what is left of the cursor";
    Prompt Type(Edit::DeleteForward) [key(KeyCode::Delete)] None, "delete what is under the cursor";
    Prompt Type(Edit::DeleteWord) [control('w')] None, "delete the word left of the cursor";
    Prompt Type(Edit::DeleteToStart) [control('u')] None, "delete all that is left of the cursor";
    Prompt Interrupt [control('c')] None, "stop, kill, leave: the same as without typing";
    Prompt Suspend [control('z')] None, "suspend to the shell (fg comes back)";
};

/// The entries of some contexts, in table order.
pub(crate) fn bindings(contexts: &[Context]) -> impl Iterator<Item = &'static Binding> {
    key_table::bindings(BINDINGS, contexts)
}

/// All entries by where they are read, in table order; what every view with rows has is said once.
pub(crate) fn sections() -> Vec<Section> {
    key_table::sections(BINDINGS, Context::name)
}

/// The entries of some contexts that have a word in the footer: how to leave and to ask first, then what is the view's own.
pub(crate) fn footer(contexts: &[Context]) -> impl Iterator<Item = &'static Binding> {
    let named = bindings(contexts).filter(|binding| binding.footer.is_some());
    let rank = |binding: &&Binding| match (binding.action, binding.context.heading()) {
        (Action::Quit | Action::Help, _) => 0,
        (_, "This view") => 1,
        _ => 2,
    };
    let mut named: Vec<_> = named.collect();
    named.sort_by_key(rank);
    named.into_iter()
}

/// What a key asks for in some contexts.
pub(crate) fn action_for(contexts: &[Context], event: KeyEvent) -> Option<Action> {
    key_table::action_for(BINDINGS, contexts, event)
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyModifiers;

    use super::*;
    use crate::ui::key_table::Chord;

    #[test]
    fn no_key_has_two_meanings_in_one_context() {
        let sources = [Source::Live, Source::Attached, Source::Replay];
        let views = sources.into_iter().flat_map(|source| Tab::ALL.map(|tab| Context::of(source, tab)));
        let overlays =
            [Context::Question, Context::Leaving, Context::Help, Context::Prompt].map(|context| vec![context]);
        for contexts in views.chain(overlays) {
            let keys: Vec<(Chord, Action)> =
                bindings(&contexts).flat_map(|b| b.keys.iter().map(|k| (*k, b.action))).collect();
            for (position, (chord, action)) in keys.iter().enumerate() {
                assert_eq!(action_for(&contexts, chord.event()), Some(*action), "{contexts:?} {}", chord.name());
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
            (shifted(KeyCode::BackTab), Some(Action::PreviousTab)),
            (KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT), None),
            (KeyEvent::new(KeyCode::Char('p'), KeyModifiers::CONTROL), None),
            (KeyEvent::new(KeyCode::Char('Z'), KeyModifiers::NONE), None),
        ] {
            assert_eq!(action_for(&Context::of(Source::Live, Tab::Overview), event), expected, "{event:?}");
        }
    }
}
