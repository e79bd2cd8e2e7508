//! Where a block goes: by the kind of file, and by what its reader does with settings that come twice.

use super::{BlockCause, lines, without_break};
use crate::{emit::Format, lint::Kind};

/// A kind of file that takes a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A shell script.
    Shell,
    /// A batch script of Slurm's.
    Batch,
    /// `nccl.conf`.
    NcclConf,
    /// An environment file.
    Env,
    /// A Dockerfile.
    Dockerfile,
}

/// How the lines begin that batch systems read: Slurm, PBS, LSF, Grid Engine, Flux, OAR, Cobalt.
const DIRECTIVES: &[&[u8]] = &[b"#SBATCH", b"#PBS", b"#BSUB", b"#$ ", b"#FLUX:", b"#flux:", b"#OAR", b"#COBALT"];
/// Shells that read what we write.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"];

impl Place {
    /// What kind of file `text` is; `kind` is the user's word.
    ///
    /// # Errors
    /// Why it takes no block.
    pub fn of(name: &str, text: &str, kind: Option<Kind>) -> Result<Self, String> {
        match kind.unwrap_or_else(|| Kind::of(name, text)) {
            Kind::Shell => {
                let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
                if let Some(other) = other_shell(name, first) {
                    return Err(format!(
                        "it is for {other}, and the block is of sh: source the emitted file from an sh script"
                    ));
                }
                let is_batch = text.lines().any(|line| line.starts_with("#SBATCH"));
                Ok(if is_batch { Self::Batch } else { Self::Shell })
            }
            Kind::NcclConf => Ok(Self::NcclConf),
            Kind::Env => Ok(Self::Env),
            Kind::Dockerfile => Ok(Self::Dockerfile),
            Kind::TunerCsv => Err("a tuner CSV is emitted whole: gdrtune emit --format tuner-csv".to_owned()),
            Kind::Kubernetes => {
                Err("a manifest takes no block: gdrtune emit --format k8s-configmap,k8s-patch".to_owned())
            }
            Kind::Other => {
                Err("it is no kind of file that takes a block; --as shell, nccl-conf, env or dockerfile says which"
                    .to_owned())
            }
        }
    }

    /// The format of the block.
    pub const fn format(self) -> Format {
        match self {
            Self::Shell => Format::Sh,
            Self::Batch => Format::Slurm,
            Self::NcclConf => Format::NcclConf,
            Self::Env => Format::Env,
            Self::Dockerfile => Format::Dockerfile,
        }
    }

    /// What lint calls it.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Shell | Self::Batch => Kind::Shell,
            Self::NcclConf => Kind::NcclConf,
            Self::Env => Kind::Env,
            Self::Dockerfile => Kind::Dockerfile,
        }
    }

    /// Where a block goes in a file that has none.
    pub(super) fn insertion(self, bytes: &[u8]) -> Result<usize, (usize, BlockCause)> {
        match self {
            Self::Shell | Self::Batch => Ok(after_directives(bytes).unwrap_or_else(|| after_opening(bytes))),
            // NCCL keeps the first value of a variable.
            Self::NcclConf => Ok(after_opening(bytes)),
            // docker and systemd keep the last.
            Self::Env => Ok(bytes.len()),
            Self::Dockerfile => after_from(bytes),
        }
    }
}

/// The shell that a script is for, where that is none of ours.
fn other_shell<'a>(name: &'a str, first_line: &'a str) -> Option<&'a str> {
    let by_name =
        name.rsplit_once('.').map(|(_, ending)| ending).filter(|ending| ["csh", "tcsh", "fish"].contains(ending));
    let Some(words) = first_line.strip_prefix("#!") else { return by_name };
    let mut words = words.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let mut program = words.next()?;
    if program == "env" {
        program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    }
    (!SHELLS.contains(&program)).then_some(program)
}

/// The end of the last directive above the first command.
fn after_directives(bytes: &[u8]) -> Option<usize> {
    let comments = lines(bytes).take_while(|(_, line)| {
        let text = line.trim_ascii_start();
        text.is_empty() || text.starts_with(b"#")
    });
    let directives = comments.filter(|(_, line)| DIRECTIVES.iter().any(|mark| line.starts_with(mark)));
    directives
        .last()
        .map(|(start, line)| start + line.len())
        .filter(|end| bytes[..*end].ends_with(b"\n") || *end == bytes.len())
}

/// The end of the comments that a file opens with, where a blank line or nothing follows them: others belong to what they stand
/// above. Behind the interpreter's line in any case.
fn after_opening(bytes: &[u8]) -> usize {
    const MARK_OF_UTF8: &[u8] = b"\xef\xbb\xbf";
    let text = bytes.strip_prefix(MARK_OF_UTF8).unwrap_or(bytes);
    let skipped = bytes.len() - text.len();
    let interpreter = lines(text).next().filter(|(_, line)| line.starts_with(b"#!")).map_or(0, |(_, line)| line.len());
    let mut end = 0;
    for (start, line) in lines(text) {
        if line.starts_with(b"#") {
            end = start + line.len();
        } else if without_break(line).trim_ascii().is_empty() {
            return skipped + end;
        } else {
            return skipped + interpreter;
        }
    }
    skipped + end
}

/// The end of the last `FROM` of a Dockerfile.
fn after_from(bytes: &[u8]) -> Result<usize, (usize, BlockCause)> {
    let mut end = None;
    // The instruction that goes on, and the words that end the texts in it.
    let mut open: Option<Vec<u8>> = None;
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut is_top = true;
    for (idx, (start, line)) in lines(bytes).enumerate() {
        let bare = without_break(line);
        let text = bare.trim_ascii();
        if let Some(word) = texts.first() {
            if text == word.as_slice() {
                texts.remove(0);
            }
            continue;
        }
        is_top &= text.starts_with(b"#");
        if is_top && is_escape_directive(text) {
            let why = "the Dockerfile has another escape character than the backslash, which the block is written with";
            return Err((idx + 1, BlockCause::NoPlace(why)));
        }
        if text.starts_with(b"#") || text.is_empty() {
            continue;
        }
        let keyword = open.take().unwrap_or_else(|| {
            let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            word.to_ascii_uppercase()
        });
        if [&b"RUN"[..], b"COPY", b"ADD"].contains(&keyword.as_slice()) {
            texts.extend(heredocs(text));
        }
        let goes_on = text.ends_with(b"\\");
        if keyword == b"FROM" && !goes_on {
            end = Some(start + line.len());
        }
        open = goes_on.then_some(keyword);
    }
    end.ok_or((1, BlockCause::NoPlace("there is no FROM, and ENV comes after one")))
}

fn is_escape_directive(text: &[u8]) -> bool {
    let Some((name, value)) = text.get(1..).and_then(|rest| {
        let at = rest.iter().position(|b| *b == b'=')?;
        Some((&rest[..at], &rest[at + 1..]))
    }) else {
        return false;
    };
    name.trim_ascii().eq_ignore_ascii_case(b"escape") && value.trim_ascii() != b"\\"
}

/// The words that end the texts which begin in this line: `<<EOF`, `<<-"EOF"`.
fn heredocs(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"<<") {
        rest = &rest[at + 2..];
        if let Some(after) = rest.strip_prefix(b"<") {
            // `<<<` is a word, not a text.
            rest = after;
            continue;
        }
        let word = rest.strip_prefix(b"-").unwrap_or(rest);
        let word = word.strip_prefix(b"\"").or_else(|| word.strip_prefix(b"'")).unwrap_or(word);
        let length = word.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        if length > 0 {
            words.push(word[..length].to_vec());
        }
    }
    words
}
