//! Which devices a job can be bound to, as values of NCCL's variables: candidates from how the nodes are wired, each with why, and
//! what is no candidate, with why not. Pure, and no engine's: whoever reads these variables by NCCL's rules can take them.
//!
//! A list is one for all nodes, so what not every node has is in no candidate.

pub mod ceilings;

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::{grammar::hca::HcaItem, topology::by_number};

/// A port of an HCA as a list names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortId {
    /// Name of the HCA.
    pub hca: String,
    /// Number of the port, from 1; absent where the source tells of no ports, and all are meant.
    pub port: Option<u16>,
}

impl PortId {
    /// It as an item of a list.
    pub fn item(&self) -> HcaItem {
        HcaItem { name: self.hca.clone(), port: self.port, rail: None, plane: None }
    }
}

impl Ord for PortId {
    fn cmp(&self, other: &Self) -> Ordering {
        by_number(&self.hca, &other.hca).then(self.port.cmp(&other.port))
    }
}

impl PartialOrd for PortId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for PortId {
    /// `mlx5_0:1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.item().fmt(f)
    }
}

/// What speaks for or against something, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Nodes of which it holds; none: it is about all of them, or about no node.
    pub hosts: Vec<String>,
    /// What, in words.
    pub text: String,
}
