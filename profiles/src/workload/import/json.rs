//! Reading JSON of any length piece by piece.

use std::{fmt, marker::PhantomData};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::ImportError;
use crate::diagnostic::Place;

/// The elements of an array, each handed on as it is read.
pub(super) struct Each<'a, T, F> {
    each: &'a mut F,
    of: PhantomData<T>,
}

impl<'a, T, F: FnMut(T)> Each<'a, T, F> {
    pub(super) fn new(each: &'a mut F) -> Self {
        Self { each, of: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<'_, T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            (self.each)(element);
        }
        Ok(())
    }
}

/// Makes our error of serde's.
pub(super) fn malformed(file: &str, error: serde_json::Error) -> ImportError {
    // An end that comes too early is at column 0 of the line behind the last.
    let (line, column) = (error.line().max(1), error.column().max(1));
    if error.is_io() {
        return ImportError::Io { file: file.to_owned(), source: error.into() };
    }
    let text = error.to_string();
    // The place is ours to say.
    let cause = text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause).to_owned();
    ImportError::Malformed { place: Place { file: file.to_owned(), line, column }, cause }
}

/// How many ranks a list of ranks has: an array, or a text such as `[0, 1]`; nothing of one that is cut off with `...`.
pub(super) fn rank_count(ranks: &Value) -> Option<u32> {
    match ranks {
        Value::Array(ranks) => u32::try_from(ranks.len()).ok(),
        Value::String(text) => {
            let inside = text.trim().strip_prefix('[')?.strip_suffix(']')?;
            let ranks: Vec<&str> = inside.split(',').map(str::trim).filter(|rank| !rank.is_empty()).collect();
            let are_numbers = ranks.iter().all(|rank| rank.bytes().all(|byte| byte.is_ascii_digit()));
            are_numbers.then_some(ranks.len())?.try_into().ok()
        }
        _ => None,
    }
}

/// A text, or a number as one.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
