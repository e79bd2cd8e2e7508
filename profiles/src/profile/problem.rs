//! What a profile says that cannot be, or is probably not meant. The rules' own checks are in `rules`.

use std::collections::BTreeMap;

use super::{EnvSetting, Profile, Speedup};
use crate::{
    diagnostic::Severity,
    grammar::{
        algo::{self, Dialect, Enabled},
        hca::HcaList,
        is_variable_name,
    },
    knob::{self, Knob, unprintable},
    version::Version,
    vocab::Collective,
};

/// One step from the profile to a value in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A field of a table.
    Field(&'static str),
    /// An element of an array, counted from 0.
    Item(usize),
}

/// A finding about a value of a profile, wherever the profile came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is: a profile with an error is neither read nor emitted.
    pub severity: Severity,
    /// The value.
    pub path: Vec<Step>,
    /// Cause and next step, in lower case.
    pub message: String,
}

impl Problem {
    pub(super) fn error(path: Vec<Step>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, path, message: message.into() }
    }

    pub(super) fn warning(path: Vec<Step>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, path, message: message.into() }
    }
}

impl Profile {
    /// The NCCL version that was measured, if it is one.
    pub fn nccl_version(&self) -> Option<Version> {
        self.cluster.nccl.as_deref().and_then(|text| text.parse().ok())
    }

    /// Everything that is wrong with the profile, in the order of the file.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.check_cluster(&mut problems);
        self.check_env(&mut problems);
        self.check_rules(&mut problems);
        problems
    }

    fn check_cluster(&self, problems: &mut Vec<Problem>) {
        let at = |field| vec![Step::Field("cluster"), Step::Field(field)];
        if self.format != super::FORMAT {
            let message = format!("this gdrtune reads and writes format {}", super::FORMAT);
            problems.push(Problem::error(vec![Step::Field("format")], message));
        }
        problems.extend(shape_problem(self.cluster.nodes, self.cluster.ranks).map(|(f, m)| Problem::error(at(f), m)));
        if let Some(Err(error)) = self.cluster.nccl.as_deref().map(str::parse::<Version>) {
            let message = format!("{error}; nothing can be checked against it");
            problems.push(Problem::warning(at("nccl"), message));
        }
    }

    fn check_env(&self, problems: &mut Vec<Problem>) {
        let mut first_by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for (idx, setting) in self.env.iter().enumerate() {
            let at = |field| vec![Step::Field("env"), Step::Item(idx), Step::Field(field)];
            if first_by_name.insert(&setting.name, idx).is_some() {
                problems.push(Problem::error(at("name"), format!("{} is set twice", setting.name.escape_debug())));
            }
            self.check_setting(setting, &at, problems);
            if let Some(speedup) = &setting.speedup {
                problems.extend(speedup_problem(speedup).map(|message| Problem::error(at("speedup"), message)));
            }
            let conflicts = knob::knob(&setting.name).map_or(&[][..], |knob| knob.conflicts);
            if let Some(other) = conflicts.iter().find(|other| first_by_name.contains_key(**other)) {
                let message = format!("{} and {other} are both set: keep one of them", setting.name);
                problems.push(Problem::warning(at("name"), message));
            }
        }
        problems.extend(self.unserved_problem());
        problems.extend(self.sockets_problem());
    }

    fn check_setting(&self, setting: &EnvSetting, at: &dyn Fn(&'static str) -> Vec<Step>, problems: &mut Vec<Problem>) {
        let EnvSetting { name, value, class, .. } = setting;
        if !is_variable_name(name) {
            let message = format!("`{}` is not the name of a variable", name.escape_debug());
            problems.push(Problem::error(at("name"), message));
            return;
        }
        let Some(knob) = knob::knob(name) else {
            if let Some(why) = reaches_beyond_collectives(name) {
                let message = format!("{name} has no place in a profile: {why}; set it in the job or on the site");
                problems.push(Problem::error(at("name"), message));
                return;
            }
            let near = knob::nearest(name).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            problems.push(Problem::warning(at("name"), format!("{name} is not in the catalogue{near}")));
            problems.extend(unprintable(value).map(|cause| Problem::error(at("value"), cause)));
            return;
        };
        if let Err(error) = knob.check(value) {
            problems.push(Problem::error(at("value"), error.to_string()));
        }
        if knob.class != *class {
            let message = format!("{name} is of class {}, not {}", knob.class.name(), class.name());
            problems.push(Problem::warning(at("class"), message));
        }
        let version_message = self.nccl_version().and_then(|version| version_problem(knob, value, version));
        problems.extend(version_message.map(|message| Problem::warning(at("value"), message)));
        if knob.kind == knob::Kind::Hcas && HcaList::parse(value).is_ok_and(|list| !list.is_exact) {
            let message = format!("the names in {name} are prefixes: begin the list with =");
            problems.push(Problem::warning(at("value"), message));
        }
    }

    /// NCCL `src/transport/net_socket.cc`, `MAX_SOCKETS`: it lowers the sockets per thread without failing.
    fn sockets_problem(&self) -> Option<Problem> {
        const MOST_SOCKETS: u32 = 64;
        let number = |name: &str| {
            let idx = self.env.iter().position(|setting| setting.name == name)?;
            Some((idx, self.env[idx].value.parse::<u32>().ok()?))
        };
        let (_, threads) = number("NCCL_SOCKET_NTHREADS")?;
        let (idx, sockets_per_thread) = number("NCCL_NSOCKS_PERTHREAD")?;
        let path = vec![Step::Field("env"), Step::Item(idx), Step::Field("value")];
        let message = format!("{threads} threads of {sockets_per_thread} sockets are more than NCCL's {MOST_SOCKETS}");
        (MOST_SOCKETS < threads.saturating_mul(sockets_per_thread)).then(|| Problem::warning(path, message))
    }

    /// A bare `NCCL_ALGO=Tree` leaves collectives without any algorithm, and their calls fail.
    fn unserved_problem(&self) -> Option<Problem> {
        let dialect = self.nccl_version().map_or(Dialect::V224Plus, Dialect::of);
        let find = |name: &str| self.env.iter().position(|setting| setting.name == name);
        let (algorithm_idx, protocol_idx) = (find("NCCL_ALGO"), find("NCCL_PROTO"));
        let algorithms = algorithm_idx.and_then(|idx| algo::parse(&self.env[idx].value, dialect).ok());
        let protocols = protocol_idx.and_then(|idx| algo::parse(&self.env[idx].value, dialect).ok());
        let unserved = algo::unserved(
            algorithms.as_ref().unwrap_or(&Enabled::new()),
            protocols.as_ref().unwrap_or(&Enabled::new()),
        );
        let names: Vec<&str> = unserved.into_iter().map(Collective::name).collect();
        let idx = algorithm_idx.or(protocol_idx)?;
        let path = vec![Step::Field("env"), Step::Item(idx), Step::Field("value")];
        let message = format!("nothing is left for {}: name the collective, as in allreduce:tree", names.join(", "));
        (!names.is_empty()).then(|| Problem::warning(path, message))
    }
}

