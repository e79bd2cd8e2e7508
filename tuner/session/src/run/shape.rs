//! Job shapes: on how many hosts a job runs, and with how many ranks on each.
//!
//! Reads what the user wrote and lays ranks out on hosts; measures nothing.

use std::{fmt, str::FromStr};

use gdrtune_fleet::hosts::Host;

use crate::open::ClusterRequest;

/// Ranks on one host at most, as for a cluster of one shape.
const MOST_RANKS_PER_NODE: u32 = 1024;

/// Nodes at most: as many hosts as a host list may name.
const MOST_NODES: u32 = 65_536;

/// The shape of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each node.
    pub ranks_per_node: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.nodes, self.ranks_per_node)
    }
}

/// Shapes in the order in which they are tuned: one at least, and each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes(Vec<Shape>);

/// Shapes that are wrong as such, or do not fit the hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Not `NODESxRANKS`.
    #[error("`{0}` is no job shape: write NODESxRANKS_PER_NODE, such as 4x8 for 4 nodes with 8 ranks each")]
    Form(String),
    /// A number that cannot be.
    #[error("`{text}`: {what} must be 1 to {most}")]
    Range {
        /// What was written.
        text: String,
        /// Which number.
        what: &'static str,
        /// The largest one.
        most: u32,
    },
    /// The same shape again.
    #[error("the shape {0} is named twice")]
    Twice(Shape),
    /// More nodes than hosts.
    #[error("the shape {shape} needs {} hosts, and there {}: name them with -w or --hostfile", shape.nodes, is_are(*hosts))]
    Hosts {
        /// The shape.
        shape: Shape,
        /// Hosts that there are.
        hosts: usize,
    },
    /// More ranks than the host file allows.
    #[error("the shape {shape} puts {} ranks on {host}, and the host file gives it slots={slots}", shape.ranks_per_node)]
    Slots {
        /// The shape.
        shape: Shape,
        /// The host.
        host: String,
        /// What the host file says.
        slots: u32,
    },
    /// Several ranks on an emulated node.
    #[error("the shape {shape}: an emulated node is one rank; write {}x1 for as many ranks", shape.nodes)]
    EmulatedRanks {
        /// The shape.
        shape: Shape,
    },
    /// Emulated nodes on several machines.
    #[error("shapes of emulated nodes are for one machine, and there are {0} hosts")]
    EmulatedHosts(usize),
}

fn is_are(hosts: usize) -> String {
    if hosts == 1 { "is 1".to_owned() } else { format!("are {hosts}") }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let form = || ShapeError::Form(text.to_owned());
        let (nodes, ranks) = text.split_once(['x', 'X']).ok_or_else(form)?;
        let number = |digits: &str, what, most| {
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(form());
            }
            let range = || ShapeError::Range { text: text.to_owned(), what, most };
            // Digits that fit no number are too many, too.
            digits.parse().ok().filter(|value| (1..=most).contains(value)).ok_or_else(range)
        };
        let nodes = number(nodes, "the number of nodes", MOST_NODES)?;
        let ranks_per_node = number(ranks, "the number of ranks per node", MOST_RANKS_PER_NODE)?;
        Ok(Self { nodes, ranks_per_node })
    }
}

