//! `gdrtune doctor`: recorded machines, hosts of which some are broken, and sixteen of them in time.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, gdrtune_as, gdrtune_processes, output, root, stderr, stripped_copy, sysfs, wait_until,
};
use serde_json::Value;

/// The recorded machines.
const MACHINES: [&str; 8] =
    ["dgx-a100", "hgx-h100", "azure-nd-h100-v5", "aws-p5", "single-socket-pcie", "gh200", "cloud-vm-flat", "desktop"];

/// With symbols and all.
fn doctor(home: &Path, args: &[&str]) -> Output {
    output(gdrtune(home).env("LC_ALL", "C.UTF-8").arg("doctor").args(args))
}

fn text(run: &Output) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

fn json(home: &Path, args: &[&str], code: i32) -> Value {
    let run = doctor(home, &[args, &["--json"]].concat());
    assert_eq!(run.status.code(), Some(code), "{}{}", text(&run), stderr(&run));
    serde_json::from_slice(&run.stdout).unwrap()
}

/// `FAIL gdr-path h1,h2: evidence` of each finding of a check.
fn findings(document: &Value, id: &str) -> Vec<String> {
    let all = document["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id);
    let line = |finding: &Value| {
        let hosts: Vec<&str> = finding["hosts"].as_array().unwrap().iter().map(|host| host.as_str().unwrap()).collect();
        format!(
            "{} {}: {}",
            finding["status"].as_str().unwrap(),
            hosts.join(","),
            finding["evidence"].as_str().unwrap()
        )
    };
    all.map(line).collect()
}

/// A folder for trees, which are thousands of small files: in memory where there is some.
fn memory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn tree(home: &Path, machine: &str) {
    let path = root().join("tui/tests/machines").join(format!("{machine}.txt"));
    sysfs::expand(&fs::read_to_string(path).unwrap(), &home.join(machine));
}

#[test]
fn eight_machines_are_looked_at() {
    for machine in MACHINES {
        let home = memory();
        tree(home.path(), machine);
        let run = doctor(home.path(), &["--from", machine, "-v"]);
        let said = text(&run);
        insta::assert_snapshot!(machine, said);
        assert_eq!(run.status.code(), Some(if said.contains("✗ FAIL") { 6 } else { 0 }), "{}", stderr(&run));
        let commands = ["      for b in ", "      export ", "      printf "];
        let is_command = |line: &str| commands.iter().any(|begin| line.starts_with(begin));
        assert!(said.lines().all(|line| line.chars().count() <= 80 || is_command(line)), "{said}");
        // Without -v it is the same but for what is well or was left out.
        let folded = text(&doctor(home.path(), &["--from", machine]));
        let faults = said.split("- SKIP\n").next().unwrap();
        let count = |text: &str| text.lines().find(|line| line.contains(" findings: ")).unwrap().to_owned();
        assert!(folded.starts_with(faults) && count(&folded) == count(&said), "{folded}");
        assert_eq!(folded.lines().count() - faults.lines().count(), if faults.is_empty() { 2 } else { 3 }, "{folded}");
        let document = json(home.path(), &["--from", machine], run.status.code().unwrap());
        let counted: u64 = document["counts"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, document["findings"].as_array().unwrap().len() as u64);
        // What only a process knows is never said to be well.
        for id in ["host-agent", "host-busy", "host-clock", "net-connect", "net-interface"] {
            assert!(findings(&document, id).iter().all(|finding| finding.starts_with("SKIP")), "{machine} {id}");
        }
    }
}

/// Machines that differ, and one with a port down, as if they were one cluster.
#[test]
fn recorded_machines_are_held_against_each_other() {
    let home = memory();
    for machine in ["hgx-h100", "dgx-a100"] {
        tree(home.path(), machine);
    }
    let document = json(home.path(), &["--from", "hgx-h100", "dgx-a100", "--only", "alike"], 6);
    let [said] = &findings(&document, "alike-gpus")[..] else { panic!("{document:#}") };
    assert!(said.starts_with("WARN hgx-h100,dgx-a100: hgx-h100: 8 x NVIDIA H100 80GB HBM3; dgx-a100: 8 x "), "{said}");
    assert!(findings(&document, "alike-hcas")[0].starts_with("FAIL"), "{document:#}");
    assert_eq!(document["findings"].as_array().unwrap().iter().filter(|f| f["group"] != "alike").count(), 0);
}

#[test]
fn checks_are_chosen_and_explained() {
    let home = memory();
    tree(home.path(), "desktop");
    let all = doctor(home.path(), &["--list"]);
    assert_eq!(all.status.code(), Some(0));
    let list = text(&all);
    assert!(list.starts_with("hosts\n  host-agent "), "{list}");
    let explained = text(&doctor(home.path(), &["explain", "gdr-path", "net-connect"]));
    insta::assert_snapshot!("explained", explained);

    let from = ["--from", "desktop"];
    let ran = |args: &[&str]| -> Vec<String> {
        let document = json(home.path(), &[&from, args].concat(), 0);
        let ids = document["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    let mut chosen = ran(&["--only", "gdr-path,host", "--skip", "host-busy"]);
    chosen.sort();
    assert_eq!(chosen, ["gdr-path", "host-agent", "host-clock", "host-twice"]);
    for (args, message) in [
        (&["--only", "gdr-pth"][..], "--only: there is no check `gdr-pth`; did you mean `gdr-path`?"),
        (&["--skip", "gpus"], "--skip: there is no check `gpus`; did you mean `gpu`?"),
        (&["--only", "gdr", "--skip", "gdr"], "--only and --skip leave no check"),
        (&["--from", "nowhere"], "nowhere: no folder with copies of a machine's sys and proc"),
        (&["--from", "desktop", "-w", "n1"], "cannot be used with"),
        (&["explain", "nonsense"], "explain: there is no check `nonsense`"),
        (&["explain"], "required"),
        (&["--timeout", "5w"], "unknown unit `w`"),
    ] {
        let run = doctor(home.path(), args);
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", text(&run));
        assert!(stderr(&run).contains(message) && run.stdout.is_empty(), "{args:?}: {}", stderr(&run));
    }
}

/// A GPU's link that has lost lanes fails; a topology that a hypervisor hides is only a warning, which fails where that is asked for.
#[test]
fn the_exit_code_tells_the_worst() {
    let home = memory();
    tree(home.path(), "cloud-vm-flat");
    for (args, code) in [(&["--only", "gdr-topology"][..], 0), (&["--only", "gdr-topology", "--strict"], 6)] {
        let run = doctor(home.path(), &[&["--from", "cloud-vm-flat"], args].concat());
        assert_eq!(run.status.code(), Some(code), "{}", text(&run));
        assert!(text(&run).contains("! WARN\n  gdr-topology cloud-vm-flat\n"), "{}", text(&run));
    }
    let ascii = text(&doctor(home.path(), &["--from", "cloud-vm-flat", "--ascii"]));
    assert!(ascii.is_ascii() && ascii.contains("PASS\n"), "{ascii}");
}

/// Starts hosts that are all this machine: `gone` fails, `hangs` never answers, `dies` tells its process id, `late` waits for a
/// file. The arguments that do so.
fn launcher(home: &Path) -> Vec<String> {
    let folder = home.display();
    let start = format!(
        "case $0 in gone) exit 9;; hangs) exec sleep 600;; dies) echo $$ >{folder}/pid.tmp && mv {folder}/pid.tmp {folder}/pid;; \
         late) until [ -e {folder}/go ]; do sleep 0.02; done;; esac; exec \"$@\""
    );
    ["--connect-timeout", "4s", "--launcher-cmd", &format!("sh -c '{start}' {{host}} {{agent}}")]
        .map(str::to_owned)
        .to_vec()
}

fn on_hosts(home: &Path, list: &str, more: &[&str], code: i32) -> Value {
    let args = launcher(home);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["-w", list]).chain(more.iter().copied()).collect();
    json(home, &args, code)
}

/// Hosts that cannot be used are findings, and the others are looked at all the same.
#[test]
fn broken_hosts_are_findings_and_spoil_nothing() {
    let home = tempfile::tempdir().unwrap();
    let document = on_hosts(home.path(), "h1,gone,h2,hangs", &["--only", "host,net"], 6);
    let broken = findings(&document, "host-agent");
    assert_eq!(broken.len(), 3, "{broken:?}");
    assert!(broken[0].starts_with("FAIL gone: launcher command failed"), "{broken:?}");
    assert!(broken[1].starts_with("FAIL hangs: timed out: not ready within 4 s"), "{broken:?}");
    assert_eq!(broken[2], "PASS h1,h2: started, and answered");
    assert_eq!(document["unusable"], serde_json::json!(["gone", "hangs"]));
    // Two agents on one machine reach each other, and have one clock.
    assert_eq!(findings(&document, "net-connect"), ["PASS h1,h2: 2 of 2 directed pairs connected"]);
    assert_eq!(findings(&document, "host-clock"), ["PASS h1,h2: no clock is a second off the others"]);
    assert!(findings(&document, "host-twice")[0].starts_with("FAIL h1,h2: all are the machine "));

    let document = on_hosts(home.path(), "gone", &[], 6);
    assert!(findings(&document, "host-agent")[0].starts_with("FAIL gone"));
    assert!(findings(&document, "gpu-class")[0].starts_with("SKIP"), "nobody was looked at");
}

/// An agent is killed while another host is still awaited.
#[test]
fn a_host_that_is_lost_meanwhile_is_a_finding() {
    let home = tempfile::tempdir().unwrap();
    let (go, pid) = (home.path().join("go"), home.path().join("pid"));
    // The executable is there then: who is killed as it uploads it lets the others wait for it until the claim is stale.
    on_hosts(home.path(), "h1", &["--only", "host-agent"], 0);
    let killer = std::thread::spawn(move || {
        wait_until("the agent starts", Duration::from_secs(20), || pid.exists());
        let pid = fs::read_to_string(&pid).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
        fs::write(go, "").unwrap();
    });
    let document = on_hosts(home.path(), "h1,dies,late", &["--only", "host-agent,net-connect,host-clock"], 6);
    killer.join().unwrap();
    let said = findings(&document, "host-agent");
    assert!(said.len() == 2 && said[0].starts_with("FAIL dies: ") && said[1].starts_with("PASS h1,late: "), "{said:?}");
    assert_eq!(findings(&document, "net-connect"), ["PASS h1,late: 2 of 2 directed pairs connected"]);
    assert_eq!(gdrtune_processes(home.path().to_str().unwrap()), Vec::<u32>::new());
}

const HOSTS: u32 = 16;

/// What an admin may expect of sixteen hosts that have the executable.
const WARM: Duration = Duration::from_secs(5);

fn virtual_hosts(program: &Path, home: &Path, config: &Path, more: &[&str], code: i32) -> (Value, Duration) {
    let begun = Instant::now();
    let args = ["doctor", "-w", "vh[1-16]", "--json", "--connect-timeout", "60s"];
    let run = output(gdrtune_as(program, home).args(args).args(more).arg("--ssh-config").arg(config));
    let took = begun.elapsed();
    assert_eq!(run.status.code(), Some(code), "{}{}", text(&run), stderr(&run));
    (serde_json::from_slice(&run.stdout).unwrap(), took)
}

#[test]
fn sixteen_hosts_are_looked_at_in_time_whether_or_not_one_is_broken() {
    in_sandbox("sixteen_hosts_are_looked_at_in_time_whether_or_not_one_is_broken", || {
        let home = tempfile::tempdir().unwrap();
        // One home for all, so that there is one upload: the executable of tests is large.
        let shared = home.path().join("shared");
        fs::create_dir(&shared).unwrap();
        let hosts = VirtualHosts::up_with(HOSTS, &[("VH_SHARE", shared.to_str().unwrap())]);
        let config = home.path().join("ssh");
        let (folder, include) = (shared.display(), hosts.ssh_config());
        let ssh = format!("Host vh*\n  SetEnv XDG_CACHE_HOME={folder}\nMatch all\n  Include {}\n", include.display());
        fs::write(&config, ssh).unwrap();
        let program = stripped_copy(home.path());
        let look = |more: &[&str], code| virtual_hosts(&program, home.path(), &config, more, code);

        let (_, cold) = look(&["--only", "host-agent", "--timeout", "10s"], 0);
        let (document, warm) = look(&[], 0);
        assert_eq!(document["hosts"].as_array().unwrap().len(), 16);
        let all: Vec<String> = (1..=HOSTS).map(|number| format!("vh{number}")).collect();
        for id in ["net-connect", "net-connect-others"] {
            let said = format!("PASS {}: 64 of 240 directed pairs connected", all.join(","));
            assert_eq!(findings(&document, id), [said]);
        }

        // A host that drops what comes over its second rail, one that has lost that rail, and one that is dead.
        hosts.shell("vh3", "ip route add blackhole 10.77.2.0/25");
        hosts.call(&["cut", "vh5", "railB"]);
        hosts.call(&["kill", "vh7"]);
        let (document, broken) = look(&["--timeout", "2s"], 6);
        eprintln!("16 hosts: {cold:?} with an upload, {warm:?} without, {broken:?} with three broken");
        let dead = findings(&document, "host-agent");
        assert!(dead[0].starts_with("FAIL vh7: "), "{dead:?}");
        assert!(dead[1].starts_with("PASS vh1,vh2,vh3,vh4,vh5,vh6,vh8,"), "{dead:?}");
        assert!(findings(&document, "net-connect")[0].starts_with("PASS"), "{document:#}");
        let cut = findings(&document, "net-connect-others");
        let names_it =
            |finding: &String| finding.starts_with("FAIL") && finding.contains("railB: ") && finding.contains("vh3");
        assert!(!cut.is_empty() && cut.iter().all(names_it), "{cut:?}");
        assert!(cut.iter().any(|finding| finding.contains("railB: no answer in time")), "{cut:?}");
        let lost = findings(&document, "net-interface-alike");
        assert!(lost[0].starts_with("WARN") && lost[0].ends_with("; vh5: railA"), "{lost:?}");
        // ssh gives the dead one up after the two seconds, and so do those who dial the silent one.
        assert!(warm < WARM && broken < WARM + Duration::from_secs(5), "{warm:?} {broken:?}");
        hosts.assert_clean(&["vh1", "vh3", "vh16"]);
    });
}

#[test]
fn this_machine_alone_is_looked_at_without_any_host() {
    let home = tempfile::tempdir().unwrap();
    let run = doctor(home.path(), &["--verbose"]);
    assert!(matches!(run.status.code(), Some(0 | 6)), "{}", stderr(&run));
    let said = text(&run);
    assert!(said.contains("\n1 host, ") && said.contains("host-agent"), "{said}");
    assert!(said.contains("host-twice, host-clock, gdr-path-alike, hca-present, net-connect,"), "{said}");
}
