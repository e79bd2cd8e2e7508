//! Tests between nodes: whom each dials, and what comes of it. None waits longer than its deadline.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

use gdrtune_wire::{DialFault, DialRequest, DialTarget, FromAgent, ListenRequest, MOST_TARGETS, SessionKey, ToAgent};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{Clock, Contact};
use crate::cluster::link::{Link, LinkEvent};

/// Nodes of which every pair is tried: of 8 that is 56 connections, of 9 to 1,000 the ring and chance take 4 for each node.
const ALL_PAIRS: usize = 8;

/// Nodes that each dials by chance where not all pairs are tried.
const BY_CHANCE: usize = 2;

/// Longest wait for one event, so that an interrupt is seen.
const POLL: Duration = Duration::from_millis(20);

/// Time that answers take to travel, on top of what the tests may take themselves.
const TRAVEL: Duration = Duration::from_millis(500);

/// Whom each node dials, by its place: all others, or its neighbours in a ring and some by chance.
pub(super) fn plan(nodes: usize, seed: u64) -> Vec<Vec<usize>> {
    if nodes <= ALL_PAIRS {
        return (0..nodes).map(|from| (0..nodes).filter(|to| *to != from).collect()).collect();
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let of = |from: usize| {
        let mut to = BTreeSet::from([(from + 1) % nodes, (from + nodes - 1) % nodes]);
        while to.len() < 2 + BY_CHANCE {
            to.insert(Some(random.random_range(0..nodes)).filter(|other| *other != from).unwrap_or((from + 1) % nodes));
        }
        to.into_iter().collect()
    };
    (0..nodes).map(of).collect()
}

/// Who talks to the nodes, and for how long.
pub(super) struct Talk<'a> {
    pub(super) link: &'a mut dyn Link,
    pub(super) nodes: usize,
    /// Time for each test.
    pub(super) limit: Duration,
    pub(super) interrupted: &'a dyn Fn() -> bool,
    /// Nodes that are gone, and why.
    pub(super) lost: Vec<(usize, String)>,
}

