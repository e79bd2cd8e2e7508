use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use super::*;

const QUICK: Pace =
    Pace { settle: Duration::ZERO, settle_own: Duration::from_mins(1), pause: Duration::from_micros(100) };

/// Nodes that answer at once. Of each, the outcomes to come; the last one stays.
struct Nodes {
    outcomes: RefCell<Vec<VecDeque<LockOutcome>>>,
    queue: RefCell<VecDeque<LinkEvent>>,
    sent: RefCell<Vec<String>>,
    clients: RefCell<Vec<u64>>,
}

impl Nodes {
    fn new(outcomes: &[&[LockOutcome]]) -> Self {
        let outcomes = outcomes.iter().map(|outcomes| outcomes.iter().cloned().collect()).collect();
        Self {
            outcomes: RefCell::new(outcomes),
            queue: RefCell::default(),
            sent: RefCell::default(),
            clients: RefCell::default(),
        }
    }
}

impl Link for Nodes {
    fn send(&self, node: usize, message: ToAgent) {
        let answer = match &message {
            ToAgent::Lock(request) => {
                self.clients.borrow_mut().push(request.client);
                let outcomes = &mut self.outcomes.borrow_mut()[node];
                let last = outcomes.len() == 1;
                let outcome = if last { outcomes.front().cloned() } else { outcomes.pop_front() };
                outcome.map(FromAgent::Lock)
            }
            ToAgent::Inventory => {
                Some(FromAgent::Inventory(Box::new(Inventory { cpus: node as u32, ..Inventory::default() })))
            }
            _ => None,
        };
        let name = if let ToAgent::Lock(request) = &message {
            format!("{} lock", request.run)
        } else {
            format!("{message:?}")
        };
        self.sent.borrow_mut().push(format!("{node} {name}"));
        if let Some(message) = answer {
            self.queue.borrow_mut().push_back(LinkEvent::Message { node, message });
        }
    }

    fn receive(&mut self, _: Duration) -> Option<LinkEvent> {
        self.queue.borrow_mut().pop_front()
    }
}

fn holder(pid: u32, run: &str) -> LockHolder {
    LockHolder { pid, user: "alice".to_owned(), run: run.to_owned(), since_s: 1_795_960_931 }
}

fn in_use(run: &str) -> LockOutcome {
    LockOutcome::InUse(vec![holder(123, run)])
}

/// Asks as `run r`; gives what came of it, and what was told.
fn locked(nodes: &mut Nodes, shared: bool, wait: Duration) -> (Result<bool, String>, Vec<String>) {
    let hosts: Vec<Host> = (7..7 + nodes.outcomes.borrow().len()).map(|n| Host::named(format!("node{n:02}"))).collect();
    let plan = LockPlan { run: "r", hosts: &hosts, shared, wait };
    let told = RefCell::new(Vec::new());
    let tell = |text: &str| told.borrow_mut().push(text.to_owned());
    let result = lock_at(QUICK, nodes, &plan, Company { interrupted: &|| false, tell: &tell });
    (result.map_err(|refusal| refusal.error.to_string()), told.into_inner())
}

#[test]
fn free_nodes_are_taken_by_one_client() {
    let mut nodes = Nodes::new(&[&[LockOutcome::Held], &[LockOutcome::Held]]);
    assert_eq!(locked(&mut nodes, false, Duration::ZERO), (Ok(false), vec![]));
    assert_eq!(nodes.sent.into_inner(), ["0 r lock", "1 r lock"]);
    let clients = nodes.clients.into_inner();
    assert_eq!(clients[0], clients[1]);
}

#[test]
fn a_held_node_is_told_with_its_holder_and_the_others_are_given_back() {
    let mut nodes = Nodes::new(&[&[in_use("other")], &[LockOutcome::Held]]);
    let (result, told) = locked(&mut nodes, false, Duration::ZERO);
    let why = result.unwrap_err();
    assert_eq!(why, "node07 is in use by pid 123 of alice (run other) since 2026-11-29 14:02 UTC");
    assert_eq!(
        (told, nodes.sent.into_inner()),
        (vec![], vec!["0 r lock".to_owned(), "1 r lock".to_owned(), "1 Unlock".to_owned()])
    );
}

