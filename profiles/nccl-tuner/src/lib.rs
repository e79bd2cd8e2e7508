//! NCCL's tuner plugin of gdrtune (`libnccl-tuner-gdrtune.so`): prefers an algorithm, a protocol and a channel count for
//! each collective call.
//!
//! *File mode*: rules come from the CSV that `GDRTUNE_RULES`, or else `NCCL_TUNER_CONFIG_FILE`, names. The first rule
//! that matches and that NCCL allows is preferred; every other call is left to NCCL as it was.
//! *Live mode* (`GDRTUNE_LIVE=1`, or one call of [`gdrtune_tuner_set`] or [`gdrtune_tuner_clear`]): choices come from
//! the process itself, through the exported functions, and rules are not looked at. Both ends share one copy of the
//! state when they open the same file.
//!
//! It must never return an error (NCCL fails the collective then), never force what NCCL marks as not allowed, never
//! unwind into C, and never allocate or take a lock on the way of a call unless its calls are being recorded. It stays
//! one file without dependencies: gdrtune compiles and embeds it as such.
//!
//! ABI sources: NCCL `src/include/plugin/tuner/tuner_v2.h` to `tuner_v6.h` at 2.30.7, compared with `nccl_tuner.h` and
//! `tuner_v*.h` at 2.21.5, 2.22.3, 2.23.4, 2.24.3, 2.25.1, 2.27.7, 2.28.9 and 2.29.7.

#![expect(unsafe_code, reason = "a C interface: NCCL calls in with raw pointers")]

