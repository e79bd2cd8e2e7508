//! The profile: what would ship now, how it differs from other settings, and the files that it would be.
//!
//! What is shown is made in `update` when it changes, since emitting a file reads it back; drawing only reads it.

mod content;

use std::sync::Arc;

use gdrtune_profiles::{emit::Format, profile};

pub(crate) use self::content::{Look, Row};
use super::{Export, Motion};
use crate::ui::{layout::Layout, run::Draft, state::State};

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Profile {
    pub(crate) section: Section,
    /// The first line on the screen.
    pub(crate) top: usize,
    /// What it is compared with.
    pub(crate) other: Option<Arc<Other>>,
    content: Content,
}

/// A profile that was loaded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Other {
    /// As it was typed.
    pub(crate) name: String,
    pub(crate) profile: profile::Profile,
}

/// A part of the view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Section {
    /// Rules and settings, each with its evidence.
    #[default]
    Rules,
    /// What differs.
    Diff,
    /// The profile file.
    Toml,
    /// A file that is made from it, one of the common ones.
    Emitted(Format),
}

impl Section {
    /// In the order in which they are turned.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let emitted = Format::COMMON.iter().map(|format| Self::Emitted(*format));
        [Self::Rules, Self::Diff, Self::Toml].into_iter().chain(emitted)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rules => "Rules",
            Self::Diff => "Diff",
            Self::Toml => "toml",
            Self::Emitted(format) => format.name(),
        }
    }

    /// The usual name of its file.
    const fn file_name(self) -> &'static str {
        match self {
            Self::Rules | Self::Toml => "profile.toml",
            Self::Diff => "profile.diff",
            Self::Emitted(format) => format.file_name(),
        }
    }
}

/// What a section shows, and what that was made from.
#[derive(Debug, Clone, Default, PartialEq)]
struct Content {
    of: Option<Origin>,
    /// What is copied and exported; absent where there is none, or where it cannot be written.
    text: Option<String>,
    rows: Vec<Row>,
}

/// What the content depends on.
#[derive(Debug, Clone, PartialEq)]
struct Origin {
    draft: Option<Arc<Draft>>,
    other: Option<Arc<Other>>,
    section: Section,
    columns: u16,
    is_over: bool,
}

impl Origin {
    fn of(state: &State) -> Self {
        let view = &state.view.tabs.profile;
        Self {
            draft: state.shown().draft.clone(),
            other: view.other.clone(),
            section: view.section,
            columns: state.view.size.0,
            is_over: state.shown().is_over(),
        }
    }

    /// Whether it is the very same, without a look inside.
    fn is_same(&self, other: &Self) -> bool {
        fn is_one<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            a.map(Arc::as_ptr) == b.map(Arc::as_ptr)
        }
        is_one(self.draft.as_ref(), other.draft.as_ref())
            && is_one(self.other.as_ref(), other.other.as_ref())
            && (self.section, self.columns, self.is_over) == (other.section, other.columns, other.is_over)
    }
}

/// Makes what is shown anew if anything that it depends on changed.
pub(crate) fn refresh(state: &mut State) {
    let origin = Origin::of(state);
    if state.view.tabs.profile.content.of.as_ref().is_some_and(|of| of.is_same(&origin)) {
        return;
    }
    let (text, rows) = content::make(state, &origin);
    state.view.tabs.profile.content = Content { of: Some(origin), text, rows };
}

/// Every line of the present section.
pub(crate) fn rows(state: &State) -> &[Row] {
    &state.view.tabs.profile.content.rows
}

/// The first line to show, where there are `n_visible` lines.
pub(crate) fn top(state: &State, n_visible: usize) -> usize {
    state.view.tabs.profile.top.min(rows(state).len().saturating_sub(n_visible))
}

pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let n_tops = rows(state).len().saturating_sub(n_visible) + 1;
    state.view.tabs.profile.top = motion.from(top(state, n_visible), n_tops);
}

/// Shows the section so many places further; the last is followed by the first.
pub(crate) fn turn_section(state: &mut State, forward: bool) {
    let view = &mut state.view.tabs.profile;
    let sections: Vec<Section> = Section::all().collect();
    let here = sections.iter().position(|section| *section == view.section).unwrap_or(0);
    let steps = if forward { 1 } else { sections.len() - 1 };
    view.section = sections.get((here + steps) % sections.len()).copied().unwrap_or_default();
    view.top = 0;
}

/// Compares with a profile from now on, and shows how it differs.
pub(crate) fn compare_with(state: &mut State, name: String, profile: profile::Profile) {
    let view = &mut state.view.tabs.profile;
    view.other = Some(Arc::new(Other { name, profile }));
    (view.section, view.top) = (Section::Diff, 0);
}

/// The text of the present section's file.
pub(super) fn copied(state: &State) -> Option<String> {
    state.view.tabs.profile.content.text.clone()
}

/// The present section's file, under its usual name.
pub(super) fn exported(state: &State) -> Option<Export> {
    let name = state.view.tabs.profile.section.file_name().to_owned();
    Some(Export { name, text: copied(state)? })
}
