//! The streams of a shell on a host: what it says between lines with the marker, and what it says beside that.

use std::{
    io::{self, Cursor},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::launcher::{AgentOutput, AgentProcess, AgentStdin, Ended, Launched};

/// Most output before an answer that we take, in bytes; login files may be chatty.
const MAX_OUTPUT: usize = 256 << 10;
/// Most of that which is passed on as log lines.
const KEPT_NOISE: usize = 32 << 10;
/// Time for the end of a shell whose output has ended, and for its last words.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How a shell ended.
#[derive(Debug)]
pub(in crate::launcher) struct LastWords {
    pub(in crate::launcher) ended: Ended,
    /// What it said on standard error, or else on standard output; not empty, one line.
    pub(in crate::launcher) said: String,
}

/// The streams of a shell, with what was read of them: `out` without what was taken as an answer.
pub(super) struct Shell {
    stdin: Option<AgentStdin>,
    stdout: Option<AgentOutput>,
    stderr: Option<AgentOutput>,
    out: Vec<u8>,
    err: Vec<u8>,
    process: Box<dyn AgentProcess>,
    /// Lines for the log about what was done there.
    notes: Vec<String>,
}

impl Shell {
    pub(super) fn new(launched: Launched) -> Self {
        let Launched { stdin, stdout, stderr, process } = launched;
        let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
        Self { stdin, stdout, stderr, out: vec![], err: vec![], process, notes: vec![] }
    }

    /// Keeps a line for the log.
    pub(super) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Writes, and reads meanwhile: a shell that fails says why, and reads no more.
    pub(super) async fn say(&mut self, bytes: &[u8]) {
        let Some(mut stdin) = self.stdin.take() else { return };
        let written = {
            let write = async {
                stdin.write_all(bytes).await?;
                stdin.flush().await
            };
            let mut write = std::pin::pin!(write);
            loop {
                tokio::select! {
                    written = &mut write => break written,
                    is_open = read(&mut self.stdout, &mut self.out) => if !is_open { break Err(io::ErrorKind::BrokenPipe.into()) },
                    _ = read(&mut self.stderr, &mut self.err), if self.stderr.is_some() => {}
                }
            }
        };
        if written.is_ok() {
            self.stdin = Some(stdin);
        }
    }

    /// Reads until there is an answer: the lines between the markers. What came before it stays, as noise.
    pub(super) async fn answer(&mut self, marker: &str) -> Option<Vec<String>> {
        loop {
            if let Some(Answer { lines, start, end }) = between_markers(&self.out, marker) {
                self.out.drain(start..end);
                return Some(lines);
            }
            if self.out.len() > MAX_OUTPUT {
                return None;
            }
            tokio::select! {
                is_open = read(&mut self.stdout, &mut self.out) => if !is_open { return None },
                _ = read(&mut self.stderr, &mut self.err), if self.stderr.is_some() => {}
            }
        }
    }

    /// Waits for the end, and reads what there is to read.
    pub(super) async fn last_words(&mut self) -> LastWords {
        self.stdin = None;
        let ended = timeout(END_TIMEOUT, self.process.wait()).await;
        let rest = async { while read(&mut self.stderr, &mut self.err).await && self.err.len() < MAX_OUTPUT {} };
        timeout(END_TIMEOUT, rest).await.ok();
        let ended = ended.unwrap_or_else(|_elapsed| Ended::Unknown("still running".to_owned()));
        LastWords {
            ended,
            said: excerpt(&self.err).or_else(|| excerpt(&self.out)).unwrap_or("it said nothing".to_owned()),
        }
    }

    /// Ends what runs there.
    pub(super) async fn close(self) {
        drop(self.stdin);
        self.process.close().await;
    }

    /// The streams as if nothing had been read that is not ours, with our notes; nothing where one of them has ended.
    pub(super) fn launched(self) -> Option<Launched> {
        let Self { stdin, stdout, stderr, mut out, mut err, process, notes } = self;
        out.drain(..out.len().saturating_sub(KEPT_NOISE));
        if !err.is_empty() && !err.ends_with(b"\n") {
            err.push(b'\n');
        }
        err.extend(notes.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()));
        Some(Launched {
            stdin: stdin?,
            stdout: Box::new(Cursor::new(out).chain(stdout?)),
            stderr: Box::new(Cursor::new(err).chain(stderr.unwrap_or_else(|| Box::new(tokio::io::empty())))),
            process,
        })
    }
}

/// Reads some bytes; `false` is the end, and the end of the stream here.
async fn read(stream: &mut Option<AgentOutput>, into: &mut Vec<u8>) -> bool {
    let Some(reader) = stream else { return false };
    // A broken stream has said what it had to say.
    let is_open = reader.read_buf(into).await.is_ok_and(|count| count > 0);
    if !is_open {
        *stream = None;
    }
    is_open
}

/// An answer and the bytes that it takes up.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    lines: Vec<String>,
    start: usize,
    end: usize,
}

/// The lines between the two marker lines. A shell that echoes its commands echoes more than the marker on the line.
fn between_markers(output: &[u8], marker: &str) -> Option<Answer> {
    let mut start = None;
    let mut found = Vec::new();
    let mut at = 0;
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let line_start = at;
        at += line.len();
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n")?);
        let text = text.trim_end_matches('\r');
        match start {
            None if text.strip_suffix(" begin") == Some(marker) => start = Some(line_start),
            None => {}
            Some(start) if text.strip_suffix(" end") == Some(marker) => {
                return Some(Answer { lines: found, start, end: at });
            }
            Some(_) => found.push(text.to_owned()),
        }
    }
    None
}

/// The last words of a stream, in one line.
fn excerpt(words: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    let text: String = last.chars().filter(|c| !c.is_control()).take(600).collect();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_noise() {
        let noisy = "Welcome\n+ printf '%s begin' M\nM begin\r\nplace\nplace=/h/.cache\nM end\nbye";
        let answer = between_markers(noisy.as_bytes(), "M").unwrap();
        assert_eq!(answer.lines, ["place", "place=/h/.cache"]);
        let rest = [&noisy[..answer.start], &noisy[answer.end..]].concat();
        assert_eq!(rest, "Welcome\n+ printf '%s begin' M\nbye");
        for unfinished in ["M begin\nplace", "M begin\nplace\nM end", "place\nM end\n"] {
            assert_eq!(between_markers(unfinished.as_bytes(), "M"), None, "{unfinished}");
        }
    }

    #[test]
    fn last_words_are_one_line() {
        assert_eq!(excerpt(b"a\n\nb\x1b[1m\nc\nd\ne\n").unwrap(), "b[1m / c / d / e");
        assert_eq!(excerpt(b" \n"), None);
    }
}
