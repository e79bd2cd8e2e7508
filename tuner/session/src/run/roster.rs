//! Which of a run's hosts take part in it, over its whole life. Plain state; it only ever shrinks: a host that comes back
//! would be yet another set of nodes.

use super::RunOutcome;
use crate::{
    event::{Event, LeftOut, without},
    open::ClusterRequest,
};

/// The hosts of a run that are in.
pub(super) struct Roster<'a> {
    /// As the user asked for it.
    whole: &'a ClusterRequest,
    left_out: Vec<LeftOut>,
    /// How many of these the store knows of.
    stored: usize,
}

impl<'a> Roster<'a> {
    /// The hosts of a run that has left some out before, as its store says.
    pub(super) fn new(whole: &'a ClusterRequest, left_out: Vec<LeftOut>) -> Self {
        Self { whole, stored: left_out.len(), left_out }
    }

    fn places(&self) -> Vec<usize> {
        let is_in = |place: &usize| self.left_out.iter().all(|out| out.index as usize != *place);
        (0..self.whole.hosts.len()).filter(is_in).collect()
    }

    /// What is to be connected.
    pub(super) fn request(&self) -> ClusterRequest {
        self.whole.of_hosts(&self.places())
    }

    /// Numbers of the hosts that are in, among all of the run.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.places().into_iter().map(|place| place as u32).collect()
    }

    /// Number and name of a host by its place among those that are in.
    pub(super) fn member(&self, node: usize) -> (u32, &str) {
        let place = self.places().get(node).copied().unwrap_or(node);
        (place as u32, self.whole.hosts.get(place).map_or("", |host| host.name.as_str()))
    }

    /// Leaves out hosts by their places among those that are in.
    fn leave_out(&mut self, hosts: &[(usize, String)]) {
        let places = self.places();
        for (node, why) in hosts {
            let Some(&place) = places.get(*node) else { continue };
            let host = self.whole.hosts[place].name.clone();
            // Reasons often begin with the host.
            let why = why.strip_prefix(&format!("{host}: ")).unwrap_or(why).to_owned();
            self.left_out.push(LeftOut { index: place as u32, host, why });
        }
        self.left_out.sort_by_key(|out| out.index);
    }

    /// Goes on without hosts that were lost, if it may. Nothing changes where too few would be left.
    pub(super) fn lose(&mut self, lost: &[(usize, String)]) -> bool {
        let left = self.places().len().saturating_sub(lost.len());
        let is_enough = self.whole.admission.min_nodes.is_some_and(|least| left >= least.max(1) as usize);
        if lost.is_empty() || !is_enough {
            return false;
        }
        let lost: Vec<(usize, String)> = lost.iter().map(|(node, why)| (*node, format!("lost: {why}"))).collect();
        self.leave_out(&lost);
        true
    }

    /// Takes note of who was left out while connecting. An event where these are other nodes than the store knows of.
    pub(super) fn settle(&mut self, left_out: &[(usize, String)]) -> Option<Event> {
        self.leave_out(left_out);
        if self.stored == self.left_out.len() {
            return None;
        }
        self.stored = self.left_out.len();
        let request = self.request();
        let names: Vec<&str> = request.hosts.iter().map(|host| host.name.as_str()).collect();
        Some(Event::NodeSet {
            hosts: gdrtune_fleet::hosts::fold(&names),
            nodes: names.len() as u32,
            ranks: request.slots.iter().sum(),
            left_out: self.left_out.clone(),
        })
    }

    /// What the readers of a profile must know.
    pub(super) fn notes(&self) -> Vec<String> {
        let all = self.whole.hosts.len();
        let note = || format!("{} of {all} hosts, {}", self.places().len(), without(&self.left_out));
        if self.left_out.is_empty() { Vec::new() } else { vec![note()] }
    }

    /// Says of an outcome which hosts it is not about.
    pub(super) fn label(&self, outcome: RunOutcome) -> RunOutcome {
        let notes = self.notes();
        let summary = notes.iter().fold(outcome.summary, |summary, note| format!("{summary}; on {note}"));
        RunOutcome { summary, left_out: self.left_out.clone(), ..outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{Admission, tests::request};

    fn out(hosts: &[usize]) -> Vec<(usize, String)> {
        hosts.iter().map(|&node| (node, "gone".to_owned())).collect()
    }

    #[test]
    fn hosts_that_are_lost_are_left_out_one_after_the_other_while_enough_are_left() {
        let admission = Admission { min_nodes: Some(2), ..Admission::default() };
        let whole = ClusterRequest { admission, ..request(&["a", "b", "c", "d"]) };
        let mut roster = Roster::new(&whole, Vec::new());
        assert_eq!(roster.settle(&[]), None);
        assert!(!roster.lose(&[]), "nobody knows which");
        assert!(roster.lose(&out(&[1])));
        // By its place among those that are left, while connecting to them.
        let Some(Event::NodeSet { hosts, nodes, left_out, .. }) = roster.settle(&[(1, "c: refused".into())]) else {
            panic!("other nodes")
        };
        assert_eq!((hosts.as_str(), nodes), ("a,d", 2));
        let told: Vec<(u32, &str)> = left_out.iter().map(|out| (out.index, out.why.as_str())).collect();
        assert_eq!(told, [(1, "lost: gone"), (2, "refused")]);
        assert_eq!((roster.member(1), roster.numbers()), ((3, "d"), vec![0, 3]));
        assert!(!roster.lose(&out(&[0])) && roster.numbers().len() == 2, "one would be left");
        assert_eq!(roster.notes(), ["2 of 4 hosts, without b (lost: gone), c (refused)"]);

        // As its store says.
        let mut again = Roster::new(&whole, left_out);
        assert_eq!((again.numbers(), again.settle(&[])), (vec![0, 3], None));
    }

    #[test]
    fn without_leave_all_are_needed() {
        let whole = request(&["a", "b"]);
        assert!(!Roster::new(&whole, Vec::new()).lose(&out(&[0])));
        let admission = Admission { min_nodes: Some(1), ..Admission::default() };
        let whole = ClusterRequest { admission, ..whole };
        assert!(Roster::new(&whole, Vec::new()).lose(&out(&[0])), "one is enough");
    }
}
