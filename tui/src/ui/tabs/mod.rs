//! The views of a run, one file each: what is looked at in it, and how keys move it. Drawing is in `draw/`.

pub(crate) mod cluster;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod overview;
pub(crate) mod profile;
pub(crate) mod search;
pub(crate) mod sizes;
pub(crate) mod trials;

pub(crate) use self::list::Motion;
use super::{filter::Filter, keys::Context, state::State};

/// A view of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tab {
    /// How far the run is, what was gained, what is being tried.
    Overview,
    /// Each collective and size.
    Sizes,
    /// Each choice at a point, and the environments.
    Search,
    /// The nodes and what they have.
    Cluster,
    /// Every measurement.
    Trials,
    /// What would ship.
    Profile,
    /// What was said.
    Log,
}

impl Tab {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 7] =
        [Self::Overview, Self::Sizes, Self::Search, Self::Cluster, Self::Trials, Self::Profile, Self::Log];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Sizes => "Sizes",
            Self::Search => "Search",
            Self::Cluster => "Cluster",
            Self::Trials => "Trials",
            Self::Profile => "Profile",
            Self::Log => "Log",
        }
    }

    /// Its number, from 1.
    pub(crate) const fn number(self) -> usize {
        self as usize + 1
    }

    /// The next one, or the one before; the last is followed by the first.
    pub(crate) fn turned(self, steps: usize) -> Self {
        Self::ALL.get((self as usize + steps) % Self::ALL.len()).copied().unwrap_or(self)
    }

    /// Where keys are read, beside the contexts of every view.
    pub(crate) const fn contexts(self) -> &'static [Context] {
        match self {
            Self::Overview => &[Context::Overview],
            Self::Sizes => &[Context::Sizes, Context::Rows, Context::Filtered, Context::Sorted, Context::Marked],
            Self::Search => &[Context::Search, Context::Rows, Context::Sorted],
            Self::Cluster => &[Context::Cluster, Context::Rows, Context::Filtered, Context::Marked],
            Self::Trials => &[Context::Trials, Context::Rows, Context::Filtered, Context::Sorted, Context::Marked],
            Self::Profile => &[Context::Profile, Context::Rows],
            Self::Log => &[Context::Log, Context::Rows, Context::Filtered],
        }
    }
}

/// What is looked at in each view.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tabs {
    pub(crate) overview: overview::Overview,
    pub(crate) sizes: sizes::Sizes,
    pub(crate) search: search::Search,
    pub(crate) cluster: cluster::Cluster,
    pub(crate) trials: trials::Trials,
    pub(crate) profile: profile::Profile,
    pub(crate) log: log::LogView,
}

impl Tabs {
    /// The filter of a view that has one.
    pub(crate) const fn filter(&self, tab: Tab) -> Option<&Filter> {
        match tab {
            Tab::Sizes => Some(&self.sizes.filter),
            Tab::Cluster => Some(&self.cluster.filter),
            Tab::Trials => Some(&self.trials.filter),
            Tab::Log => Some(&self.log.filter),
            Tab::Overview | Tab::Search | Tab::Profile => None,
        }
    }
}

/// Moves the cursor of the present view, or scrolls it.
pub(crate) fn move_cursor(state: &mut State, motion: Motion) {
    match state.view.tab {
        Tab::Overview => overview::move_cursor(state, motion),
        Tab::Sizes => sizes::move_cursor(state, motion),
        Tab::Search => search::move_cursor(state, motion),
        Tab::Cluster => cluster::move_cursor(state, motion),
        Tab::Trials => trials::move_cursor(state, motion),
        Tab::Profile => profile::move_cursor(state, motion),
        Tab::Log => log::move_cursor(state, motion),
    }
}

/// Puts the cursor of the present view on the row under the mouse, counted from the first one of the view, and where that has
/// columns on that one.
pub(crate) fn click(state: &mut State, row: usize, column: usize) {
    match state.view.tab {
        Tab::Sizes => sizes::click(state, row),
        Tab::Search => search::click(state, row, column),
        Tab::Cluster => cluster::click(state, row),
        Tab::Trials => trials::click(state, row),
        Tab::Overview | Tab::Profile | Tab::Log => {}
    }
}

/// Sets the filter of the present view.
pub(crate) fn set_filter(state: &mut State, filter: Filter) {
    match state.view.tab {
        Tab::Sizes => sizes::set_filter(state, filter),
        Tab::Cluster => cluster::set_filter(state, filter),
        Tab::Trials => trials::set_filter(state, filter),
        Tab::Log => state.view.tabs.log = log::LogView { filter, ..state.view.tabs.log },
        Tab::Overview | Tab::Search | Tab::Profile => {}
    }
}

/// Sorts the present view by another column, or the other way round.
pub(crate) fn sort(state: &mut State, sorting: Sorting) {
    match state.view.tab {
        Tab::Sizes => sizes::sort(state, sorting),
        Tab::Search => search::sort(state, sorting),
        Tab::Trials => trials::sort(state, sorting),
        Tab::Overview | Tab::Cluster | Tab::Profile | Tab::Log => {}
    }
}

/// How the sorting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sorting {
    /// By the next column.
    Next,
    /// The other way round.
    Reversed,
}

/// Marks the row under the cursor, or takes its mark away.
pub(crate) fn mark(state: &mut State) {
    match state.view.tab {
        Tab::Sizes => sizes::mark(state),
        Tab::Cluster => cluster::mark(state),
        Tab::Trials => trials::mark(state),
        Tab::Overview | Tab::Search | Tab::Profile | Tab::Log => {}
    }
}

/// Goes to the next marked row.
pub(crate) fn next_mark(state: &mut State) {
    match state.view.tab {
        Tab::Sizes => sizes::next_mark(state),
        Tab::Cluster => cluster::next_mark(state),
        Tab::Trials => trials::next_mark(state),
        Tab::Overview | Tab::Search | Tab::Profile | Tab::Log => {}
    }
}

/// What `y` copies: the row under the cursor, as text.
pub(crate) fn copied(state: &State) -> Option<String> {
    match state.view.tab {
        Tab::Overview => overview::copied(state),
        Tab::Sizes => sizes::copied(state),
        Tab::Search => search::copied(state),
        Tab::Cluster => cluster::copied(state),
        Tab::Trials => trials::copied(state),
        Tab::Profile => profile::copied(state),
        Tab::Log => log::copied(state),
    }
}

/// A text to write into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    /// Name of the file without a folder.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What `e` writes: all rows of the view, or the marked ones where there are any.
pub(crate) fn exported(state: &State) -> Option<Export> {
    let (suffix, text) = match state.view.tab {
        Tab::Overview | Tab::Sizes => ("sizes.csv", sizes::exported(state)?),
        Tab::Search => ("search.csv", search::exported(state)?),
        Tab::Cluster => ("cluster.txt", cluster::exported(state)?),
        Tab::Trials => ("trials.csv", trials::exported(state)?),
        Tab::Profile => return profile::exported(state),
        Tab::Log => ("log.txt", log::exported(state)?),
    };
    let run = state.shown().label.as_ref().map_or("", |label| label.run.as_str());
    // Ids have colons, which not every file system takes.
    let run: String = run.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Some(Export { name: format!("gdrtune-{run}-{suffix}"), text })
}
