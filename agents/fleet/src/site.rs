//! Site files: what is always the same about a cluster, so that nobody has to say it again.
//!
//! ```toml
//! name = "alps"                          # default: the file's name
//! hosts = "node[01-16],root@gpu7:8"      # as -w; or a list of such texts
//! exclude = "node07"                     # as -x
//! ranks_per_node = 8
//! launcher = "ssh"                       # auto, local, ssh, slurm or exec
//! launcher_cmd = "kubectl exec -i {host} -- {agent}"     # of exec
//! ssh_config = "ssh_config"              # beside this file
//! fanout = 16
//! remote_dir = "/scratch/gdrtune"        # where the hosts keep the agent
//! agent_dir = "builds"                   # beside this file: gdrtune-aarch64, for hosts of another kind
//! nccl = "/opt/nccl/lib/libnccl.so.2"
//!
//! [environment]                          # what agents, and so all workers, find set
//! NCCL_SOCKET_IFNAME = "=bond0"
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use gdrtune_profiles::{
    nearest::nearest,
    source::{Source, TextError},
};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use toml::Spanned;

use crate::{
    fleet::variable_problem,
    hosts::{HostError, HostList, parse_list},
    launcher::LauncherCommand,
};

/// Most ranks on one host, and most launches at one time: those of the command line.
const MAX_RANKS: i64 = 1024;
const MAX_FANOUT: i64 = 512;

/// Ways to start agents, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LauncherName {
    /// What fits: Slurm within an allocation, ssh to hosts that are named, this machine without any.
    Auto,
    /// On this machine, whatever the hosts are called.
    Local,
    /// Over ssh.
    Ssh,
    /// As steps of a Slurm job.
    Slurm,
    /// By a command of the user's.
    Exec,
}

impl LauncherName {
    const ALL: [(&str, Self); 5] = [
        ("auto", Self::Auto),
        ("local", Self::Local),
        ("ssh", Self::Ssh),
        ("slurm", Self::Slurm),
        ("exec", Self::Exec),
    ];
}

impl fmt::Display for LauncherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

/// A name that is no launcher's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown launcher `{name}`: use one of auto, local, ssh, slurm, exec{}", near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct UnknownLauncher {
    name: String,
    near: Option<&'static str>,
}

impl FromStr for LauncherName {
    type Err = UnknownLauncher;

    fn from_str(text: &str) -> Result<Self, UnknownLauncher> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind);
        found.ok_or_else(|| {
            let near = nearest(text, Self::ALL.iter().map(|(name, _)| *name));
            UnknownLauncher { name: text.to_owned(), near }
        })
    }
}

/// What a site file says. Whatever it does not say is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// The cluster's name.
    pub name: String,
    /// Its hosts in rank order; none where the file names none.
    pub hosts: HostList,
    /// Hosts to leave out.
    pub excluded: HostList,
    /// Ranks on each host that does not say so itself.
    pub ranks_per_node: Option<u32>,
    /// How agents are started.
    pub launcher: Option<LauncherName>,
    /// The command of [`LauncherName::Exec`].
    pub launcher_command: Option<LauncherCommand>,
    /// ssh's configuration in place of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Launches at one time.
    pub fanout: Option<usize>,
    /// Folder on the hosts for our executable, an absolute path.
    pub remote_folder: Option<String>,
    /// Folder on this machine with builds of our executable for hosts of another kind.
    pub agent_folder: Option<PathBuf>,
    /// NCCL's library on the hosts.
    pub nccl: Option<String>,
    /// Variables that agents find.
    pub environment: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<Spanned<String>>,
    hosts: Option<Spanned<Texts>>,
    exclude: Option<Spanned<Texts>>,
    ranks_per_node: Option<Spanned<i64>>,
    launcher: Option<LauncherName>,
    launcher_cmd: Option<Spanned<String>>,
    ssh_config: Option<PathBuf>,
    fanout: Option<Spanned<i64>>,
    remote_dir: Option<Spanned<String>>,
    agent_dir: Option<PathBuf>,
    nccl: Option<String>,
    #[serde(default)]
    environment: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// One text or a list of them.
