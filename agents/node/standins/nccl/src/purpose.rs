//! What tests want to happen, from the environment.

use std::{
    io::Write as _,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

pub(crate) const COLLECTIVES: [&str; 5] = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"];
pub(crate) const ALGORITHMS: [&str; 7] =
    ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"];
pub(crate) const PROTOCOLS: [&str; 3] = ["ll", "ll128", "simple"];

/// Names by `ncclFunc_t` in NCCL's log; the others are there in upper case.
const LOGGED_COLLECTIVES: [&str; 5] = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"];

/// 2.28.9.
const DEFAULT_VERSION: i32 = 22_809;

/// Most channels of a call where nobody says another number.
const DEFAULT_CHANNELS: i32 = 2;

/// How late a rank is that is to be late, once.
const DELAY: Duration = Duration::from_millis(200);

/// How much later than asked for a sleeping thread may wake.
const INEXACT: Duration = Duration::from_micros(150);

static WAS_LATE: AtomicBool = AtomicBool::new(false);

/// What a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    pub(crate) collective: usize,
    pub(crate) algorithm: usize,
    pub(crate) protocol: usize,
    pub(crate) channels: i32,
    /// Nobody asked for it.
    pub(crate) is_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Hang,
    Crash,
    Wrong,
    Late,
    Error,
}

impl Selection {
    fn names(self) -> [&'static str; 3] {
        [COLLECTIVES[self.collective], ALGORITHMS[self.algorithm], PROTOCOLS[self.protocol]]
    }

    /// As NCCL's log has them.
    pub(crate) fn logged_names(self) -> [String; 3] {
        let [_, algorithm, protocol] = self.names();
        [LOGGED_COLLECTIVES[self.collective].to_owned(), algorithm.to_uppercase(), protocol.to_uppercase()]
    }

    fn matches(self, pattern: &[&str]) -> bool {
        let names = self.names();
        pattern.len() == names.len()
            && pattern.iter().zip(names).all(|(wanted, name)| *wanted == "*" || *wanted == name)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn version() -> i32 {
    variable("STANDIN_NCCL_VERSION").and_then(|value| value.parse().ok()).unwrap_or(DEFAULT_VERSION)
}

pub(crate) fn init_errors() -> Vec<String> {
    let texts = variable("STANDIN_NCCL_INIT_ERROR").unwrap_or_default();
    texts.split('|').filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn channel_ceiling() -> i32 {
    variable("STANDIN_NCCL_CHANNELS").and_then(|value| value.parse().ok()).unwrap_or(DEFAULT_CHANNELS)
}

/// Path types that a level can name, and their numbers in NCCL 2.28 and in 2.19 to 2.25 (`src/graph/topo.h`).
const LEVELS: [(&str, u32, u32); 5] = [("LOC", 0, 0), ("PIX", 4, 3), ("PXB", 5, 4), ("PHB", 8, 6), ("SYS", 9, 7)];

/// NCCL's own level.
const DEFAULT_LEVEL: &str = "PXB";

/// What the ranks' network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Sockets,
    /// HCAs that always reach GPU memory, or only to send.
    Direct {
        receives: bool,
    },
    /// HCAs that cannot.
    Indirect,
    /// HCAs that can, at this distance: NCCL's variables decide.
    Distant {
        distance: usize,
    },
}

pub(crate) fn network() -> Network {
    match variable("STANDIN_NCCL_GDR").as_deref() {
        Some("1") => Network::Direct { receives: true },
        Some("send") => Network::Direct { receives: false },
        Some("none") => Network::Indirect,
        Some(name) => level(name).map_or(Network::Sockets, |distance| Network::Distant { distance }),
        None => Network::Sockets,
    }
}

fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|(known, ..)| *known == name)
}

/// The largest distance that is allowed.
fn allowed() -> usize {
    let set = variable("NCCL_NET_GDR_LEVEL").and_then(|name| level(&name));
    set.or(level(DEFAULT_LEVEL)).unwrap_or_default()
}

/// A distance and the level, as this version writes them.
pub(crate) fn distances(distance: usize) -> [u32; 2] {
    [distance, allowed()].map(|at| if version() < 22_600 { LEVELS[at].2 } else { LEVELS[at].1 })
}

/// Whether the rank's sends and receives are by GPU Direct RDMA.
pub(crate) fn direct() -> [bool; 2] {
    match network() {
        Network::Sockets | Network::Indirect => [false; 2],
        Network::Direct { receives } => [true, receives],
        Network::Distant { distance } => {
            let is_near = distance <= allowed();
            [is_near && variable("NCCL_NET_GDR_READ").is_none_or(|value| value != "0"), is_near]
        }
    }
}

