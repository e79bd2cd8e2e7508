//! The native engine's sockets among strangers, and where the run's key is not to be found.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    io::Write as _,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use common::{gdrtune, gdrtune_processes, output, stderr, terminal::assert_no_process_is_left};
use gdrtune_wire::{ToAgent, codec::Decoder};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

/// Connections in mid-handshake that a rank keeps (`MAX_PENDING` of the acceptor).
const MAX_PENDING: usize = 256;

/// Connections that the strangers hold: many more than that, and fewer than a process may have.
const MOST_KEPT: usize = 700;

fn is_worker(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|&byte| byte == 0).any(|word| word == b"worker")
}

fn workers(home: &Path) -> Vec<u32> {
    gdrtune_processes(&home.display().to_string()).into_iter().filter(|pid| is_worker(*pid)).collect()
}

/// What a process has open, as the links of its descriptors.
fn descriptors(pid: u32) -> HashSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
}

/// Where the run's ranks listen (`proc_net_tcp(5)`).
fn listening(home: &Path) -> BTreeSet<SocketAddr> {
    let open: HashSet<String> = workers(home).into_iter().flat_map(descriptors).collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours = words.get(3) == Some(&"0A") && open.contains(&format!("socket:[{}]", words.get(9)?));
        let (ip, port) = words.get(1)?.split_once(':')?;
        let ip = u32::from_str_radix(ip, 16).ok()?.to_le_bytes();
        is_ours.then(|| SocketAddr::from((ip, u16::from_str_radix(port, 16).unwrap())))
    };
    table.lines().filter_map(address).collect()
}

/// Comes as a stranger in one of these ways; what is to be kept open is given back.
fn visit(address: SocketAddr, way: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(200))).ok()?;
    match way % 4 {
        // Comes and goes, without a trace in the kernel's tables: those must not be what ends the flood.
        0 => set_socket_linger(&stream, Some(Duration::ZERO)).ok()?,
        // Garbage; it is cut off in the middle.
        1 => drop(stream.write_all(&vec![0x47; 64 * 1024])),
        // Says nothing, or half a hello, and stays.
        2 => return Some(stream),
        _ => {
            stream.write_all(b"GDRTNAT\x01\0\0").ok()?;
            return Some(stream);
        }
    }
    None
}

#[test]
fn strangers_change_no_result_and_exhaust_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let args = ["tune", "--sizes", "1K,64K", "--trials", "150", "--budget", "15s", "--ranks-per-node", "3", "--json"];
    let child = gdrtune(home).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (visits, most_open, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept: Vec<TcpStream> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let addresses: Vec<SocketAddr> = listening(home).into_iter().collect();
                for number in 0..100 * addresses.len() {
                    // All of them are visited, and the first one is to drown in those that stay.
                    let address = addresses[if number % 4 < 2 { number / 4 % addresses.len() } else { 0 }];
                    kept.extend(visit(address, number));
                }
                visits.fetch_add(100 * addresses.len(), Ordering::Relaxed);
                kept.drain(..kept.len().saturating_sub(MOST_KEPT));
                let open = workers(home).into_iter().map(|pid| descriptors(pid).len()).max();
                most_open.fetch_max(open.unwrap_or(0), Ordering::Relaxed);
            }
        });
        let run = child.wait_with_output();
        is_over.store(true, Ordering::Relaxed);
        run.unwrap()
    });
    assert!(run.status.success(), "{}", stderr(&run));
    let events = events(&run);
    let trials: Vec<&Value> = events.iter().filter(|event| event["type"] == "trial").collect();
    let bad = ["wrong", "hung", "crashed"];
    let failed = trials.iter().find(|trial| bad.iter().any(|kind| trial["result"]["kind"] == *kind));
    assert!(150 <= trials.len() && failed.is_none(), "{} trials, {failed:?}", trials.len());
    let (visits, most_open) = (visits.into_inner(), most_open.into_inner());
    assert!(1_000 < visits, "{visits} visits are no flood");
    // A rank's own: streams, libraries' files, a few connections for each peer.
    assert!(most_open < MAX_PENDING + 100, "{most_open} descriptors");
    assert_no_process_is_left(home);
}

