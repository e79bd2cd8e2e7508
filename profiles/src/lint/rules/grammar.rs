//! Rules about what the grammar of a file does with what was written; its reader notices.

use super::{Check, Hit, LintFile, Options, Rule};
use crate::lint::{Kind, file::Noticed};

pub(super) const RULES: &[Rule] = &[
    Rule::error(
        "export-in-file",
        "`export` in nccl.conf or an environment file",
        "No shell reads these: the word becomes part of the name.",
        "NCCL src/misc/param.cc; docker/cli pkg/kvfile",
        Check::Noticed(Noticed::Export, "`export` becomes part of the name of {}", "remove the word `export`"),
    ),
    Rule::error(
        "blank-at-equals",
        "blanks around `=`, or at the end of a value",
        "nccl.conf and environment files keep them in the name or value; in a shell nothing is set.",
        "NCCL src/misc/param.cc; POSIX.1-2017, Shell Command Language, 2.9.1",
        Check::Noticed(
            Noticed::BlankAtEquals,
            "the blanks around the `=` or value of {} are not ignored",
            "write {}=VALUE without blanks",
        ),
    ),
    Rule::error(
        "comment-not-alone",
        "a comment behind a value, or an indented one in nccl.conf",
        "A comment has a line for itself, in nccl.conf from its first column on; else it is part of the value.",
        "NCCL src/misc/param.cc; docker/cli pkg/kvfile",
        Check::Noticed(Noticed::CommentInValue, "{}", "put the comment on a line of its own, from column 0 on"),
    ),
    Rule::warning(
        "no-equals",
        "a line of nccl.conf without `=`",
        "NCCL skips it without a word.",
        "NCCL src/misc/param.cc",
        Check::Noticed(
            Noticed::NoEquals,
            "NCCL skips this line: it has no `=`",
            "write NAME=VALUE, or put # before it",
        ),
    ),
    Rule::error(
        "line-too-long",
        "a line that its reader splits, or a value that it cuts",
        "NCCL reads 4095 bytes of a line of nccl.conf, and keeps 1023 of a name or value; the example tuner plugin reads 255.",
        "NCCL src/misc/param.cc; plugins/tuner/example/plugin.c",
        Check::File(too_long),
    ),
    Rule::error(
        "carriage-return",
        "a shell script with CRLF line ends",
        "The carriage return becomes part of each value.",
        "POSIX.1-2017, Shell Command Language, 2.3",
        Check::File(carriage_return),
    ),
    Rule::warning(
        "not-exported",
        "a shell variable that is never exported",
        "Processes get exported variables only.",
        "POSIX.1-2017, Shell Command Language, 2.12; NVIDIA/nccl issue 260",
        Check::Noticed(Noticed::NotExported, "{} stays in the shell: it is never exported", "write export {}=..."),
    ),
    Rule::error(
        "slurm-export-comma",
        "a value with a comma in `--export`",
        "Slurm takes what follows the comma for the name of another variable.",
        "srun(1), --export",
        Check::Noticed(
            Noticed::ExportComma,
            "Slurm cuts the value of {} at its comma",
            "export {} before, and write --export=ALL",
        ),
    ),
    Rule::warning(
        "slurm-export-drops",
        "`--export` with variables and without ALL",
        "Tasks then get these and Slurm's own, and nothing else that the script has exported.",
        "srun(1), --export",
        Check::Noticed(
            Noticed::ExportDropsRest,
            "{} leaves out everything else that is exported",
            "write --export=ALL,...",
        ),
    ),
    Rule::warning(
        "mpirun-not-forwarded",
        "a variable that is exported, but not among those that `mpirun -x` names",
        "Open MPI takes to other nodes only what -x names.",
        "mpirun(1), -x; NVIDIA/nccl issue 260",
        Check::Noticed(
            Noticed::NotForwarded,
            "{} may not reach other nodes: this command names others with -x",
            "add -x {}",
        ),
    ),
    Rule::warning(
        "run-export",
        "`RUN export` in a Dockerfile",
        "It ends with the shell of its own layer.",
        "docs.docker.com, Dockerfile reference, ENV",
        Check::Noticed(Noticed::RunExport, "{} is gone after this instruction", "write ENV {}=..."),
    ),
    Rule::error(
        "no-string",
        "a number or a truth value for an environment variable in a Kubernetes manifest",
        "The API server refuses the manifest: values are strings.",
        "kubernetes.io, API reference, EnvVar",
        Check::Noticed(Noticed::NoString, "the value of {} is no string to YAML", "put it into quotes"),
    ),
];

fn too_long(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let told = file.remarks.iter().filter(|remark| remark.what == Noticed::TooLong);
    hits.extend(
        told.map(|remark| Hit::new(remark.line, (format!("{}: NCCL cuts it", remark.about), "shorten it".to_owned()))),
    );
    if let Some(tuner) = &file.tuner {
        let message = || "the plugin reads what is behind 255 bytes as a line of its own".to_owned();
        hits.extend(tuner.too_long.iter().map(|line| Hit::new(*line, (message(), "shorten the line".to_owned()))));
    }
}

fn carriage_return(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    // Only where it changes something of ours.
    let is_read_so = matches!(file.kind, Kind::Shell) && !file.settings.is_empty();
    if let Some(line) = file.first_crlf.filter(|_| is_read_so) {
        let message = "the lines end in CRLF, and every value in a carriage return".to_owned();
        hits.push(Hit::new(line, (message, "save it with LF line ends (dos2unix)".to_owned())));
    }
}
