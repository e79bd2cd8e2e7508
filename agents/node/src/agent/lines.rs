//! Cuts what a worker prints into lines of bounded length and bounded rate.
//!
//! A library in debug mode prints megabytes; neither the agent nor the channel to gdrtune may drown in it. The last lines
//! before the end always get through, because they say why a worker died. No IO; time is a value.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Longest line in bytes; the rest of it is left out. NCCL's own limit for one log line is 2048 (`src/debug.cc`).
const LINE_BYTES: usize = 2048;

/// Lines that may come at once.
const BURST_LINES: u32 = 200;

/// Time that earns one more line: 100 lines a second.
const TIME_PER_LINE: Duration = Duration::from_millis(10);

/// Lines over the rate that are kept in case they are the last ones.
const TAIL_LINES: usize = 20;

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// Bytes of the unfinished line that are left out.
    partial_lost: usize,
    credit: u32,
    credited_at: Instant,
    dropped: u64,
    tail: VecDeque<String>,
}

impl Lines {
    /// A stream that starts now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            partial: vec![],
            partial_lost: 0,
            credit: BURST_LINES,
            credited_at: now,
            dropped: 0,
            tail: VecDeque::new(),
        }
    }

    /// Takes bytes of the stream and returns the lines that may pass.
    pub(super) fn feed(&mut self, now: Instant, bytes: &[u8]) -> Vec<String> {
        self.earn(now);
        let mut passed = vec![];
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = LINE_BYTES - self.partial.len();
            let (kept, lost) = text.split_at(text.len().min(room));
            self.partial.extend_from_slice(kept);
            self.partial_lost += lost.len();
            if ended {
                let line = self.take_line();
                self.admit(line, &mut passed);
            }
        }
        passed
    }

    /// Ends the stream and returns its last lines.
    pub(super) fn finish(mut self) -> Vec<String> {
        let mut passed = vec![];
        if !self.partial.is_empty() {
            let line = self.take_line();
            self.admit(line, &mut passed);
        }
        let lost = self.dropped - self.tail.len() as u64;
        passed.extend(left_out(lost));
        passed.extend(self.tail);
        passed
    }

    fn take_line(&mut self) -> String {
        let mut line = String::from_utf8_lossy(&self.partial).trim_end_matches('\r').to_owned();
        if self.partial_lost > 0 {
            line = format!("{line} [{} more bytes]", self.partial_lost);
        }
        self.partial.clear();
        self.partial_lost = 0;
        line
    }

    fn earn(&mut self, now: Instant) {
        let earned = now.saturating_duration_since(self.credited_at).as_nanos() / TIME_PER_LINE.as_nanos();
        if earned > 0 {
            self.credit = u32::try_from(earned).map_or(BURST_LINES, |n| self.credit.saturating_add(n).min(BURST_LINES));
            self.credited_at = now;
        }
    }

    fn admit(&mut self, line: String, passed: &mut Vec<String>) {
        if self.credit == 0 {
            self.dropped += 1;
            self.tail.push_back(line);
            if self.tail.len() > TAIL_LINES {
                self.tail.pop_front();
            }
            return;
        }
        self.credit -= 1;
        passed.extend(left_out(self.dropped));
        self.dropped = 0;
        self.tail.clear();
        passed.push(line);
    }
}

fn left_out(lines: u64) -> Option<String> {
    (lines > 0).then(|| format!("[{lines} lines left out: more than {} a second]", 1000 / TIME_PER_LINE.as_millis()))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// How a stream is cut into reads does not show, and nothing of it grows beyond its bounds.
        #[test]
        fn pieces_do_not_show(pieces in vec(vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40), 0..40)) {
            let now = Instant::now();
            let (mut whole, mut cut) = (Lines::new(now), Lines::new(now));
            let mut expected = whole.feed(now, &pieces.concat());
            expected.extend(whole.finish());
            let mut passed: Vec<String> = pieces.iter().flat_map(|piece| cut.feed(now, piece)).collect();
            prop_assert!(cut.partial.len() <= LINE_BYTES && cut.tail.len() <= TAIL_LINES);
            passed.extend(cut.finish());
            prop_assert!(passed.len() <= BURST_LINES as usize + TAIL_LINES + 1);
            prop_assert_eq!(passed, expected);
        }
    }

    #[test]
    fn joins_pieces_and_cuts_long_lines() {
        let now = Instant::now();
        let mut lines = Lines::new(now);
        assert_eq!(lines.feed(now, b"one\ntw"), ["one"]);
        assert_eq!(lines.feed(now, b"o\r\n\nbad \xff\n"), ["two", "", "bad \u{fffd}"]);
        assert!(lines.feed(now, &[b'x'; 5000]).is_empty());
        assert!(lines.feed(now, &vec![b'x'; 1_000_000]).is_empty());
        assert!(lines.partial.len() <= LINE_BYTES);
        let long = format!("{} [1002952 more bytes]", "x".repeat(LINE_BYTES));
        assert_eq!(lines.feed(now, b"\nend"), [long]);
        assert_eq!(lines.finish(), ["end"]);
    }

    #[test]
    fn a_flood_is_cut_but_its_last_words_are_heard() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        let flood = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let passed = lines.feed(start, flood.as_bytes());
        assert_eq!((passed.len(), passed.last().map(String::as_str)), (200, Some("199")));

        // Half a second earns 50 lines.
        let passed = lines.feed(start + Duration::from_millis(500), flood.as_bytes());
        assert_eq!(passed.len(), 51);
        assert_eq!(passed[0], "[800 lines left out: more than 100 a second]");
        assert_eq!(passed[50], "49");

        let last = lines.finish();
        assert_eq!(last.len(), 21);
        assert_eq!(last[0], "[930 lines left out: more than 100 a second]");
        assert_eq!((last[1].as_str(), last[20].as_str()), ("980", "999"));
    }
}