fn events(run: &Output) -> Vec<Value> {
    let lines = run.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()["event"].take()).collect()
}

/// The key of the first group in what an agent was told.
fn key_in(wire: &[u8]) -> Option<[u8; 32]> {
    // Before the first frame comes what starts the agent.
    (0..wire.len()).find_map(|start| {
        let mut decoder = Decoder::new();
        decoder.feed(wire.get(start..)?);
        let Ok(Some(ToAgent::Hello(_))) = decoder.next_message() else { return None };
        while let Ok(Some(message)) = decoder.next_message() {
            if let ToAgent::Start(group) = message {
                return Some(group.key.0);
            }
        }
        None
    })
}

/// The ways in which a key may be written.
fn spellings(key: &[u8; 32]) -> Vec<Vec<u8>> {
    let join = |separator: &str| key.map(|byte| byte.to_string()).join(separator).into_bytes();
    let hex =
        |upper: bool| key.map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") }).concat().into_bytes();
    vec![key.to_vec(), hex(false), hex(true), join(","), join(", ")]
}

fn files_below(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&path)),
            Ok(kind) if kind.is_file() => found.push((path.display().to_string(), fs::read(&path).unwrap_or_default())),
            _ => {}
        }
    }
    found
}

/// Command lines, environments and private files of the run, for as long as it goes.
fn traces(home: &Path, child: &mut Child) -> BTreeSet<(String, Vec<u8>)> {
    let mut seen = BTreeSet::new();
    while child.try_wait().unwrap().is_none() {
        for pid in gdrtune_processes(&home.display().to_string()) {
            for name in ["cmdline", "environ"] {
                let text = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
                seen.insert((name.to_owned(), text));
            }
        }
        // The executable is kept there, too.
        let small = files_below(&home.join("tmp")).into_iter().filter(|(_, text)| text.len() < 1 << 20);
        seen.extend(small);
    }
    seen
}

#[test]
fn the_key_is_on_the_wire_alone() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fs::create_dir(home.join("tmp")).unwrap();
    let wire = home.join("wire");
    fs::write(home.join("record"), format!("shift; tee -- '{}' | \"$@\"\n", wire.display())).unwrap();
    let on_host = |arguments: &[&str]| -> Command {
        let mut command = gdrtune(home);
        command.args(arguments).args(["--sizes", "1K", "-w", "h1", "--ranks-per-node", "2", "--launcher-cmd"]);
        command.arg(format!("sh {}/record {{host}} {{agent}}", home.display())).env("TMPDIR", home.join("tmp"));
        command
    };
    // Takes the executable there, so that it is not among what is recorded.
    let first = output(&mut on_host(&["bench", "--repeats", "1"]));
    assert!(first.status.success(), "{}", stderr(&first));

    let mut tune = on_host(&["tune", "--trials", "40", "--budget", "20s", "--json", "--out", "out"]);
    let (log, errors) = (home.join("stdout"), home.join("stderr"));
    tune.stdout(fs::File::create(&log).unwrap()).stderr(fs::File::create(&errors).unwrap());
    let mut child = tune.spawn().unwrap();
    let mut traces = traces(home, &mut child);
    assert!(child.wait().unwrap().success(), "{}", fs::read_to_string(errors).unwrap());
    let key = key_in(&fs::read(&wire).unwrap()).expect("the key that the agent was given");
    assert!(traces.iter().any(|(name, text)| name == "cmdline" && text.ends_with(b"\0worker\0")), "a worker was seen");
    assert!(home.join("state/runs").is_dir());
    traces.extend(files_below(home).into_iter().filter(|(path, _)| *path != wire.display().to_string()));
    for spelling in spellings(&key) {
        let holds = |text: &[u8]| text.windows(spelling.len()).any(|window| window == spelling);
        for (name, text) in traces.iter().filter(|(path, _)| !path.contains("/.cache/")) {
            assert!(!holds(text), "the key is in {name}");
        }
    }
    assert_no_process_is_left(home);
}
