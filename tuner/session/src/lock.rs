//! Takes the nodes of a run for that run alone, or says who has them.
//!
//! What the lock is, is the agents' knowledge (`gdrtune-node`, `agent/node_lock`); here is who is asked, and what becomes of
//! the answers. All nodes or none: a run that is to wait gives back what it has, so that two runs that want the same
//! nodes in another order do not wait for each other for ever.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gdrtune_fleet::hosts::Host;
use gdrtune_wire::{FromAgent, Inventory, LockHolder, LockOutcome, LockRequest, SILENCE_LIMIT, ToAgent};

use crate::{
    cluster::link::{Link, LinkEvent},
    connect::{ConnectError, Refusal},
    run::utc,
};

/// Time for all agents to answer. They look at a few small files; a folder on a file server that hangs takes longer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);

/// Longest wait for one event, so that an interrupt is seen.
const POLL: Duration = Duration::from_millis(50);

/// Holders that a message names; the others are counted.
const SHOWN_HOLDERS: usize = 5;

/// How long holders are looked at again before and while they are waited for.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Time that the agents of a killed client may take to end: their workers have 2 s (`AgentConfig::kill_grace`).
    settle: Duration,
    /// The same where the holder is an earlier process of this very run, which cannot be alive: its agents notice at the
    /// latest when it has been silent for too long.
    settle_own: Duration,
    /// Shortest pause between two looks; the longest is twice that, so that two who wait do not keep meeting.
    pause: Duration,
}

const PACE: Pace = Pace {
    settle: Duration::from_secs(3),
    settle_own: SILENCE_LIMIT.saturating_add(Duration::from_secs(10)),
    pause: Duration::from_millis(400),
};

/// Who wants which nodes.
#[derive(Debug, Clone, Copy)]
pub struct LockPlan<'a> {
    /// The run's id, which others are told.
    pub run: &'a str,
    /// The nodes, in rank order.
    pub hosts: &'a [Host],
    /// Runs beside others.
    pub shared: bool,
    /// Time to wait for others to end; zero refuses.
    pub wait: Duration,
}

/// Whoever waits with it.
#[derive(Clone, Copy)]
pub struct Company<'a> {
    /// Whether the user wants no more.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Hears whom it waits for.
    pub tell: &'a dyn Fn(&str),
}

/// Takes the lock of every node; the agents keep it until they end. Blocks. Returns whether others had to end first: what
/// was read of the nodes before is not true any more.
///
/// # Errors
/// [`ConnectError::Held`] where others hold a node for longer than the plan waits; other kinds where a node does not answer, has
/// no place for locks, or the user wants no more. No node is kept then.
pub fn lock(link: &mut dyn Link, plan: &LockPlan<'_>, company: Company<'_>) -> Result<bool, Refusal> {
    lock_at(PACE, link, plan, company)
}

/// Reads what the nodes have, once more.
///
/// # Errors
/// Where a node does not answer, or the user wants no more.
pub fn inventories(link: &mut dyn Link, hosts: &[Host], company: Company<'_>) -> Result<Vec<Inventory>, Refusal> {
    ask_all(link, hosts, &ToAgent::Inventory, company, |message| match message {
        FromAgent::Inventory(inventory) => Some(*inventory),
        _ => None,
    })
}

fn lock_at(pace: Pace, link: &mut dyn Link, plan: &LockPlan<'_>, company: Company<'_>) -> Result<bool, Refusal> {
    let request = LockRequest { run: plan.run.to_owned(), client: rand::random(), shared: plan.shared };
    let begun = Instant::now();
    let mut told = Vec::new();
    loop {
        let outcomes = ask_all(link, plan.hosts, &ToAgent::Lock(request.clone()), company, |message| match message {
            FromAgent::Lock(outcome) => Some(outcome),
            FromAgent::Refused { why } => Some(LockOutcome::Failed(why)),
            _ => None,
        });
        // Whoever asks again is another client, so that what is kept would be in its way.
        let outcomes = outcomes.inspect_err(|_| give_back(link, 0..plan.hosts.len()))?;
        let holders = holders(plan, &outcomes, company);
        if !holders.as_ref().is_ok_and(Vec::is_empty) {
            give_back(link, (0..plan.hosts.len()).filter(|node| outcomes.get(*node) == Some(&LockOutcome::Held)));
        }
        let holders = holders?;
        if holders.is_empty() {
            return Ok(!told.is_empty());
        }
        let is_own = holders.iter().all(|(_, holder)| holder.run == plan.run);
        let patience = plan.wait.max(if is_own { pace.settle_own } else { pace.settle });
        let lines = describe(&holders, now_s());
        if begun.elapsed() >= patience {
            return Err(refusal(plan, &holders, lines));
        }
        if told != lines {
            // Without a wish to wait, most of the time it is a killed client whose agents are just ending.
            if plan.wait > Duration::ZERO || is_own {
                (company.tell)(&format!("waiting: {}", held(lines.clone())));
            }
            told = lines;
        }
        pause(link, plan, pace.pause.mul_f64(rand::random_range(1.0..2.0)), company)?;
    }
}

