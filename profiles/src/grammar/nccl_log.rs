//! Lines of NCCL's log (`NCCL_DEBUG=INFO`): what a call ran, how ranks are connected, what decides about GPU Direct RDMA, and
//! what the library says of plugins and warns of.
//!
//! Pure, and total: any bytes are read, and what is no line of a known form is nothing. Forms are those of NCCL 2.19 to 2.30
//! (`src/debug.cc`, `src/enqueue.cc`, `src/init.cc`, `src/graph/paths.cc`, `src/graph/topo.cc`, `src/graph/search.cc`,
//! `src/transport/net.cc`, `coll_net.cc`, `p2p.cc`, `shm.cc`, `net_ib.cc` or `net_ib/`, `src/plugin/` or `src/net.cc` and
//! `src/misc/`). It must not decide what follows from a fact.

mod fact;

use std::str::FromStr;

pub use self::fact::{CommunicatorName, Connection, Fact, Joined, NetworkWay, PairVerdict, Ran, Side, Way, Writer};
use crate::vocab::{Algorithm, Collective, Protocol};

/// Every line of these two levels has one of these after host, process, thread, device and (for warnings) place.
const INFORMATION: &[u8] = b"NCCL INFO ";
const WARNING: &[u8] = b"NCCL WARN ";

/// The only line that is written without them, by one rank for all.
const VERSION: &[u8] = b"NCCL version ";

/// Reads a line's fact. Whatever comes before its last mark is a prefix, or a line that another write cut off.
pub fn fact(line: &[u8]) -> Option<Fact<'_>> {
    if let Some(message) = after_last(line, INFORMATION) {
        return information(std::str::from_utf8(message).ok()?.trim_ascii());
    }
    if let Some(message) = after_last(line, WARNING) {
        let message = std::str::from_utf8(message).ok()?.trim_ascii();
        return (!message.is_empty()).then_some(Fact::Warning(message));
    }
    version(std::str::from_utf8(after_last(line, VERSION)?).ok()?.trim_ascii())
}

/// How many messages a line has: more than one where writes of several processes got into each other's way, and all but the
/// last are cut.
pub fn messages(line: &[u8]) -> usize {
    [INFORMATION, WARNING].iter().map(|mark| line.windows(mark.len()).filter(|part| part == mark).count()).sum()
}

/// Who wrote the line: `host:pid:thread [gpu]` before its last mark, behind whatever a launcher puts there (`3: ` of srun,
/// `[1,4]<stdout>:` of mpirun, a time).
pub fn writer(line: &[u8]) -> Option<Writer<'_>> {
    let end = [INFORMATION, WARNING].iter().filter_map(|mark| last(line, mark)).max()?;
    let before = line.get(..end)?;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // A cut line may have lost bytes of a character; a prefix has ASCII alone but for the launcher's part.
    let valid = before.get(start..)?.utf8_chunks().last().filter(|chunk| chunk.invalid().is_empty())?.valid();
    let mut gpu = None;
    for word in valid.split_ascii_whitespace().rev() {
        match gpu {
            None => gpu = word.strip_prefix('[').and_then(|rest| number(rest.strip_suffix(']')?)),
            Some(gpu) => return identity(word, gpu),
        }
    }
    None
}

/// What an information says, behind its last mark: for readers of messages that are no facts of this module.
pub fn information_of(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(after_last(line, INFORMATION)?).ok().map(str::trim_ascii)
}

/// `[1,4]<stdout>:host:17:19`; a host's name has no colon, so what is before it is another's.
fn identity(word: &str, gpu: u32) -> Option<Writer<'_>> {
    let mut parts = word.rsplit(':');
    let (thread, pid, host) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    (!host.is_empty()).then_some(Writer { host, pid, thread, gpu })
}

fn last(line: &[u8], mark: &[u8]) -> Option<usize> {
    line.windows(mark.len()).rposition(|part| part == mark)
}

fn after_last<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    line.get(last(line, mark)? + mark.len()..)
}

fn information(message: &str) -> Option<Fact<'_>> {
    if let Some((what, choice)) = message.split_once(" Bytes -> Algo ") {
        return run(what, choice).map(Fact::Run);
    }
    if is_about_tuners(message) {
        return Some(Fact::Tuner(message));
    }
    if let Some((count, _)) = message.split_once(" coll channels, ") {
        return number(count).map(Fact::Channels);
    }
    if message.starts_with("HINT: ") {
        return Some(Fact::Hint(message));
    }
    if let Some((head, way)) = message.split_once(" via ") {
        return connection(head, way).map(Fact::Connection);
    }
    if let Some((what, detail)) = message.split_once("GPU Direct RDMA ") {
        return direct(what, detail);
    }
    if let Some(devices) = message.strip_prefix("NET/IB : ") {
        return verbs(devices);
    }
    for (end, is_start) in [("- Init START", true), ("- Init COMPLETE", false)] {
        if let Some(head) = message.strip_suffix(end) {
            return joined(head, is_start).map(Fact::Joined);
        }
    }
    other(message)
}