#[test]
fn who_waits_is_told_for_whom_and_asks_again() {
    let mut nodes = Nodes::new(&[&[in_use("a"), in_use("a"), in_use("b"), LockOutcome::Held], &[LockOutcome::Held]]);
    let (result, told) = locked(&mut nodes, false, Duration::MAX);
    assert_eq!(result, Ok(true));
    let [first, second] = &told[..] else { panic!("{told:?}") };
    assert!(first.starts_with("waiting: node07 is in use by pid 123 of alice (run a) since"), "{first}");
    assert!(second.contains("(run b)"), "{second}");
    let sent = nodes.sent.into_inner();
    assert_eq!(sent.iter().filter(|text| *text == "1 Unlock").count(), 3, "held only while all are: {sent:?}");
    assert_eq!(sent.last().unwrap(), "1 r lock");
}

#[test]
fn agents_of_an_earlier_process_of_the_run_are_waited_for() {
    let mut nodes = Nodes::new(&[&[in_use("r"), LockOutcome::Held]]);
    let (result, told) = locked(&mut nodes, false, Duration::ZERO);
    assert_eq!((result, told.len()), (Ok(true), 1));
}

#[test]
fn a_node_without_a_place_for_locks_is_refused_unless_shared() {
    let failed = [LockOutcome::Failed("no room".to_owned())];
    let (result, _) = locked(&mut Nodes::new(&[&failed]), false, Duration::MAX);
    assert_eq!(result.unwrap_err(), "node07: whether another gdrtune uses it cannot be seen: no room");
    let (result, told) = locked(&mut Nodes::new(&[&failed]), true, Duration::ZERO);
    assert_eq!((result, told), (Ok(false), vec!["node07: later runs will not see this one: no room".to_owned()]));
}

#[test]
fn a_lost_node_and_the_user_end_the_wait() {
    let hosts = [Host::named("a"), Host::named("b")];
    let plan = LockPlan { run: "r", hosts: &hosts, shared: false, wait: Duration::MAX };
    let looks = Cell::new(0);
    let interrupted = || {
        looks.set(looks.get() + 1);
        looks.get() > 20
    };
    let company = Company { interrupted: &interrupted, tell: &|_| {} };
    let held: &[LockOutcome] = &[in_use("other")];
    let result = lock_at(QUICK, &mut Nodes::new(&[held, held]), &plan, company);
    assert!(matches!(result, Err(Refusal { error: ConnectError::Interrupted, .. })), "{result:?}");

    let mut nodes = Nodes::new(&[&[], &[LockOutcome::Held]]);
    nodes.queue.get_mut().push_back(LinkEvent::Lost { node: 0, why: "gone".to_owned() });
    let error = lock_at(QUICK, &mut nodes, &plan, Company { interrupted: &|| false, tell: &|_| {} }).unwrap_err();
    assert_eq!(error.error.to_string(), "1 of 2 hosts cannot be used: a: gone");
    assert_eq!(error.hosts, [(0, "a: gone".to_owned())]);
}

#[test]
fn what_nodes_have_is_read_again_in_rank_order() {
    let hosts = [Host::named("a"), Host::named("b")];
    let company = Company { interrupted: &|| false, tell: &|_| {} };
    let read = inventories(&mut Nodes::new(&[&[], &[]]), &hosts, company).unwrap();
    assert_eq!(read.iter().map(|inventory| inventory.cpus).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn many_holders_are_counted_and_unknown_facts_left_out() {
    let unknown = LockHolder { run: String::new(), since_s: 0, ..holder(1, "") };
    let lines = describe(&vec![("n", unknown); 7], 0);
    assert_eq!(lines[0], "n is in use by pid 1 of alice");
    assert!(held(lines).to_string().ends_with("; and 2 more"));
    assert_eq!(clock(1_795_960_931, 1_795_960_931 + 3600), "14:02 UTC");
}