fn give_back(link: &dyn Link, nodes: impl Iterator<Item = usize>) {
    nodes.for_each(|node| link.send(node, ToAgent::Unlock));
}

/// The holders and their hosts. A node without a place for locks is an error, but for a run that shares nodes anyway.
fn holders<'a>(
    plan: &LockPlan<'a>,
    outcomes: &[LockOutcome],
    company: Company<'_>,
) -> Result<Vec<(&'a str, LockHolder)>, Refusal> {
    let mut found = Vec::new();
    for (node, (host, outcome)) in plan.hosts.iter().zip(outcomes).enumerate() {
        match outcome {
            LockOutcome::Held => {}
            LockOutcome::InUse(holders) => found.extend(holders.iter().map(|h| (host.name.as_str(), h.clone()))),
            LockOutcome::Failed(why) if plan.shared => {
                (company.tell)(&format!("{}: later runs will not see this one: {why}", host.name));
            }
            LockOutcome::Failed(why) => {
                let error = ConnectError::NoLock { host: host.name.clone(), why: why.clone() };
                let hosts = vec![(node, error.to_string())];
                return Err(Refusal { error, hosts });
            }
        }
    }
    Ok(found)
}

/// A line for each holder.
fn describe(holders: &[(&str, LockHolder)], now_s: u64) -> Vec<String> {
    let line = |(host, holder): &(&str, LockHolder)| {
        let LockHolder { pid, user, run, since_s } = holder;
        let run = if run.is_empty() { String::new() } else { format!(" (run {run})") };
        let since = if *since_s == 0 { String::new() } else { format!(" since {}", clock(*since_s, now_s)) };
        format!("{host} is in use by pid {pid} of {user}{run}{since}")
    };
    holders.iter().map(line).collect()
}

/// Each host with its first holder.
fn refusal(plan: &LockPlan<'_>, holders: &[(&str, LockHolder)], lines: Vec<String>) -> Refusal {
    let of_host = |host: &Host| holders.iter().position(|(name, _)| *name == host.name);
    let nodes = plan.hosts.iter().enumerate();
    let hosts = nodes.filter_map(|(node, host)| Some((node, lines.get(of_host(host)?)?.clone()))).collect();
    Refusal { error: held(lines), hosts }
}

fn held(mut holders: Vec<String>) -> ConnectError {
    let more = holders.len().saturating_sub(SHOWN_HOLDERS);
    holders.truncate(SHOWN_HOLDERS);
    ConnectError::Held { holders, more }
}

/// A time as people say it: without the day where that is today.
fn clock(then_s: u64, now_s: u64) -> String {
    let (then, now) = (utc(then_s), utc(now_s));
    match (then.split_once('T'), now.split_once('T')) {
        (Some((day, time)), Some((today, _))) if time.len() >= 5 => {
            let time = &time[..5];
            if day == today { format!("{time} UTC") } else { format!("{day} {time} UTC") }
        }
        _ => then,
    }
}

#[expect(clippy::disallowed_methods, reason = "whether since when is today, for people")]
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Sends every node the same and waits for the answer of each.
fn ask_all<T>(
    link: &mut dyn Link,
    hosts: &[Host],
    message: &ToAgent,
    company: Company<'_>,
    mut pick: impl FnMut(FromAgent) -> Option<T>,
) -> Result<Vec<T>, Refusal> {
    for node in 0..hosts.len() {
        link.send(node, message.clone());
    }
    let mut answers: Vec<Option<T>> = hosts.iter().map(|_| None).collect();
    let deadline = Instant::now() + ANSWER_DEADLINE;
    while let Some(silent) = answers.iter().position(Option::is_none) {
        if (company.interrupted)() {
            return Err(ConnectError::Interrupted.into());
        }
        match link.receive(POLL) {
            Some(LinkEvent::Message { node, message }) => {
                if let (Some(slot @ None), Some(answer)) = (answers.get_mut(node), pick(message)) {
                    *slot = Some(answer);
                }
            }
            Some(LinkEvent::Lost { node, why }) => return Err(lost(hosts, node, &why)),
            Some(LinkEvent::Log { .. }) | None if Instant::now() < deadline => {}
            Some(LinkEvent::Log { .. }) | None => {
                let why = format!("its agent has not answered within {} s", ANSWER_DEADLINE.as_secs());
                return Err(lost(hosts, silent, &why));
            }
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Lets time pass; a node that is lost meanwhile is an error.
fn pause(link: &mut dyn Link, plan: &LockPlan<'_>, length: Duration, company: Company<'_>) -> Result<(), Refusal> {
    let end = Instant::now() + length;
    loop {
        if (company.interrupted)() {
            return Err(ConnectError::Interrupted.into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if let Some(LinkEvent::Lost { node, why }) = link.receive(left.min(POLL)) {
            return Err(lost(plan.hosts, node, &why));
        }
    }
}

fn lost(hosts: &[Host], node: usize, why: &str) -> Refusal {
    let name = hosts.get(node).map_or("", |host| host.name.as_str());
    let reason = format!("{name}: {why}");
    let error = ConnectError::Hosts { failed: 1, total: hosts.len(), reasons: vec![reason.clone()] };
    Refusal { error, hosts: vec![(node, reason)] }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
