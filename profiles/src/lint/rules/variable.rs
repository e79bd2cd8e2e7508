//! Rules about one variable and its value, whatever it is for.

use super::{Check, Hit, LintFile, Options, Rule, Setting, Wrong};
use crate::{
    knob::{self, Kind, Knob},
    lint::names::{self, Standing},
    profile::Class,
};

pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "misspelt-variable",
        "a variable that nobody reads, and whose name is nearly that of one",
        "NCCL ignores names that it does not know, without a word; names are case-sensitive.",
        "NCCL docs/userguide/source/env.rst; NCCL_PARAM in src",
        Check::Setting(misspelt),
    ),
    Rule::note(
        "unknown-variable",
        "a variable named like NCCL's that no NCCL from 2.4 to 2.30 reads",
        "Either something else reads it, or nothing does.",
        "NCCL_PARAM, ncclGetEnv and getenv in NCCL's sources at every release",
        Check::Setting(unknown),
    ),
    Rule::warning(
        "renamed-variable",
        "a variable that was renamed, replaced or removed",
        "Old names are ignored, or give way to the new ones.",
        "NCCL docs/userguide/source/env.rst; PyTorch ProcessGroupNCCL.hpp",
        Check::Setting(renamed),
    ),
    Rule::warning(
        "not-in-this-version",
        "a variable that the jobs' NCCL does not read yet (with --nccl-version)",
        "It is ignored without a word.",
        "NCCL docs/userguide/source/env.rst, `since`",
        Check::Setting(not_yet),
    ),
    Rule::warning(
        "measured-with-another-version",
        "settings whose comment says that they were measured with another NCCL (with --nccl-version)",
        "Defaults and algorithms move between releases: such settings are hints to measure, not to keep.",
        "openxla/xla issue 32970, ROCm/rocm-systems issue 11253",
        Check::File(other_version),
    ),
    Rule::error(
        "value-out-of-domain",
        "a value that the variable does not take",
        "NCCL falls back to the default or takes something else, with a line in its log at best.",
        "NCCL docs/userguide/source/env.rst; src/misc/param.cc",
        Check::Setting(out_of_domain),
    ),
    Rule::warning(
        "number-with-rest",
        "a number with a unit or other text behind it",
        "NCCL reads numbers with strtoll and ignores the rest: 22s is 22, and 4M is 4.",
        "NCCL src/misc/param.cc",
        Check::Setting(number_with_rest),
    ),
    Rule::warning(
        "empty-value",
        "a variable that is set to nothing",
        "NCCL takes an empty text for a value, or for a number that it cannot read.",
        "NCCL src/misc/param.cc",
        Check::Setting(empty),
    ),
    Rule::error(
        "quoted-value",
        "quotes that become part of the value",
        "nccl.conf and docker know no quotes (systemd removes them from its environment files), and no value of NCCL's has one.",
        "NCCL src/misc/param.cc; docker/cli pkg/kvfile",
        Check::Setting(quoted),
    ),
    Rule::error(
        "not-expanded",
        "a `$` in a file that nobody expands, or a `~` that NCCL does not",
        "nccl.conf, environment files and NCCL itself take both as they are.",
        "NCCL src/misc/param.cc; env.rst, NCCL_DEBUG_FILE",
        Check::File(not_expanded),
    ),
    Rule::warning(
        "relative-path",
        "a file that is looked for in the working directory of each rank",
        "Ranks may start in other folders; a tuner file that is not there is no error, and leaves one channel for every call.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::Setting(relative_path),
    ),
    Rule::error(
        "file-missing",
        "a file that is not on this machine (with --check-paths)",
        "NCCL warns at best and goes on without it.",
        "NCCL src/graph/xml.cc; plugins/tuner/example/plugin.c",
        Check::Setting(missing),
    ),
    Rule::warning(
        "debugging-variable",
        "a variable that NCCL's manual calls one for debugging, without a comment that gives evidence",
        "The manual wants these removed again: a later release may choose better by itself. A comment on the line or right above it that names a measurement, a version or an issue is taken as evidence.",
        "NCCL docs/userguide/source/env.rst, `Debugging`",
        Check::File(debugging),
    )
    .general(),
    Rule::note(
        "hard-export",
        "a script with three or more exports that override what the user has set",
        "Nobody can try another value without editing the script.",
        "AMD-AGI/Primus issue 466",
        Check::File(hard_export),
    )
    .general(),
];

