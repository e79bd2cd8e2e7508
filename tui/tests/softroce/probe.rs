//! `gdrtune probe` between two machines that are joined by two rails. These run in the first of them.

use std::{
    fs,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use gdrtune_profiles::bindings::ceilings::{Ceiling, Ceilings, Failure, Outcome};
use serde_json::Value;

use crate::{
    cluster::{CUT, MEND},
    common,
    guest::shell,
};

fn probe(arguments: &[&str]) -> Command {
    let mut command = Command::new("/tmp/gdrtune");
    command.args(["probe", "-w", "vm1,vm2", "--launcher-cmd", "/tmp/reach {host} {agent_line}"]).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn links(output: &Output) -> Vec<Ceiling> {
    let text = common::stdout(output);
    let read = serde_json::from_str::<Ceilings>(&text);
    read.unwrap_or_else(|error| panic!("{error}: {text}{}", common::stderr(output))).links
}

fn gbs(links: &[Ceiling], node: &str, hca: &str) -> f64 {
    let link = links.iter().find(|link| link.node == node && link.hca == hca).unwrap();
    match link.outcome {
        Outcome::Measured { gbs, us: Some(us) } if us > 0.0 => gbs,
        _ => panic!("{link:?}"),
    }
}

#[test]
#[ignore = "runs in the guest"]
fn the_slow_rail_is_named() {
    // From here to the other machine, far below what the rails carry; nothing is dropped, as RDMA expects it.
    shell("tc qdisc replace dev eth1 root tbf rate 10mbit burst 64k limit 2m");
    let output = probe(&["--json"]).output().unwrap();
    shell("tc qdisc del dev eth1 root");
    let text = common::stdout(&output);
    println!("{text}");
    assert_eq!(output.status.code(), Some(6), "{}", common::stderr(&output));
    let links = links(&output);
    assert_eq!(links.len(), 4, "both rails, both directions");
    assert!(gbs(&links, "vm1", "rxe2") < gbs(&links, "vm1", "rxe1") / 2.0);
    assert!(gbs(&links, "vm1", "rxe2") < 2e-3, "10 Mbit/s are 1.25 MB/s, and a burst of 64 KiB");
    let said: Value = serde_json::from_str(&text).unwrap();
    let odd = said["odd"].as_array().unwrap().iter().find(|odd| odd["hca"] == "rxe2").unwrap();
    assert_eq!(odd["verdict"], "useless");
    assert!(odd["hosts"].as_array().unwrap().contains(&"vm1".into()), "{odd}");
}

#[test]
#[ignore = "runs in the guest"]
fn a_rail_that_is_cut_while_it_is_probed_is_a_failure_of_its_own() {
    let sent =
        || -> u64 { fs::read_to_string("/sys/class/net/eth1/statistics/tx_bytes").unwrap().trim().parse().unwrap() };
    let (before, started) = (sent(), Instant::now());
    let mut command = probe(&["--json", "--hca", "=rxe2", "--time", "5s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while sent() < before + (2 << 20) {
        assert!(started.elapsed() < Duration::from_mins(1), "nothing crosses rail 2");
        thread::sleep(Duration::from_millis(20));
    }
    shell(CUT);
    let output = child.wait_with_output().unwrap();
    shell(MEND);
    let links = links(&output);
    println!("{links:#?}");
    assert_eq!(output.status.code(), Some(6), "{}", common::stderr(&output));
    let Outcome::Failed { failure: Failure::Transfer, why } = &links[0].outcome else { panic!("{links:?}") };
    assert!(why.starts_with("IBV_WC_") && why.contains("rxe2 port 1 to 10.99.2.2"), "{why}");
}
