//! RDMA without hardware: this very test program, in a virtual machine with software RDMA devices (`testenv/softroce`).
//!
//! A test here boots the guest, which runs the ignored tests of one module; those say what each of them found. So a boot
//! serves many checks. Where there is no QEMU, it is skipped loudly.
#![expect(clippy::unwrap_used, reason = "what fails is a failed test")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod guest;
mod native;
mod probe;
#[path = "../../../agents/node/tests/support/ranks.rs"]
mod ranks;
mod verbs;

use std::process::Command;

/// The product runs where there is no libibverbs: nothing but the loader at run time asks for it.
#[test]
fn the_executable_does_not_need_libibverbs() {
    let output = Command::new("readelf").args(["-d", common::GDRTUNE]).output().unwrap();
    let said = common::stdout(&output);
    assert!(said.contains("(NEEDED)") && said.contains("libc.so.6"), "{said}");
    assert!(!said.contains("ibverbs") && !said.contains("libnl"), "{said}");
}

/// One machine with both ends of two rails.
#[test]
fn verbs_over_software_rdma() {
    guest::run("verbs_over_software_rdma", "run.sh", "timeout 150 ./tests verbs:: native::");
}

/// Two machines that are joined by two rails, with gdrtune on both.
#[test]
fn clusters_over_software_rdma() {
    guest::run("clusters_over_software_rdma", "run2.sh", cluster::SCRIPT);
}
