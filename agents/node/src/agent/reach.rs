//! What an agent does to find out whether nodes reach each other: it listens for a while, and dials others.

use std::{
    io,
    sync::mpsc::SyncSender,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use gdrtune_wire::{DialFault, DialRequest, Dialled, ListenRequest, MOST_TARGETS};

use super::event::Event;
use crate::engine::native::tcp::reach::{self, Listener};

/// Longest time that an agent listens, whatever it is asked for.
const LONGEST: Duration = Duration::from_mins(1);

/// What is open for others.
#[derive(Default)]
pub(super) struct Reach {
    open: Option<(Listener, Instant)>,
}

impl Reach {
    /// Listens, in the place of what was open before. Each address's port.
    pub(super) fn listen(&mut self, now: Instant, request: &ListenRequest) -> Result<Vec<u16>, String> {
        self.open = None;
        if MOST_TARGETS < request.addresses.len() {
            return Err(format!("{} addresses are too many: at most {MOST_TARGETS}", request.addresses.len()));
        }
        let listener = Listener::start(request).map_err(|error| error.to_string())?;
        let ports = listener.ports();
        self.open = Some((listener, now + Duration::from_millis(request.lifetime_ms).min(LONGEST)));
        Ok(ports)
    }

    /// Closes what has been open for long enough.
    pub(super) fn tick(&mut self, now: Instant) {
        self.open.take_if(|(_, until)| *until <= now);
    }
}

/// Dials all targets at the same time, on threads of their own, and sends what came of it as an event.
pub(super) fn dial(request: DialRequest, events: SyncSender<Event>) -> Result<(), String> {
    if MOST_TARGETS < request.targets.len() {
        return Err(format!("{} targets are too many: at most {MOST_TARGETS}", request.targets.len()));
    }
    let started = super::spawn_thread("dial", move || {
        let dialled = dial_all(&request);
        // Fails only when the agent has ended.
        events.send(Event::Dialled(dialled)).ok();
    });
    started.map_err(|error| format!("start a thread for it: {error}"))
}

fn dial_all(request: &DialRequest) -> Vec<Dialled> {
    std::thread::scope(|scope| {
        let dialling = request.targets.iter().map(|target| {
            let builder = std::thread::Builder::new().name("dial".to_owned()).stack_size(super::STACK_BYTES);
            (target, builder.spawn_scoped(scope, move || reach::dial(request, target)))
        });
        // All are started before the first is waited for.
        let dialling: Vec<_> = dialling.collect();
        let outcome = |thread: io::Result<std::thread::ScopedJoinHandle<'_, Result<u64, DialFault>>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(DialFault::Other("its thread died".to_owned()))),
            Err(error) => Err(DialFault::Other(format!("start a thread for it: {error}"))),
        };
        let all = dialling.into_iter();
        all.map(|(to, thread)| Dialled { number: to.number, place: to.place, outcome: outcome(thread) }).collect()
    })
}

/// The node's clock, in microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "how far clocks are apart is what is asked for; nothing waits for it")]
pub(super) fn clock_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use gdrtune_wire::{DialTarget, SessionKey};

    use super::*;

    const KEY: SessionKey = SessionKey([9; 32]);

    #[test]
    fn a_listener_has_an_end_and_gives_way_to_the_next() {
        let (mut reach, now) = (Reach::default(), Instant::now());
        let request = |lifetime_ms| ListenRequest {
            number: 1,
            nodes: 2,
            key: KEY,
            addresses: vec![Ipv4Addr::LOCALHOST; 2],
            lifetime_ms,
        };
        let ports = reach.listen(now, &request(u64::MAX)).unwrap();
        let dial = |ports: &[u16]| {
            let target = |(place, port): (usize, &u16)| DialTarget {
                number: 1,
                place: place as u32,
                address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port),
            };
            let targets = ports.iter().enumerate().map(target).collect();
            dial_all(&DialRequest { number: 0, key: KEY, targets, limit_ms: 5000 })
        };
        let both = dial(&ports);
        assert!(both.iter().all(|dialled| dialled.outcome.is_ok()), "{both:?}");
        assert_eq!(both.iter().map(|dialled| dialled.place).collect::<Vec<_>>(), [0, 1]);

        let next = reach.listen(now, &request(1000)).unwrap();
        assert_eq!(dial(&ports[..1])[0].outcome, Err(DialFault::Refused), "the first is closed");
        reach.tick(now + Duration::from_millis(999));
        assert!(dial(&next)[0].outcome.is_ok());
        reach.tick(now + Duration::from_secs(1));
        assert_eq!(dial(&next)[0].outcome, Err(DialFault::Refused));

        let many = ListenRequest { addresses: vec![Ipv4Addr::LOCALHOST; MOST_TARGETS + 1], ..request(1) };
        assert_eq!(reach.listen(now, &many), Err("65 addresses are too many: at most 64".to_owned()));
    }
}