/// How a rank sends, and how it receives.
pub(crate) fn transports() -> [&'static str; 2] {
    let by_hca = |is_direct| if is_direct { "NET/IB/0/GDRDMA" } else { "NET/IB/0" };
    if network() == Network::Sockets { ["NET/Socket/0"; 2] } else { direct().map(by_hca) }
}

/// What runs in the place of a choice that is to be substituted, on all ranks.
pub(crate) fn substituted(selection: Selection) -> Selection {
    let found = variable("STANDIN_NCCL_FAULT").and_then(|text| {
        let fields: Vec<&str> = text.split(':').collect();
        let [_, pattern @ .., algorithm, protocol, channels] = fields.as_slice() else { return None };
        let (algorithm, protocol) = (position(&ALGORITHMS, algorithm)?, position(&PROTOCOLS, protocol)?);
        let is_meant = fields[0] == "substitute" && selection.matches(pattern);
        is_meant.then_some(Selection { algorithm, protocol, channels: channels.parse().ok()?, ..selection })
    });
    found.unwrap_or(selection)
}

fn position(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|known| *known == name)
}

/// Lets some time pass, the first time.
pub(crate) fn be_late() {
    if !WAS_LATE.swap(true, Ordering::Relaxed) {
        std::thread::sleep(DELAY);
    }
}

pub(crate) fn is_bypassed() -> bool {
    variable("STANDIN_NCCL_BYPASS").is_some_and(|value| value == "1")
}

pub(crate) fn is_unopened() -> bool {
    variable("STANDIN_NCCL_BYPASS").is_some_and(|value| value == "unopened")
}

pub(crate) fn refuses_capture() -> bool {
    variable("STANDIN_NCCL_CAPTURE").is_some_and(|value| value == "0")
}

/// The fault that this call is to have on this rank.
pub(crate) fn fault(selection: Selection, rank: usize) -> Option<Fault> {
    let text = variable("STANDIN_NCCL_FAULT")?;
    let fields: Vec<&str> = text.split(':').collect();
    let (kind, pattern) = fields.split_first()?;
    let (pattern, wanted) = match pattern.get(3) {
        Some(rank) => (&pattern[..3], rank.parse().ok()?),
        None => (pattern, 0),
    };
    if wanted != rank || !selection.matches(pattern) {
        return None;
    }
    match *kind {
        "hang" => Some(Fault::Hang),
        "crash" => Some(Fault::Crash),
        "wrong" => Some(Fault::Wrong),
        "late" => Some(Fault::Late),
        "error" => Some(Fault::Error),
        _ => None,
    }
}

/// Lets the time pass that the call is to take, since `started`.
pub(crate) fn pay(selection: Selection, bytes: usize, started: Instant) {
    let by_choice = || variable("STANDIN_NCCL_COSTS").and_then(|costs| cost_us(&costs, selection));
    let Some(cost_us) = network_cost_us(bytes).or_else(by_choice) else { return };
    let until = started + Duration::from_micros(cost_us);
    // Ranks that compete for a core would measure each other; the rest is too short for a timer.
    std::thread::sleep(until.saturating_duration_since(Instant::now()).saturating_sub(INEXACT));
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

/// By the size of the call, and by whether all its data goes by GPU Direct RDMA.
fn network_cost_us(bytes: usize) -> Option<u64> {
    let costs = variable("STANDIN_NCCL_GDR_COSTS")?;
    costs.split(',').find_map(|entry| {
        let (most_bytes, us) = entry.split_once('=')?;
        let (direct_us, indirect_us) = us.split_once(':')?;
        let us = if direct() == [true; 2] { direct_us } else { indirect_us };
        if bytes <= most_bytes.parse().ok()? { us.parse().ok() } else { None }
    })
}

fn cost_us(costs: &str, selection: Selection) -> Option<u64> {
    costs.split(',').find_map(|entry| {
        let (pattern, us) = entry.split_once('=')?;
        let pattern: Vec<&str> = pattern.split(':').collect();
        let is_meant = selection.matches(&pattern) || pattern == ["own"] && selection.is_own;
        if is_meant { us.parse().ok() } else { None }
    })
}

/// Writes what ran to the log of rank 0.
pub(crate) fn log(selection: Selection, bytes: usize, rank: usize) {
    let Some(path) = variable("STANDIN_NCCL_LOG").filter(|_| rank == 0) else { return };
    let [collective, algorithm, protocol] = selection.names();
    let line = format!("{collective} {bytes} {algorithm} {protocol} {}\n", selection.channels);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // A log that cannot be written fails the test that reads it.
    file.and_then(|mut file| file.write_all(line.as_bytes())).ok();
}