use std::{
    ffi::{OsString, c_char, c_int, c_ulong, c_void},
    fmt::{self, Write as _},
    fs::File,
    io::Read as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

// ---- NCCL's side of the interface ----

/// `ncclSuccess`, the only result that leaves this library.
const SUCCESS: c_int = 0;
/// `NCCL_LOG_WARN` (NCCL `src/include/nccl_common.h`).
const LOG_WARN: c_int = 2;
/// `NCCL_LOG_INFO`.
const LOG_INFO: c_int = 3;
/// `NCCL_ALL`: a warning belongs to every subsystem.
const SUBSYSTEM_ALL: c_ulong = c_ulong::MAX;
/// `NCCL_TUNING`.
const SUBSYSTEM_TUNING: c_ulong = 0x40;
/// The functions that have a choice are 0 to 4 (`ncclFunc_t`, `NCCL_NUM_FUNCTIONS`).
const N_COLLECTIVES: usize = 5;
/// Names by `ncclFunc_t`, in the CSV's spelling.
const COLLECTIVES: [&str; N_COLLECTIVES] = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"];
/// `ncclFuncAllReduce`.
const ALL_REDUCE: c_int = 4;
/// Names by `NCCL_ALGO_*`, in the CSV's spelling.
const ALGORITHMS: [&str; 7] = ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"];
/// Index of `tree`.
const TREE: u8 = 0;
/// Index of `ring`.
const RING: u8 = 1;
/// Names by `NCCL_PROTO_*`, in the CSV's spelling.
const PROTOCOLS: [&str; 3] = ["ll", "ll128", "simple"];
/// Index of `ll128`.
const LL128: u8 = 1;
/// `MAXCHANNELS` (NCCL `src/include/device.h` from 2.25 on; 32 before, where NCCL cuts the count).
const MOST_CHANNELS: u8 = 64;

/// `ncclDebugLogger_t`.
pub type LogFunction =
    unsafe extern "C" fn(level: c_int, flags: c_ulong, file: *const c_char, line: c_int, format: *const c_char, ...);

/// `init` of v2, v3 and v4.
pub type InitV2 =
    unsafe extern "C" fn(n_ranks: usize, n_nodes: usize, log: Option<LogFunction>, context: *mut *mut c_void) -> c_int;

/// `init` of v5 and v6. The domain information and the constants of NCCL's cost model are not looked at.
pub type InitV5 = unsafe extern "C" fn(
    context: *mut *mut c_void,
    communicator_id: u64,
    n_ranks: usize,
    n_nodes: usize,
    log: Option<LogFunction>,
    nvl_domain_info: *mut c_void,
    constants: *mut c_void,
) -> c_int;

/// `getCollInfo` of v2: the choice is an output.
pub type GetCollInfoV2 = unsafe extern "C" fn(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    has_collnet: c_int,
    has_nvls: c_int,
    num_pipe_ops: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    n_channels: *mut c_int,
) -> c_int;

/// `getCollInfo` of v3: the choice is made by a table of costs, `float[n_algorithms][n_protocols]` under a cast.
pub type GetCollInfoV3 = unsafe extern "C" fn(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    num_pipe_ops: c_int,
    costs: *mut *mut f32,
    n_algorithms: c_int,
    n_protocols: c_int,
    n_channels: *mut c_int,
) -> c_int;

/// `getCollInfo` of v4, v5 and v6.
pub type GetCollInfoV4 = unsafe extern "C" fn(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    num_pipe_ops: c_int,
    costs: *mut *mut f32,
    n_algorithms: c_int,
    n_protocols: c_int,
    reg_buff: c_int,
    n_channels: *mut c_int,
) -> c_int;

/// `destroy` of v2 to v4, `finalize` of v5 and v6.
pub type Finalize = unsafe extern "C" fn(context: *mut c_void) -> c_int;

/// `getChunkSize` of v6.
pub type GetChunkSize = unsafe extern "C" fn(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    algorithm: c_int,
    protocol: c_int,
    n_channels: c_int,
    chunk_bytes: *mut usize,
) -> c_int;

/// The name of the tuner as NCCL prints it.
#[repr(transparent)]
pub struct Name(pub *const c_char);

// SAFETY: It points to a literal, which nobody writes to.
unsafe impl Sync for Name {}

const NAME: Name = Name(c"gdrtune".as_ptr());

/// `ncclTuner_v2_t` (NCCL 2.21).
#[repr(C)]
pub struct TunerV2 {
    /// What NCCL prints.
    pub name: Name,
    /// Makes the context of a communicator.
    pub init: InitV2,
    /// Chooses for one call.
    pub get_coll_info: GetCollInfoV2,
    /// Frees the context.
    pub destroy: Finalize,
}

/// `ncclTuner_v3_t` (NCCL 2.22, 2.23).
#[repr(C)]
pub struct TunerV3 {
    /// What NCCL prints.
    pub name: Name,
    /// Makes the context of a communicator.
    pub init: InitV2,
    /// Chooses for one call.
    pub get_coll_info: GetCollInfoV3,
    /// Frees the context.
    pub destroy: Finalize,
}

/// `ncclTuner_v4_t` (NCCL 2.24 to 2.27).
#[repr(C)]
pub struct TunerV4 {
    /// What NCCL prints.
    pub name: Name,
    /// Makes the context of a communicator.
    pub init: InitV2,
    /// Chooses for one call.
    pub get_coll_info: GetCollInfoV4,
    /// Frees the context.
    pub destroy: Finalize,
}

/// `ncclTuner_v5_t` (NCCL 2.28, 2.29).
#[repr(C)]
pub struct TunerV5 {
    /// What NCCL prints.
    pub name: Name,
    /// Makes the context of a communicator.
    pub init: InitV5,
    /// Chooses for one call.
    pub get_coll_info: GetCollInfoV4,
    /// Frees the context.
    pub finalize: Finalize,
}

/// `ncclTuner_v6_t` (NCCL 2.30).
#[repr(C)]
pub struct TunerV6 {
    /// What NCCL prints.
    pub name: Name,
    /// Makes the context of a communicator.
    pub init: InitV5,
    /// Chooses for one call.
    pub get_coll_info: GetCollInfoV4,
    /// Frees the context.
    pub finalize: Finalize,
    /// Absent: NCCL keeps its own chunk size (NCCL `src/enqueue.cc` tests for NULL).
    pub get_chunk_size: Option<GetChunkSize>,
}

/// What NCCL 2.21 looks for.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v2: TunerV2 =
    TunerV2 { name: NAME, init: init_v2::<2>, get_coll_info: get_coll_info_v2, destroy: finalize };

/// What NCCL 2.22 and 2.23 look for.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v3: TunerV3 =
    TunerV3 { name: NAME, init: init_v2::<3>, get_coll_info: get_coll_info_v3, destroy: finalize };

/// What NCCL 2.24 to 2.27 look for.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v4: TunerV4 =
    TunerV4 { name: NAME, init: init_v2::<4>, get_coll_info: get_coll_info_v4, destroy: finalize };

/// What NCCL 2.28 and 2.29 look for.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v5: TunerV5 =
    TunerV5 { name: NAME, init: init_v5::<5>, get_coll_info: get_coll_info_v4, finalize };

/// What NCCL 2.30 looks for.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v6: TunerV6 =
    TunerV6 { name: NAME, init: init_v5::<6>, get_coll_info: get_coll_info_v4, finalize, get_chunk_size: None };

/// Runs `body`, and gives `otherwise` in place of a panic: nothing may unwind into C.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

unsafe extern "C" fn init_v2<const API_VERSION: i32>(
    n_ranks: usize,
    n_nodes: usize,
    log: Option<LogFunction>,
    context: *mut *mut c_void,
) -> c_int {
    guarded(SUCCESS, || {
        // SAFETY: NCCL passes where it keeps the context, or NULL.
        unsafe { make_context(API_VERSION, n_ranks, n_nodes, Log(log), context) }
    })
}

unsafe extern "C" fn init_v5<const API_VERSION: i32>(
    context: *mut *mut c_void,
    _communicator_id: u64,
    n_ranks: usize,
    n_nodes: usize,
    log: Option<LogFunction>,
    _nvl_domain_info: *mut c_void,
    _constants: *mut c_void,
) -> c_int {
    guarded(SUCCESS, || {
        // SAFETY: As in `init_v2`.
        unsafe { make_context(API_VERSION, n_ranks, n_nodes, Log(log), context) }
    })
}

/// # Safety
/// `context` is NULL or may be written to.
unsafe fn make_context(api_version: i32, n_ranks: usize, n_nodes: usize, log: Log, context: *mut *mut c_void) -> c_int {
    if context.is_null() {
        return SUCCESS;
    }
    // A panic on the way must not leave NCCL with a pointer to anything.
    // SAFETY: The caller's promise.
    unsafe { context.write(ptr::null_mut()) };
    let made = Box::new(Context::new(api_version, n_ranks, n_nodes, log));
    // SAFETY: The caller's promise.
    unsafe { context.write(Box::into_raw(made).cast()) };
    SUCCESS
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    guarded(SUCCESS, || {
        if !context.is_null() {
            // SAFETY: It came from `make_context`, and NCCL ends a communicator once.
            drop(unsafe { Box::from_raw(context.cast::<Context>()) });
        }
        SUCCESS
    })
}

unsafe extern "C" fn get_coll_info_v2(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    _has_collnet: c_int,
    _has_nvls: c_int,
    num_pipe_ops: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    n_channels: *mut c_int,
) -> c_int {
    let call = Call { collective, n_bytes: n_bytes as u64, num_pipe_ops, reg_buff: UNKNOWN };
    // SAFETY: NCCL passes its context and variables of its own; NULL is looked for.
    unsafe { get_coll_info(context, &call, &Target::Outputs { algorithm, protocol }, n_channels) }
}

unsafe extern "C" fn get_coll_info_v3(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    num_pipe_ops: c_int,
    costs: *mut *mut f32,
    n_algorithms: c_int,
    n_protocols: c_int,
    n_channels: *mut c_int,
) -> c_int {
    let call = Call { collective, n_bytes: n_bytes as u64, num_pipe_ops, reg_buff: UNKNOWN };
    // SAFETY: As in `get_coll_info_v2`; the table has the size that is passed with it.
    unsafe {
        get_coll_info(context, &call, &Target::Costs { table: costs.cast(), n_algorithms, n_protocols }, n_channels)
    }
}

unsafe extern "C" fn get_coll_info_v4(
    context: *mut c_void,
    collective: c_int,
    n_bytes: usize,
    num_pipe_ops: c_int,
    costs: *mut *mut f32,
    n_algorithms: c_int,
    n_protocols: c_int,
    reg_buff: c_int,
    n_channels: *mut c_int,
) -> c_int {
    let call = Call { collective, n_bytes: n_bytes as u64, num_pipe_ops, reg_buff: i8::from(reg_buff != 0) };
    // SAFETY: As in `get_coll_info_v3`.
    unsafe {
        get_coll_info(context, &call, &Target::Costs { table: costs.cast(), n_algorithms, n_protocols }, n_channels)
    }
}

/// # Safety
/// `context` is NULL or came from `make_context`; `target` and `n_channels` hold what NCCL passed.
unsafe fn get_coll_info(context: *mut c_void, call: &Call, target: &Target, n_channels: *mut c_int) -> c_int {
    guarded(SUCCESS, || {
        // SAFETY: The caller's promise. Several threads may hold the context: nothing in it changes but atomics.
        if let Some(context) = unsafe { context.cast::<Context>().as_ref() } {
            // SAFETY: The caller's promise.
            unsafe { decide(context, call, target, n_channels) };
        }
        SUCCESS
    })
}

// ---- The decision ----

/// "Not said" in the small integers of this library.
const UNKNOWN: i8 = -1;

/// What NCCL asks about.
struct Call {
    collective: c_int,
    n_bytes: u64,
    num_pipe_ops: c_int,
    /// 0, 1, or [`UNKNOWN`] where the version does not say it.
    reg_buff: i8,
}

/// What is preferred. Indices are NCCL's; 0 channels leave the count to NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    algorithm: u8,
    protocol: u8,
    channels: u8,
}