enum Texts {
    One(String),
    Many(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host list, or a list of them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Texts::Many(all))
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

impl Site {
    /// Reads a site file. `file` is its path: it names the text in messages, and relative paths begin at its folder.
    ///
    /// # Errors
    /// [`TextError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        let source = Source { text, file };
        let fields: File = source.fields(source.table()?)?;
        let command = |text: &Spanned<String>| {
            LauncherCommand::parse(text.get_ref()).map_err(|error| source.wrong(text, format!("launcher_cmd: {error}")))
        };
        let folder = |text: Spanned<String>| match folder_problem(text.get_ref()) {
            Some(problem) => Err(source.wrong(&text, format!("remote_dir: {problem}"))),
            None => Ok(text.into_inner()),
        };
        let beside = |path: PathBuf| Path::new(file).parent().unwrap_or(Path::new("")).join(path);
        Ok(Self {
            name: fields.name.map(|name| cluster_name(source, name)).transpose()?.unwrap_or_else(|| source.stem()),
            hosts: hosts(source, fields.hosts.as_ref())?,
            excluded: hosts(source, fields.exclude.as_ref())?,
            ranks_per_node: number(source, fields.ranks_per_node, MAX_RANKS)?.map(|ranks| ranks as u32),
            launcher: fields.launcher,
            launcher_command: fields.launcher_cmd.as_ref().map(command).transpose()?,
            ssh_config: fields.ssh_config.map(beside),
            fanout: number(source, fields.fanout, MAX_FANOUT)?.map(|fanout| fanout as usize),
            remote_folder: fields.remote_dir.map(folder).transpose()?,
            agent_folder: fields.agent_dir.map(beside),
            nccl: fields.nccl,
            environment: fields.environment.into_iter().map(|pair| variable(source, pair)).collect::<Result<_, _>>()?,
        })
    }
}

/// What makes a path unfit to be the folder on the hosts, if anything does.
pub fn folder_problem(path: &str) -> Option<&'static str> {
    match path {
        _ if !path.starts_with('/') => Some("the folder on the hosts needs an absolute path"),
        _ if path.contains(char::is_control) => Some("the path has control characters"),
        _ => None,
    }
}

/// A name goes into lines of text.
fn cluster_name(source: Source<'_>, name: Spanned<String>) -> Result<String, TextError> {
    let text = name.get_ref();
    if text.is_empty() || text.chars().count() > 64 || text.contains(char::is_control) {
        return Err(source.wrong(&name, "a name has 1 to 64 characters, none of them a control character"));
    }
    Ok(name.into_inner())
}

fn number(source: Source<'_>, value: Option<Spanned<i64>>, most: i64) -> Result<Option<i64>, TextError> {
    match value {
        Some(value) if !(1..=most).contains(value.get_ref()) => {
            Err(source.wrong(&value, format!("{} is out of range: use 1 to {most}", value.get_ref())))
        }
        value => Ok(value.map(Spanned::into_inner)),
    }
}

fn variable(
    source: Source<'_>,
    (name, value): (Spanned<String>, Spanned<String>),
) -> Result<(String, String), TextError> {
    match variable_problem(name.get_ref(), value.get_ref()) {
        Some(problem) => Err(source.wrong(&name, format!("{:?} cannot be set: {problem}", name.get_ref()))),
        None => Ok((name.into_inner(), value.into_inner())),
    }
}

fn hosts(source: Source<'_>, value: Option<&Spanned<Texts>>) -> Result<HostList, TextError> {
    let Some(value) = value else { return Ok(HostList::default()) };
    let texts: Vec<(&str, usize)> = match value.get_ref() {
        Texts::One(text) => vec![(text, value.span().start)],
        Texts::Many(texts) => texts.iter().map(|text| (text.get_ref().as_str(), text.span().start)).collect(),
    };
    if texts.is_empty() {
        return Ok(HostList::default());
    }
    // One list, so that a host that is in two of the texts is found.
    let joined = texts.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(",");
    parse_list(source.file, &joined).map_err(|error| locate(source, &texts, &error))
}

