//! Takes the data connections that other ranks open to this one.
//!
//! One thread owns the listening sockets and every connection that has not proven itself yet. It never waits for a single
//! connection, each has a deadline, and their number is bounded: strangers that are silent, flood or send garbage cost a
//! bounded amount of memory and hold nobody up. Connections that have proven themselves are handed over by rank and lane.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    rand::{GetRandomFlags, getrandom},
};

use super::{
    super::transport::{Identity, Link},
    handshake::{End, HELLO_BYTES, Hello, NONCE_BYTES, PROOF_BYTES, is_same_proof, prove},
};

/// Time for one handshake. A peer's takes a few round trips.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Connections in mid-handshake. Where there are more the oldest goes: a peer's handshake is over long before, and a peer
/// that is pushed out dials again.
const MAX_PENDING: usize = 256;

#[derive(Default)]
struct Arrivals {
    ready: Mutex<HashMap<Link, TcpStream>>,
    changed: Condvar,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, HashMap<Link, TcpStream>> {
        // The map is whole after every statement, so a panic elsewhere does not harm it.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The listening end of a rank. Dropping it ends its thread and closes its sockets.
pub(super) struct Acceptor {
    addresses: Vec<SocketAddr>,
    arrivals: Arc<Arrivals>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Listens on a free port of each address.
    pub(super) fn start(identity: Identity, addresses: &[Ipv4Addr]) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for &address in addresses {
            let listener = TcpListener::bind((address, 0))?;
            listener.set_nonblocking(true)?;
            listeners.push(listener);
        }
        let bound = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let arrivals = Arc::new(Arrivals::default());
        let mut room =
            Room { identity, listeners, pending: vec![], arrivals: Arc::clone(&arrivals), stop: Arc::clone(&stop) };
        let thread = std::thread::Builder::new().name("acceptor".into()).spawn(move || room.serve())?;
        Ok(Self { addresses: bound, arrivals, stop, thread: Some(thread) })
    }

    /// Where it listens, in the order of the given addresses.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits for the peer's connection; `None` at the deadline.
    pub(super) fn take(&self, link: Link, deadline: Instant) -> Option<TcpStream> {
        let mut ready = self.arrivals.lock();
        loop {
            if let Some(stream) = ready.remove(&link) {
                return Some(stream);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.arrivals.changed.wait_timeout(ready, left);
            ready = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let is_told = rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_told) {
            // A panic of the thread has been reported by its hook.
            drop(thread.join());
        }
    }
}

/// A connection in mid-handshake.
struct Pending {
    stream: TcpStream,
    deadline: Instant,
    received: Vec<u8>,
    /// What the other end said first, and the nonce that it was answered with.
    answered: Option<(Hello, [u8; NONCE_BYTES])>,
}

/// What a look at a pending connection came to.
enum Progress {
    Waiting,
    Proven(Link),
    Refused,
}

struct Room {
    identity: Identity,
    listeners: Vec<TcpListener>,
    pending: Vec<Pending>,
    arrivals: Arc<Arrivals>,
    stop: Arc<OwnedFd>,
}

impl Room {
    fn serve(&mut self) {
        while let Ok(true) = self.wait() {
            self.accept();
            let now = Instant::now();
            for mut pending in std::mem::take(&mut self.pending) {
                match pending.advance(&self.identity) {
                    Progress::Waiting if now < pending.deadline => self.pending.push(pending),
                    Progress::Waiting | Progress::Refused => {}
                    Progress::Proven(link) => {
                        // A newer connection replaces one whose other end has given it up.
                        drop(self.arrivals.lock().insert(link, pending.stream));
                        self.arrivals.changed.notify_all();
                    }
                }
            }
        }
    }

    /// Blocks until there is something to do; false when it is told to stop.
    fn wait(&self) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.pending.iter().map(|pending| PollFd::new(&pending.stream, PollFlags::IN)));
        let first = self.pending.iter().map(|pending| pending.deadline).min();
        let left = first.map(|deadline| deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => Ok(fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        for listener in &self.listeners {
            // A flood on one listener must not keep the others and the pending ones waiting.
            for _ in 0..MAX_PENDING {
                match listener.accept() {
                    Ok((stream, _)) => {
                        if stream.set_nonblocking(true).is_err() {
                            continue;
                        }
                        if self.pending.len() >= MAX_PENDING {
                            drop(self.pending.remove(0));
                        }
                        let deadline = Instant::now() + HANDSHAKE_LIMIT;
                        self.pending.push(Pending { stream, deadline, received: vec![], answered: None });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(_) => {
                        // Out of descriptors or memory: the oldest pending one makes room, and a pause keeps a lasting
                        // shortage from becoming a busy loop.
                        if !self.pending.is_empty() {
                            drop(self.pending.remove(0));
                        }
                        std::thread::sleep(Duration::from_millis(5));
                        break;
                    }
                }
            }
        }
    }
}

impl Pending {
    fn advance(&mut self, identity: &Identity) -> Progress {
        loop {
            let wanted = if self.answered.is_some() { PROOF_BYTES } else { HELLO_BYTES };
            // Never reads beyond the handshake: what follows belongs to the collectives.
            let mut room = [0; HELLO_BYTES];
            let missing = wanted - self.received.len();
            match self.stream.read(&mut room[..missing]) {
                Ok(0) => return Progress::Refused,
                Ok(n) => self.received.extend_from_slice(&room[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Waiting,
                Err(_) => return Progress::Refused,
            }
            if self.received.len() < wanted {
                continue;
            }
            let message = std::mem::take(&mut self.received);
            match self.answered {
                None => {
                    let Some(answered) = self.answer(identity, &message) else { return Progress::Refused };
                    self.answered = Some(answered);
                }
                Some((hello, nonce)) => return judge(identity, &hello, &nonce, &message),
            }
        }
    }

    /// Answers a hello; `None` where it is not for this rank or cannot be answered.
    fn answer(&mut self, identity: &Identity, message: &[u8]) -> Option<(Hello, [u8; NONCE_BYTES])> {
        let hello = Hello::decode(message.first_chunk()?)?;
        if hello.to != identity.rank || hello.from >= identity.world {
            return None;
        }
        let nonce = fresh_nonce().ok()?;
        let proof = prove(&identity.key, End::Listening, &hello, &nonce);
        // 64 bytes fit the empty send buffer of a new connection at once.
        self.stream.write_all(&[nonce, proof].concat()).ok()?;
        Some((hello, nonce))
    }
}

fn judge(identity: &Identity, hello: &Hello, nonce: &[u8; NONCE_BYTES], message: &[u8]) -> Progress {
    let expected = prove(&identity.key, End::Dialling, hello, nonce);
    match message.first_chunk() {
        Some(proof) if is_same_proof(proof, &expected) => Progress::Proven((hello.from, hello.lane as usize)),
        _ => Progress::Refused,
    }
}

/// Random bytes that were never used before.
pub(super) fn fresh_nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    // Up to 256 bytes come whole once the kernel's pool is ready (getrandom(2)).
    getrandom(&mut nonce, GetRandomFlags::empty())?;
    Ok(nonce)
}
