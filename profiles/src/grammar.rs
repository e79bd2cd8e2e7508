//! Our implementation of the grammars that receive what we emit, that users' own files are written in, and that others tell
//! of machines in.
//!
//! Each module reads what its receiver reads, and where the receiver would quietly misread a text, says so instead.
//! Nothing here touches a file or the process environment.

pub mod algo;
pub mod dockerfile;
pub mod env_file;
pub mod hca;
pub mod ifname;
pub mod nccl_conf;
pub mod nccl_log;
pub mod nccl_topo;
pub mod ncclx;
pub mod open_mpi;
pub mod shell;
pub mod smi_log;
pub mod smi_topo;
pub mod topo_file;
pub mod tuner_csv;
pub mod ucc;
mod xml;
pub mod yaml;

/// Whether `name` is a portable variable name: a letter or `_`, then letters, digits and `_` (POSIX.1, "Name").
pub(crate) fn is_variable_name(name: &str) -> bool {
    let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.bytes().all(is_name_byte)
}

/// Without what makes a terminal underline: `ESC [ ... letter`.
pub(crate) fn without_escapes(line: &str) -> String {
    let mut rest = line.chars();
    let mut kept = String::with_capacity(line.len());
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            kept.push(c);
        }
    }
    kept
}

/// One piece of a text as C's `fgets` with a buffer of `most_bytes + 1` hands it out.
pub(crate) struct Piece<'a> {
    /// The line that it lies in, counted from 1.
    pub(crate) line: usize,
    /// Whether the line was too long and this is not its beginning.
    pub(crate) is_continuation: bool,
    /// The text without its LF, cut at the first NUL; a character that was cut in two is replaced.
    pub(crate) text: std::borrow::Cow<'a, str>,
}

/// The pieces that `fgets` reads from `text`: lines, and where a line is longer than `most_bytes`, its parts.
pub(crate) fn fgets_pieces(text: &str, most_bytes: usize) -> impl Iterator<Item = Piece<'_>> {
    text.split_inclusive('\n').enumerate().flat_map(move |(line_idx, line)| {
        line.as_bytes().chunks(most_bytes).enumerate().filter_map(move |(chunk_idx, chunk)| {
            // A line of exactly `most_bytes` leaves its LF for the next call, which every reader skips as a blank line.
            if 0 < chunk_idx && chunk == b"\n" {
                return None;
            }
            let bytes = chunk.strip_suffix(b"\n").unwrap_or(chunk);
            let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(bytes);
            Some(Piece { line: line_idx + 1, is_continuation: 0 < chunk_idx, text })
        })
    })
}
