//! NCCL's log: the same variables, file handling and line formats (NCCL `src/debug.cc` at 2.28.9), as far as gdrtune uses them.

use std::{
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    fs::File,
    io::Write,
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::purpose::{self, Network, Selection};

/// Subsystems of a message; the numbers are NCCL's (`src/include/nccl_common.h`).
pub(crate) const INIT: u64 = 0x1;
pub(crate) const NET: u64 = 0x10;
pub(crate) const TUNING: u64 = 0x40;
pub(crate) const ENV: u64 = 0x80;
const NAMES: [(&str, u64); 4] = [("INIT", INIT), ("NET", NET), ("TUNING", TUNING), ("ENV", ENV)];

/// What is logged where `NCCL_DEBUG_SUBSYS` is not set.
const DEFAULT_MASK: u64 = INIT | ENV;

/// `NCCL_LOG_WARN` and `NCCL_LOG_INFO`.
const WARN_LEVEL: c_int = 2;
const INFO_LEVEL: c_int = 3;

struct Log {
    level: c_int,
    mask: u64,
    output: Mutex<Box<dyn Write + Send>>,
    host: String,
}

static LOG: OnceLock<Log> = OnceLock::new();

fn log() -> &'static Log {
    LOG.get_or_init(|| {
        let variable = |name: &str| std::env::var(name).ok();
        let level = match variable("NCCL_DEBUG").map(|value| value.to_ascii_uppercase()).as_deref() {
            Some("WARN") => WARN_LEVEL,
            Some("INFO" | "TRACE") => INFO_LEVEL,
            _ => 0,
        };
        let mask = variable("NCCL_DEBUG_SUBSYS").map_or(DEFAULT_MASK, |list| {
            let bit =
                |name: &str| NAMES.iter().find(|known| known.0.eq_ignore_ascii_case(name)).map_or(0, |known| known.1);
            list.split(',').map(bit).fold(0, |all, bit| all | bit)
        });
        let file = variable("NCCL_DEBUG_FILE").filter(|_| level > 0).map(|path| expanded(&path));
        // As NCCL does: a file that cannot be opened leaves the log on standard output.
        let output: Box<dyn Write + Send> = match file.and_then(|path| File::create(path).ok()) {
            Some(file) => Box::new(file),
            None => Box::new(std::io::stdout()),
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Log { level, mask, output: Mutex::new(output), host: host.trim().to_owned() }
    })
}

/// `%%` is a percent sign, `%p` the process; `%h` is not needed.
fn expanded(path: &str) -> String {
    let process = std::process::id().to_string();
    let parts: Vec<String> = path.split("%%").map(|part| part.replace("%p", &process)).collect();
    parts.join("%")
}

fn write(level: c_int, mask: u64, place: &str, message: &str) {
    let log = log();
    if log.level < level || log.mask & mask == 0 {
        return;
    }
    // SAFETY: the function takes nothing.
    let (process, thread) = (std::process::id(), unsafe { libc::gettid() });
    let host = &log.host;
    let line = match level {
        WARN_LEVEL => format!("\n[2026-01-01 00:00:00] {host}:{process}:{thread} [0] {place} NCCL WARN {message}\n"),
        _ => format!("{host}:{process}:{thread} [0] NCCL INFO {message}\n"),
    };
    let mut output = log.output.lock().unwrap_or_else(PoisonError::into_inner);
    // A full disk is nothing to NCCL either.
    output.write_all(line.as_bytes()).ok();
}

pub(crate) fn info(mask: u64, message: &str) {
    write(INFO_LEVEL, mask, "", message);
}

pub(crate) fn warn(message: &str) {
    write(WARN_LEVEL, u64::MAX, "standin.cc:1", message);
}

/// What a plugin logs through. `NCCL` declares it with variable arguments; on Linux's targets they are passed as declared
/// ones are, and gdrtune's plugin passes one string.
unsafe extern "C" fn plugin_log(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    _format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin passes strings.
    let (file, text) = unsafe { (CStr::from_ptr(file), CStr::from_ptr(text)) };
    write(level, flags, &format!("{}:{line}", file.to_string_lossy()), &text.to_string_lossy());
}

/// That function as the tables of all interfaces take it.
pub(crate) fn logger() -> *mut c_void {
    plugin_log as *mut c_void
}

/// What decides about GPU Direct RDMA, in the forms of NCCL 2.28 (`src/init.cc`, `src/transport/net_ib.cc`, `src/graph/topo.cc`,
/// `src/graph/paths.cc`).
fn log_network(rank: usize, world: usize) {
    let [major, minor, patch] = [purpose::version() / 10_000, purpose::version() / 100 % 100, purpose::version() % 100];
    info(INIT, &format!("NCCL version {major}.{minor}.{patch}+cuda12.9"));
    for name in ["NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"] {
        if let Ok(value) = std::env::var(name) {
            let dot = if value.parse::<i64>().is_ok() { "." } else { "" };
            info(ENV, &format!("{name} set by environment to {value}{dot}"));
        }
    }
    let start = "comm 0x1 rank";
    info(
        INIT,
        &format!(
            "ncclCommInitRank {start} {rank} nranks {world} cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init START"
        ),
    );
    let network = purpose::network();
    if network == Network::Sockets {
        info(INIT | NET, "NET/IB : No device found.");
        return;
    }
    info(INIT | NET, "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB lo:127.0.0.1<0>");
    let can = if network == Network::Indirect { "Disabled" } else { "Enabled" };
    info(NET, &format!("NET/IB : GPU Direct RDMA {can} for HCA 0 'mlx5_0'"));
    // From 2.29 on it does not say this.
    if let (Network::Distant { distance }, ..22_900) = (network, purpose::version()) {
        let ([far, level], [_, receives]) = (purpose::distances(distance), purpose::direct());
        let (verdict, sign) = if receives { ("Enabled", "<=") } else { ("Disabled", ">") };
        info(NET, &format!("GPU Direct RDMA {verdict} for GPU {rank} / HCA 0 (distance {far} {sign} {level})"));
    }
}

/// What a communicator says of itself: each rank is a node of its own, with its neighbours on the ring over the network.
pub(crate) fn log_communicator(rank: usize, world: usize) {
    let channels = purpose::channel_ceiling();
    let [send, receive] = purpose::transports();
    log_network(rank, world);
    let (next, previous) = ((rank + 1) % world, (rank + world - 1) % world);
    for channel in (0..channels).filter(|_| world > 1) {
        info(INIT | NET, &format!("Channel {channel:02}/0 : {previous}[0] -> {rank}[0] [receive] via {receive}"));
        info(INIT | NET, &format!("Channel {channel:02}/0 : {rank}[0] -> {next}[0] [send] via {send}"));
    }
    let collnet = if purpose::version() < 22_000 { String::new() } else { format!("{channels} collnet channels, ") };
    let counts = format!("0 nvls channels, {channels} p2p channels, {channels} p2p channels per peer");
    info(INIT, &format!("{channels} coll channels, {collnet}{counts}"));
}

/// What rank 0 says of a call: `part` bytes of each rank, `whole` bytes of the collective.
pub(crate) fn log_call(selection: Selection, part: usize, whole: usize) {
    let [function, algorithm, protocol] = selection.logged_names();
    let indexes = || format!("Algo {} proto {} time 10.000000", selection.algorithm, selection.protocol);
    let last = selection.channels - 1;
    let message = match purpose::version() {
        22_400.. => {
            format!("{function}: {part} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..{last}}}")
        }
        22_300.. => format!("{function}: {whole} Bytes -> {}", indexes()),
        22_000.. => format!("{whole} Bytes -> {}", indexes()),
        _ => return,
    };
    info(TUNING, &message);
}
