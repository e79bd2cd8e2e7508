//! A barrier of all ranks over the data connections, in a logarithmic number of rounds (dissemination).
//!
//! It carries a token, which must be equal on all ranks, and a flag, which comes out true where any rank put it in.

use std::{collections::BTreeSet, time::Instant};

use gdrtune_profiles::vocab::Protocol;
use rustix::event::PollFlags;

use super::{
    transport::{Connection, Link, Mesh},
    wait::Waiter,
};
use crate::engine::EngineError;

const MESSAGE_BYTES: usize = 9;

/// How the few bytes cross.
const PROTOCOL: Protocol = Protocol::Ll;

/// The connections that a rank's barriers use: those of one lane.
pub(super) fn links(rank: u32, world: u32, lane: usize) -> BTreeSet<Link> {
    distances(world)
        .flat_map(|distance| [(rank + distance) % world, (rank + world - distance) % world])
        .map(|peer| (peer, lane))
        .collect()
}

fn distances(world: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |distance| distance.checked_mul(2)).take_while(move |&distance| distance < world)
}

/// Waits until every rank is here. `what` says for people what this rank is about to do.
pub(super) fn meet(
    mesh: &mut Mesh,
    (rank, world): (u32, u32),
    (token, mut flag): (u64, bool),
    what: &str,
    deadline: Instant,
) -> Result<bool, EngineError> {
    let lane = mesh.meeting_lane();
    for distance in distances(world) {
        let to = mesh.table.position(((rank + distance) % world, lane))?;
        let source = (rank + world - distance) % world;
        let from = mesh.table.position((source, lane))?;
        let connections = mesh.table.connections();
        let mut message = [0; MESSAGE_BYTES];
        message[..8].copy_from_slice(&token.to_le_bytes());
        message[8] = u8::from(flag);
        send_all(connections, to, &message, deadline)?;
        receive_all(connections, from, &mut message, deadline)?;
        if message[..8] != token.to_le_bytes() {
            return Err(EngineError::Disagreement { rank: source, here: what.to_owned() });
        }
        flag |= message[8] != 0;
    }
    Ok(flag)
}

pub(super) fn send_all(
    connections: &mut [Box<dyn Connection>],
    position: usize,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), EngineError> {
    let mut waiter = Waiter::new(deadline);
    while !bytes.is_empty() {
        let sent = connections[position].send(PROTOCOL, bytes)?;
        bytes = &bytes[sent..];
        if sent == 0 {
            waiter.wait(connections, || vec![(position, PollFlags::OUT)])?;
        }
    }
    Ok(())
}

pub(super) fn receive_all(
    connections: &mut [Box<dyn Connection>],
    position: usize,
    room: &mut [u8],
    deadline: Instant,
) -> Result<(), EngineError> {
    let mut waiter = Waiter::new(deadline);
    let mut done = 0;
    while done < room.len() {
        match connections[position].receive(PROTOCOL, &mut room[done..])? {
            Some(bytes) => done += bytes,
            None => waiter.wait(connections, || vec![(position, PollFlags::IN)])?,
        }
    }
    Ok(())
}
