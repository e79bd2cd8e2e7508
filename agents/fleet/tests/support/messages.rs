//! Messages that the tests' agents send.

use gdrtune_wire::{Hello, Inventory, PROTOCOL};

pub(crate) const BUILD: &str = "build-1";

pub(crate) fn hello(build_id: &str) -> Hello {
    Hello {
        protocol: PROTOCOL,
        build_id: build_id.to_owned(),
        hostname: "far".to_owned(),
        boot_id: String::new(),
        pid: 7,
    }
}

pub(crate) fn inventory() -> Box<Inventory> {
    Box::new(Inventory { hostname: "far".to_owned(), cpus: 2, ..Inventory::default() })
}