/// Why no profile sets this variable, which is in no catalogue: it is sourced into jobs and given to workers, so that a
/// profile from elsewhere could decide what code runs there. (`ld.so(8)`, `bash(1)`, and the variables of this tool.)
fn reaches_beyond_collectives(name: &str) -> Option<&'static str> {
    const PREFIXES: [&str; 4] = ["LD_", "BASH", "PYTHON", "PERL"];
    const NAMES: [&str; 14] = [
        "PATH",
        "HOME",
        "SHELL",
        "ENV",
        "IFS",
        "PS4",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "TMPDIR",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "CUDA_INJECTION32_PATH",
        "CUDA_INJECTION64_PATH",
        "CUDA_VISIBLE_DEVICES",
    ];
    if name.starts_with("GDRTUNE_") {
        return Some("gdrtune sets it itself, to tell its processes what to do");
    }
    let is_named = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_named.then_some("it decides what a job runs, not how its collectives run")
}

fn version_problem(knob: &Knob, value: &str, version: Version) -> Option<String> {
    let name = knob.name;
    if let Some(since) = knob.since.filter(|since| version < *since) {
        return Some(format!("NCCL {version} does not read {name}: it exists since {}.{}", since.major, since.minor));
    }
    if let Some(until) = knob.until.filter(|until| *until <= version) {
        return Some(format!("{name} is deprecated since {}.{}: {}", until.major, until.minor, knob.help));
    }
    let dialect = Dialect::of(version);
    match knob.kind {
        knob::Kind::Algorithms => algo::parse::<crate::vocab::Algorithm>(value, dialect).err(),
        knob::Kind::Protocols => algo::parse::<crate::vocab::Protocol>(value, dialect).err(),
        knob::Kind::Hcas if !version.at_least(2, 30) && HcaList::parse(value).is_ok_and(|list| list.names_rails()) => {
            return Some(format!("NCCL {version} reads no rail or plane in {name}: they exist since 2.30"));
        }
        _ => None,
    }
    .map(|error| format!("NCCL {version} cannot read it: {error}"))
}

pub(super) fn shape_problem(nodes: u32, ranks: u32) -> Option<(&'static str, String)> {
    if nodes == 0 {
        return Some(("nodes", "0 nodes hold nothing".to_owned()));
    }
    // NCCL counts ranks in an int, and so does every reader of the tuner CSV.
    if i32::MAX as u32 <= ranks {
        return Some(("ranks", format!("{ranks} ranks are more than NCCL can count")));
    }
    (ranks < nodes).then(|| ("ranks", format!("{ranks} ranks are fewer than {nodes} nodes")))
}

pub(super) fn speedup_problem(speedup: &Speedup) -> Option<&'static str> {
    let Speedup { median, low, high, p_faster, repeats } = *speedup;
    if ![median, low, high].iter().all(|ratio| ratio.is_finite() && 0.0 < *ratio) {
        return Some("a speedup is a positive number");
    }
    if high < low {
        return Some("the interval runs backwards: low is above high");
    }
    if !(0.0..=1.0).contains(&p_faster) {
        return Some("p_faster is a probability from 0 to 1");
    }
    (repeats == 0).then_some("a speedup without repeats is no evidence")
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
