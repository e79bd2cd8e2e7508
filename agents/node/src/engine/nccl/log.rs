//! Lines of NCCL's log: what a call ran, which connections there are, what the library says of tuner plugins and warns of.
//!
//! Pure, and total: any bytes are read, and what is no line of a known form is nothing. Forms are those of NCCL 2.19 to 2.30
//! (`src/debug.cc`, `src/enqueue.cc`, `src/init.cc`, `src/transport/net.cc` and `coll_net.cc`, `src/plugin/` or
//! `src/misc/tuner.cc`). It must not decide what follows from a fact.

use std::str::FromStr;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};
use gdrtune_wire::NetworkUse;

/// Every line of these two levels has one of these after host, process, thread, device and (for warnings) place.
const INFORMATION: &[u8] = b"NCCL INFO ";
const WARNING: &[u8] = b"NCCL WARN ";

/// How many messages of a kind are kept, the last ones, and how many characters of each.
#[derive(Clone, Copy)]
struct Kept {
    messages: usize,
    characters: usize,
}

/// The very last warning may say less than the one before it, and a person reads the start.
const WARNINGS: Kept = Kept { messages: 2, characters: 300 };

/// More than any version says of plugins, in whole: paths are at the ends. NCCL cuts lines at 1024 bytes.
const TUNER_MESSAGES: Kept = Kept { messages: 64, characters: 1024 };

/// What one call ran. Only rank 0 logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ran {
    /// The function; versions before 2.23 do not name it.
    pub(super) collective: Option<Collective>,
    /// Bytes of one rank's part (from 2.24 on), or of the whole collective (before).
    pub(super) bytes: u64,
    pub(super) algorithm: Algorithm,
    pub(super) protocol: Protocol,
    /// How many channels it ran on; versions before 2.24 do not say it.
    pub(super) channels: Option<u16>,
}

impl Ran {
    /// What ran, with what the plugin `told` of it where the log is silent.
    pub(super) fn beside(self, told: Option<Choice>) -> Choice {
        let Self { algorithm, protocol, channels, .. } = self;
        let same = told.filter(|told| (told.algorithm, told.protocol) == (algorithm, protocol));
        Choice { algorithm, protocol, channels: channels.or(same.map(|told| told.channels)).unwrap_or(0) }
    }
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact<'a> {
    /// A call was scheduled.
    Run(Ran),
    /// A collective has at most so many channels.
    Channels(u16),
    /// A connection to another node.
    Connection { path: &'a str, is_send: bool, is_gdr: bool },
    /// Something about tuner plugins.
    Tuner(&'a str),
    /// A warning, which NCCL writes for every failure.
    Warning(&'a str),
}

/// What a log said so far, calls aside.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Most channels of a collective.
    pub(super) channels: Option<u16>,
    /// Connections over the network.
    pub(super) network: NetworkUse,
    /// The last messages about tuner plugins, warnings among them.
    pub(super) tuner: Vec<String>,
    /// The last warnings.
    pub(super) warnings: Vec<String>,
}

impl Facts {
    /// Takes in whole lines.
    pub(super) fn take(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            match fact(line) {
                Some(Fact::Channels(count)) => self.channels = Some(count),
                Some(Fact::Connection { path, is_send, is_gdr }) => self.connect(path, is_send, is_gdr),
                Some(Fact::Tuner(message)) => TUNER_MESSAGES.keep(&mut self.tuner, message),
                Some(Fact::Warning(message)) => {
                    WARNINGS.keep(&mut self.warnings, message);
                    if is_about_tuners(message) {
                        TUNER_MESSAGES.keep(&mut self.tuner, message);
                    }
                }
                Some(Fact::Run(_)) | None => {}
            }
        }
    }

    fn connect(&mut self, path: &str, is_send: bool, is_gdr: bool) {
        let network = &mut self.network;
        if let Err(at) = network.paths.binary_search_by(|known| known.as_str().cmp(path)) {
            network.paths.insert(at, path.to_owned());
        }
        let (all, gdr) = if is_send {
            (&mut network.sends, &mut network.gdr_sends)
        } else {
            (&mut network.receives, &mut network.gdr_receives)
        };
        *all += 1;
        *gdr += u32::from(is_gdr);
    }
}

/// The last call in `lines` that is the one looked for.
pub(super) fn last_run(lines: &[u8], is_wanted: impl Fn(&Ran) -> bool) -> Option<Ran> {
    lines.rsplit(|byte| *byte == b'\n').find_map(|line| match fact(line) {
        Some(Fact::Run(ran)) => Some(ran).filter(&is_wanted),
        _ => None,
    })
}

impl Kept {
    /// Keeps a message among the last ones, once.
    fn keep(self, messages: &mut Vec<String>, message: &str) {
        let is_text = |character: &char| !character.is_control();
        let message: String = message.chars().filter(is_text).take(self.characters).collect();
        messages.retain(|other| *other != message);
        messages.push(message);
        if self.messages < messages.len() {
            messages.remove(0);
        }
    }
}

/// Reads a line. Whatever comes before its last mark is a prefix, or a line that another write cut off.
fn fact(line: &[u8]) -> Option<Fact<'_>> {
    if let Some(message) = after_last(line, INFORMATION) {
        return information(std::str::from_utf8(message).ok()?.trim_ascii());
    }
    let message = std::str::from_utf8(after_last(line, WARNING)?).ok()?.trim_ascii();
    (!message.is_empty()).then_some(Fact::Warning(message))
}

