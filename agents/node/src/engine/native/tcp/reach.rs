//! Whether nodes reach each other: the data sockets' listener and dialling, without a collective behind them. For agents.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use gdrtune_wire::{DialFault, DialRequest, DialTarget, ListenRequest};

use super::{DialError, acceptor::Acceptor, dial_once};
use crate::engine::native::transport::Identity;

/// Takes connections until it is dropped.
pub(crate) struct Listener {
    acceptor: Acceptor,
}

impl Listener {
    /// Listens on a free port of each address.
    ///
    /// # Errors
    /// Where one of them is not this machine's, or the kernel has no more sockets.
    pub(crate) fn start(request: &ListenRequest) -> io::Result<Self> {
        let identity = Identity { rank: request.number, world: request.nodes, key: request.key.clone() };
        let addresses: &[Ipv4Addr] = &request.addresses;
        Ok(Self { acceptor: Acceptor::start(identity, addresses)? })
    }

    /// The ports, in the order of the addresses.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.acceptor.addresses().iter().map(SocketAddr::port).collect()
    }
}

/// Connects to one node and hangs up once both ends have proven themselves. The time that took, in microseconds.
///
/// # Errors
/// What kind of obstacle there is.
pub(crate) fn dial(request: &DialRequest, target: &DialTarget) -> Result<u64, DialFault> {
    // Whom it may dial is the listening end's to say.
    let identity = Identity { rank: request.number, world: u32::MAX, key: request.key.clone() };
    let begun = Instant::now();
    let link = (target.number, target.place as usize);
    let dialled =
        dial_once(&identity, link, SocketAddr::V4(target.address), Duration::from_millis(request.limit_ms.max(1)));
    dialled.map_err(fault)?;
    Ok(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
}

fn fault(error: DialError) -> DialFault {
    let error = match error {
        DialError::NotOurs => return DialFault::Stranger,
        DialError::Silent => return DialFault::Silent,
        DialError::Io(error) => error,
    };
    match error.kind() {
        ErrorKind::ConnectionRefused => DialFault::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => DialFault::NoRoute(error.to_string()),
        // The connection is there, and its other end wants nothing of us.
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => DialFault::Stranger,
        _ => DialFault::Other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddrV4, TcpListener};

    use gdrtune_wire::SessionKey;

    use super::*;

    const KEY: SessionKey = SessionKey([3; 32]);

    fn listen(number: u32) -> Listener {
        let addresses = vec![Ipv4Addr::LOCALHOST];
        Listener::start(&ListenRequest { number, nodes: 4, key: KEY, addresses, lifetime_ms: 1000 }).unwrap()
    }

    fn try_dial(number: u32, port: u16, key: SessionKey, limit_ms: u64) -> Result<u64, DialFault> {
        let target = DialTarget { number, place: 0, address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) };
        dial(&DialRequest { number: 0, key, targets: vec![target], limit_ms }, &target)
    }

    #[test]
    fn a_node_is_reached_and_what_is_in_the_way_is_told_apart() {
        let listener = listen(1);
        let port = listener.ports()[0];
        assert!(try_dial(1, port, KEY, 5000).is_ok());
        // The same address on another node: a container bridge that every node has.
        assert_eq!(try_dial(2, port, KEY, 5000), Err(DialFault::Stranger));
        assert_eq!(try_dial(1, port, SessionKey([4; 32]), 5000), Err(DialFault::Stranger));
        drop(listener);
        assert_eq!(try_dial(1, port, KEY, 5000), Err(DialFault::Refused));
        // Taken by the kernel, answered by nobody.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(try_dial(1, mute.local_addr().unwrap().port(), KEY, 50), Err(DialFault::Silent));
        let elsewhere = ListenRequest {
            number: 0,
            nodes: 1,
            key: KEY,
            addresses: vec![Ipv4Addr::new(192, 0, 2, 1)],
            lifetime_ms: 1,
        };
        assert!(Listener::start(&elsewhere).is_err(), "an address of nobody's");
    }
}
