//! Calls the plugin as NCCL does: through the exported structures, with a log function and a table of costs.
#![expect(dead_code, reason = "each test program uses a part of it")]
#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "test support; costs are preferred by an exact 0")]

use std::{
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    path::Path,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use gdrtune_nccl_tuner::{
    GdrtuneDecision, GetCollInfoV4, LogFunction, gdrtune_tuner_last, ncclTunerPlugin_v2, ncclTunerPlugin_v3,
    ncclTunerPlugin_v4, ncclTunerPlugin_v5, ncclTunerPlugin_v6,
};

pub(crate) const BROADCAST: i32 = 0;
pub(crate) const ALL_GATHER: i32 = 2;
pub(crate) const ALL_REDUCE: i32 = 4;
/// Every function that has a choice.
pub(crate) const COLLECTIVES: std::ops::Range<i32> = 0..5;
pub(crate) const TREE: usize = 0;
pub(crate) const RING: usize = 1;
pub(crate) const LL: usize = 0;
pub(crate) const LL128: usize = 1;
pub(crate) const SIMPLE: usize = 2;
/// `NCCL_LOG_WARN`.
pub(crate) const WARN: i32 = 2;
/// `NCCL_LOG_INFO`.
pub(crate) const INFO: i32 = 3;
/// What NCCL marks forbidden cells with.
pub(crate) const IGNORE: f32 = -1.0;

static TURN: Mutex<()> = Mutex::new(());
static LINES: Mutex<Vec<(i32, u64, String)>> = Mutex::new(Vec::new());

/// Waits for the process's environment and its log to be free, and cleans them.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["GDRTUNE_RULES", "NCCL_TUNER_CONFIG_FILE", "NCCL_ALGO", "NCCL_PROTO"] {
        set_variable(name, None);
    }
    take_log();
    turn
}

#[expect(unsafe_code, reason = "the environment is shared by all threads")]
pub(crate) fn set_variable(name: &str, value: Option<&Path>) {
    match value {
        // SAFETY: Whoever has the turn is alone, and everybody here uses Rust's own functions, which lock.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: As above.
        None => unsafe { std::env::remove_var(name) },
    }
}

/// The messages since the last call: level, flags, text.
pub(crate) fn take_log() -> Vec<(i32, u64, String)> {
    std::mem::take(&mut *LINES.lock().unwrap())
}

/// The texts of a level.
pub(crate) fn texts(log: &[(i32, u64, String)], level: i32) -> Vec<&str> {
    log.iter().filter(|line| line.0 == level).map(|line| line.2.as_str()).collect()
}

/// A log function with the one argument that the plugin's format takes.
#[expect(unsafe_code, reason = "a C function")]
unsafe extern "C" fn log(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    _line: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    assert!(!file.is_null());
    // SAFETY: The plugin passes strings.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    assert_eq!(format, c"%s", "nothing from outside may be a format");
    LINES.lock().unwrap().push((level, flags, text.to_str().unwrap().to_owned()));
}

/// The log function as NCCL declares it.
#[expect(unsafe_code, reason = "a C function with variable arguments cannot be written in Rust")]
pub(crate) fn log_function() -> LogFunction {
    type Fixed = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    // SAFETY: On Linux's targets, arguments in the place of `...` are passed as declared ones are.
    unsafe { std::mem::transmute::<Fixed, LogFunction>(log) }
}

/// What the plugin recorded last. The first call switches recording on.
#[expect(unsafe_code, reason = "a C interface")]
pub(crate) fn last() -> Option<GdrtuneDecision> {
    let mut decision = GdrtuneDecision::EMPTY;
    // SAFETY: It may be written to.
    (unsafe { gdrtune_tuner_last(&raw mut decision) } == 1).then_some(decision)
}

/// A communicator's tuner, through one version of the interface.
pub(crate) struct Tuner {
    version: i32,
    context: *mut c_void,
}

// SAFETY: NCCL calls from any thread, too.
#[expect(unsafe_code, reason = "it holds the plugin's pointer")]
unsafe impl Send for Tuner {}
// SAFETY: As above.
#[expect(unsafe_code, reason = "it holds the plugin's pointer")]
unsafe impl Sync for Tuner {}

/// What NCCL asks with.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) collective: i32,
    pub(crate) bytes: usize,
    pub(crate) num_pipe_ops: i32,
    pub(crate) reg_buff: i32,
    pub(crate) n_algorithms: usize,
    pub(crate) n_protocols: usize,
    pub(crate) costs: Vec<f32>,
    pub(crate) channels: i32,
}

impl Query {
    /// A call that NCCL would answer by itself with the last cell; everything is allowed.
    pub(crate) fn new(collective: i32, bytes: usize) -> Self {
        Self::sized(collective, bytes, 7, 3)
    }

    pub(crate) fn sized(collective: i32, bytes: usize, n_algorithms: usize, n_protocols: usize) -> Self {
        let costs = (0..n_algorithms * n_protocols).map(|idx| 100.0 - idx as f32).collect();
        Self { collective, bytes, num_pipe_ops: 1, reg_buff: 0, n_algorithms, n_protocols, costs, channels: 0 }
    }

    pub(crate) fn forbid(mut self, algorithm: usize, protocol: usize) -> Self {
        self.costs[algorithm * self.n_protocols + protocol] = IGNORE;
        self
    }

