//! How a rank waits for its peers: a short spin that yields, then a blocking poll where sockets can be polled.
//!
//! A blocked process costs its waker a system call's worth of scheduling, which is longer than most small messages take.
//! An unbounded spin starves the very peer that it waits for where there are more ranks than processors. So every turn of
//! the spin yields the processor, and the number of turns is bounded.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::transport::Connection;
use crate::engine::EngineError;

/// Turns before blocking. A turn with nobody to yield to takes about 1 us, a wake-up 5 to 50 us. On four ranks and two
/// processors 2 to 300 turns measured alike and none 2 to 4 times worse below 64 KiB, so it is few.
const SPIN_TURNS: u32 = 20;

/// How long memory is watched without sleeping: longer than a peer takes for a step of any but the largest messages, as the
/// kernel's shortest sleep (some 60 us) would be longer than a whole small call.
const WATCHED: Duration = Duration::from_millis(2);

/// Sleep between two looks at memory after that, so that a rank whose peer is stuck does not take a core from it.
const NAP: Duration = Duration::from_micros(100);

/// State of one wait.
pub(super) struct Waiter {
    turns: u32,
    /// When the present wait outlasted its spin, where memory is watched.
    quiet_since: Option<Instant>,
    deadline: Instant,
}

impl Waiter {
    /// A waiter that gives up at `deadline`.
    pub(super) fn new(deadline: Instant) -> Self {
        Self { turns: 0, quiet_since: None, deadline }
    }

    /// Something moved: the next wait begins with a spin again.
    pub(super) fn rest(&mut self) {
        self.turns = 0;
        self.quiet_since = None;
    }

    /// Lets time pass: returns when something may have happened on the connections that `interest` names by position.
    pub(super) fn wait(
        &mut self,
        connections: &mut [Box<dyn Connection>],
        interest: impl FnOnce() -> Vec<(usize, PollFlags)>,
    ) -> Result<(), EngineError> {
        if self.turns < SPIN_TURNS {
            self.turns += 1;
            rustix::thread::sched_yield();
            return Ok(());
        }
        let wanted = interest();
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(give_up(connections, &wanted));
        }
        let sockets: Option<Vec<PollFd<'_>>> =
            wanted.iter().map(|&(position, flags)| Some(PollFd::new(connections[position].socket()?, flags))).collect();
        match sockets {
            Some(mut sockets) => block(&mut sockets, left),
            None => self.watch(connections, &wanted, left),
        }
    }

    /// Lets time pass where data comes without a word of the kernel.
    fn watch(
        &mut self,
        connections: &mut [Box<dyn Connection>],
        wanted: &[(usize, PollFlags)],
        left: Duration,
    ) -> Result<(), EngineError> {
        let quiet = self.quiet_since.get_or_insert_with(Instant::now).elapsed();
        for &(position, _) in wanted {
            connections[position].look(quiet)?;
        }
        if quiet < WATCHED {
            rustix::thread::sched_yield();
        } else {
            std::thread::sleep(left.min(NAP));
        }
        Ok(())
    }
}

/// Waits until a socket is ready, or the time is over.
fn block(sockets: &mut [PollFd<'_>], left: Duration) -> Result<(), EngineError> {
    // Rounded up, so that a rest below the clock's resolution does not become a spin.
    let timeout = Timespec::try_from(left + Duration::from_millis(1)).ok();
    match poll(sockets, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(EngineError::System { what: "poll data sockets".to_owned(), source: error.into() }),
    }
}

fn give_up(connections: &[Box<dyn Connection>], wanted: &[(usize, PollFlags)]) -> EngineError {
    let mut ranks: Vec<u32> = wanted.iter().map(|&(position, _)| connections[position].peer()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    EngineError::Deadline { awaited: format!("data of rank {ranks}") }
}
