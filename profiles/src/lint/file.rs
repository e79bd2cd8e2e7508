//! A file as the rules see it: its settings, its lines, and what its reader noticed.

use super::{Input, Kind, Taken, dockerfile, env, kubernetes, names, nccl_conf, shell, tuner_csv};

/// A file that was read.
pub(super) struct LintFile<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// Lines without their LF.
    pub(super) lines: Vec<&'a str>,
    /// Settings of NCCL's variables, in the order of the file.
    pub(super) settings: Vec<Setting>,
    /// What only the file's grammar tells.
    pub(super) remarks: Vec<Remark>,
    /// Whether the text is one process's environment, as `env` prints it.
    pub(super) is_dump: bool,
    /// The first line that ends in CRLF.
    pub(super) first_crlf: Option<usize>,
    /// The tuner rules, where it is a tuner CSV.
    pub(super) tuner: Option<tuner_csv::TunerFile>,
}

/// A variable and its value.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) name: String,
    /// The value, without the quotes that the grammar takes away.
    pub(super) value: String,
    /// Whether the value is what is written there, and not the result of an expansion.
    pub(super) is_constant: bool,
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) reach: Reach,
    /// Which branch of the script it is in; 0 is outside of any.
    pub(super) block: usize,
    /// The rank whose environment this is, where one dump holds several (`srun --label env`).
    pub(super) rank: Option<String>,
}

/// Who gets a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Every process started after it.
    Exported,
    /// Every process, unless the variable has a value already.
    Kept,
    /// The shell alone.
    Assigned,
    /// One command, which begins in this line.
    Command(usize),
}

/// What a reader noticed that is no setting, or is wrong with one.
#[derive(Debug, Clone)]
pub(super) struct Remark {
    pub(super) line: usize,
    pub(super) what: Noticed,
    /// The variable or text that it is about.
    pub(super) about: String,
}

/// The traps of the grammars; each has a rule of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noticed {
    /// `export` where no shell reads.
    Export,
    /// A blank around `=`.
    BlankAtEquals,
    /// A comment that is read as part of a value, or as a variable.
    CommentInValue,
    /// A line that says nothing to its reader.
    NoEquals,
    /// A line or value that is cut or split.
    TooLong,
    /// A variable that no process gets.
    NotExported,
    /// `srun --export` that leaves out the environment.
    ExportDropsRest,
    /// `srun --export` with a value that has a comma.
    ExportComma,
    /// `mpirun -x` that names others, but not this variable.
    NotForwarded,
    /// `RUN export` in a Dockerfile.
    RunExport,
    /// A value in a manifest that is no string.
    NoString,
}

impl Setting {
    /// One that every process gets.
    pub(super) fn exported(name: &str, value: &str, line: usize) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        Self { name, value, is_constant: true, line, reach: Reach::Exported, block: 0, rank: None }
    }

    /// The value, where it is what is written there.
    pub(super) fn constant(&self) -> Option<&str> {
        self.is_constant.then_some(self.value.as_str())
    }

    /// Whether it is more than one command's.
    pub(super) fn is_for_all(&self) -> bool {
        !matches!(self.reach, Reach::Command(_))
    }

    /// Whether both can hold in the same process.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let is_same_command = match (self.reach, other.reach) {
            (Reach::Command(ours), Reach::Command(theirs)) => ours == theirs,
            _ => true,
        };
        is_same_command && self.rank == other.rank && (self.block == other.block || self.block == 0 || other.block == 0)
    }
}

/// What a reader makes of a text.
#[derive(Default)]
pub(super) struct Read {
    pub(super) settings: Vec<Setting>,
    pub(super) remarks: Vec<Remark>,
    /// What is taken out of the environment again.
    pub(super) taken: Vec<Taken>,
    pub(super) is_dump: bool,
}

impl Read {
    /// The text as what it is.
    pub(super) fn of(input: Input<'_>) -> (Kind, Self) {
        let kind = input.kind.unwrap_or_else(|| Kind::of(input.name, input.text));
        let read = match kind {
            Kind::Shell => shell::read(input.text),
            Kind::NcclConf => nccl_conf::read(input.text),
            Kind::Env => env::read(input.text),
            Kind::Dockerfile => dockerfile::read(input.text),
            Kind::Kubernetes => kubernetes::read(input.text),
            Kind::TunerCsv | Kind::Other => Self::default(),
        };
        (kind, read)
    }

    /// Keeps what is about NCCL.
    fn relevant(mut self) -> Self {
        self.settings.retain(|setting| names::is_ours(&setting.name));
        self
    }

    pub(super) fn remark(&mut self, line: usize, what: Noticed, about: impl Into<String>) {
        self.remarks.push(Remark { line, what, about: about.into() });
    }
}

impl<'a> LintFile<'a> {
    pub(super) fn read(input: Input<'a>) -> Self {
        let (kind, read) = Read::of(input);
        let Read { settings, remarks, is_dump, .. } = read.relevant();
        let tuner = (kind == Kind::TunerCsv).then(|| tuner_csv::TunerFile::read(input.text));
        let lines = input.text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        let first_crlf = input.text.find("\r\n").map(|at| input.text[..at].matches('\n').count() + 1);
        Self { name: input.name, kind, lines, settings, remarks, is_dump, first_crlf, tuner }
    }

    /// Whether a comment on the line, or right above it, lets this rule's finding be: `gdrtune-lint: allow RULE[,RULE]`.
    pub(super) fn allows(&self, line: usize, rule: &str) -> bool {
        const MARK: &str = "gdrtune-lint: allow ";
        self.comments(line).any(|comment| {
            let ids = comment.split_once(MARK).map_or("", |(_, ids)| ids);
            ids.split(|c: char| c == ',' || c.is_whitespace()).any(|id| id == rule)
        })
    }

    /// The comment lines right above a line, and what follows ` #` on it.
    pub(super) fn comments(&self, line: usize) -> impl Iterator<Item = &'a str> {
        let above = self.lines[..(line - 1).min(self.lines.len())].iter().rev().copied();
        let above = above.map(str::trim_start).take_while(|text| text.starts_with('#'));
        let own = self.lines.get(line - 1).and_then(|text| text.split_once(" #")).map(|(_, comment)| comment);
        own.into_iter().chain(above)
    }

    /// Settings of one of `names` whose value is what is written there.
    pub(super) fn constants(&self, names: &[&str]) -> impl Iterator<Item = (&Setting, &str)> {
        let listed = self.settings.iter().filter(move |setting| names.contains(&setting.name.as_str()));
        listed.filter_map(|setting| Some((setting, setting.constant()?)))
    }
}
