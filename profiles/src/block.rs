//! A profile's settings as a marked block within a file of the user's: job script, shell file, `nccl.conf`, environment file or
//! Dockerfile.
//!
//! A file is bytes: it may be in any encoding that has ASCII in it, and nothing outside of the block is looked at but lines'
//! beginnings. What is put in can be taken out again, and leaves the very bytes that were there. It does no IO.

mod conflicts;
mod place;
mod unified;

use std::ops::Range;

use sha2::{Digest as _, Sha256};

pub use conflicts::{Conflict, conflicts};
pub use place::Place;
pub use unified::unified;

/// How the first line of a block begins. It says what not to do, since people find it in their scripts.
const BEGIN: &str = "# gdrtune: begin of managed block, sha256 ";
const BEGIN_TAIL: &str = "; run gdrtune apply again, or take these lines out with --remove: edits are overwritten";
/// The last line.
const END: &str = "# gdrtune: end of managed block";
/// What every line that could be a mark begins with.
const MARK: &[u8] = b"# gdrtune: ";

/// A file that cannot hold a block, or whose marks make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {cause}")]
pub struct BlockError {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: BlockCause,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockCause {
    /// A second block.
    #[error("a second managed block begins here, after that of line {0}: take one of them out by hand")]
    Second(usize),
    /// A block in a block.
    #[error("a managed block begins within that of line {0}: an end mark is missing, or the marks are nested")]
    Nested(usize),
    /// A block without an end.
    #[error("the managed block that begins here has no end mark (`{END}`)")]
    Unclosed,
    /// An end without a block.
    #[error("a managed block ends here that never began")]
    NeverBegan,
    /// No text that a block fits in.
    #[error("a NUL byte: the file is no text in an encoding with ASCII in it (UTF-16?)")]
    Nul,
    /// No place for it.
    #[error("{0}")]
    NoPlace(&'static str),
    /// A script whose lines end in CRLF.
    #[error("the line ends in CRLF: a shell takes the carriage return as part of the last word, in the block as well")]
    CarriageReturn,
    /// A block in a place that nobody reads.
    #[error("the managed block does nothing here: {0}")]
    Unrun(String),
}

/// A block in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its bytes, with both marks and the line break after the second one.
    pub bytes: Range<usize>,
    /// Its lines, counted from 1, both ends included.
    pub lines: (usize, usize),
    /// Whether what is between the marks is as gdrtune wrote it.
    pub is_untouched: bool,
    /// Whether a line of it ends in CRLF.
    has_crlf: bool,
    /// What is between the marks, with LF line breaks.
    body: Vec<u8>,
}

/// How a file's block is to what a profile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Missing,
    /// It says the same.
    Current,
    /// It says what another profile, or another gdrtune, made of it.
    Stale,
    /// Somebody edited it.
    Edited,
}

/// Looks for the block of `file` in its `bytes`.
///
/// # Errors
/// [`BlockError`]: marks that do not pair, or bytes that are no text.
pub fn find(bytes: &[u8], file: &str) -> Result<Option<Found>, BlockError> {
    let error = |line, cause| BlockError { file: file.to_owned(), line, cause };
    let mut begin: Option<(usize, usize, &[u8])> = None;
    let mut found: Option<Found> = None;
    for (idx, (start, line)) in lines(bytes).enumerate() {
        let number = idx + 1;
        if line.contains(&0) {
            return Err(error(number, BlockCause::Nul));
        }
        let bare = without_break(line);
        if !bare.starts_with(MARK) {
            continue;
        }
        if let Some(rest) = bare.strip_prefix(BEGIN.as_bytes()) {
            if let Some((first, ..)) = begin {
                return Err(error(number, BlockCause::Nested(first)));
            }
            if let Some(found) = &found {
                return Err(error(number, BlockCause::Second(found.lines.0)));
            }
            begin = Some((number, start, rest.split(|b| *b == b';').next().unwrap_or_default()));
        } else if bare == END.as_bytes() {
            let Some((first, from, hash)) = begin.take() else { return Err(error(number, BlockCause::NeverBegan)) };
            let inner = lines(&bytes[from..start]).skip(1);
            let body: Vec<u8> = inner.flat_map(|(_, line)| [without_break(line), b"\n"].concat()).collect();
            found = Some(Found {
                bytes: from..start + line.len(),
                lines: (first, number),
                is_untouched: hash == fingerprint(&body).as_bytes(),
                has_crlf: lines(&bytes[from..start]).any(|(_, line)| line.ends_with(b"\r\n")),
                body,
            });
        }
    }
    match begin {
        Some((first, ..)) => Err(error(first, BlockCause::Unclosed)),
        None => Ok(found),
    }
}