impl FromStr for Shapes {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut shapes = Vec::new();
        for part in text.split(',') {
            let shape: Shape = part.trim().parse()?;
            if shapes.contains(&shape) {
                return Err(ShapeError::Twice(shape));
            }
            shapes.push(shape);
        }
        Ok(Self(shapes))
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl Shape {
    /// Ranks on each of the first hosts. Emulated nodes are ranks of the one machine.
    fn slots(self, hosts: &[Host], emulate_nodes: bool) -> Result<Vec<u32>, ShapeError> {
        if emulate_nodes {
            return match (hosts, self.ranks_per_node) {
                ([_], 1) => Ok(vec![self.nodes]),
                ([_], _) => Err(ShapeError::EmulatedRanks { shape: self }),
                _ => Err(ShapeError::EmulatedHosts(hosts.len())),
            };
        }
        let Some(used) = hosts.get(..self.nodes as usize) else {
            return Err(ShapeError::Hosts { shape: self, hosts: hosts.len() });
        };
        let too_small = used.iter().find_map(|host| Some((host, host.slots?)).filter(|h| h.1 < self.ranks_per_node));
        match too_small {
            Some((host, slots)) => Err(ShapeError::Slots { shape: self, host: host.name.clone(), slots }),
            None => Ok(vec![self.ranks_per_node; used.len()]),
        }
    }
}

impl Shapes {
    /// The shape, where there is one only.
    pub fn single(&self) -> Option<Shape> {
        match self.0.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Fits `cluster` to the shapes: the hosts that some shape uses, with as many ranks on each as any shape puts there.
    /// Returns the ranks of each shape on the first hosts.
    ///
    /// # Errors
    /// [`ShapeError`] where a shape does not fit the hosts.
    pub fn lay_out(&self, cluster: &mut ClusterRequest) -> Result<Vec<Vec<u32>>, ShapeError> {
        let slots = |shape: &Shape| shape.slots(&cluster.hosts, cluster.emulate_nodes);
        let layouts: Vec<Vec<u32>> = self.0.iter().map(slots).collect::<Result<_, ShapeError>>()?;
        let hosts = layouts.iter().map(Vec::len).max().unwrap_or(0);
        let most = |host: usize| layouts.iter().filter_map(|slots| slots.get(host)).copied().max().unwrap_or(0);
        cluster.hosts.truncate(hosts);
        cluster.slots = (0..hosts).map(most).collect();
        Ok(layouts)
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Engine;
    use proptest::prelude::*;

    use super::*;
    use crate::open::tests::request;

    fn cluster(hosts: &[(&str, Option<u32>)], emulate_nodes: bool) -> ClusterRequest {
        let host = |&(name, slots): &(&str, Option<u32>)| Host { slots, ..Host::named(name) };
        let hosts: Vec<Host> = hosts.iter().map(host).collect();
        ClusterRequest { slots: vec![1; hosts.len()], hosts, emulate_nodes, engine: Engine::Nccl, ..request(&[]) }
    }

    const THREE: &[(&str, Option<u32>)] = &[("a", None), ("b", Some(4)), ("c", None)];
    const ONE: &[(&str, Option<u32>)] = &[("localhost", None)];

    #[test]
    fn each_shape_takes_the_first_hosts() {
        for (text, hosts, emulate, layouts, slots) in [
            ("2x4,3x1", THREE, false, vec![vec![4, 4], vec![1, 1, 1]], vec![4, 4, 1]),
            ("1x8", THREE, false, vec![vec![8]], vec![8]),
            ("1x2, 1X4", ONE, false, vec![vec![2], vec![4]], vec![4]),
            ("4x1,2x1", ONE, true, vec![vec![4], vec![2]], vec![4]),
        ] {
            let mut cluster = cluster(hosts, emulate);
            let shapes: Shapes = text.parse().unwrap();
            assert_eq!(shapes.lay_out(&mut cluster), Ok(layouts), "{text}");
            assert_eq!((cluster.hosts.len(), &cluster.slots), (slots.len(), &slots), "{text}");
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_explained() {
        let form = |text: &str| format!("`{text}` is no job shape: write NODESxRANKS_PER_NODE");
        for (text, expected) in [
            ("", form("")),
            ("4", form("4")),
            ("2x8,", form("")),
            ("x8", form("x8")),
            ("2x8x2", form("2x8x2")),
            ("-1x8", form("-1x8")),
            ("+1x8", form("+1x8")),
            ("0x8", "`0x8`: the number of nodes must be 1 to 65536".to_owned()),
            ("2x0", "`2x0`: the number of ranks per node must be 1 to 1024".to_owned()),
            ("2x99999999999", "`2x99999999999`: the number of ranks".to_owned()),
            ("2x8,4x8,02x8", "the shape 2x8 is named twice".to_owned()),
        ] {
            let error = text.parse::<Shapes>().unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{text}: {error}");
        }
        for (text, hosts, emulate, expected) in [
            ("2x4,4x1", THREE, false, "the shape 4x1 needs 4 hosts, and there are 3: name them with -w or --hostfile"),
            ("2x1", ONE, false, "the shape 2x1 needs 2 hosts, and there is 1: name them with -w or --hostfile"),
            ("1x8,2x8", THREE, false, "the shape 2x8 puts 8 ranks on b, and the host file gives it slots=4"),
            ("2x2", ONE, true, "the shape 2x2: an emulated node is one rank; write 2x1 for as many ranks"),
            ("2x1", THREE, true, "shapes of emulated nodes are for one machine, and there are 3 hosts"),
        ] {
            let shapes: Shapes = text.parse().unwrap();
            assert_eq!(shapes.lay_out(&mut cluster(hosts, emulate)).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(shapes in proptest::collection::hash_set((1..=MOST_NODES, 1..=MOST_RANKS_PER_NODE), 1..8)) {
            let shapes = shapes.into_iter().map(|(nodes, ranks_per_node)| Shape { nodes, ranks_per_node });
            let shapes = Shapes(shapes.collect());
            prop_assert_eq!(shapes.to_string().parse::<Shapes>(), Ok(shapes));
        }

        #[test]
        fn whatever_is_read_is_in_bounds(text in "[0-9xX, -]{0,16}|\\PC{0,16}") {
            for shape in text.parse::<Shapes>().iter().flat_map(|shapes| &shapes.0) {
                prop_assert!((1..=MOST_NODES).contains(&shape.nodes));
                prop_assert!((1..=MOST_RANKS_PER_NODE).contains(&shape.ranks_per_node));
            }
        }
    }
}
