//! Reads `nccl.conf` as NCCL does, and keeps going where [`crate::grammar::nccl_conf`] leaves a line out.

use super::file::{Noticed, Read, Setting};
use crate::grammar::{
    fgets_pieces, is_variable_name,
    nccl_conf::{LONGEST_LINE, LONGEST_VALUE},
};

pub(super) fn read(text: &str) -> Read {
    let mut read = Read::default();
    for piece in fgets_pieces(text, LONGEST_LINE) {
        if piece.is_continuation {
            read.remark(piece.line, Noticed::TooLong, "the line is longer than 4095 bytes");
            continue;
        }
        let line = piece.text.strip_suffix('\r').unwrap_or(&piece.text);
        if !line.starts_with('#') && !line.trim().is_empty() {
            setting(&mut read, piece.line, line);
        }
    }
    read
}

fn setting(read: &mut Read, line: usize, text: &str) {
    let is_indented_comment = text.trim_start().starts_with('#');
    let Some((name, value)) = text.split_once('=') else {
        // Skipped, as a comment is.
        if is_indented_comment {
            return;
        }
        return read.remark(line, Noticed::NoEquals, text.trim().escape_debug().to_string());
    };
    if is_indented_comment {
        return read.remark(line, Noticed::CommentInValue, "the indented comment sets a variable");
    }
    let mut bare = name.trim();
    if let Some(rest) = bare.strip_prefix("export").filter(|rest| rest.starts_with(char::is_whitespace)) {
        bare = rest.trim();
        read.remark(line, Noticed::Export, bare.escape_debug().to_string());
    } else if bare != name || value.trim() != value {
        read.remark(line, Noticed::BlankAtEquals, bare.escape_debug().to_string());
    }
    if LONGEST_VALUE < value.len() || LONGEST_VALUE < name.len() {
        read.remark(line, Noticed::TooLong, "the name or value is longer than 1023 bytes");
    }
    let mut value = value;
    if let Some((before, _)) = value.split_once(" #") {
        read.remark(line, Noticed::CommentInValue, "the comment becomes part of the value");
        value = before;
    }
    if is_variable_name(bare) {
        // What was meant is looked at, so that one slip does not hide the next.
        read.settings.push(Setting::exported(bare, value.trim(), line));
    }
}