/// Where a choice is written to.
enum Target {
    /// From v3 on.
    Costs { table: *mut f32, n_algorithms: c_int, n_protocols: c_int },
    /// v2.
    Outputs { algorithm: *mut c_int, protocol: *mut c_int },
}

impl Target {
    /// The table's cell, if the table has it.
    fn cell(&self, algorithm: usize, protocol: usize) -> Option<*mut f32> {
        let Self::Costs { table, n_algorithms, n_protocols } = *self else { return None };
        let (n_algorithms, n_protocols) = (usize::try_from(n_algorithms).ok()?, usize::try_from(n_protocols).ok()?);
        let is_inside = !table.is_null() && algorithm < n_algorithms && protocol < n_protocols;
        is_inside.then(|| table.wrapping_add(algorithm * n_protocols + protocol))
    }

    /// Whether NCCL may run `choice` for `call`.
    ///
    /// # Safety
    /// The table has the size that it says.
    unsafe fn is_allowed(&self, context: &Context, call: &Call, choice: Choice) -> bool {
        match *self {
            // NCCL marks what it cannot run by -1.0, and takes only costs from 0.0 on (`topoGetAlgoInfo`).
            Self::Costs { .. } => self
                .cell(choice.algorithm.into(), choice.protocol.into())
                // SAFETY: The caller's promise.
                .is_some_and(|cell| 0.0 <= unsafe { cell.read() }),
            // v2 says neither what the links can do nor what NCCL_ALGO and NCCL_PROTO forbid, and runs whatever it is
            // told: only what every topology has, and never LL128, which corrupts data where it does not belong.
            Self::Outputs { algorithm, protocol } => {
                let has_algorithm = match choice.algorithm {
                    RING => true,
                    TREE => call.collective == ALL_REDUCE,
                    _ => false,
                };
                let has_protocol = choice.protocol != LL128 && usize::from(choice.protocol) < PROTOCOLS.len();
                let has_outputs = !algorithm.is_null() && !protocol.is_null();
                has_algorithm && has_protocol && has_outputs && !context.is_forced_by_environment
            }
        }
    }

