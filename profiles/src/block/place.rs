//! Where a block goes: by the kind of file, and by what its reader does with settings that come twice.

use super::{BlockCause, Found, lines, without_break};
use crate::{
    emit::Format,
    lint::{Kind, Unrun, unrun},
};

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

    /// Whether lines that end in CRLF are read as those that end in LF.
    ///
    /// Sources: POSIX.1-2017, Shell Command Language, 2.3; NCCL `src/misc/param.cc` (`setEnvFile`), which drops a carriage return at 2.30
    /// and not at 2.29.7; `BuildKit` `frontend/dockerfile/parser/parser.go` (`trimNewline`); Go's `bufio.ScanLines`, by which docker reads
    /// environment files, and systemd's `parse_env_file`.
    pub(super) const fn takes_crlf(self) -> bool {
        match self {
            Self::Shell | Self::Batch | Self::NcclConf => false,
            Self::Env | Self::Dockerfile => true,
        }
    }

    /// The line and cause for which a block here, `found` where there is one, does not do what it says.
    pub(super) fn obstacle(self, bytes: &[u8], found: Option<&Found>) -> Option<(usize, BlockCause)> {
        let unrun = match self {
            Self::Shell | Self::Batch => unrun(&String::from_utf8_lossy(bytes)),
            Self::Dockerfile => inside_instructions(bytes),
            Self::NcclConf | Self::Env => return None,
        };
        let why = |line: usize| unrun.iter().find(|unrun| (unrun.lines.0..=unrun.lines.1).contains(&line));
        if let Some((line, unrun)) = found.and_then(|found| Some((found.lines.0, why(found.lines.0)?))) {
            return Some((line, BlockCause::Unrun(unrun.why.clone())));
        }
        // In a here-document they are data.
        let mut crlf = lines(bytes).zip(1..).filter(|((_, line), _)| line.ends_with(b"\r\n")).map(|(_, line)| line);
        let line = crlf.find(|line| why(*line).is_none()).filter(|_| !self.takes_crlf())?;
        Some((line, BlockCause::CarriageReturn))
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

/// A line of a Dockerfile.
struct DockerLine {
    /// Where its text ends, with its line break.
    end: usize,
    /// Counted from 1.
    number: usize,
    what: DockerPart,
}

/// What a line of a Dockerfile is.
enum DockerPart {
    /// A comment, or nothing.
    Comment {
        /// Whether it says that another character than the backslash continues lines.
        other_escape: bool,
        /// The line of the instruction that goes on around it.
        within: Option<usize>,
    },
    /// A part of the here-document of the instruction in that line.
    Text(usize),
    /// An instruction, or one that goes on.
    Instruction { keyword: Vec<u8>, goes_on: bool },
}

/// The lines of a Dockerfile as `BuildKit` cuts it.
fn docker_lines(bytes: &[u8]) -> Vec<DockerLine> {
    // The instruction that goes on, with its line, and the words that end the texts in it.
    let mut open: Option<(Vec<u8>, usize)> = None;
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut begun = 0;
    let mut is_top = true;
    let part = |(idx, (start, line)): (usize, (usize, &[u8]))| {
        let text = without_break(line).trim_ascii();
        let (end, number) = (start + line.len(), idx + 1);
        if let Some(word) = texts.first() {
            if text == word.as_slice() {
                texts.remove(0);
            }
            return DockerLine { end, number, what: DockerPart::Text(begun) };
        }
        is_top &= text.starts_with(b"#");
        if text.starts_with(b"#") || text.is_empty() {
            let other_escape = is_top && is_escape_directive(text);
            let within = open.as_ref().map(|(_, line)| *line);
            return DockerLine { end, number, what: DockerPart::Comment { other_escape, within } };
        }
        let (keyword, first) = open.take().unwrap_or_else(|| {
            let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            (word.to_ascii_uppercase(), number)
        });
        if [&b"RUN"[..], b"COPY", b"ADD"].contains(&keyword.as_slice()) {
            texts.extend(heredocs(text));
            begun = first;
        }
        let goes_on = text.ends_with(b"\\");
        open = goes_on.then(|| (keyword.clone(), first));
        DockerLine { end, number, what: DockerPart::Instruction { keyword, goes_on } }
    };
    lines(bytes).enumerate().map(part).collect()
}

/// The end of the last `FROM` of a Dockerfile.
fn after_from(bytes: &[u8]) -> Result<usize, (usize, BlockCause)> {
    let mut end = None;
    for line in docker_lines(bytes) {
        match line.what {
            DockerPart::Comment { other_escape: true, .. } => {
                let why =
                    "the Dockerfile has another escape character than the backslash, which the block is written with";
                return Err((line.number, BlockCause::NoPlace(why)));
            }
            DockerPart::Instruction { keyword, goes_on: false } if keyword == b"FROM" => end = Some(line.end),
            _ => {}
        }
    }
    end.ok_or((1, BlockCause::NoPlace("there is no FROM, and ENV comes after one")))
}

/// Lines in which a block would be a part of an instruction.
fn inside_instructions(bytes: &[u8]) -> Vec<Unrun> {
    let of_line = |line: DockerLine| {
        let (what, first) = match line.what {
            DockerPart::Text(first) => ("here-document of the instruction", first),
            DockerPart::Comment { within: Some(first), .. } => ("instruction", first),
            _ => return None,
        };
        let why = format!("it is in the {what} that begins in line {first}");
        Some(Unrun { lines: (line.number, line.number), why })
    };
    docker_lines(bytes).into_iter().filter_map(of_line).collect()
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
