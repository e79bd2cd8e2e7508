//! What launchers are told of the environment: `srun --export`, `mpirun -x`, `docker run -e`.

use std::collections::BTreeSet;

use super::lexer::Word;
use crate::{
    grammar::is_variable_name,
    lint::{
        Taken, Which,
        file::{Noticed, Reach, Read, Setting},
        names,
    },
};

/// What the script's launchers hand on by name.
#[derive(Default)]
pub(super) struct Launches {
    named: BTreeSet<String>,
    /// Lines of Open MPI's launchers with what each hands on.
    open_mpi: Vec<(usize, BTreeSet<String>)>,
}

impl Launches {
    /// Whether a launcher hands `name` on.
    pub(super) fn names(&self, name: &str) -> bool {
        self.named.contains(name)
    }

    /// Open MPI takes along what `-x` names; where it names some of NCCL's, the others were forgotten.
    pub(super) fn judge(&self, read: &mut Read) {
        for (line, handed) in &self.open_mpi {
            if !handed.iter().any(|name| names::is_ours(name)) {
                continue;
            }
            let forgotten: BTreeSet<String> = read
                .settings
                .iter()
                .filter(|setting| setting.line < *line && setting.is_for_all())
                .filter(|setting| names::is_ours(&setting.name) && !handed.contains(&setting.name))
                .map(|setting| setting.name.clone())
                .collect();
            for name in forgotten {
                read.remark(*line, Noticed::NotForwarded, name);
            }
        }
    }
}

/// Whether a program starts jobs on nodes or GPUs.
pub(super) fn is_launcher(program: &str) -> bool {
    const LAUNCHERS: &[&str] = &[
        "srun",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "prterun",
        "jsrun",
        "torchrun",
        "deepspeed",
        "accelerate",
    ];
    LAUNCHERS.contains(&program)
}

/// The command that a program runs in its own place, without that program's options: `srun x` of `timeout -k 5 1h srun x`.
pub(super) fn wrapped(command: &[Word]) -> Option<&[Word]> {
    let (program, mut rest) = command.split_first()?;
    // Options whose value is a word of its own, and words before the command (timeout(1), nice(1), stdbuf(1), nohup(1) of coreutils 9.4;
    // setsid(1), ionice(1), taskset(1) of util-linux 2.39; numactl(8)).
    let (valued, operands): (&[&str], usize) = match program.base() {
        "timeout" => (&["-k", "--kill-after", "-s", "--signal"], 1),
        "nice" => (&["-n", "--adjustment"], 0),
        "ionice" => (&["-c", "--class", "-n", "--classdata"], 0),
        "stdbuf" => (&["-i", "--input", "-o", "--output", "-e", "--error"], 0),
        "numactl" => (&["-C", "--physcpubind", "-N", "--cpunodebind", "-m", "--membind", "-i", "--interleave"], 0),
        "taskset" => (&[], 1),
        "nohup" | "setsid" => (&[], 0),
        _ => return None,
    };
    while let Some((option, after)) = rest.split_first().filter(|(word, _)| word.text.starts_with('-')) {
        let words = usize::from(valued.contains(&option.text.as_str()));
        rest = after.get(words..).unwrap_or_default();
        if option.text == "--" {
            break;
        }
    }
    rest.get(operands..).filter(|wrapped| !wrapped.is_empty())
}

/// The options of `env`, which take variables away; the words after them.
pub(super) fn env<'w>(read: &mut Read, words: &'w [Word]) -> &'w [Word] {
    let mut take = |line, which| read.taken.push(Taken { line, is_for_command: true, which });
    let mut begins_empty = None;
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.text.as_str() {
            "-" | "-i" | "--ignore-environment" => begins_empty = Some(word.line),
            "-u" | "--unset" | "-C" | "--chdir" => {
                let Some((value, after)) = rest.split_first() else { break };
                rest = after;
                if matches!(word.text.as_str(), "-u" | "--unset") {
                    take(value.line, Which::Name(value.text.clone()));
                }
            }
            "--" => break,
            text if text.starts_with('-') => {
                if let Some(name) = text.strip_prefix("--unset=").or_else(|| text.strip_prefix("-u")) {
                    take(word.line, Which::Name(name.to_owned()));
                }
            }
            _ => {
                rest = &words[words.len() - after.len() - 1..];
                break;
            }
        }
    }
    if let Some(line) = begins_empty {
        let given = rest.iter().map_while(|word| Some(word.assignment()?.0.to_owned()));
        take(line, Which::AllBut(given.collect()));
    }
    rest
}

