//! Which of the hosts that were asked for are used. Plain state.

use crate::connect::{ConnectError, Refusal};

/// The hosts that are used, and those that are left out.
#[derive(Debug)]
pub(crate) struct Members {
    /// Places among all hosts, in rising order.
    places: Vec<usize>,
    left_out: Vec<(usize, String)>,
    /// How many are needed; without a number, all.
    least: Option<u32>,
}

impl Members {
    /// All of `count` hosts.
    pub(crate) fn new(count: usize, least: Option<u32>) -> Self {
        Self { places: (0..count).collect(), left_out: Vec::new(), least }
    }

    /// The hosts that are used.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// Goes on without hosts, whose places in the refusal are those among the present ones. Returns them by their places
    /// among all.
    ///
    /// # Errors
    /// What the refusal says, where too few would be left, or it is about no host.
    pub(crate) fn without(&mut self, refusal: Refusal) -> Result<Vec<(usize, String)>, ConnectError> {
        let Refusal { error, hosts } = refusal;
        let gone: Vec<(usize, String)> =
            hosts.into_iter().filter_map(|(node, why)| Some((*self.places.get(node)?, why))).collect();
        let left: Vec<usize> =
            self.places.iter().copied().filter(|place| gone.iter().all(|(out, _)| out != place)).collect();
        let is_enough = self.least.is_some_and(|least| left.len() >= least.max(1) as usize);
        if gone.is_empty() || !is_enough {
            return Err(error);
        }
        self.places = left;
        self.left_out.extend(gone.iter().cloned());
        Ok(gone)
    }

    /// The places of those that are used, and who is left out, in rank order.
    pub(crate) fn into_parts(mut self) -> (Vec<usize>, Vec<(usize, String)>) {
        self.left_out.sort_by_key(|(place, _)| *place);
        (self.places, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(nodes: &[usize]) -> Refusal {
        let hosts = nodes.iter().map(|&node| (node, format!("why {node}"))).collect();
        Refusal { error: ConnectError::Fleet("refused".to_owned()), hosts }
    }

    #[test]
    fn hosts_are_left_out_while_enough_are_left_and_the_others_keep_their_order() {
        let mut members = Members::new(5, Some(2));
        assert_eq!(members.without(refusal(&[3, 1])).unwrap().len(), 2);
        assert_eq!(members.places(), [0, 2, 4]);
        // Of those that are left, the second.
        assert_eq!(members.without(refusal(&[1])).unwrap(), [(2, "why 1".to_owned())]);
        assert!(members.without(refusal(&[0])).is_err(), "one would be left");
        let (places, left_out) = members.into_parts();
        assert_eq!(places, [0, 4]);
        assert_eq!(left_out.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn all_are_needed_unless_a_number_is_said_and_what_is_about_no_host_ends_it() {
        assert!(Members::new(3, None).without(refusal(&[0])).is_err());
        assert!(Members::new(3, Some(1)).without(refusal(&[])).is_err());
        assert!(Members::new(1, Some(0)).without(refusal(&[0])).is_err(), "nobody would be left");
    }
}
