//! All-to-alls that are made of sends and receives: NCCL has one of its own from 2.28 on, and frameworks and nccl-tests
//! made it of a send to and a receive from every rank before (`torch/csrc/cuda/nccl.cpp`, `all2all_single_equal_split`;
//! nccl-tests `src/alltoall.cu`).

use std::collections::BTreeSet;

use super::tally::{Reason, Tally};

/// Sends and receives in a row, of one rank on one communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    sends: BTreeSet<u64>,
    receives: BTreeSet<u64>,
    bytes: Option<u64>,
}

impl Pairs {
    /// Takes a send or a receive in. Once every rank had one of each, of the same bytes, they were an all-to-all, and this
    /// is the size of a block.
    pub(super) fn take(
        &mut self,
        is_send: bool,
        peer: u64,
        bytes: u64,
        ranks: u32,
        tally: &mut Tally,
        file: &str,
    ) -> Option<u64> {
        let is_peer = peer < u64::from(ranks);
        let twice = if is_send { self.sends.contains(&peer) } else { self.receives.contains(&peer) };
        if twice || self.bytes.is_some_and(|known| known != bytes) {
            self.end(tally, file);
        }
        if !is_peer {
            tally.leave_out(Reason::PointToPoint, 1, || format!("in {file}"));
            return None;
        }
        if is_send {
            self.sends.insert(peer)
        } else {
            self.receives.insert(peer)
        };
        self.bytes = Some(bytes);
        let is_whole = self.sends.len() == ranks as usize && self.receives.len() == ranks as usize;
        if is_whole {
            *self = Self::default();
            tally.note("all-to-alls were recognised by a send to and a receive from every rank".to_owned());
        }
        is_whole.then_some(bytes)
    }

    /// What is here is no all-to-all.
    pub(super) fn end(&mut self, tally: &mut Tally, file: &str) {
        let calls = (self.sends.len() + self.receives.len()) as u64;
        if 0 < calls {
            tally.leave_out(Reason::PointToPoint, calls, || format!("in {file}"));
            *self = Self::default();
        }
    }
}
