//! What nodes can be bound to, for tests.

use gdrtune_profiles::{
    bindings::{Bindings, Node, ceilings::Ceilings},
    topology::{Address, Interface, Machine},
};

/// Of two nodes that have these interfaces in common, each a network of its own.
pub(crate) fn interfaces(names: &[&str]) -> Bindings {
    let machine = |host: u8| {
        let interface = |(network, name): (usize, &&str)| Interface {
            name: (*name).to_owned(),
            is_loopback: false,
            addresses: vec![Address { ip: [10, 0, network as u8, host].into(), prefix: Some(24) }],
        };
        Machine { interfaces: names.iter().enumerate().map(interface).collect(), ..Machine::default() }
    };
    let machines = [machine(1), machine(2)];
    Bindings::of(&[Node::whole("n1", &machines[0]), Node::whole("n2", &machines[1])], &Ceilings::default())
}