fn after_last<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(mark.len()).rposition(|part| part == mark)?;
    line.get(at + mark.len()..)
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
    let (is_send, way) = match message.split_once(" [send] via ") {
        Some((_, way)) => (true, way),
        None => (false, message.split_once(" [receive] via ")?.1),
    };
    let (path, is_gdr) = connection(way)?;
    Some(Fact::Connection { path, is_send, is_gdr })
}

/// NCCL says `TUNER/Plugin`, `tuner plugin` or `NCCL_TUNER_PLUGIN`; our plugin says `TUNER/gdrtune`.
fn is_about_tuners(message: &str) -> bool {
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

/// `NET/IB/0`, of `NET/IB/0(2)/GDRDMA(PCI)/Shared`; whether the NIC goes to the GPU's memory itself.
fn connection(way: &str) -> Option<(&str, bool)> {
    let mut parts = way.split('/');
    let (kind, name, device) = (parts.next()?, parts.next()?, parts.next()?);
    let device_length = device.bytes().take_while(u8::is_ascii_digit).count();
    if !matches!(kind, "NET" | "COLLNET") || name.is_empty() || device_length == 0 {
        return None;
    }
    let is_gdr = parts.any(|part| part.starts_with("GDRDMA"));
    // Both slashes are one byte each.
    let path = way.get(..kind.len() + name.len() + device_length + 2)?;
    Some((path, is_gdr))
}

fn named<T: Copy>(all: &[T], text: &str, name: impl Fn(T) -> &'static str) -> Option<T> {
    all.iter().copied().find(|value| name(*value).eq_ignore_ascii_case(text))
}

/// A number without sign or blanks, which Rust's own parser would partly take.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{Just, Strategy, any, prop_assert_eq, proptest},
        sample::select,
    };

    use super::*;

    /// As NCCL starts its lines.
    const START: &str = "gpu-1:4711:4713 [0] NCCL INFO ";

    fn read(message: &str) -> Option<Fact<'_>> {
        fact(message.as_bytes())
    }

    fn ran(collective: Option<Collective>, bytes: u64, choice: (Algorithm, Protocol), channels: Option<u16>) -> Ran {
        Ran { collective, bytes, algorithm: choice.0, protocol: choice.1, channels }
    }

    #[test]
    fn calls_of_every_version_are_read() {
        let all_reduce = Some(Collective::AllReduce);
        for (message, expected) in [
            (
                "AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
                Some(ran(all_reduce, 65536, (Algorithm::Ring, Protocol::Ll), Some(2))),
            ),
            (
                "AllGather: 4294967296 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={3..18}",
                Some(ran(Some(Collective::AllGather), 1 << 32, (Algorithm::NvlsTree, Protocol::Simple), Some(16))),
            ),
            (
                "ReduceScatter: 8 Bytes -> Algo COLLNET_DIRECT proto LL128 channel{Lo..Hi}={0..0}",
                Some(ran(Some(Collective::ReduceScatter), 8, (Algorithm::CollNetDirect, Protocol::Ll128), Some(1))),
            ),
            (
                "Broadcast: 16 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..3}",
                Some(ran(Some(Collective::Broadcast), 16, (Algorithm::Pat, Protocol::Simple), Some(4))),
            ),
            // 2.23.
            (
                "AllReduce: 65536 Bytes -> Algo 1 proto 2 time 34.812500",
                Some(ran(all_reduce, 65536, (Algorithm::Ring, Protocol::Simple), None)),
            ),
            // 2.20 to 2.22.
            (
                "65536 Bytes -> Algo 0 proto 0 time 12.500000",
                Some(ran(None, 65536, (Algorithm::Tree, Protocol::Ll), None)),
            ),
            ("65536 Bytes -> Algo 9 proto 0 time 12.500000", None),
            ("Gather: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}", None),
            ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1", None),
            ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={4..1}", None),
            ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..65535}", None),
            ("AllReduce: -1 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}", None),
            ("AllReduce: 65536 Bytes -> Algo Unknown proto LL channel{Lo..Hi}={0..1}", None),
            ("AllReduce: 65536 Bytes -> Algo RING proto LL", None),
            // Other kernels than those of the choice.
            ("AllReduce [Symmetric]: 65536 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1", None),
            ("AllGather [Copy Engine]: 65536 Bytes -> cudaMemcpy", None),
        ] {
            assert_eq!(read(&format!("{START}{message}")), expected.map(Fact::Run), "{message}");
            assert_eq!(read(message), None, "only NCCL's own lines count");
        }
    }

    #[test]
    fn connections_channels_plugins_and_warnings_are_read() {
        let connection = |path, is_send, is_gdr| Some(Fact::Connection { path, is_send, is_gdr });
        for (message, expected) in [
            (
                "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
                Some(Fact::Channels(4)),
            ),
            // 2.19.
            ("16 coll channels, 0 nvls channels, 16 p2p channels, 16 p2p channels per peer", Some(Fact::Channels(16))),
            ("many coll channels, 0 nvls channels", None),
            ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA", connection("NET/IB/0", true, true)),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/12/GDRDMA/Shared", connection("NET/IB/12", false, true)),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/1/GDRDMA(PCI)", connection("NET/IB/1", false, true)),
            ("Channel 01/0 : 1[0] -> 0[0] [send] via NET/IB/1(3)/Shared", connection("NET/IB/1", true, false)),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0", connection("NET/Socket/0", false, false)),
            (
                "Channel 01/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/3/GDRDMA",
                connection("NET/AWS Libfabric/3", true, true),
            ),
            ("CollNet 00/1 : 0 [send] via COLLNET/SHARP/0/GDRDMA", connection("COLLNET/SHARP/0", true, true)),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket", None),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET//0", None),
            ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/x", None),
            ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", None),
            ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", None),
            ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", None),
            ("Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1", None),
            ("Channel 00/02 : 0 1 2 3", None),
            (
                "TUNER/gdrtune: read 3 rules, 3 of them for 2 nodes",
                Some(Fact::Tuner("TUNER/gdrtune: read 3 rules, 3 of them for 2 nodes")),
            ),
            (
                "Successfully loaded external tuner plugin /p.so",
                Some(Fact::Tuner("Successfully loaded external tuner plugin /p.so")),
            ),
            (
                "NCCL_TUNER_PLUGIN set by environment to /p.so",
                Some(Fact::Tuner("NCCL_TUNER_PLUGIN set by environment to /p.so")),
            ),
            ("NCCL_IB_HCA set by environment to mlx5_0", None),
        ] {
            assert_eq!(read(&format!("{START}{message}")), expected, "{message}");
        }
        for (line, expected) in [
            ("gpu-1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStart failed: 110", "socketStart failed: 110"),
            ("[2026-06-01 10:00:00] gpu-1:1:2 [0] /nccl/src/init.cc:77 (initNet) NCCL WARN no net", "no net"),
            ("gpu-1:1:2 [0] a.cc:1 NCCL WARN ", ""),
        ] {
            assert_eq!(read(line), (!expected.is_empty()).then_some(Fact::Warning(expected)));
        }
    }

    #[test]
    fn a_line_that_another_write_cut_off_does_not_hide_the_next() {
        let whole = format!("{START}AllReduce: 8 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}");
        let cut = format!("\0\0{START}AllReduce: 8 Bytes -> Al{whole}");
        assert_eq!(read(&cut), read(&whole));
        assert!(read(&whole).is_some());
    }

    #[test]
    fn facts_add_up_and_the_last_messages_stay() {
        let mut facts = Facts::default();
        let lines = [
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA",
            "Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/0",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/1/GDRDMA",
            "8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels, 8 p2p channels per peer",
            "TUNER/Plugin: NCCL_TUNER_PLUGIN set to x",
            "TUNER/Plugin: Could not find: x",
            "TUNER/Plugin: Using internal tuner plugin.",
        ]
        .map(|message| format!("{START}{message}\n"));
        facts.take(lines.concat().as_bytes());
        facts.take(b"\nh:1:1 [0] a.cc:1 NCCL WARN first\n\nh:1:1 [0] a.cc:1 NCCL WARN second\n\nh:1:1 [0] a.cc:1 NCCL WARN third\n");
        facts.take(b"\nh:1:1 [0] a.cc:1 NCCL WARN second\n");
        assert_eq!(facts.channels, Some(8));
        assert_eq!(
            facts.network,
            NetworkUse {
                paths: vec!["NET/IB/0".into(), "NET/IB/1".into()],
                sends: 2,
                gdr_sends: 1,
                receives: 1,
                gdr_receives: 1,
            }
        );
        let said = ["NCCL_TUNER_PLUGIN set to x", "Could not find: x", "Using internal tuner plugin."];
        assert_eq!(facts.tuner, said.map(|text| format!("TUNER/Plugin: {text}")));
        assert_eq!(facts.warnings, ["third", "second"]);
        facts.take(b"h:1:1 [0] p.so:0 NCCL WARN TUNER/gdrtune: cannot use the rules\n");
        let broken = "TUNER/gdrtune: cannot use the rules".to_owned();
        assert_eq!((facts.tuner.last(), facts.warnings.last()), (Some(&broken), Some(&broken)));
        let path = "\u{e9}".repeat(5000);
        for number in 0..1000 {
            facts.take(format!("{START}TUNER/{number}{path}\n").as_bytes());
        }
        assert!(facts.tuner.len() == 64 && facts.tuner.iter().all(|message| message.chars().count() == 1024));
    }

    #[test]
    fn the_last_call_that_fits_is_found() {
        let line = |bytes: u64, channels: u16| {
            format!("{START}Reduce: {bytes} Bytes -> Algo TREE proto LL channel{{Lo..Hi}}={{0..{}}}\n", channels - 1)
        };
        let lines = [line(64, 1), line(64, 2), line(16, 3), format!("{START}Channel 00/02 : 0 1\n")].concat();
        let found = |bytes| last_run(lines.as_bytes(), |ran| ran.bytes == bytes).and_then(|ran| ran.channels);
        assert_eq!((found(64), found(16), found(8)), (Some(2), Some(3), None));
    }

    #[test]
    fn what_the_log_leaves_open_the_plugin_tells() {
        let tree = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 8 };
        let log = |channels| ran(None, 8, (Algorithm::Tree, Protocol::Ll), channels);
        let other = ran(None, 8, (Algorithm::Ring, Protocol::Ll), None);
        for (ran, told, expected) in [
            (log(Some(2)), Some(tree), "tree/ll/2"),
            (log(Some(2)), None, "tree/ll/2"),
            (log(None), Some(tree), "tree/ll/8"),
            (log(None), None, "tree/ll"),
            (other, Some(tree), "ring/ll"),
        ] {
            assert_eq!(ran.beside(told).to_string(), expected);
        }
    }

    fn any_run() -> impl Strategy<Value = (Collective, u64, Algorithm, Protocol, (u16, u16))> {
        let collectives: Vec<Collective> = Collective::ALL.to_vec();
        (
            select(collectives),
            any::<u64>(),
            select(Algorithm::ALL.to_vec()),
            select(Protocol::ALL.to_vec()),
            (0u16..64).prop_flat_map(|low| (Just(low), low..64)),
        )
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..400), cut in 0usize..400) {
            let mut facts = Facts::default();
            facts.take(&bytes);
            last_run(&bytes, |_| true);
            // Bytes in the place of a message get further in.
            let mut line = START.as_bytes().to_vec();
            line.extend_from_slice(&bytes[..cut.min(bytes.len())]);
            fact(&line);
        }

        #[test]
        fn real_lines_survive_cuts_and_interleaving(run in any_run(), cut in 0usize..120, at in 0usize..120) {
            let (collective, bytes, algorithm, protocol, (low, high)) = run;
            let names = (algorithm.name().to_uppercase(), protocol.name().to_uppercase());
            let line = format!(
                "{START}{}: {bytes} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{{low}..{high}}}",
                collective.nccl_name(), names.0, names.1
            );
            let expected = ran(Some(collective), bytes, (algorithm, protocol), Some(high - low + 1));
            prop_assert_eq!(read(&line), Some(Fact::Run(expected)));
            let (bytes, cut) = (line.as_bytes(), cut.min(line.len()));
            // A line that lacks its start or its end is no call, unless only the host's name is missing.
            prop_assert_eq!(fact(&bytes[..bytes.len() - 1]), None);
            fact(&bytes[cut..]);
            // Another write in the middle, then the whole line.
            let mut mixed = [&bytes[..at.min(bytes.len())], bytes, b"\n"].concat();
            prop_assert_eq!(last_run(&mixed, |_| true), Some(expected));
            mixed.extend_from_slice(&bytes[cut..]);
            last_run(&mixed, |_| true);
        }
    }
}