/// Rules of their own look closer at these.
const SPECIAL: &[&str] = &["NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"];

fn misspelt(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let name = &setting.name;
    match names::standing(name) {
        Standing::Near(near) => Some((format!("nobody reads {name}; it is nearly {near}"), format!("write {near}"))),
        Standing::Known | Standing::Unknown => None,
    }
}

fn unknown(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    (names::standing(&setting.name) == Standing::Unknown).then(|| {
        let fix = "remove it, or check who reads it";
        (format!("no NCCL from 2.4 to 2.30 reads {}", setting.name), fix.to_owned())
    })
}

fn renamed(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let renamed = names::RENAMED.iter().find(|renamed| renamed.name == setting.name)?;
    Some((format!("{} {}", renamed.name, renamed.fate), format!("use {} instead", renamed.instead)))
}

fn not_yet(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let version = options.version?;
    let since = knob::knob(&setting.name)?.since.filter(|since| version < *since)?;
    let message =
        format!("{} is read since NCCL {}.{}, and the jobs have {version}", setting.name, since.major, since.minor);
    Some((message, "remove it, or update NCCL".to_owned()))
}

/// Our own files say `NCCL 2.28.9` in their head.
fn other_version(file: &LintFile<'_>, options: &Options<'_>, hits: &mut Vec<Hit>) {
    let Some(version) = options.version else { return };
    for (idx, line) in file.lines.iter().enumerate() {
        let comment = line.trim_start();
        if !comment.starts_with('#') || !comment.contains("measured with") {
            continue;
        }
        let word = comment.split("NCCL ").nth(1).unwrap_or_default();
        let word = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: &str = word.split([';', ',', ' ', ')']).next().unwrap_or_default();
        let Ok(measured) = number.parse::<crate::version::Version>() else { continue };
        if (measured.major, measured.minor) != (version.major, version.minor) {
            let message = format!("measured with NCCL {measured}, and the jobs have {version}");
            hits.push(Hit::new(
                idx + 1,
                (message, "measure again with the jobs' NCCL, as gdrtune verify does".to_owned()),
            ));
        }
    }
}

fn is_integer(kind: Kind) -> bool {
    matches!(kind, Kind::Flag | Kind::Int { .. } | Kind::Bytes { .. })
        || matches!(kind, Kind::Word(words) if words.iter().all(|word| word.bytes().all(|b| b.is_ascii_digit())))
}

/// The knob and its constant value, if no other rule has that value for itself.
fn plain(setting: &Setting) -> Option<(&'static Knob, &str)> {
    let value = setting.constant()?;
    let has_rule = value.is_empty() || value.contains(['"', '\'', '$']) || SPECIAL.contains(&setting.name.as_str());
    let is_level = super::network::is_level_digit(setting);
    if has_rule || is_level { None } else { Some((knob::knob(&setting.name)?, value)) }
}

/// Whether a value begins as a number, and something else follows.
fn has_rest(value: &str) -> bool {
    let bare = value.strip_prefix('-').unwrap_or(value);
    if let Some(hex) = bare.strip_prefix("0x").or_else(|| bare.strip_prefix("0X")) {
        return !hex.bytes().all(|b| b.is_ascii_hexdigit());
    }
    bare.starts_with(|c: char| c.is_ascii_digit()) && !bare.bytes().all(|b| b.is_ascii_digit())
}

fn out_of_domain(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let (knob, value) = plain(setting)?;
    if is_integer(knob.kind) && has_rest(value) {
        return None;
    }
    let error = knob.check(value).err()?;
    Some((format!("{} cannot be `{}`", error.name, error.shown), error.cause))
}

fn number_with_rest(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let (knob, value) = plain(setting)?;
    if !is_integer(knob.kind) || !has_rest(value) {
        return None;
    }
    let number: String = value.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    let message = format!("NCCL reads {} as {number}: `{}` has more than a number", knob.name, value.escape_debug());
    let fix = match crate::size::parse_size(value) {
        Ok(bytes) if matches!(knob.kind, Kind::Bytes { .. }) => format!("write {bytes}"),
        _ => format!("write {number} if that is meant"),
    };
    Some((message, fix))
}

