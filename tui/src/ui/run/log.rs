//! The log of a run: its last lines.

use std::collections::VecDeque;

use gdrtune_session::event::Level;

/// Log lines that are kept. Older ones are in the run store.
const MAX_LOG_LINES: usize = 10_000;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) t_ms: u64,
    pub(crate) level: Level,
    /// Empty for gdrtune itself.
    pub(crate) host: String,
    pub(crate) text: String,
}

/// The last lines, numbered from the first one of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Log {
    lines: VecDeque<LogLine>,
    n_forgotten: usize,
}

impl Log {
    /// Adds a line and forgets the oldest one if there are too many.
    pub(crate) fn push(&mut self, line: LogLine) {
        if self.lines.len() == MAX_LOG_LINES {
            self.lines.pop_front();
            self.n_forgotten += 1;
        }
        self.lines.push_back(line);
    }

    /// The number after that of the last line.
    pub(crate) fn end(&self) -> usize {
        self.n_forgotten + self.lines.len()
    }

    /// The number of the oldest line that is kept.
    pub(crate) const fn start(&self) -> usize {
        self.n_forgotten
    }

    /// A line by its number.
    pub(crate) fn get(&self, number: usize) -> Option<&LogLine> {
        self.lines.get(number.checked_sub(self.n_forgotten)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_forgets_its_oldest_lines_and_keeps_its_numbers() {
        let mut log = Log::default();
        for t_ms in 0..=MAX_LOG_LINES as u64 {
            log.push(LogLine { t_ms, level: Level::Info, host: String::new(), text: String::new() });
        }
        assert_eq!((log.start(), log.end()), (1, MAX_LOG_LINES + 1));
        assert_eq!((log.get(0), log.get(1).map(|l| l.t_ms)), (None, Some(1)));
    }
}