    /// Makes `choice`, which is allowed, the one that NCCL takes.
    ///
    /// # Safety
    /// As for [`Self::is_allowed`]; the outputs may be written to.
    unsafe fn prefer(&self, choice: Choice) {
        match *self {
            Self::Costs { .. } => {
                if let Some(cell) = self.cell(choice.algorithm.into(), choice.protocol.into()) {
                    // SAFETY: The caller's promise.
                    unsafe { cell.write(0.0) };
                }
            }
            Self::Outputs { algorithm, protocol } => {
                // SAFETY: The caller's promise.
                unsafe { algorithm.write(choice.algorithm.into()) };
                // SAFETY: The caller's promise.
                unsafe { protocol.write(choice.protocol.into()) };
            }
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nobody asked for anything.
    LeftToNccl,
    /// Something was asked for: by the rule at a line, or by the process itself.
    Requested { choice: Choice, rule_line: Option<u32>, is_allowed: bool },
}

/// # Safety
/// As for [`get_coll_info`].
unsafe fn decide(context: &Context, call: &Call, target: &Target, n_channels: *mut c_int) {
    // SAFETY: The caller's promise.
    let mut record =
        IS_RECORDING.load(Ordering::Acquire).then(|| unsafe { GdrtuneDecision::of(context, call, target) });
    let outcome = if IS_LIVE.load(Ordering::Acquire) {
        // SAFETY: The caller's promise.
        unsafe { live_outcome(context, call, target) }
    } else {
        // SAFETY: The caller's promise.
        unsafe { context.rule_outcome(call, target) }
    };
    if let Outcome::Requested { choice, is_allowed: true, .. } = outcome {
        // SAFETY: The caller's promise.
        unsafe { target.prefer(choice) };
        if 0 < choice.channels && !n_channels.is_null() {
            // SAFETY: The caller's promise.
            unsafe { n_channels.write(choice.channels.into()) };
        }
    }
    if let Some(record) = &mut record {
        record.set_outcome(outcome);
        record.publish();
    }
}

/// # Safety
/// As for [`Target::is_allowed`].
unsafe fn live_outcome(context: &Context, call: &Call, target: &Target) -> Outcome {
    let slot = usize::try_from(call.collective).ok().and_then(|idx| LIVE_CHOICES.get(idx));
    match slot.and_then(|slot| unpack(slot.load(Ordering::Acquire))) {
        None => Outcome::LeftToNccl,
        Some(choice) => {
            // SAFETY: The caller's promise.
            let is_allowed = unsafe { target.is_allowed(context, call, choice) };
            Outcome::Requested { choice, rule_line: None, is_allowed }
        }
    }
}

/// One communicator's tuner.
struct Context {
    api_version: i32,
    n_ranks: usize,
    n_nodes: usize,
    log: Log,
    /// The rules for this number of nodes and ranks, by `ncclFunc_t`, in file order.
    rules: [Vec<Rule>; N_COLLECTIVES],
    /// Whether `NCCL_ALGO` or `NCCL_PROTO` is set, which v2 would override where all others yield to them.
    is_forced_by_environment: bool,
}

impl Context {
    fn new(api_version: i32, n_ranks: usize, n_nodes: usize, log: Log) -> Self {
        let is_forced_by_environment = ["NCCL_ALGO", "NCCL_PROTO"].iter().any(|name| variable(name).is_some());
        let mut context =
            Self { api_version, n_ranks, n_nodes, log, rules: Default::default(), is_forced_by_environment };
        if variable("GDRTUNE_LIVE").is_some_and(|value| value == "1") {
            IS_RECORDING.store(true, Ordering::Release);
            IS_LIVE.store(true, Ordering::Release);
        }
        if IS_LIVE.load(Ordering::Acquire) {
            log.info(format_args!("live mode: choices come from this process"));
        } else {
            context.load_rules();
        }
        context
    }

    fn load_rules(&mut self) {
        let log = self.log;
        let Some(file) = variable("GDRTUNE_RULES").or_else(|| variable("NCCL_TUNER_CONFIG_FILE")) else {
            log.info(format_args!(
                "no rules: neither GDRTUNE_RULES nor NCCL_TUNER_CONFIG_FILE is set; every call is left to NCCL"
            ));
            return;
        };
        let shown = file.to_string_lossy();
        let read = read_text(Path::new(&file)).and_then(|text| Ok((parse(&text)?, checksum(text.as_bytes()))));
        let (lines, checksum) = match read {
            Ok(read) => read,
            Err(error) => {
                log.warn_once(format_args!("cannot use the rules of {shown}: {error}; every call is left to NCCL"));
                return;
            }
        };
        let (n_lines, mut n_here) = (lines.len(), 0);
        for line in lines {
            if let Some(rules) = self.rules.get_mut(line.collective).filter(|_| line.is_for(self.n_nodes, self.n_ranks))
            {
                rules.push(line.rule);
                n_here += 1;
            }
        }
        let Self { n_nodes, n_ranks, .. } = self;
        log.info(format_args!(
            "read {n_lines} rules, {n_here} of them for {n_nodes} nodes and {n_ranks} ranks, checksum {checksum:016x}, from {shown}"
        ));
    }

    /// The first rule that matches and is allowed; where none is allowed, the first one that matches.
    ///
    /// # Safety
    /// As for [`Target::is_allowed`].
    unsafe fn rule_outcome(&self, call: &Call, target: &Target) -> Outcome {
        let rules = usize::try_from(call.collective).ok().and_then(|idx| self.rules.get(idx));
        let mut outcome = Outcome::LeftToNccl;
        for rule in rules.into_iter().flatten().filter(|rule| rule.matches(call)) {
            // SAFETY: The caller's promise.
            let is_allowed = unsafe { target.is_allowed(self, call, rule.choice) };
            rule.log_first(self.log, call, is_allowed);
            if is_allowed || outcome == Outcome::LeftToNccl {
                outcome = Outcome::Requested { choice: rule.choice, rule_line: Some(rule.line), is_allowed };
            }
            if is_allowed {
                break;
            }
        }
        outcome
    }
}

/// A variable of the process; an empty one counts as not set.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

// ---- The rule file ----

/// More than this is no rule file: 64 MiB are half a million rules.
const MOST_FILE_BYTES: u64 = 64 << 20;
/// NVIDIA's reader splits longer lines (`MAX_LINE_LENGTH` of 256, less the NUL, in NCCL `plugins/tuner/example/plugin.c`).
const LONGEST_LINE: usize = 255;
/// The columns; the last two may be absent.
const COLUMNS: [&str; 10] = [
    "collective_type",
    "min_bytes",
    "max_bytes",
    "algorithm",
    "protocol",
    "channels",
    "nNodes",
    "nRanks",
    "numPipeOps",
    "regBuff",
];
/// A message has been written for the rule.
const LOGGED_APPLIED: u8 = 1;
/// A message has been written that NCCL does not allow it.
const LOGGED_REFUSED: u8 = 2;

/// A rule, less what a communicator cannot change: the collective and the number of nodes and ranks.
struct Rule {
    min_bytes: u64,
    max_bytes: u64,
    /// `None` matches everything.
    num_pipe_ops: Option<u32>,
    /// 0, 1, or [`UNKNOWN`] for everything.
    reg_buff: i8,
    choice: Choice,
    line: u32,
    logged: AtomicU8,
}

impl Rule {
    /// Both bounds are inclusive. Where NCCL does not say whether buffers are registered, only a wildcard matches.
    fn matches(&self, call: &Call) -> bool {
        self.min_bytes <= call.n_bytes
            && call.n_bytes <= self.max_bytes
            && self.num_pipe_ops.is_none_or(|count| i64::from(count) == i64::from(call.num_pipe_ops))
            && (self.reg_buff == UNKNOWN || self.reg_buff == call.reg_buff)
    }

    /// Logs that the rule was applied, or refused, the first time that it is.
    fn log_first(&self, log: Log, call: &Call, is_allowed: bool) {
        let bit = if is_allowed { LOGGED_APPLIED } else { LOGGED_REFUSED };
        if self.logged.load(Ordering::Relaxed) & bit != 0 || self.logged.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let Choice { algorithm, protocol, channels } = self.choice;
        let (line, n_bytes) = (self.line, call.n_bytes);
        let name = |names: &[&'static str], idx: usize| names.get(idx).copied().unwrap_or("?");
        let collective = name(&COLLECTIVES, usize::try_from(call.collective).unwrap_or(usize::MAX));
        let (algorithm, protocol) = (name(&ALGORITHMS, algorithm.into()), name(&PROTOCOLS, protocol.into()));
        let (what, end) =
            if is_allowed { ("applied", "") } else { ("skipped", ": NCCL does not allow this combination here") };
        match channels {
            0 => log.info(format_args!(
                "{what} rule at line {line}: {collective}, {n_bytes} bytes, {algorithm}/{protocol}{end}"
            )),
            _ => log.info(format_args!(
                "{what} rule at line {line}: {collective}, {n_bytes} bytes, {algorithm}/{protocol}, {channels} channels{end}"
            )),
        }
    }
}

/// A rule as it stands in the file.
struct RuleLine {
    collective: usize,
    nodes: Option<u32>,
    ranks: Option<u32>,
    rule: Rule,
}

impl RuleLine {
    fn is_for(&self, n_nodes: usize, n_ranks: usize) -> bool {
        let is_same = |wanted: Option<u32>, count: usize| wanted.is_none_or(|wanted| wanted as usize == count);
        is_same(self.nodes, n_nodes) && is_same(self.ranks, n_ranks)
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    // Opening a pipe would wait for its writer, and a device has no end.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if MOST_FILE_BYTES < bytes.len() as u64 {
        return Err(format!("it is larger than {MOST_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not text: byte {}", error.utf8_error().valid_up_to()))
}

/// FNV-1a, so that the log lines of two ranks show whether they read the same rules.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The rules of a file. One line that is none spoils the file, as a rule that is missing changes what the others do.
fn parse(text: &str) -> Result<Vec<RuleLine>, String> {
    let mut rules = Vec::new();
    for (idx, line) in text.split_inclusive('\n').enumerate() {
        let number = idx + 1;
        let line = line.strip_suffix('\n').unwrap_or(line);
        if LONGEST_LINE < line.len() {
            return Err(format!("line {number} is longer than {LONGEST_LINE} bytes"));
        }
        let line = line.split('\0').next().unwrap_or_default();
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        rules.push(parse_rule(number, line).map_err(|error| format!("line {number}: {error}"))?);
    }
    Ok(rules)
}

fn parse_rule(number: usize, line: &str) -> Result<RuleLine, String> {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    if columns.first() == COLUMNS.first() {
        return Err("a header line is read as a rule: put `#` before it".to_owned());
    }
    if !(8..=10).contains(&columns.len()) {
        return Err(format!("a rule has 8 to 10 columns, and this line has {}", columns.len()));
    }
    let columns = Columns(columns);
    let choice = Choice {
        algorithm: columns.name(3, &ALGORITHMS)? as u8,
        protocol: columns.name(4, &PROTOCOLS)? as u8,
        channels: columns.wildcard(5, MOST_CHANNELS.into())?.unwrap_or(0) as u8,
    };
    let most = i32::MAX as u32;
    let rule = Rule {
        min_bytes: columns.bytes(1)?,
        max_bytes: columns.bytes(2)?,
        num_pipe_ops: columns.wildcard(8, most)?,
        reg_buff: columns.wildcard(9, 1)?.map_or(UNKNOWN, |flag| flag as i8),
        choice,
        line: u32::try_from(number).unwrap_or(u32::MAX),
        logged: AtomicU8::new(0),
    };
    let collective = columns.name(0, &COLLECTIVES)?;
    Ok(RuleLine { collective, nodes: columns.wildcard(6, most)?, ranks: columns.wildcard(7, most)?, rule })
}

/// The columns of one line, trimmed.
struct Columns<'a>(Vec<&'a str>);

impl Columns<'_> {
    fn text(&self, idx: usize) -> &str {
        self.0.get(idx).copied().unwrap_or_default()
    }

    fn error(&self, idx: usize, expected: &str) -> String {
        let text: String = self.text(idx).chars().take(40).collect();
        format!("{} cannot be {text:?}: {expected}", COLUMNS.get(idx).copied().unwrap_or_default())
    }

    fn name(&self, idx: usize, names: &[&str]) -> Result<usize, String> {
        let found = names.iter().position(|name| *name == self.text(idx));
        found.ok_or_else(|| self.error(idx, &format!("use one of {}", names.join(", "))))
    }

    fn bytes(&self, idx: usize) -> Result<u64, String> {
        let number = self.text(idx).parse().ok().filter(|_| is_digits(self.text(idx)));
        number.ok_or_else(|| self.error(idx, "write bytes as a whole number of at most 64 bits"))
    }

    /// The number in a column that may be absent or -1.
    fn wildcard(&self, idx: usize, most: u32) -> Result<Option<u32>, String> {
        if self.0.len() <= idx || self.text(idx) == "-1" {
            return Ok(None);
        }
        let number = self.text(idx).parse::<u32>().ok().filter(|number| is_digits(self.text(idx)) && *number <= most);
        number.map(Some).ok_or_else(|| self.error(idx, &format!("write -1, or a number up to {most}")))
    }
}

/// Rust's own parser would take a sign as well.
fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

// ---- Live mode ----

/// Whether choices come from the process. Never goes back: its rules were not read.
static IS_LIVE: AtomicBool = AtomicBool::new(false);
/// Whether calls are recorded for [`gdrtune_tuner_last`].
static IS_RECORDING: AtomicBool = AtomicBool::new(false);
/// The choice by `ncclFunc_t`; see [`pack`].
static LIVE_CHOICES: [AtomicU64; N_COLLECTIVES] = [const { AtomicU64::new(0) }; N_COLLECTIVES];
/// The last call. Its `calls` counts on.
static LAST_DECISION: Mutex<GdrtuneDecision> = Mutex::new(GdrtuneDecision::EMPTY);

/// A choice as one word, which is never 0.
fn pack(choice: Choice) -> u64 {
    u64::from_le_bytes([1, choice.algorithm, choice.protocol, choice.channels, 0, 0, 0, 0])
}

fn unpack(word: u64) -> Option<Choice> {
    let [is_set, algorithm, protocol, channels, ..] = word.to_le_bytes();
    (is_set != 0).then_some(Choice { algorithm, protocol, channels })
}

/// Prefers a choice for every later call of `collective` (`ncclFunc_t`; -1: all five), in every communicator of the
/// process, and switches live mode on. 0 channels leave the count to NCCL. Set the same on every rank.
///
/// Returns 0, or 1 where an argument is none that NCCL knows, and then changes nothing. Whether NCCL allows the choice
/// is known at the call only: see [`gdrtune_tuner_last`].
#[unsafe(no_mangle)]
pub extern "C" fn gdrtune_tuner_set(collective: i32, algorithm: i32, protocol: i32, channels: i32) -> i32 {
    guarded(1, || {
        let below = |value: i32, count: usize| usize::try_from(value).is_ok_and(|value| value < count);
        let is_known = (collective == -1 || below(collective, N_COLLECTIVES))
            && below(algorithm, ALGORITHMS.len())
            && below(protocol, PROTOCOLS.len())
            && below(channels, usize::from(MOST_CHANNELS) + 1);
        if !is_known {
            return 1;
        }
        let choice = Choice { algorithm: algorithm as u8, protocol: protocol as u8, channels: channels as u8 };
        for (idx, slot) in LIVE_CHOICES.iter().enumerate() {
            if collective == -1 || usize::try_from(collective) == Ok(idx) {
                slot.store(pack(choice), Ordering::Release);
            }
        }
        IS_RECORDING.store(true, Ordering::Release);
        IS_LIVE.store(true, Ordering::Release);
        0
    })
}

/// Leaves every later call to NCCL, and switches live mode on.
#[unsafe(no_mangle)]
pub extern "C" fn gdrtune_tuner_clear() {
    for slot in &LIVE_CHOICES {
        slot.store(0, Ordering::Release);
    }
    IS_RECORDING.store(true, Ordering::Release);
    IS_LIVE.store(true, Ordering::Release);
}

/// Copies what the last call saw and what came of it to `out`. Returns 1, or 0 where nothing has been recorded yet.
///
/// Recording begins with live mode, or with the first call of this function: a process that runs by rules asks once
/// before its first collective.
///
/// # Safety
/// `out` is NULL or points to a [`GdrtuneDecision`] that may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdrtune_tuner_last(out: *mut GdrtuneDecision) -> i32 {
    guarded(0, || {
        IS_RECORDING.store(true, Ordering::Release);
        let last = *LAST_DECISION.lock().unwrap_or_else(PoisonError::into_inner);
        if out.is_null() || last.calls == 0 {
            return 0;
        }
        // SAFETY: The caller's promise.
        unsafe { out.write(last) };
        1
    })
}

/// Rows that [`GdrtuneDecision::costs_us`] has room for; NCCL has 6 (2.21, 2.22) or 7.
pub const MOST_ALGORITHMS: usize = 8;
/// Columns that [`GdrtuneDecision::costs_us`] has room for; NCCL has 3.
pub const MOST_PROTOCOLS: usize = 4;

/// [`GdrtuneDecision::source`]: nothing was asked for, and the call was left to NCCL.
pub const SOURCE_NONE: i32 = 0;
/// [`GdrtuneDecision::source`]: [`gdrtune_tuner_set`].
pub const SOURCE_LIVE: i32 = 1;
/// [`GdrtuneDecision::source`]: a rule of the file.
pub const SOURCE_RULE: i32 = 2;

/// One `getCollInfo` call: what it saw, and what came of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GdrtuneDecision {
    /// Size of this structure in bytes: another size means another build of the plugin.
    pub struct_bytes: u32,
    /// Version of NCCL's tuner interface in use: 2 to 6.
    pub api_version: i32,
    /// Calls recorded so far, this one included.
    pub calls: u64,
    /// NCCL's `nBytes`.
    pub bytes: u64,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Nodes of the communicator.
    pub nodes: u64,
    /// `ncclFunc_t`.
    pub collective: i32,
    /// NCCL's `numPipeOps`.
    pub num_pipe_ops: i32,
    /// Whether the buffers are registered: 0, 1; -1 below v4, where NCCL does not say.
    pub reg_buff: i32,
    /// Who asked: [`SOURCE_NONE`], [`SOURCE_LIVE`] or [`SOURCE_RULE`].
    pub source: i32,
    /// Line of the rule, counted from 1; 0 without one.
    pub rule_line: i32,
    /// The algorithm asked for; -1 for none.
    pub algorithm: i32,
    /// The protocol asked for; -1 for none.
    pub protocol: i32,
    /// The channels asked for; 0 leaves the count to NCCL; -1 where nothing was asked for.
    pub channels: i32,
    /// 1: NCCL allows it, and it was preferred; 0: NCCL does not, and nothing was changed; -1: nothing was asked for.
    pub is_allowed: i32,
    /// NCCL's `numAlgo`; 0 in v2, which has no table.
    pub num_algorithms: i32,
    /// NCCL's `numProto`; 0 in v2.
    pub num_protocols: i32,
    /// Padding, 0.
    pub reserved: i32,
    /// NCCL's own prediction, before anything was changed, in microseconds, by algorithm and protocol. Negative: not
    /// allowed, or no such cell.
    pub costs_us: [[f32; MOST_PROTOCOLS]; MOST_ALGORITHMS],
}

