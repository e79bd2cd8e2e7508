//! Feeds the UI from the store of a run that another process writes. Reads only.

use std::{sync::Arc, thread, time::Duration};

use gdrtune_session::{
    event::{Event, Owner},
    store::{self, Follower, News, Writer},
};
use tokio::sync::mpsc::UnboundedSender;

use super::Input;

/// Pause between two looks at the store.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A run of another machine that is not seen to be locked is not given up before its store was quiet for so long: file systems
/// are mounted with locks that other machines do not see (Lustre's `localflock`, NFS's `local_lock`).
const FOREIGN_QUIET: Duration = Duration::from_mins(1);

/// Whether the process that writes a run lives, from one look at its store to the next.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// This machine.
    here: String,
    owner: Option<Owner>,
    /// Whether the run has ended, so that it needs no process.
    is_over: bool,
    /// Looks without a writer.
    n_gone: u32,
}

impl Pulse {
    /// Before the first look, which this machine takes.
    pub(crate) fn new(here: String) -> Self {
        Self { here, owner: None, is_over: false, n_gone: 0 }
    }

    /// Takes a look; says what there is to say the moment that it is sure that nobody writes the run any more.
    pub(crate) fn look(&mut self, news: &News) -> Option<String> {
        for event in news.records.iter().map(|record| &record.event) {
            self.owner = store::owner(event).cloned().or(self.owner.take());
            self.is_over = matches!(event, Event::Finished { .. });
        }
        let is_here = self.owner.as_ref().is_none_or(|owner| owner.host == self.here);
        let is_quiet = news.records.is_empty() && (is_here || FOREIGN_QUIET <= news.quiet);
        if self.is_over || news.writer != Writer::Gone || !is_quiet {
            self.n_gone = 0;
            return None;
        }
        // A run that has just been made, or taken up, has no lock for a moment.
        self.n_gone += 1;
        (self.n_gone == 2).then(|| {
            let who = self.owner.as_ref().map(|by| format!(" (pid {} on {})", by.pid, by.host)).unwrap_or_default();
            format!("the process of this run{who} is gone; gdrtune runs resume goes on with it")
        })
    }

    /// Whether the run has ended.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Sends what the store has, and what comes, until nobody listens any more or the store cannot be read.
pub(crate) fn follow(mut follower: Follower, mut pulse: Pulse, sender: &UnboundedSender<Input>) {
    while !sender.is_closed() {
        let news = match follower.news() {
            Ok(news) => news,
            Err(error) => return drop(sender.send(Input::Severed(error.to_string()))),
        };
        let gone = pulse.look(&news);
        let last_ms = news.records.last().map(|record| record.t_ms);
        let records = news.records.into_iter().map(|record| Input::Record(Arc::new(record)));
        // The run's clock has gone on since its last record.
        let now = last_ms.filter(|_| news.writer == Writer::Alive && !pulse.is_over());
        let now = now.map(|t_ms| Input::Tick(t_ms + news.quiet.as_millis() as u64));
        for input in records.chain(now).chain(gone.map(Input::Severed)) {
            // A UI that was left is noticed by the loop.
            sender.send(input).ok();
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_session::event::{Invocation, Phase, Record, RunEnd};

    use super::*;

    fn news(events: &[Event], writer: Writer, quiet: Duration) -> News {
        let record = |event: &Event| Record { seq: 0, t_ms: 0, event: event.clone() };
        News { records: events.iter().map(record).collect(), writer, quiet }
    }

    #[test]
    fn a_run_is_given_up_once_and_only_if_its_process_is_surely_gone() {
        let by = Owner { pid: 4711, host: "head".into() };
        let invoked = Event::Invoked(Invocation { by: by.clone(), ..Invocation::default() });
        let resumed = Event::Resumed { at: String::new(), trials: 1, by: Owner { pid: 4712, ..by } };
        let phase = Event::Phase { phase: Phase::Search };
        let finished = Event::Finished { end: RunEnd::Tuned, summary: String::new() };
        let mut pulse = Pulse::new("head".into());
        for (events, writer, gone) in [
            (&[invoked][..], Writer::Gone, None),
            (&[], Writer::Alive, None),
            (std::slice::from_ref(&phase), Writer::Gone, None),
            (&[], Writer::Unknown, None),
            (&[], Writer::Gone, None),
            (&[], Writer::Gone, Some("pid 4711 on head")),
            (&[], Writer::Gone, None),
            (&[resumed], Writer::Alive, None),
            (&[], Writer::Gone, None),
            (std::slice::from_ref(&phase), Writer::Gone, None),
            (&[], Writer::Gone, None),
            (&[], Writer::Gone, Some("pid 4712 on head")),
            (&[finished], Writer::Gone, None),
            (&[], Writer::Gone, None),
            (&[], Writer::Gone, None),
        ] {
            let said = pulse.look(&news(events, writer, Duration::ZERO));
            assert_eq!(said.is_some(), gone.is_some(), "{events:?} {writer:?}: {said:?}");
            assert!(said.unwrap_or_default().contains(gone.unwrap_or_default()), "{events:?}");
        }
        assert!(pulse.is_over());
    }

    #[test]
    fn a_lock_that_another_machine_may_not_see_is_not_all() {
        let by = Owner { pid: 4711, host: "node01".into() };
        let mut pulse = Pulse::new("login".into());
        pulse.look(&news(&[Event::Invoked(Invocation { by, ..Invocation::default() })], Writer::Gone, Duration::ZERO));
        let mut look = |quiet| pulse.look(&news(&[], Writer::Gone, quiet)).is_some();
        let (short, long) = (FOREIGN_QUIET / 2, FOREIGN_QUIET);
        assert_eq!(
            [short, short, short, long, short, long, long].map(&mut look),
            [false, false, false, false, false, false, true]
        );
    }
}
