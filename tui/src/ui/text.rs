//! Numbers and texts for people: fixed widths, units, no clipped words without a sign of it.

use gdrtune_session::event::Failure;
use ratatui::text::Span;

/// Columns that a text takes on the terminal.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, or its beginning and `ellipsis` if it is wider than `columns`.
pub(crate) fn fit(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(ellipsis));
    let mut fitted = String::new();
    let mut used = 0;
    let mut utf8 = [0; 4];
    for c in text.chars() {
        let columns = width(c.encode_utf8(&mut utf8));
        if used + columns > room {
            break;
        }
        used += columns;
        fitted.push(c);
    }
    if columns > 0 {
        fitted.push_str(ellipsis);
    }
    fitted
}

/// The end of a text, as much as fits into so many columns.
pub(crate) fn fit_end(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut utf8 = [0; 4];
    let is_wide_enough = |(_, c): &(usize, char)| {
        used += width(c.encode_utf8(&mut utf8));
        used <= columns
    };
    let start = text.char_indices().rev().take_while(is_wide_enough).last().map_or(text.len(), |(start, _)| start);
    text.get(start..).unwrap_or_default()
}

/// The text with every control character, line breaks too, as a space.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text as a field of a CSV file.
pub(crate) fn csv_field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Breaks a text into lines of at most `columns`, at spaces. Lists of hosts that are wider than a line are broken after commas; other words,
/// as paths and values, are not, since somebody may paste them.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let is_list = |word: &str| word.contains(',') && !word.contains(['=', '/', '`']);
    let pieces = text.split_whitespace().flat_map(|word| {
        let is_broken = columns < width(word) && is_list(word);
        let parts: Vec<&str> = if is_broken { word.split_inclusive(',').collect() } else { vec![word] };
        parts.into_iter().enumerate().map(|(number, part)| (part, number == 0))
    });
    for (word, is_first) in pieces {
        let needed = width(word) + usize::from(is_first && !line.is_empty());
        if !line.is_empty() && width(&line) + needed > columns {
            lines.push(std::mem::take(&mut line));
        }
        if is_first && !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Lines that fit so many columns: those that are too wide go on below, indented.
pub(crate) fn fit_lines(text: &str, columns: usize) -> String {
    let mut fitted = String::new();
    for line in text.lines() {
        if width(line) <= columns {
            fitted.extend([line, "\n"]);
            continue;
        }
        let indent = (line.len() - line.trim_start().len()).min(columns / 2);
        let room = columns.saturating_sub(indent + 2).max(1);
        for (number, part) in wrap_commands(line, room).iter().enumerate() {
            let blanks = if number == 0 { indent } else { indent + 2 };
            fitted.extend([" ".repeat(blanks).as_str(), part, "\n"]);
        }
    }
    fitted
}

/// The same as [`wrap`], but what is between backquotes is a command, for a terminal to take: it is never broken. One that is too wide for any line
/// has one of its own, without the backquotes.
pub(crate) fn wrap_commands(text: &str, columns: usize) -> Vec<String> {
    /// Stands for a blank that is no place to break at; of a blank's width.
    const FIXED: char = '\u{e000}';
    /// What may follow a command in a sentence.
    const MARKS: [char; 4] = [',', ';', '.', ')'];
    let mut lines: Vec<String> = Vec::new();
    let mut prose = String::new();
    // What one opens and none closes is no command.
    let quotes = text.matches('`').count();
    let last = if quotes.is_multiple_of(2) { quotes } else { quotes - 1 };
    for (number, part) in text.splitn(last + 1, '`').enumerate() {
        let is_command = number % 2 == 1;
        if is_command && width(part) + 3 <= columns {
            prose.extend(["`", &part.replace(' ', &FIXED.to_string()), "`"]);
        } else if is_command {
            lines.extend(wrap(&std::mem::take(&mut prose), columns));
            lines.push(part.to_owned());
        } else if prose.is_empty() && number > 0 {
            prose.push_str(part.trim_start_matches(MARKS));
        } else {
            prose.push_str(part);
        }
    }
    lines.extend(wrap(&prose, columns));
    lines.retain(|line| !line.is_empty());
    lines.iter().map(|line| line.replace(FIXED, " ")).collect()
}

/// `1:23` or `2:03:04`.
pub(crate) fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// How long ago something was: `5 min ago`, `3 days ago`.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Microseconds, one decimal.
pub(crate) fn microseconds(us: f64) -> String {
    format!("{us:.1}")
}

/// GB/s in four columns or a little more: three digits that count.
pub(crate) fn bandwidth(gbs: f64) -> String {
    match gbs {
        v if v < 0.995 => format!("{v:.3}"),
        v if v < 99.95 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// `1.42x`.
pub(crate) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// A duration axis label: `10us`, `2ms`, `1s`.
pub(crate) fn duration_label(us: f64) -> String {
    match us {
        v if v < 1e3 => format!("{}us", trim(v)),
        v if v < 1e6 => format!("{}ms", trim(v / 1e3)),
        v => format!("{}s", trim(v / 1e6)),
    }
}

/// A number without needless zeros, three decimals at most.
pub(crate) fn trim(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number of what has this index, for people: they count from 1.
pub(crate) fn nth(index: impl Into<u64>) -> u64 {
    // A stored run may say anything.
    index.into().saturating_add(1)
}

/// Says `1 node`, `4 nodes`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A kind of failure in words.
pub(crate) const fn failure_name(kind: Failure) -> &'static str {
    match kind {
        Failure::Wrong => "wrong result",
        Failure::Hung => "hung",
        Failure::Crashed => "crashed",
        Failure::Unsupported => "unsupported",
        Failure::Substituted => "substituted",
        Failure::Skipped => "skipped",
    }
}

/// `4 nodes, 32 ranks`.
pub(crate) fn shape(n_nodes: u32, n_ranks: u32) -> String {
    [count(u64::from(n_nodes), "node"), count(u64::from(n_ranks), "rank")].join(", ")
}

/// Files of one folder as `folder: a b c`, the first few of many by name.
pub(crate) fn fold_files(files: &[String]) -> String {
    /// A run writes some twenty; the first are those that most jobs take.
    const MOST_NAMES: usize = 6;
    let split = |file: &str| match file.rsplit_once('/') {
        Some((folder, name)) => (folder.to_owned(), name.to_owned()),
        None => (".".to_owned(), file.to_owned()),
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (folder, name) in files.iter().map(|f| split(f)) {
        match groups.iter_mut().find(|g| g.0 == folder) {
            Some(group) => group.1.push(name),
            None => groups.push((folder, vec![name])),
        }
    }
    let folded = |(folder, names): &(String, Vec<String>)| match names.len() {
        // One more name takes no more room than saying that there is one more.
        count if MOST_NAMES + 1 < count => {
            format!("{folder}: {} and {} more", names[..MOST_NAMES].join(" "), count - MOST_NAMES)
        }
        _ => format!("{folder}: {}", names.join(" ")),
    };
    groups.iter().map(folded).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_not_broken() {
        for (text, columns, expected) in [
            (
                "load it: `modprobe nvidia-peermem`, then look",
                30,
                &["load it:", "`modprobe nvidia-peermem`,", "then look"][..],
            ),
            (
                "load it: `modprobe nvidia-peermem`, then look",
                20,
                &["load it:", "modprobe nvidia-peermem", "then look"],
            ),
            ("`a  b`; or `c d`", 40, &["`a  b`; or `c d`"]),
            ("`for b in 1 2 3; do x; done`", 10, &["for b in 1 2 3; do x; done"]),
            ("an odd ` is kept", 10, &["an odd `", "is kept"]),
            ("", 10, &[]),
        ] {
            assert_eq!(wrap_commands(text, columns), expected, "{text}");
        }
    }

    #[test]
    fn wide_lines_go_on_below() {
        let text = "short\n  warning: node[1,3,5,7],gpu[2,4] are slow: see a/very/long/path/to/a/file.txt\n";
        assert_eq!(
            fit_lines(text, 24),
            "short\n  warning: node[1,3,5,\n    7],gpu[2,4] are\n    slow: see\n    a/very/long/path/to/a/file.txt\n"
        );
        assert_eq!(fit_lines(text, 80), text);
    }

    #[test]
    fn texts_fit_by_columns_not_by_characters() {
        for (text, columns, expected) in [
            ("node01", 6, "node01"),
            ("node01", 5, "node…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("a", 0, ""),
            ("ab", 1, "…"),
        ] {
            assert_eq!(fit(text, columns, "…"), expected, "{text} {columns}");
        }
    }

    #[test]
    fn of_a_text_that_is_too_long_its_end_is_kept() {
        for (text, columns, expected) in [
            ("node01", 6, "node01"),
            ("node01", 2, "01"),
            ("日本語", 5, "本語"),
            ("日本語", 1, ""),
            ("ab", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(fit_end(text, columns), expected, "{text} {columns}");
        }
    }

    #[test]
    fn lines_break_at_spaces() {
        for (text, columns, expected) in [
            ("one two three", 7, vec!["one two", "three"]),
            ("one two three", 80, vec!["one two three"]),
            ("unbreakable x", 4, vec!["unbreakable", "x"]),
            ("", 4, vec![""]),
        ] {
            assert_eq!(wrap(text, columns), expected, "{text}");
        }
    }

    #[test]
    fn numbers_have_units_and_few_digits() {
        assert_eq!(clock(83_400), "1:23");
        assert_eq!(clock(7_384_000), "2:03:04");
        let ages = [59, 60, 3_599, 3_600, 172_799, 172_800].map(ago);
        assert_eq!(ages, ["just now", "1 min ago", "59 min ago", "1 h ago", "47 h ago", "2 days ago"]);
        assert_eq!([0.0123, 0.9949, 1.0, 12.345, 123.45].map(bandwidth), ["0.012", "0.995", "1.00", "12.35", "123.5"]);
        assert_eq!([20.0, 500.0, 1000.0, 2e6].map(duration_label), ["20us", "500us", "1ms", "2s"]);
        assert_eq!((count(1, "node"), count(2, "node")), ("1 node".to_owned(), "2 nodes".to_owned()));
    }

    #[test]
    fn files_are_folded_by_folder() {
        let files = ["out/a", "out/b", "c"].map(String::from);
        assert_eq!(fold_files(&files), "out: a b; .: c");
        let many = |count: u32| fold_files(&(0..count).map(|n| format!("o/{n}")).collect::<Vec<_>>());
        assert_eq!((many(7).as_str(), many(8).as_str()), ("o: 0 1 2 3 4 5 6", "o: 0 1 2 3 4 5 and 2 more"));
    }
}