impl GdrtuneDecision {
    /// What stands here before the first call.
    pub const EMPTY: Self = Self {
        struct_bytes: size_of::<Self>() as u32,
        api_version: 0,
        calls: 0,
        bytes: 0,
        ranks: 0,
        nodes: 0,
        collective: -1,
        num_pipe_ops: 0,
        reg_buff: -1,
        source: SOURCE_NONE,
        rule_line: 0,
        algorithm: -1,
        protocol: -1,
        channels: -1,
        is_allowed: -1,
        num_algorithms: 0,
        num_protocols: 0,
        reserved: 0,
        costs_us: [[-1.0; MOST_PROTOCOLS]; MOST_ALGORITHMS],
    };

    /// # Safety
    /// As for [`Target::is_allowed`].
    unsafe fn of(context: &Context, call: &Call, target: &Target) -> Self {
        let mut decision = Self {
            api_version: context.api_version,
            bytes: call.n_bytes,
            ranks: context.n_ranks as u64,
            nodes: context.n_nodes as u64,
            collective: call.collective,
            num_pipe_ops: call.num_pipe_ops,
            reg_buff: call.reg_buff.into(),
            ..Self::EMPTY
        };
        if let Target::Costs { n_algorithms, n_protocols, .. } = *target {
            (decision.num_algorithms, decision.num_protocols) = (n_algorithms, n_protocols);
        }
        for (algorithm, row) in decision.costs_us.iter_mut().enumerate() {
            for (protocol, cost_us) in row.iter_mut().enumerate() {
                if let Some(cell) = target.cell(algorithm, protocol) {
                    // SAFETY: The caller's promise.
                    *cost_us = unsafe { cell.read() };
                }
            }
        }
        decision
    }

