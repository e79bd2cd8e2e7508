//! Tables of keys: what a run's views and the start screen make theirs of. Handler, footer, help and documentation read them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One key, with or without Control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chord {
    code: KeyCode,
    control: bool,
}

pub(crate) const fn key(code: KeyCode) -> Chord {
    Chord { code, control: false }
}

pub(crate) const fn char(c: char) -> Chord {
    key(KeyCode::Char(c))
}

pub(crate) const fn control(c: char) -> Chord {
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
            KeyCode::Backspace => "Backspace".to_owned(),
            KeyCode::Delete => "Del".to_owned(),
            other => format!("{other:?}"),
        };
        if self.control { format!("^{}", name.to_uppercase()) } else { name }
    }
}

/// One line of a key table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<C, A> {
    /// Where it is read.
    pub(crate) context: C,
    /// What it asks for.
    pub(crate) action: A,
    /// The keys, the one that the footer names first.
    pub(crate) keys: &'static [Chord],
    /// The word of the footer; entries without one are in the help only.
    pub(crate) footer: Option<&'static str>,
    /// The sentence of the help.
    pub(crate) help: &'static str,
}

impl<C, A> Binding<C, A> {
    /// All keys, separated by spaces.
    pub(crate) fn key_names(&self) -> String {
        names(self.keys)
    }
}

/// A table of lines `Context Action [keys] footer, help;`, with the `Context` and the `Action` of where it stands.
macro_rules! table {
    ($($context:ident $action:ident $(($($of:expr),+))? [$($key:expr),+] $footer:expr, $help:literal;)*) => {
        &[$($crate::ui::key_table::Binding {
            context: Context::$context,
            action: Action::$action $(($($of),+))?,
            keys: &[$($key),+],
            footer: $footer,
            help: $help,
        },)*]
    };
}
pub(crate) use table;

/// The entries of some contexts, in table order.
pub(crate) fn bindings<C: PartialEq, A>(
    table: &'static [Binding<C, A>],
    contexts: &[C],
) -> impl Iterator<Item = &'static Binding<C, A>> {
    table.iter().filter(move |b| contexts.contains(&b.context))
}

/// Keys and what they do, under the name of where they are read.
pub(crate) type Section = (&'static str, Vec<(&'static [Chord], &'static str)>);

/// All entries under the names of where they are read, in table order.
pub(crate) fn sections<C: Copy, A>(table: &'static [Binding<C, A>], name: fn(C) -> &'static str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for binding in table {
        let (name, entry) = (name(binding.context), (binding.keys, binding.help));
        match sections.iter_mut().find(|section| section.0 == name) {
            Some(section) => section.1.push(entry),
            None => sections.push((name, vec![entry])),
        }
    }
    sections
}

/// The names of keys, separated by spaces.
pub(crate) fn names(keys: &[Chord]) -> String {
    keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(" ")
}

/// What a key asks for in some contexts.
pub(crate) fn action_for<C: PartialEq, A: Copy>(
    table: &'static [Binding<C, A>],
    contexts: &[C],
    event: KeyEvent,
) -> Option<A> {
    bindings(table, contexts).find(|b| b.keys.iter().any(|k| k.matches(event))).map(|b| b.action)
}
