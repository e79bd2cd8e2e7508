//! What a worker keeps of NCCL's log, whose lines [`gdrtune_profiles::grammar::nccl_log`] reads.
//!
//! Pure, and total: any bytes are taken. It must not decide what follows from a fact.

use std::collections::BTreeSet;

use gdrtune_profiles::grammar::nccl_log::{self, Connection, Fact, NetworkWay, Ran, Side, Way};
use gdrtune_wire::NetworkUse;

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

/// Connections that differ, and what decides about GPU Direct RDMA for the HCAs and GPUs of a large node.
const GDR_LINES: Kept = Kept { messages: 64, characters: 300 };

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
    /// The first lines of those that decide about GPU Direct RDMA.
    gdr: Vec<String>,
    /// Ways of connections without it, of which a line is among them.
    indirect: BTreeSet<(Side, String)>,
}

impl Facts {
    /// Takes in whole lines.
    pub(super) fn take(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            let fact = nccl_log::fact(line);
            if fact.as_ref().is_some_and(|fact| self.is_news_of_gdr(fact)) {
                GDR_LINES.keep_first(&mut self.gdr, &String::from_utf8_lossy(line));
            }
            match fact {
                Some(Fact::Channels(count)) => self.channels = Some(count),
                Some(Fact::Connection(Connection { way: Way::Network(side, way), .. })) => self.connect(side, way),
                Some(Fact::Tuner(message)) => TUNER_MESSAGES.keep(&mut self.tuner, message),
                Some(Fact::Warning(message)) => {
                    WARNINGS.keep(&mut self.warnings, message);
                    if nccl_log::is_about_tuners(message) {
                        TUNER_MESSAGES.keep(&mut self.tuner, message);
                    }
                }
                _ => {}
            }
        }
    }

    /// Lines that decide about GPU Direct RDMA, where some connection does without.
    pub(super) fn gdr_lines(&self) -> Vec<String> {
        let network = &self.network;
        let is_complete = (network.sends, network.receives) == (network.gdr_sends, network.gdr_receives);
        if is_complete { vec![] } else { self.gdr.clone() }
    }

    /// Whether a line belongs to those. Of connections that go the same way without it, the first one does.
    fn is_news_of_gdr(&mut self, fact: &Fact<'_>) -> bool {
        match fact {
            Fact::Connection(Connection { way: Way::Network(side, way), .. }) => {
                !way.is_gdr && self.indirect.insert((*side, way.path.to_owned()))
            }
            fact => fact.is_about_gdr(),
        }
    }

    fn connect(&mut self, side: Side, NetworkWay { path, is_gdr, .. }: NetworkWay<'_>) {
        let network = &mut self.network;
        if let Err(at) = network.paths.binary_search_by(|known| known.as_str().cmp(path)) {
            network.paths.insert(at, path.to_owned());
        }
        let (all, gdr) = match side {
            Side::Send => (&mut network.sends, &mut network.gdr_sends),
            Side::Receive => (&mut network.receives, &mut network.gdr_receives),
        };
        *all += 1;
        *gdr += u32::from(is_gdr);
    }
}

/// The last call in `lines` that is the one looked for.
pub(super) fn last_run(lines: &[u8], is_wanted: impl Fn(&Ran) -> bool) -> Option<Ran> {
    lines.rsplit(|byte| *byte == b'\n').find_map(|line| match nccl_log::fact(line) {
        Some(Fact::Run(ran)) => Some(ran).filter(&is_wanted),
        _ => None,
    })
}

impl Kept {
    /// Keeps a message among the first ones.
    fn keep_first(self, messages: &mut Vec<String>, message: &str) {
        if messages.len() < self.messages {
            messages.push(self.cut(message));
        }
    }

    fn cut(self, message: &str) -> String {
        message.chars().filter(|character| !character.is_control()).take(self.characters).collect()
    }

    /// Keeps a message among the last ones, once.
    fn keep(self, messages: &mut Vec<String>, message: &str) {
        let message = self.cut(message);
        messages.retain(|other| *other != message);
        messages.push(message);
        if self.messages < messages.len() {
            messages.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, proptest},
    };

    use super::*;

    /// As NCCL starts its lines.
    const START: &str = "gpu-1:4711:4713 [0] NCCL INFO ";

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
    fn what_decides_about_direct_access_is_kept_where_it_is_not_used() {
        let line = |message: &str| format!("{START}{message}\n");
        let disabled = line("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'");
        let call = line("AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}");
        let [plain, again] = [0, 1].map(|n| line(&format!("Channel 0{n}/0 : 0[0] -> 1[0] [send] via NET/IB/0")));
        let mut facts = Facts::default();
        facts.take(
            [&*disabled, &line("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA"), &call].concat().as_bytes(),
        );
        assert_eq!(facts.gdr_lines(), [""; 0], "all connections have it");
        facts.take([&*plain, &again].concat().as_bytes());
        assert_eq!(facts.gdr_lines(), [disabled.trim_end(), plain.trim_end()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in vec(any::<u8>(), 0..400)) {
            let mut facts = Facts::default();
            facts.take(&bytes);
            last_run(&bytes, |_| true);
        }
    }
}