impl Talk<'_> {
    /// Waits for an answer of each node that was asked, until the deadline. Who has not answered then counts as lost.
    fn answers<T>(
        &mut self,
        asked: &[bool],
        deadline: Instant,
        mut pick: impl FnMut(usize, FromAgent) -> Option<T>,
    ) -> Vec<Option<T>> {
        let mut answers: Vec<Option<T>> = (0..self.nodes).map(|_| None).collect();
        let is_open = |answers: &[Option<T>], lost: &[(usize, String)]| {
            let waits = |node: usize| asked.get(node) == Some(&true) && !lost.iter().any(|(gone, _)| *gone == node);
            answers.iter().enumerate().any(|(node, answer)| answer.is_none() && waits(node))
        };
        while is_open(&answers, &self.lost) && !(self.interrupted)() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.link.receive(left.min(POLL)) {
                Some(LinkEvent::Message { node, message }) => {
                    if let (Some(slot @ None), Some(answer)) = (answers.get_mut(node), pick(node, message)) {
                        *slot = Some(answer);
                    }
                }
                Some(LinkEvent::Lost { node, why }) => self.lost.push((node, why)),
                Some(LinkEvent::Log { .. }) | None => {}
            }
        }
        if !(self.interrupted)() {
            let silent = (0..self.nodes).filter(|node| asked.get(*node) == Some(&true) && answers[*node].is_none());
            let why = || format!("its agent has not answered within {:.1} s", self.limit.as_secs_f64());
            let silent: Vec<_> = silent.filter(|node| !self.is_lost(*node)).map(|node| (node, why())).collect();
            self.lost.extend(silent);
        }
        answers
    }

    fn is_lost(&self, node: usize) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == node)
    }

    /// Asks all nodes for the time.
    pub(super) fn clocks(&mut self, now_us: fn() -> u64) -> Vec<Option<Clock>> {
        let deadline = Instant::now() + self.limit;
        let mut asked_at = Vec::with_capacity(self.nodes);
        for node in 0..self.nodes {
            asked_at.push((Instant::now(), now_us()));
            self.link.send(node, ToAgent::Clock);
        }
        self.answers(&vec![true; self.nodes], deadline, |node, message| {
            let (FromAgent::Clock(theirs_us), Some((asked, ours_us))) = (message, asked_at.get(node)) else {
                return None;
            };
            let half_us = asked.elapsed().as_micros() as u64 / 2;
            let ahead_us = theirs_us as i64 - (ours_us + half_us) as i64;
            Some(Clock { ahead_us, error_us: half_us })
        })
    }

    /// Lets nodes listen at `addresses`, those of each in NCCL's order, and dial each other by `plan`. A node that does not answer, or has
    /// no address, is in no pair.
    pub(super) fn contacts(
        &mut self,
        addresses: &[Vec<Ipv4Addr>],
        plan: &[Vec<usize>],
        key: &SessionKey,
    ) -> Vec<Contact> {
        let deadline = Instant::now() + self.limit + TRAVEL;
        let limit_ms = self.limit.as_millis() as u64;
        let has_address = |node: usize| addresses.get(node).is_some_and(|own| !own.is_empty());
        let asked: Vec<bool> = (0..self.nodes).map(|node| has_address(node) && !self.is_lost(node)).collect();
        for (node, own) in addresses.iter().enumerate().filter(|(node, _)| asked.get(*node) == Some(&true)) {
            let request = ListenRequest {
                number: node as u32,
                nodes: self.nodes as u32,
                key: key.clone(),
                addresses: own.clone(),
                // Until the last one has dialled.
                lifetime_ms: 2 * limit_ms + 2 * TRAVEL.as_millis() as u64,
            };
            self.link.send(node, ToAgent::Listen(request));
        }
        let ports = self.answers(&asked, deadline, |_, message| match message {
            FromAgent::Listening(outcome) => Some(outcome),
            _ => None,
        });
        let mut contacts = Vec::new();
        for (from, to) in plan.iter().enumerate().flat_map(|(from, others)| others.iter().map(move |to| (from, *to))) {
            if let Some(Some(Err(why))) = ports.get(to) {
                let outcome = Err(DialFault::Other(format!("it cannot listen there: {why}")));
                contacts.push(Contact { from, to, place: 0, outcome });
            }
        }
        let endpoint = |node: usize, place: usize| {
            let address = *addresses.get(node)?.get(place)?;
            let port = *ports.get(node)?.as_ref()?.as_ref().ok()?.get(place)?;
            Some(SocketAddrV4::new(address, port))
        };
        let mut dials = vec![false; self.nodes];
        for (from, others) in plan.iter().enumerate().filter(|(from, _)| asked.get(*from) == Some(&true)) {
            let all = others.iter().flat_map(|to| {
                let places = addresses.get(*to).map_or(0, Vec::len).min(addresses.get(from).map_or(0, Vec::len));
                (0..places).filter_map(move |place| Some((*to, place, endpoint(*to, place)?)))
            });
            let target = |(to, place, address): (usize, usize, SocketAddrV4)| DialTarget {
                number: to as u32,
                place: place as u32,
                address,
            };
            // First the interface that everything begins with.
            let mut targets: Vec<DialTarget> = all.map(target).collect();
            targets.sort_by_key(|target| target.place);
            targets.truncate(MOST_TARGETS);
            if !targets.is_empty() {
                dials[from] = true;
                self.link.send(
                    from,
                    ToAgent::Dial(DialRequest { number: from as u32, key: key.clone(), targets, limit_ms }),
                );
            }
        }
        let deadline = Instant::now() + self.limit + TRAVEL;
        let dialled = self.answers(&dials, deadline, |_, message| match message {
            FromAgent::Dialled(outcomes) => Some(outcomes),
            _ => None,
        });
        for (from, outcomes) in dialled.into_iter().enumerate() {
            contacts.extend(outcomes.into_iter().flatten().map(|dialled| Contact {
                from,
                to: dialled.number as usize,
                place: dialled.place as usize,
                outcome: dialled.outcome,
            }));
        }
        // What a node that is gone did not answer says nothing of the way to it.
        contacts.retain(|contact| !self.is_lost(contact.from) && !self.is_lost(contact.to));
        contacts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use gdrtune_wire::Dialled;

    use super::*;

    #[test]
    fn few_nodes_try_all_pairs_and_many_a_ring_and_chance() {
        assert_eq!(plan(3, 1), [vec![1, 2], vec![0, 2], vec![0, 1]]);
        assert_eq!((plan(1, 1), plan(0, 1)), (vec![Vec::new()], Vec::new()));
        for nodes in [9, 16, 1000] {
            let plan = plan(nodes, 7);
            assert_eq!(plan.len(), nodes);
            for (from, others) in plan.iter().enumerate() {
                assert_eq!(others.len(), 4, "{from}: {others:?}");
                assert!(others.contains(&((from + 1) % nodes)) && others.contains(&((from + nodes - 1) % nodes)));
                assert!(!others.contains(&from) && others.iter().all(|to| *to < nodes));
            }
        }
        assert_ne!(plan(16, 7), plan(16, 8), "other pairs the next time");
    }

    /// Nodes that answer at once; node 1 cannot be reached, node 2 ends when it is to dial, node 3 is silent, node 4 cannot listen.
    #[derive(Default)]
    struct Nodes {
        queue: std::cell::RefCell<VecDeque<LinkEvent>>,
    }

    impl Link for Nodes {
        fn send(&self, node: usize, message: ToAgent) {
            let say = |message| self.queue.borrow_mut().push_back(LinkEvent::Message { node, message });
            match (node, message) {
                (3, _) => {}
                (2, ToAgent::Dial(_)) => {
                    let why = "killed".to_owned();
                    self.queue.borrow_mut().push_back(LinkEvent::Lost { node, why });
                }
                (4, ToAgent::Listen(_)) => say(FromAgent::Listening(Err("no such address".to_owned()))),
                (_, ToAgent::Listen(request)) => {
                    say(FromAgent::Listening(Ok(request.addresses.iter().map(|_| 40_000 + node as u16).collect())));
                }
                (_, ToAgent::Dial(request)) => {
                    let outcome = |number| if number == 1 { Err(DialFault::Silent) } else { Ok(90) };
                    let answers = request.targets.iter().map(|to| {
                        assert_eq!(to.address.port(), 40_000 + to.number as u16);
                        Dialled { number: to.number, place: to.place, outcome: outcome(to.number) }
                    });
                    say(FromAgent::Dialled(answers.collect()));
                }
                (_, ToAgent::Clock) => say(FromAgent::Clock(5_000_000 + 2_000_000 * node as u64)),
                _ => {}
            }
        }

        fn receive(&mut self, _timeout: Duration) -> Option<LinkEvent> {
            self.queue.borrow_mut().pop_front()
        }
    }

    #[test]
    fn who_is_lost_or_silent_does_not_spoil_the_others() {
        let mut link = Nodes::default();
        let limit = Duration::from_millis(60);
        let mut talk = Talk { link: &mut link, nodes: 5, limit, interrupted: &|| false, lost: Vec::new() };
        let ahead: Vec<Option<i64>> = talk
            .clocks(|| 5_000_000)
            .into_iter()
            .map(|clock| clock.map(|clock| (clock.ahead_us + 500_000) / 1_000_000))
            .collect();
        assert_eq!(ahead, [Some(0), Some(2), Some(4), None, Some(8)]);
        assert_eq!(talk.lost, [(3, "its agent has not answered within 0.1 s".to_owned())]);

        let addresses = vec![vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1)]; 5];
        let begun = Instant::now();
        let contacts = talk.contacts(&addresses, &plan(5, 1), &SessionKey([1; 32]));
        assert!(begun.elapsed() < Duration::from_secs(3), "a deadline holds");
        let said: Vec<String> = contacts
            .iter()
            .map(|c| format!("{}-{}/{} {}", c.from, c.to, c.place, if c.outcome.is_ok() { "ok" } else { "no" }))
            .collect();
        assert_eq!(
            said,
            [
                "0-4/0 no", "1-4/0 no", "0-1/0 no", "0-1/1 no", "1-0/0 ok", "1-0/1 ok", "4-0/0 ok", "4-1/0 no",
                "4-0/1 ok", "4-1/1 no"
            ]
        );
        assert_eq!(talk.lost[1..], [(2, "killed".to_owned())]);
    }
}