fn empty(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = setting.constant()?;
    value.is_empty().then(|| (format!("{} is set to nothing", setting.name), "unset it, or leave it out".to_owned()))
}

fn quoted(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let value = setting.constant()?;
    let bare = value.trim_matches(['"', '\'']);
    (bare.len() != value.len()).then(|| {
        let message = format!("the quotes are part of the value of {}", setting.name);
        (message, format!("write {}={}", setting.name, bare.escape_debug()))
    })
}

fn not_expanded(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    use crate::lint::Kind::{Env, NcclConf};
    let is_plain_file = matches!(file.kind, Env | NcclConf);
    for setting in file.settings.iter().filter(|setting| setting.is_constant) {
        let value = setting.value.as_str();
        // A shell expands a tilde that is not quoted.
        let is_quoted_tilde =
            value.starts_with('~') && (file.kind != crate::lint::Kind::Shell || is_quoted_in(file, setting));
        let special = match value {
            _ if is_plain_file && value.contains('$') => '$',
            _ if is_quoted_tilde => '~',
            _ => continue,
        };
        let message = format!("nobody expands the `{special}` in the value of {}", setting.name);
        hits.push(Hit::new(setting.line, (message, "write the value out".to_owned())));
    }
}

fn is_quoted_in(file: &LintFile<'_>, setting: &Setting) -> bool {
    let line = file.lines.get(setting.line - 1).copied().unwrap_or_default();
    ["\"~", "'~"].iter().any(|quoted| line.contains(&format!("{}={quoted}", setting.name)))
}

/// Variables that name a file which every rank opens.
const FILES: &[&str] = &["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_TUNER_CONFIG_FILE"];

fn file_name(setting: &Setting) -> Option<&str> {
    let value = setting.constant()?;
    let is_file = FILES.contains(&setting.name.as_str()) && !value.is_empty() && !value.starts_with('~');
    (is_file && !value.contains(['$', '"', '\''])).then_some(value)
}

fn relative_path(setting: &Setting, _: &Options<'_>) -> Option<Wrong> {
    let path = file_name(setting)?;
    (!path.starts_with('/')).then(|| {
        let message = format!("{} is looked for in the working directory of each rank", setting.name);
        (message, format!("write an absolute path that ends in {}", path.escape_debug()))
    })
}

fn missing(setting: &Setting, options: &Options<'_>) -> Option<Wrong> {
    let path = file_name(setting)?;
    let exists = options.exists?;
    (!exists(path)).then(|| {
        let message = format!("{} names {}, which is not there", setting.name, path.escape_debug());
        (message, "name a file that every node has, or leave the variable out".to_owned())
    })
}

/// What a comment has to hold to count as evidence for a debugging setting.
fn is_evidence(comment: &str) -> bool {
    const WORDS: &[&str] =
        &["measured", "faster", "slower", "re-check", "%", "http", "issue", " bug", "hangs", "crash", "nccl 2."];
    let lower = comment.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

fn debugging(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    for setting in &file.settings {
        let is_debugging = knob::knob(&setting.name).is_some_and(|knob| knob.class == Class::Debugging);
        if !is_debugging || file.comments(setting.line).any(is_evidence) {
            continue;
        }
        let message = format!("NCCL's manual has {} for debugging, not to be kept", setting.name);
        let fix = "remove it, or say in a comment above it what it gains, with which NCCL";
        hits.push(Hit::new(setting.line, (message, fix.to_owned())));
    }
}

fn hard_export(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    use crate::lint::file::Reach::Exported;
    if file.kind != crate::lint::Kind::Shell {
        return;
    }
    let mut hard = file.settings.iter().filter(|setting| setting.reach == Exported && setting.block == 0);
    if let (Some(first), Some(_), Some(_)) = (hard.next(), hard.next(), hard.next()) {
        let message = "these exports override what the user has set".to_owned();
        let fix = format!(": \"${{{}:=...}}\"; export {}, and so on", first.name, first.name);
        hits.push(Hit::new(first.line, (message, format!("write {fix}"))));
    }
}