/// The error at its place in the file: that of the text with the column, and the column where the file has it as it is.
fn locate(source: Source<'_>, texts: &[(&str, usize)], error: &HostError) -> TextError {
    let HostError { place, problem, expected } = error;
    let mut column = place.column - 1;
    let mut found = (texts[0], 0);
    for &(text, start) in texts {
        let length = text.chars().count();
        found = ((text, start), column.min(length));
        if column <= length {
            break;
        }
        column -= length + 1;
    }
    let ((text, start), column) = found;
    let is_as_written = source.text.get(start + 1..).is_some_and(|rest| rest.starts_with(text));
    let inside = text.chars().take(column).map(char::len_utf8).sum::<usize>() + 1;
    source.wrong_at(if is_as_written { start + inside } else { start }, format!("{problem}; expected {expected}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::Host;

    #[test]
    fn everything_is_read() {
        let text = r#"
            hosts = ["node[01-02]", "root@gpu7:8"]
            exclude = "node02"
            ranks_per_node = 4
            launcher = "exec"
            launcher_cmd = "kubectl exec -i {host} -- {agent}"
            ssh_config = "ssh/config"
            fanout = 16
            remote_dir = "/scratch/g d"
            agent_dir = "builds"
            nccl = "/opt/nccl/libnccl.so.2"
            [environment]
            NCCL_SOCKET_IFNAME = "=bond0"
            A = ""
        "#;
        let site = Site::parse(text, "/etc/my cluster.toml").unwrap();
        let gpu = Host { user: Some("root".to_owned()), slots: Some(8), ..Host::named("gpu7") };
        let expected = Site {
            name: "my-cluster".to_owned(),
            hosts: HostList { hosts: vec![Host::named("node01"), Host::named("node02"), gpu], warnings: vec![] },
            excluded: HostList { hosts: vec![Host::named("node02")], warnings: vec![] },
            ranks_per_node: Some(4),
            launcher: Some(LauncherName::Exec),
            launcher_command: LauncherCommand::parse("kubectl exec -i {host} -- {agent}").ok(),
            ssh_config: Some("/etc/ssh/config".into()),
            fanout: Some(16),
            remote_folder: Some("/scratch/g d".to_owned()),
            agent_folder: Some("/etc/builds".into()),
            nccl: Some("/opt/nccl/libnccl.so.2".to_owned()),
            environment: [("A", ""), ("NCCL_SOCKET_IFNAME", "=bond0")].map(|(n, v)| (n.into(), v.into())).to_vec(),
        };
        assert_eq!(site, expected);
        let empty = Site::parse("name = \"Alps 1\"", "c.toml").unwrap();
        assert_eq!((empty.name.as_str(), empty.hosts.hosts.len(), empty.launcher), ("Alps 1", 0, None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            (
                "host = 'a'",
                "c.toml:1:1: unknown field `host`: use one of name, hosts, exclude, ranks_per_node, launcher, launcher_cmd, \
                 ssh_config, fanout, remote_dir, agent_dir, nccl, environment; did you mean `hosts`?",
            ),
            (
                "launcher = 'shh'",
                "c.toml:1:12: unknown name `shh`: use one of auto, local, ssh, slurm, exec; did you mean `ssh`?",
            ),
            ("\nhosts = 'a[3-1]'", "c.toml:2:12: range 3-1 runs backwards; expected [1-3]"),
            (
                "hosts = ['ok', 'a', 'b;c']",
                "c.toml:1:23: ';' in a host name; expected letters, digits, '-', '.', '_' or a range such as [01-04]",
            ),
            ("hosts = ''", "c.toml:1:10: an empty name; expected a host name such as node[01-04]"),
            (
                "hosts = \"a\\u003b\"",
                "c.toml:1:9: ';' in a host name; expected letters, digits, '-', '.', '_' or a range such as [01-04]",
            ),
            ("hosts = 3", "c.toml:1:9: invalid type: integer `3`, expected a host list, or a list of them"),
            ("exclude = '-x'", "c.toml:1:12: a name that starts with '-' looks like an option; expected a host name"),
            ("ranks_per_node = 0", "c.toml:1:18: 0 is out of range: use 1 to 1024"),
            ("fanout = 513", "c.toml:1:10: 513 is out of range: use 1 to 512"),
            (
                "launcher_cmd = 'ssh {host}'",
                "c.toml:1:16: launcher_cmd: `{agent}` is missing: put it where the program to run goes",
            ),
            ("remote_dir = 'x'", "c.toml:1:14: remote_dir: the folder on the hosts needs an absolute path"),
            ("remote_dir = \"/x\\n\"", "c.toml:1:14: remote_dir: the path has control characters"),
            ("name = ''", "c.toml:1:8: a name has 1 to 64 characters, none of them a control character"),
            (
                "[environment]\n'A B' = '1'",
                "c.toml:2:1: \"A B\" cannot be set: a variable's name has letters, digits and '_' only",
            ),
            ("[environment]\nA = \"1\\n2\"", "c.toml:2:1: \"A\" cannot be set: its value has control characters"),
            ("[environment]\nA = 1", "c.toml:2:5: invalid type: integer `1`, expected a string"),
        ] {
            assert_eq!(Site::parse(text, "c.toml").unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn launchers_have_names() {
        for (name, kind) in LauncherName::ALL {
            assert_eq!((name.parse(), kind.to_string().as_str()), (Ok(kind), name));
        }
        let error = "slrum".parse::<LauncherName>().unwrap_err().to_string();
        assert_eq!(error, "unknown launcher `slrum`: use one of auto, local, ssh, slurm, exec; did you mean `slurm`?");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(hosts|exclude|name|fanout|nccl) = (\"[-a\\[\\]0-9,@:\u{e4}]{0,20}\"|'.{0,9}'|\\['a','[a\\[0-9,;]{0,9}'\\])\n?.{0,10}|.{0,60}") {
            if let Err(error) = Site::parse(&text, "c.toml") {
                prop_assert!(error.to_string().starts_with("c.toml:"), "{error}");
            }
        }
    }
}