/// What a launcher's `env` does: `srun -n 8 env NAME=VALUE program`.
fn env_of_launched(read: &mut Read, program: &str, arguments: &[Word], block: usize) {
    let is_env = |word: &Word| word.text == "env" || word.text.starts_with('/') && word.base() == "env";
    let Some(at) = arguments.iter().position(is_env).filter(|_| !matches!(program, "echo" | "printf")) else { return };
    for word in env(read, &arguments[at + 1..]) {
        let Some((name, value)) = word.assignment() else { break };
        let (is_constant, reach) = (word.is_constant, Reach::Command(word.line));
        read.settings.push(Setting { is_constant, reach, block, ..Setting::exported(name, value, word.line) });
    }
}

pub(super) fn read(read: &mut Read, launches: &mut Launches, program: &str, arguments: &[Word], block: usize) {
    let line = arguments.first().map_or(1, |word| word.line);
    let mut push = |name: &str, value: &str, word: &Word| {
        launches.named.insert(name.to_owned());
        let (is_constant, reach) = (word.is_constant, Reach::Command(line));
        read.settings.push(Setting { is_constant, reach, block, ..Setting::exported(name, value, word.line) });
    };
    let mut handed = BTreeSet::new();
    let mut exports: Vec<(usize, String, bool)> = Vec::new();
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let (option, inline) = match word.text.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            _ => (word.text.as_str(), None),
        };
        match (option, inline, after.first()) {
            ("--export", Some(list), _) => exports.push((word.line, list, word.is_constant)),
            ("--export", None, Some(list)) => exports.push((word.line, list.text.clone(), list.is_constant)),
            ("--env", Some(pair), _) => {
                if let Some((name, value)) = pair.split_once('=') {
                    push(name, value, word);
                }
            }
            ("-genv" | "-env", None, Some(name)) if after.len() > 1 && !name.text.contains('=') => {
                push(&name.text, &after[1].text, &after[1]);
            }
            ("-x" | "-e" | "--env" | "-genv" | "-env", None, Some(pair)) => match pair.text.split_once('=') {
                Some((name, value)) => {
                    push(name, value, pair);
                    if option == "-x" {
                        handed.insert(name.to_owned());
                    }
                }
                None if option == "-x" => {
                    handed.insert(pair.text.clone());
                }
                None => {}
            },
            _ => {}
        }
    }
    if matches!(program, "mpirun" | "mpiexec" | "orterun" | "prterun") {
        launches.open_mpi.push((line, handed));
    }
    if matches!(program, "srun" | "sbatch" | "salloc") {
        for (line, list, is_constant) in exports {
            if program == "srun" && is_constant {
                leave_out(read, line, &list);
            }
            export(read, launches, line, &list, (is_constant, block));
        }
    }
    env_of_launched(read, program, arguments, block);
}

/// `srun --export` without `ALL` takes along what it names (srun(1), "--export").
fn leave_out(read: &mut Read, line: usize, list: &str) {
    let named: BTreeSet<String> =
        list.split(',').map(|part| part.split('=').next().unwrap_or_default().to_owned()).collect();
    if !named.contains("ALL") {
        read.taken.push(Taken { line, is_for_command: true, which: Which::AllBut(named) });
    }
}

/// `--export=ALL,NAME=VALUE,NAME`; a value in single quotes may have commas (srun(1), "--export").
fn export(read: &mut Read, launches: &mut Launches, line: usize, list: &str, (is_constant, block): (bool, usize)) {
    let mut is_first_quoted = false;
    let parts: Vec<&str> = list
        .split(|c: char| {
            is_first_quoted ^= c == '\'';
            c == ',' && !is_first_quoted
        })
        .collect();
    let is_all = parts.iter().any(|part| *part == "ALL" || *part == "NIL");
    let mut sets_ours = false;
    let mut set_before: Option<String> = None;
    for part in &parts {
        if let Some((name, value)) = part.split_once('=') {
            let value = value.trim_matches('\'');
            launches.named.insert(name.to_owned());
            sets_ours |= names::is_ours(name);
            set_before = names::is_ours(name).then(|| name.to_owned());
            let setting = Setting::exported(name, value, line);
            read.settings.push(Setting { is_constant, reach: Reach::Command(line), block, ..setting });
        } else if let Some(name) = &set_before
            && !(part.len() > 2 && is_variable_name(part) && !part.contains(|c: char| c.is_ascii_lowercase()))
        {
            read.remark(line, Noticed::ExportComma, name.clone());
            set_before = None;
        } else {
            launches.named.insert((*part).to_owned());
        }
    }
    if sets_ours && !is_all {
        read.remark(line, Noticed::ExportDropsRest, format!("--export={}", list.escape_debug()));
    }
}