    /// What the plugin preferred: algorithm, protocol and channels.
    pub(crate) fn preferred(&self) -> Option<(usize, usize, i32)> {
        let cells: Vec<usize> = (0..self.costs.len()).filter(|idx| self.costs[*idx] == 0.0).collect();
        assert!(cells.len() < 2, "{cells:?}");
        cells.first().map(|idx| (idx / self.n_protocols, idx % self.n_protocols, self.channels))
    }
}

impl Tuner {
    pub(crate) fn start(version: i32, n_ranks: usize, n_nodes: usize) -> Self {
        Self::start_with(version, n_ranks, n_nodes, Some(log_function()))
    }

    /// A communicator of 4 nodes and 32 ranks whose rules are `text`. Needs the turn.
    pub(crate) fn with_rules(version: i32, text: &str) -> Self {
        Self::with_rules_for(version, text, 32, 4)
    }

    /// [`Self::with_rules`] for another shape.
    pub(crate) fn with_rules_for(version: i32, text: &str, n_ranks: usize, n_nodes: usize) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        set_variable("GDRTUNE_RULES", Some(file.path()));
        Self::start(version, n_ranks, n_nodes)
    }

    #[expect(unsafe_code, reason = "a C interface")]
    pub(crate) fn start_with(version: i32, n_ranks: usize, n_nodes: usize, log: Option<LogFunction>) -> Self {
        let mut context = ptr::null_mut();
        let none = ptr::null_mut();
        // SAFETY: The arguments are NCCL's.
        let result = unsafe {
            match version {
                2 => (ncclTunerPlugin_v2.init)(n_ranks, n_nodes, log, &raw mut context),
                3 => (ncclTunerPlugin_v3.init)(n_ranks, n_nodes, log, &raw mut context),
                4 => (ncclTunerPlugin_v4.init)(n_ranks, n_nodes, log, &raw mut context),
                5 => (ncclTunerPlugin_v5.init)(&raw mut context, 7, n_ranks, n_nodes, log, none, none),
                _ => (ncclTunerPlugin_v6.init)(&raw mut context, 7, n_ranks, n_nodes, log, none, none),
            }
        };
        assert_eq!(result, 0);
        assert!(!context.is_null());
        Self { version, context }
    }

    pub(crate) fn context(&self) -> *mut c_void {
        self.context
    }

    fn get_coll_info_v4(&self) -> GetCollInfoV4 {
        match self.version {
            4 => ncclTunerPlugin_v4.get_coll_info,
            5 => ncclTunerPlugin_v5.get_coll_info,
            _ => ncclTunerPlugin_v6.get_coll_info,
        }
    }

    /// Asks through v3 to v6.
    #[expect(unsafe_code, reason = "a C interface")]
    pub(crate) fn ask(&self, query: &mut Query) {
        let Query { collective, bytes, num_pipe_ops, reg_buff, .. } = *query;
        let (n_algorithms, n_protocols) = (query.n_algorithms as c_int, query.n_protocols as c_int);
        let (costs, channels) = (query.costs.as_mut_ptr().cast(), &raw mut query.channels);
        // SAFETY: The table has the size that is passed.
        let result = unsafe {
            match self.version {
                3 => (ncclTunerPlugin_v3.get_coll_info)(
                    self.context,
                    collective,
                    bytes,
                    num_pipe_ops,
                    costs,
                    n_algorithms,
                    n_protocols,
                    channels,
                ),
                _ => self.get_coll_info_v4()(
                    self.context,
                    collective,
                    bytes,
                    num_pipe_ops,
                    costs,
                    n_algorithms,
                    n_protocols,
                    reg_buff,
                    channels,
                ),
            }
        };
        assert_eq!(result, 0);
    }

    /// [`Self::ask`], and what came of it.
    pub(crate) fn choose(&self, mut query: Query) -> Option<(usize, usize, i32)> {
        let before = query.clone();
        self.ask(&mut query);
        let preferred = query.preferred();
        if preferred.is_none() {
            assert_eq!((&query.costs, query.channels), (&before.costs, before.channels), "left to NCCL as it was");
        }
        let n_changed = query.costs.iter().zip(&before.costs).filter(|(now, then)| now != then).count();
        assert_eq!(n_changed, usize::from(preferred.is_some()), "no other cell may change");
        preferred
    }

    /// Asks through v2, whose outputs stand at `-1, -1, 0` before, as NCCL 2.21 does.
    #[expect(unsafe_code, reason = "a C interface")]
    pub(crate) fn ask_v2(&self, collective: i32, bytes: usize) -> (i32, i32, i32) {
        assert_eq!(self.version, 2);
        let (mut algorithm, mut protocol, mut channels) = (-1, -1, 0);
        let (a, p, c) = (&raw mut algorithm, &raw mut protocol, &raw mut channels);
        // SAFETY: The arguments are NCCL's.
        let result = unsafe { (ncclTunerPlugin_v2.get_coll_info)(self.context, collective, bytes, 1, 1, 1, a, p, c) };
        assert_eq!(result, 0);
        (algorithm, protocol, channels)
    }
}

impl Drop for Tuner {
    #[expect(unsafe_code, reason = "a C interface")]
    fn drop(&mut self) {
        let end = match self.version {
            2 => ncclTunerPlugin_v2.destroy,
            3 => ncclTunerPlugin_v3.destroy,
            4 => ncclTunerPlugin_v4.destroy,
            5 => ncclTunerPlugin_v5.finalize,
            _ => ncclTunerPlugin_v6.finalize,
        };
        // SAFETY: It came from `init`, and this is the only end.
        assert_eq!(unsafe { end(self.context) }, 0);
    }
}