/// The forms that have a beginning of their own.
fn other(message: &str) -> Option<Fact<'_>> {
    let rest = |start: &str| message.strip_prefix(start);
    if let Some(text) = rest("NCCL version ") {
        return version(text);
    }
    if let Some(number_text) = rest("cudaDriverVersion ") {
        return number(number_text).map(Fact::CudaDriver);
    }
    if let Some(name) = rest("Using network ") {
        return Some(Fact::Network(name));
    }
    if let Some(name) = rest("Assigned NET plugin ").and_then(|name| name.strip_suffix(" to comm")) {
        return Some(Fact::Network(name));
    }
    if rest("DMA-BUF is available on GPU device ").is_some() {
        return Some(Fact::DmaBuf);
    }
    if rest("Failed to open libibverbs.so").is_some() {
        return Some(Fact::NoVerbs);
    }
    if let Some(rest) = rest("NVLS multicast support is ") {
        return Some(Fact::Nvls(!rest.starts_with("not ")));
    }
    if rest("Pattern ").is_some() {
        let (_, types) = message.split_once(", type ")?;
        let (_, inter) = types.split(',').next()?.split_once('/')?;
        return Some(Fact::Pattern { inter });
    }
    if let Some((_, pair)) = rest("Comm config ").and_then(|rest| rest.split_once(" reset to ")) {
        let (name, value) = pair.split_once('=')?;
        return Some(Fact::Variable { name, value });
    }
    if rest("NET/").is_some() {
        return Some(Fact::Plugin(message));
    }
    variable(message)
}

/// `NCCL_IB_DISABLE set by environment to 1.`, `NCCL_IB_HCA set to mlx5`; only numbers have the dot.
fn variable(message: &str) -> Option<Fact<'_>> {
    let (name, value) = message.split_once(" set by environment to ").or_else(|| message.split_once(" set to "))?;
    let undotted = value.strip_suffix('.').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
    let is_name = name.starts_with("NCCL_") && !name.contains(' ');
    is_name.then_some(Fact::Variable { name, value: undotted.unwrap_or(value) })
}

/// `2.28.9+cuda12.9`.
fn version(text: &str) -> Option<Fact<'_>> {
    text.parse().ok().map(Fact::Version)
}

/// NCCL says `TUNER/Plugin`, `tuner plugin` or `NCCL_TUNER_PLUGIN`; our plugin says `TUNER/gdrtune`.
pub fn is_about_tuners(message: &str) -> bool {
    message.starts_with("TUNER/") || message.contains("tuner plugin") || message.contains("NCCL_TUNER_PLUGIN")
}

/// `AllReduce: 65536`, `RING proto LL channel{Lo..Hi}={0..1}` of 2.24 and later; `65536` (2.23: with the function) and
/// `1 proto 0 time 12.5` before.
fn run(what: &str, choice: &str) -> Option<Ran> {
    let (collective, bytes) = match what.split_once(": ") {
        Some((name, bytes)) => (Some(named(Collective::ALL, name, Collective::nccl_name)?), bytes),
        None => (None, what),
    };
    let (algorithm, rest) = choice.split_once(" proto ")?;
    let (protocol, rest) = rest.split_once(' ')?;
    let (algorithm, protocol) = match (number(algorithm), number(protocol)) {
        (Some(row), Some(column)) => (*Algorithm::ALL.get::<usize>(row)?, *Protocol::ALL.get::<usize>(column)?),
        // `RING` is `Ring` of the variables; `NVLS_TREE` is only spelled so here and in rule files.
        _ => (named(Algorithm::ALL, algorithm, Algorithm::name)?, named(Protocol::ALL, protocol, Protocol::name)?),
    };
    let channels = match rest.strip_prefix("channel{Lo..Hi}={") {
        Some(range) => Some(range_length(range.strip_suffix('}')?)?),
        None => rest.strip_prefix("time ").map(|_| None)?,
    };
    Some(Ran { collective, bytes: number(bytes)?, algorithm, protocol, channels })
}

fn range_length(range: &str) -> Option<u16> {
    let (low, high) = range.split_once("..")?;
    number::<u16>(high)?.checked_sub(number(low)?)?.checked_add(1)
}

/// `Channel 00/0 : 0[0] -> 1[0] [send]` or, within a node, without an end; `CollNet 00/1 : 0 [send]`.
fn connection<'a>(head: &'a str, way: &'a str) -> Option<Connection<'a>> {
    let (head, side) = match head.strip_suffix(" [send]") {
        Some(head) => (head, Some(Side::Send)),
        None => head.strip_suffix(" [receive]").map_or((head, None), |head| (head, Some(Side::Receive))),
    };
    let way = match side {
        Some(side) => Way::Network(side, network_way(way)?),
        None => Way::Local(local_way(way)?),
    };
    let (channel, ranks) = match head.split_once(" : ") {
        Some((channel, ranks)) => (leading_number(channel.rsplit(' ').next()?), ranks),
        None => (None, head),
    };
    let (from, to) = match ranks.split_once(" -> ") {
        Some((from, to)) => (leading_number(from), leading_number(to)),
        None => (leading_number(ranks), None),
    };
    let (rank, peer) = if side == Some(Side::Receive) { (to, from) } else { (from, to) };
    Some(Connection { channel, rank, peer, way })
}

