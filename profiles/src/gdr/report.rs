//! Makes the report: ranks by communicator, equal reasons joined.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Communicator, End, Log, Problem, Rank, Reason, Report, Use,
    collect::{LinkKey, RankLines},
    reason::{self, Case, Facts, Found},
};
use crate::{grammar::nccl_log::CommunicatorName, version::Version};

/// Lines that a reason shows: more are alike.
const MOST_EVIDENCE: usize = 3;

/// The first version whose lines are all known.
const OLDEST: Version = Version::new(2, 19);

pub(super) fn of(log: &Log) -> Report {
    let hosts = by_host(log);
    let mut reasons = Reasons::default();
    let mut communicators: Vec<Communicator> = Vec::new();
    let mut places: HashMap<Option<CommunicatorName>, usize> = HashMap::new();
    for lines in &log.ranks {
        let Some(process) = log.processes.get(lines.process) else { continue };
        let (own, version) = (&process.facts, version_of(log, &process.facts));
        let host = hosts.get(process.host.as_str()).unwrap_or(own);
        let rank = Rank {
            rank: lines.rank,
            host: process.host.clone(),
            gpu: lines.gpu,
            nvls: own.nvls,
            uses: uses(lines, Said { own, host, version }, &mut reasons),
        };
        let at = *places.entry(lines.communicator).or_insert_with(|| {
            communicators.push(Communicator { name: lines.communicator, size: None, ranks: Vec::new() });
            communicators.len() - 1
        });
        if let Some(communicator) = communicators.get_mut(at) {
            communicator.size = communicator.size.or(lines.size);
            communicator.ranks.push(rank);
        }
    }
    for communicator in &mut communicators {
        communicator.ranks.sort_by(|a, b| (a.rank, &a.host, a.gpu).cmp(&(b.rank, &b.host, b.gpu)));
    }
    let versions = log.processes.iter().map(|p| &p.facts).chain([&log.common]).filter_map(|f| f.version).collect();
    let mut report = Report {
        versions,
        hosts: log.processes.iter().map(|process| process.host.clone()).collect(),
        lines: log.lines,
        damaged: log.damaged,
        communicators,
        reasons: reasons.list,
        problems: problems(log),
        notes: Vec::new(),
    };
    report.notes = notes(&report);
    if 0 < log.repeated_ranks {
        let text = format!(
            "ranks whose lines are in the logs again, which count once: {}; is it a copy of a log?",
            log.repeated_ranks
        );
        report.notes.push(text);
    }
    report
}

/// What all processes of a host say.
fn by_host(log: &Log) -> HashMap<&str, Facts> {
    let mut hosts: HashMap<&str, Facts> = HashMap::new();
    for process in &log.processes {
        hosts.entry(&process.host).or_default().add(&process.facts);
    }
    hosts
}

/// NCCL's version in a process: by its own word; by the line that one rank writes for all; by any other process's.
fn version_of(log: &Log, own: &Facts) -> Option<Version> {
    let any = || log.processes.iter().find_map(|process| process.facts.version);
    own.version.or(log.common.version).or_else(any)
}

/// Where a rank's reasons come from.
#[derive(Clone, Copy)]
struct Said<'a> {
    own: &'a Facts,
    host: &'a Facts,
    version: Option<Version>,
}

fn uses(rank: &RankLines, said: Said<'_>, reasons: &mut Reasons) -> Vec<Use> {
    let Said { own, host, version } = said;
    let is_direct = |end: End, device: u32| {
        rank.links.keys().any(|key| key.end != end && key.end != End::Local && key.device == device && key.is_gdr)
    };
    let mut seen = BTreeSet::new();
    let mut list = Vec::with_capacity(rank.links.len());
    for (key, links) in &rank.links {
        let mut why = Vec::new();
        if key.end != End::Local && !key.is_gdr {
            let is_other_end_direct = is_direct(key.end, key.device);
            let case = Case { own, host, version, rank, key, is_other_end_direct };
            for found in case.reasons() {
                let at = reasons.join(found, links.connections);
                if seen.insert(at) {
                    reasons.count_rank(at);
                }
                why.push(at);
            }
        }
        let LinkKey { end, path, proxy, is_gdr, .. } = key.clone();
        let (channels, evidence) = (links.channels.clone(), links.evidence.clone());
        let connections = links.connections;
        list.push(Use { end, path, is_gdr, proxy, channels, connections, evidence, reasons: why });
    }
    list
}

/// Equal reasons, once each.
#[derive(Default)]
struct Reasons {
    list: Vec<Reason>,
    places: HashMap<(&'static str, String, String), usize>,
}

impl Reasons {
    fn join(&mut self, found: Found, connections: u64) -> usize {
        let Found { id, what, fix, evidence } = found;
        let at = *self.places.entry((id, what.clone(), fix.clone())).or_insert_with(|| {
            self.list.push(Reason { id, what, fix, evidence: Vec::new(), ranks: 0, connections: 0 });
            self.list.len() - 1
        });
        if let Some(reason) = self.list.get_mut(at) {
            reason.connections += connections;
            for line in evidence {
                if reason.evidence.len() < MOST_EVIDENCE && !reason.evidence.contains(&line) {
                    reason.evidence.push(line);
                }
            }
        }
        at
    }

    fn count_rank(&mut self, at: usize) {
        if let Some(reason) = self.list.get_mut(at) {
            reason.ranks += 1;
        }
    }
}

fn problems(log: &Log) -> Vec<Problem> {
    let mut found: BTreeMap<usize, Problem> = BTreeMap::new();
    // The first of equal processes comes before the others.
    for process in &log.processes {
        for (&at, evidence) in &process.facts.problems {
            let Some((id, what, fix)) = reason::problem(at) else { continue };
            let new = || Problem { id, what, fix, evidence: evidence.clone(), processes: 0 };
            found.entry(at).or_insert_with(new).processes += u64::from(!process.is_repeated);
        }
    }
    // Where only a copy has the line, it is of the process all the same.
    let told = found.into_values().map(|problem| Problem { processes: problem.processes.max(1), ..problem });
    told.collect()
}

/// What to know about the log itself.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for version in report.versions.iter().filter(|version| **version < OLDEST) {
        notes.push(format!(
            "NCCL {version} is older than {OLDEST}: some of its lines have other forms and are not read"
        ));
    }
    if !report.hosts.is_empty() && report.versions.is_empty() {
        notes.push("no line tells the version of NCCL, which the meaning of distances depends on".to_owned());
    }
    if 0 < report.damaged {
        notes.push(format!(
            "lost lines of NCCL, which another write cut off or which lack their beginning: {}; NCCL_DEBUG_FILE=nccl.%h.%p gives each process a file of its own",
            report.damaged
        ));
    }
    for communicator in &report.communicators {
        let here = communicator.ranks.len();
        if let Some(size) = communicator.size.filter(|&size| here < size as usize) {
            notes.push(format!(
                "{} has {size} ranks, and the log has lines of {here}: set NCCL_DEBUG=INFO for all",
                communicator.label()
            ));
        }
    }
    if !report.hosts.is_empty()
        && report.communicators.iter().all(|one| one.ranks.iter().all(|rank| rank.uses.is_empty()))
    {
        let text = "no line of a connection is in the log: NCCL_DEBUG=INFO with INIT in NCCL_DEBUG_SUBSYS writes them, from the start of the job on";
        notes.push(text.to_owned());
    }
    notes
}
