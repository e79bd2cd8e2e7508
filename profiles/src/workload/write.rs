//! A workload as the text of a workload file.

use std::fmt::Write as _;

use super::{Counting, MOST_POINTS, Workload};
use crate::{
    size::Size,
    source::{Source, TextError},
};

/// Whole elements of every type that can be measured, in bytes.
const ELEMENT: u64 = 4;

impl Workload {
    /// The file, with `comments` above it. It reads back as this workload, but for its name, which is the file's.
    ///
    /// # Errors
    /// [`TextError`]: there is nothing in it, or more than a file may hold.
    pub fn to_toml(&self, comments: &[String], file: &str) -> Result<String, TextError> {
        let mut text = String::new();
        for line in comments.iter().flat_map(|comment| comment.lines()) {
            // A comment of TOML holds no control characters but tabs.
            let plain: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            // Writing to a string cannot fail.
            writeln!(text, "# {}", plain.trim_end()).ok();
        }
        let about = toml::Value::String(self.about.clone());
        writeln!(text, "about = {about}").ok();
        if let Some(ranks) = self.ranks {
            writeln!(text, "ranks = {ranks}").ok();
        }
        let word = match self.counting {
            Counting::CallsPerStep => "per_step",
            Counting::Weights => "weight",
        };
        for (point, weight) in &self.calls {
            let (name, size) = (point.collective, Size(point.bytes));
            writeln!(text, "\n[[call]]\ncollective = \"{name}\"\nbytes = \"{size}\"\n{word} = {weight}").ok();
        }
        let read = Self::parse(&text, file)?;
        if (&read.calls, read.counting, read.ranks) != (&self.calls, self.counting, self.ranks) {
            let cause = format!("over {MOST_POINTS} sizes, or a size or number of calls that no workload has");
            return Err(Source { text: &text, file }.wrong_at(0, cause));
        }
        Ok(text)
    }
}

/// A size that can be measured with every element type: the next whole number of elements.
pub fn whole_elements(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ELEMENT).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*, sample::select};

    use super::*;
    use crate::vocab::{Collective, Point};

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            about in "\\PC{0,40}",
            comment in "\\PC{0,40}\n?[\\x00-\\x1f]{0,3}",
            counts: bool,
            ranks in proptest::option::of(1_u64..1 << 40),
            calls in btree_map((select(Collective::ALL.to_vec()), 1_u64..1 << 40), 0.001_f64..1e6, 1..20),
        ) {
            let calls = calls.into_iter().map(|((collective, bytes), calls)| (Point { collective, bytes }, calls)).collect();
            let counting = if counts { Counting::CallsPerStep } else { Counting::Weights };
            let workload = Workload { name: "job".to_owned(), about, counting, ranks, calls };
            let text = workload.to_toml(&[comment], "job.toml").unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(Workload::parse(&text, "job.toml"), Ok(workload));
        }
    }

    #[test]
    fn nothing_is_no_file() {
        let empty = Workload {
            name: "x".to_owned(),
            about: String::new(),
            counting: Counting::Weights,
            ranks: None,
            calls: Vec::new(),
        };
        let error = empty.to_toml(&[], "x.toml").unwrap_err().to_string();
        assert!(error.contains("a workload without calls"), "{error}");
        assert_eq!([0, 1, 4, 6, u64::MAX].map(whole_elements), [0, 4, 4, 8, u64::MAX]);
    }
}
