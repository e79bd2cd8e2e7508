//! JSON log lines on standard error: `{"level":"info","text":"..."}`.
//!
//! Never blocks: a line that does not fit into the queue is lost, because a stuck log must not keep workers alive.

use std::{fs::File, io, time::Duration};

use super::outbox::Outbox;

/// Bytes of log lines that may wait.
const LIMIT_BYTES: usize = 256 << 10;

/// How important a line is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The agent's log.
#[derive(Debug)]
pub(super) struct Log(Outbox);

impl Log {
    /// Logs to `target`.
    pub(super) fn start(target: File) -> io::Result<Self> {
        Ok(Self(Outbox::start("log", target, LIMIT_BYTES)?))
    }

    /// Writes one line, if there is room.
    pub(super) fn write(&self, level: Level, text: &str) {
        let line = format!("{{\"level\":\"{}\",\"text\":\"{}\"}}\n", level.name(), escape(text));
        // Where the log itself fails there is no place left to say so.
        self.0.push(line.into_bytes()).ok();
    }

    /// Writes what waits, for a short time.
    pub(super) fn finish(&self, limit: Duration) {
        self.0.finish(limit);
    }
}

/// The inside of a JSON string (RFC 8259, section 7).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            control if control < ' ' => {
                let code = u32::from(control);
                escaped.push_str("\\u00");
                escaped.extend([code >> 4, code & 15].into_iter().filter_map(|digit| char::from_digit(digit, 16)));
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_json_demands() {
        for (text, expected) in [
            ("plain é", "plain é"),
            ("a \"b\" \\ c", "a \\\"b\\\" \\\\ c"),
            ("1\n2\t3\r4\x1b[0m\0", "1\\n2\\t3\\u000d4\\u001b[0m\\u0000"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }
}
