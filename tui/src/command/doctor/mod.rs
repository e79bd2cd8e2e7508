//! `gdrtune doctor`: what is wrong with hosts before anything is measured.

mod json;
mod text;

use std::{
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use gdrtune_fleet::{FleetConfig, LauncherKind};
use gdrtune_node::inventory;
use gdrtune_profiles::{json::document, nearest::hint};
use gdrtune_session::doctor::{Check, Facts, GROUPS, Look, Node, Status, check, checks, examine, explain, list, look};

use crate::{
    cli::{DoctorArgs, DoctorCommand},
    exit::{Exit, Failure},
    hosts::{self, Surroundings},
    ui::{Charset, text::wrap_commands},
};
use text::Detail;

/// Ranks per host where nobody says: nothing runs.
const NO_RANKS: u32 = 1;

/// Columns of everything that is printed for people.
const COLUMNS: usize = 80;

/// Prints what the checks found.
///
/// # Errors
/// Wrong use, and a reason here why no agent can be started. A host that cannot be used is a finding.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    if let Some(DoctorCommand::Explain { ids }) = &args.command {
        return print(&explained(ids)?);
    }
    let only = Wanted::read("--only", &args.only)?;
    let skip = Wanted::read("--skip", &args.skip)?;
    let is_wanted = |check: &Check| (only.0.is_empty() || only.has(check.id)) && !skip.has(check.id);
    if args.list {
        return print(&list());
    }
    if !checks().any(is_wanted) {
        return Err(Failure::usage_text("--only and --skip leave no check"));
    }
    let facts = if args.from.is_empty() { on_hosts(args, is_wanted)? } else { recorded(args)? };
    let findings = examine(&facts, is_wanted);
    if args.json {
        print(&document(&json::document(&facts, &findings)))?;
    } else {
        let detail = if args.verbose { Detail::Everything } else { Detail::Faults };
        print(&text::text(&facts, &findings, charset(args), detail))?;
    }
    let is_bad = |status| status == Status::Fail || (args.strict && status == Status::Warn);
    Ok(if findings.iter().any(|finding| is_bad(finding.status)) { Exit::Findings } else { Exit::Done })
}

fn print(text: &str) -> Result<Exit, Failure> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn charset(args: &DoctorArgs) -> Charset {
    if args.ascii { Charset::Ascii } else { Charset::of_environment(|name| std::env::var(name).ok()) }
}

/// Checks that the user names.
struct Wanted<'a>(&'a [String]);

impl<'a> Wanted<'a> {
    fn read(option: &str, names: &'a [String]) -> Result<Self, Failure> {
        let is_group = |name: &String| GROUPS.iter().any(|group| group.name == name.as_str());
        match names.iter().find(|name| check(name).is_none() && !is_group(name)) {
            Some(name) => Err(unknown(option, name)),
            None => Ok(Self(names)),
        }
    }

    fn has(&self, id: &str) -> bool {
        let is_in = |group: &str| id.strip_prefix(group).is_some_and(|rest| rest.starts_with('-'));
        self.0.iter().any(|name| name == id || (check(name).is_none() && is_in(name)))
    }
}

fn unknown(option: &str, name: &str) -> Failure {
    let known = checks().map(|check| check.id).chain(GROUPS.iter().map(|group| group.name));
    let near = hint(name, known);
    Failure::usage_text(format!("{option}: there is no check `{name}`{near}"))
        .with_hint("gdrtune doctor --list names them")
}

fn explained(ids: &[String]) -> Result<String, Failure> {
    const INDENT: usize = 12;
    let mut lines = Vec::new();
    let mut wanted = Vec::new();
    for id in ids {
        match GROUPS.iter().find(|group| group.name == id) {
            Some(group) => wanted.extend(group.checks),
            None => wanted.push(check(id).ok_or_else(|| unknown("explain", id))?),
        }
    }
    for check in wanted {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(check.id.to_owned());
        for (heading, text) in explain(check) {
            for (number, line) in wrap_commands(text, COLUMNS - INDENT).into_iter().enumerate() {
                let heading = if number == 0 { heading } else { "" };
                lines.push(format!("  {heading:<9} {line}"));
            }
        }
    }
    Ok(lines.join("\n") + "\n")
}

fn on_hosts(args: &DoctorArgs, is_wanted: impl Fn(&Check) -> bool) -> Result<Facts, Failure> {
    let place = hosts::resolve(&args.hosts, NO_RANKS, Surroundings::Job)?;
    super::announce(&place)?;
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let mut config = FleetConfig {
        connect_deadline: time(args.connect_timeout),
        ..super::fleet_config(&place, place.nccl.as_deref())?
    };
    // A dead host is silent: to wait for it as long as a run does would be most of the time that all checks take.
    if let LauncherKind::Ssh(options) = &mut config.launcher {
        options.connect_timeout = options.connect_timeout.min(time(args.timeout));
    }
    let needs = |ids: &[&str]| checks().any(|check| ids.contains(&check.id) && is_wanted(check));
    let plan = Look {
        connections: needs(&["net-connect", "net-connect-others"]),
        clocks: needs(&["host-clock"]),
        timeout: time(args.timeout),
    };
    let runtime = super::runtime()?;
    // A signal ends this process as usual, and with it the agents, which end with their input.
    look(runtime.handle(), config, &place.hosts, plan, &|| false).map_err(super::unusable)
}

fn recorded(args: &DoctorArgs) -> Result<Facts, Failure> {
    let node = |path: &Path| {
        let name = path.display().to_string();
        if !path.join("sys").is_dir() && !path.join("proc").is_dir() {
            return Err(Failure::usage_text(format!("{name}: no folder with copies of a machine's sys and proc")));
        }
        Ok(Node::recorded(name, inventory::read_recorded(path)))
    };
    let nodes = args.from.iter().map(|path| node(path)).collect::<Result<Vec<_>, _>>()?;
    let why = "recorded trees have no agents".to_owned();
    Ok(Facts { nodes, unusable: Vec::new(), contacts: Err(why.clone()), clocks: Err(why) })
}