    fn set_outcome(&mut self, outcome: Outcome) {
        let Outcome::Requested { choice, rule_line, is_allowed } = outcome else { return };
        self.source = if rule_line.is_some() { SOURCE_RULE } else { SOURCE_LIVE };
        self.rule_line = rule_line.map_or(0, |line| i32::try_from(line).unwrap_or(i32::MAX));
        self.algorithm = choice.algorithm.into();
        self.protocol = choice.protocol.into();
        self.channels = choice.channels.into();
        self.is_allowed = is_allowed.into();
    }

    fn publish(&self) {
        let mut last = LAST_DECISION.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Self { calls: last.calls.wrapping_add(1), ..*self };
    }
}

// ---- NCCL's log ----

/// Start of every message.
const LOG_PREFIX: &str = "TUNER/gdrtune: ";
/// NCCL cuts its lines at 1024 bytes, its own prefix included (NCCL `src/debug.cc`).
const LONGEST_MESSAGE: usize = 896;
/// Checksum of the last warning: communicators after the first do not repeat it as a warning.
static LAST_WARNING: AtomicU64 = AtomicU64::new(0);

/// NCCL's log, if it gave one.
#[derive(Clone, Copy)]
struct Log(Option<LogFunction>);

impl Log {
    fn info(self, message: fmt::Arguments<'_>) {
        self.write(LOG_INFO, SUBSYSTEM_TUNING, &Message::new(message));
    }

