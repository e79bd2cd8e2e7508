//! Reads `NAME=VALUE` lines: environment files of docker, and what `env` prints, also for several ranks
//! (`srun --label env`: `3: NAME=VALUE`).

use super::file::{Noticed, Read, Setting};
use crate::grammar::is_variable_name;

/// Variables that a process has and an environment file has not.
const OF_A_PROCESS: &[&str] =
    &["PATH", "HOME", "PWD", "HOSTNAME", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Whether a text is nothing but such lines.
pub(super) fn is_env(text: &str) -> bool {
    let mut lines =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let is_setting = |line: &str| {
        let (_, rest) = labelled(line);
        rest.split_once('=').is_some_and(|(name, _)| is_variable_name(name.trim_start()))
    };
    lines.peek().is_some() && lines.all(is_setting)
}

pub(super) fn read(text: &str) -> Read {
    let mut read = Read::default();
    for (idx, line) in text.split('\n').enumerate() {
        let (rank, rest) = labelled(line.strip_suffix('\r').unwrap_or(line));
        let rest = rest.trim_start();
        let line = idx + 1;
        if rest.is_empty() || rest.starts_with('#') {
            continue;
        }
        // A line without `=` belongs to the value of the line before, or asks docker for its own variable.
        let Some((name, value)) = rest.split_once('=') else { continue };
        let mut bare = name.trim();
        if let Some(exported) = bare.strip_prefix("export ") {
            bare = exported.trim();
            read.remark(line, Noticed::Export, bare.escape_debug().to_string());
        } else if bare != name || value.trim() != value {
            read.remark(line, Noticed::BlankAtEquals, bare.escape_debug().to_string());
        }
        if !is_variable_name(bare) {
            continue;
        }
        read.is_dump |= rank.is_some() || OF_A_PROCESS.contains(&bare);
        let mut value = value.trim();
        if let Some((before, _)) = value.split_once(" #") {
            read.remark(line, Noticed::CommentInValue, "the comment becomes part of the value");
            value = before.trim_end();
        }
        read.settings.push(Setting { rank: rank.map(str::to_owned), ..Setting::exported(bare, value, line) });
    }
    // Other programs' variables may hold anything, and are none of ours.
    let lines: Vec<usize> = read.settings.iter().filter(|s| super::names::is_ours(&s.name)).map(|s| s.line).collect();
    read.remarks.retain(|remark| lines.binary_search(&remark.line).is_ok());
    read
}

/// The rank that a line of `srun --label` begins with, and the rest.
fn labelled(line: &str) -> (Option<&str>, &str) {
    match line.split_once(": ") {
        Some((label, rest)) if !label.trim().is_empty() && label.trim().bytes().all(|b| b.is_ascii_digit()) => {
            (Some(label.trim()), rest)
        }
        _ => (None, line),
    }
}