/// What a file's block is to the text that a profile gives.
pub fn state(place: Place, found: Option<&Found>, text: &str) -> State {
    match found {
        None => State::Missing,
        Some(found) if !found.is_untouched => State::Edited,
        Some(found) if found.has_crlf && !place.takes_crlf() => State::Stale,
        Some(found) if found.body == text.as_bytes() => State::Current,
        Some(_) => State::Stale,
    }
}

/// Why a block in this file, `found` where it has one, does not do what it says.
///
/// # Errors
/// [`BlockError`] with the line.
pub fn check_place(bytes: &[u8], place: Place, found: Option<&Found>, file: &str) -> Result<(), BlockError> {
    place.obstacle(bytes, found).map_or(Ok(()), |(line, cause)| Err(BlockError { file: file.to_owned(), line, cause }))
}

/// The file with `text` as its block: in the place of the one that it has, else where it belongs.
///
/// # Errors
/// [`BlockError`] as of [`find`] and [`check_place`], or where there is no place for it.
pub fn apply(bytes: &[u8], place: Place, text: &str, file: &str) -> Result<Vec<u8>, BlockError> {
    let found = find(bytes, file)?;
    check_place(bytes, place, found.as_ref(), file)?;
    let line_break = match &found {
        _ if !place.takes_crlf() => b"\n",
        Some(found) => break_of(&bytes[found.bytes.clone()]),
        None => break_of(bytes),
    };
    let block = block(text, line_break);
    let Some(found) = found else {
        let at = place.insertion(bytes).map_err(|(line, cause)| BlockError { file: file.to_owned(), line, cause })?;
        let is_unended = at == bytes.len() && !bytes.is_empty() && !bytes.ends_with(b"\n");
        // The last line gets a line break, and the block has none at its end: so it is told from one that ended with one.
        let inserted = if is_unended { [line_break, &block[..block.len() - line_break.len()]].concat() } else { block };
        return Ok([&bytes[..at], &inserted, &bytes[at..]].concat());
    };
    let has_break = bytes[found.bytes.clone()].ends_with(b"\n");
    let block = if has_break { &block[..] } else { &block[..block.len() - line_break.len()] };
    Ok([&bytes[..found.bytes.start], block, &bytes[found.bytes.end..]].concat())
}

/// The file without its block: the bytes that were there before it was put in.
pub fn remove(bytes: &[u8], found: &Found) -> Vec<u8> {
    let mut before = &bytes[..found.bytes.start];
    let is_unended = found.bytes.end == bytes.len() && !bytes.ends_with(b"\n");
    if is_unended {
        before = before.strip_suffix(break_of(&bytes[found.bytes.clone()])).unwrap_or(before);
    }
    [before, &bytes[found.bytes.end..]].concat()
}

fn block(text: &str, line_break: &[u8]) -> Vec<u8> {
    let begin = format!("{BEGIN}{}{BEGIN_TAIL}", fingerprint(text.as_bytes()));
    let lines = [begin.as_str()].into_iter().chain(text.lines()).chain([END]);
    lines.flat_map(|line| [line.as_bytes(), line_break].concat()).collect()
}

/// 64 bits of a text's hash: it tells of edits, not of forgery.
fn fingerprint(body: &[u8]) -> String {
    let hash = Sha256::digest(body)[..8].iter().fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    format!("{hash:016x}")
}

/// The lines with where they start, each with its line break.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes.split_inclusive(|b| *b == b'\n').scan(0, |start, line| {
        let at = *start;
        *start += line.len();
        Some((at, line))
    })
}

/// A line without its LF or CRLF.
fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// How the first line of a file ends.
fn break_of(bytes: &[u8]) -> &'static [u8] {
    let is_crlf = lines(bytes).next().is_some_and(|(_, line)| line.ends_with(b"\r\n"));
    if is_crlf { b"\r\n" } else { b"\n" }
}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
