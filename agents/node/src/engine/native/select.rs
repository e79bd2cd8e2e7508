//! What an item runs: the asked choice made possible, or the engine's own. Pure; every rank must come to the same result.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};

use super::pump::{Manner, Pace};

/// NCCL's own limit since 2.25 (`MAXCHANNELS`, `src/include/device.h`).
const MAX_CHANNELS: usize = 64;

/// Fewest bytes of the buffer that are worth a channel; smaller shares are all overhead.
const MIN_CHANNEL_BYTES: usize = 256;

/// Slot of `ll128` in bytes: two of the loopback's and four to five of Ethernet's largest frames' worth, small enough that
/// a ring of a few ranks overlaps from 64 KiB on.
const SLOT_BYTES: usize = 16 << 10;

/// What a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) algorithm: Algorithm,
    pub(super) protocol: Protocol,
    pub(super) channels: usize,
}

impl Selected {
    /// As the outside names it; collectives without a choice have none.
    pub(super) fn choice(self, collective: Collective) -> Option<Choice> {
        let Self { algorithm, protocol, channels } = self;
        collective.has_choice().then_some(Choice { algorithm, protocol, channels: channels as u16 })
    }

    /// How the protocol moves data.
    pub(super) const fn manner(self, chunk_bytes: usize) -> Manner {
        let pace = match self.protocol {
            Protocol::Ll => Pace::Whole,
            Protocol::Ll128 => Pace::Pieces(SLOT_BYTES),
            Protocol::Simple => Pace::Pieces(chunk_bytes),
        };
        Manner { protocol: self.protocol, pace }
    }
}

/// What the selection depends on besides the choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) collective: Collective,
    pub(super) bytes: usize,
    pub(super) world: u32,
    /// Bound interfaces or HCA ports, which channels go round over.
    pub(super) rails: usize,
}

/// Follows `choice` as far as the engine can. The error says for people why it cannot.
pub(super) fn select(choice: Option<Choice>, at: Circumstances) -> Result<Selected, String> {
    let own = own_choice(at);
    let Some(choice) = choice else { return Ok(Selected { channels: possible_channels(own.channels, at), ..own }) };
    let collective = at.collective;
    if !collective.has_choice() {
        return Err(format!("{collective} takes no choice of algorithm and protocol"));
    }
    let has_tree = matches!(collective, Collective::AllReduce | Collective::Broadcast | Collective::Reduce);
    match choice.algorithm {
        Algorithm::Ring => {}
        Algorithm::Tree if has_tree => {}
        Algorithm::Tree => return Err(format!("{collective} has no tree on the native engine: use ring")),
        other => return Err(format!("the native engine has no {other}: use ring or tree")),
    }
    let wanted = if choice.channels == 0 { own.channels } else { usize::from(choice.channels) };
    let channels = possible_channels(wanted, at);
    Ok(Selected { algorithm: choice.algorithm, protocol: choice.protocol, channels })
}

/// At least one channel for each rail, as NCCL builds a ring for each; at most what the message is worth.
fn possible_channels(wanted: usize, at: Circumstances) -> usize {
    wanted.max(at.rails).min(MAX_CHANNELS).min((at.bytes / MIN_CHANNEL_BYTES).max(1))
}

/// The engine's own choice, by size alone, as NCCL's tuning chooses: the tree's few messages while latency rules, the
/// ring's even load afterwards; whole steps while they are short, chunks when there is something to overlap. The limits
/// are those of four ranks on two cores over loopback (`benches/openmpi`).
fn own_choice(at: Circumstances) -> Selected {
    let (algorithm, protocol) = match at.collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast if at.bytes <= 64 << 10 => {
            (Algorithm::Tree, Protocol::Ll)
        }
        _ if at.bytes / at.world.max(1) as usize <= 1 << 20 => (Algorithm::Ring, Protocol::Ll),
        _ => (Algorithm::Ring, Protocol::Simple),
    };
    Selected { algorithm, protocol, channels: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(bytes: usize, rails: usize) -> Circumstances {
        Circumstances { collective: Collective::AllReduce, bytes, world: 4, rails }
    }

    #[test]
    fn channels_follow_interfaces_and_size() {
        for (asked, bytes, interfaces, expected) in [
            (1, 1 << 20, 1, 1),
            (1, 1 << 20, 3, 3),
            (0, 1 << 20, 2, 2),
            (5, 1 << 20, 2, 5),
            (500, 1 << 20, 1, MAX_CHANNELS),
            (8, 600, 1, 2),
            (1, 255, 2, 1),
            (4, 0, 1, 1),
        ] {
            let asked = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: asked };
            let selected = select(Some(asked), at(bytes, interfaces)).unwrap();
            assert_eq!(selected.channels, expected, "{asked} {bytes} {interfaces}");
            assert_eq!(select(None, at(1 << 20, interfaces)).unwrap().channels, interfaces);
        }
    }

    #[test]
    fn the_own_choice_can_always_be_run() {
        for &collective in Collective::ALL {
            for shift in 0..40 {
                let at = Circumstances { collective, ..at(1 << shift, 2) };
                let own = select(None, at).unwrap();
                if let Some(choice) = own.choice(collective) {
                    assert_eq!(select(Some(choice), at), Ok(own), "{collective} {shift}");
                }
            }
        }
    }

    #[test]
    fn protocols_let_data_out_in_their_way() {
        for (pace, ready, expected) in [
            (Pace::Whole, 99, 0),
            (Pace::Whole, 100, 100),
            (Pace::Pieces(30), 29, 0),
            (Pace::Pieces(30), 89, 60),
            (Pace::Pieces(30), 100, 100),
        ] {
            assert_eq!(pace.release(ready, 100), expected, "{pace:?} {ready}");
        }
    }
}