/// `NET/IB/0(2)/GDRDMA(PCI)/Shared`.
fn network_way(way: &str) -> Option<NetworkWay<'_>> {
    let mut parts = way.split('/');
    let (kind, network, device) = (parts.next()?, parts.next()?, parts.next()?);
    let device_length = device.bytes().take_while(u8::is_ascii_digit).count();
    if !matches!(kind, "NET" | "COLLNET") || network.is_empty() || device_length == 0 {
        return None;
    }
    let is_gdr = parts.any(|part| part.starts_with("GDRDMA"));
    // Both slashes are one byte each.
    let path = way.get(..kind.len() + network.len() + device_length + 2)?;
    let proxy = device.get(device_length..)?.strip_prefix('(').and_then(leading_number);
    Some(NetworkWay { path, network, device: leading_number(device)?, proxy, is_gdr })
}

/// `P2P/CUMEM/read`, `SHM/direct/direct`; `P2P/direct pointer` has a blank.
fn local_way(way: &str) -> Option<&str> {
    ["P2P/", "SHM/", "NVLS/"].iter().any(|start| way.starts_with(start)).then_some(way)
}

/// `NET/IB : ` and `Enabled for HCA 0 'mlx5_0'`; or nothing, and `Disabled for GPU 1c000 / HCA 0 (distance 7 > 4)` (where
/// enabled: `(distance 4 <= 5), read 0 mode Default`).
fn direct<'a>(what: &'a str, detail: &'a str) -> Option<Fact<'a>> {
    let (is_enabled, detail) = match detail.strip_prefix("Enabled for ") {
        Some(detail) => (true, detail),
        None => (false, detail.strip_prefix("Disabled for ")?),
    };
    if let Some(network) = what.strip_prefix("NET/").and_then(|rest| rest.strip_suffix(" : ")) {
        let (device, name) = detail.strip_prefix("HCA ")?.split_once(' ')?;
        let name = name.trim_matches('\'');
        return Some(Fact::HcaGdr { network, device: number(device)?, name, is_enabled });
    }
    let (gpu, rest) = detail.strip_prefix("GPU ")?.split_once(" / HCA ")?;
    let (hca, rest) = rest.split_once(" (distance ")?;
    let mut numbers = rest.split(')').next()?.split(' ');
    let (distance, _, level) = (number(numbers.next()?)?, numbers.next()?, number(numbers.next()?)?);
    what.is_empty().then_some(Fact::Pair(PairVerdict { gpu, hca, distance, level, is_enabled }))
}

/// `No device found.`, `Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>`; the rest of `NET/IB` is about single connections.
fn verbs(message: &str) -> Option<Fact<'_>> {
    if message.starts_with("No device found") {
        return Some(Fact::NoHca);
    }
    let devices = message.strip_prefix("Using")?.split(';').next()?.trim_ascii();
    Some(Fact::Hcas(if devices.contains(':') { devices } else { "" }))
}

/// `ncclCommInitRank comm 0x5 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x65e0`, and for a part of another
/// communicator `parent 0x4 splitCount 1 color 0 key 3` (2.30: `childCount`) in the place of the last.
fn joined(message: &str, is_start: bool) -> Option<Joined> {
    // The function's and the rank's name come before, as `[Rank 0] ncclCommInitRank`.
    let mut words = message.split_ascii_whitespace().skip_while(|word| *word != "comm");
    let (mut name, mut part, mut color) = (None, None, None);
    let (mut rank, mut ranks, mut gpu, mut bus_id) = (None, None, None, None);
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        match key {
            "rank" => rank = number(value),
            "nranks" => ranks = number(value),
            "cudaDev" => gpu = number(value),
            "busId" => bus_id = u64::from_str_radix(value, 16).ok(),
            "commId" => name = u64::from_str_radix(value.trim_start_matches("0x"), 16).ok().map(CommunicatorName::Id),
            "splitCount" | "childCount" => part = number(value),
            "color" => color = value.parse().ok(),
            _ => {}
        }
    }
    let name = name.or_else(|| Some(CommunicatorName::Part { number: part?, color: color? }))?;
    Some(Joined { name, rank: rank?, ranks: ranks?, gpu: gpu?, bus_id: bus_id?, is_start })
}

fn named<T: Copy>(all: &[T], text: &str, name: impl Fn(T) -> &'static str) -> Option<T> {
    all.iter().copied().find(|value| name(*value).eq_ignore_ascii_case(text))
}

/// The digits that a text begins with.
fn leading_number<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    number(text.get(..digits)?)
}

/// A number without sign or blanks, which Rust's own parser would partly take.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
#[path = "nccl_log_tests.rs"]
mod tests;