    /// Warns; what was the last warning already is information only.
    fn warn_once(self, message: fmt::Arguments<'_>) {
        let message = Message::new(message);
        let checksum = checksum(message.bytes());
        if LAST_WARNING.swap(checksum, Ordering::Relaxed) == checksum {
            self.write(LOG_INFO, SUBSYSTEM_TUNING, &message);
        } else {
            self.write(LOG_WARN, SUBSYSTEM_ALL, &message);
        }
    }

    fn write(self, level: c_int, flags: c_ulong, message: &Message) {
        let Some(log) = self.0 else { return };
        let (file, format, text) = (c"gdrtune".as_ptr(), c"%s".as_ptr(), message.buffer.as_ptr().cast::<c_char>());
        // SAFETY: It is NCCL's function; every string ends with a NUL, and the format takes one string.
        unsafe { log(level, flags, file, 0, format, text) };
    }
}

/// A message on the stack: a call may log, and must not allocate.
struct Message {
    /// The last byte stays a NUL.
    buffer: [u8; LONGEST_MESSAGE],
    n_bytes: usize,
}

impl Message {
    fn new(text: fmt::Arguments<'_>) -> Self {
        let mut message = Self { buffer: [0; LONGEST_MESSAGE], n_bytes: 0 };
        // An error says that the rest did not fit, and a message that is cut is better than none.
        let _fits: fmt::Result = message.write_str(LOG_PREFIX).and_then(|()| message.write_fmt(text));
        message
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.n_bytes).unwrap_or_default()
    }
}

impl fmt::Write for Message {
    /// Control bytes, such as a line feed in a file's name, would make further lines in the log.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let Some(slot) = self.buffer.get_mut(self.n_bytes).filter(|_| self.n_bytes + 1 < LONGEST_MESSAGE) else {
                return Err(fmt::Error);
            };
            *slot = if byte.is_ascii_control() { b'?' } else { byte };
            self.n_bytes += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
