//! NCCL's side of tuner plugins: which interface a version looks for, and the choice itself.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::{
    debug::{self, ENV, INIT, TUNING},
    purpose::{self, ALGORITHMS, PROTOCOLS, Selection},
};

/// Entry of the cost table that may not be used.
const IGNORE: f32 = -1.0;

/// Channels where nobody asks for a number.
const OWN_CHANNELS: i32 = 2;

const TREE: usize = 0;
const RING: usize = 1;
const ALL_REDUCE: usize = 4;

type Costs = [[f32; PROTOCOLS.len()]; ALGORITHMS.len()];

/// `ncclTuner_v2_t` to `v4_t`.
#[repr(C)]
struct OldTable {
    name: *const c_char,
    init: unsafe extern "C" fn(usize, usize, *mut c_void, *mut *mut c_void) -> c_int,
    get_coll_info: *const c_void,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// `ncclTuner_v5_t`, and the part of `v6_t` that is used.
#[repr(C)]
struct NewTable {
    name: *const c_char,
    init: unsafe extern "C" fn(*mut *mut c_void, u64, usize, usize, *mut c_void, *mut c_void, *mut c_void) -> c_int,
    get_coll_info: *const c_void,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

type InfoV2 =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
type InfoV3 = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, *mut *mut f32, c_int, c_int, *mut c_int) -> c_int;
type InfoV4 =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, *mut *mut f32, c_int, c_int, c_int, *mut c_int) -> c_int;

/// A plugin with its context for one communicator.
pub(crate) struct Tuner {
    interface: u32,
    get_coll_info: *const c_void,
    finish: unsafe extern "C" fn(*mut c_void) -> c_int,
    context: *mut c_void,
}

/// The interfaces that a version looks for, newest first.
fn interfaces(version: i32) -> &'static [u32] {
    match version {
        23_000.. => &[6, 5, 4, 3, 2],
        22_800.. => &[5, 4, 3, 2],
        22_400.. => &[4, 3, 2],
        22_200.. => &[3, 2],
        22_100.. => &[2],
        _ => &[],
    }
}

/// Since 2.28, messages about plugins are part of the initialisation, and have other words.
fn is_modern() -> bool {
    purpose::version() >= 22_800
}

fn say(message: &str) {
    debug::info(if is_modern() { INIT | TUNING } else { ENV | TUNING }, message);
}

impl Tuner {
    /// Loads what `NCCL_TUNER_PLUGIN` names; as with NCCL, a plugin that cannot be loaded is no error.
    pub(crate) fn load(world: usize) -> Option<Self> {
        let name = std::env::var("NCCL_TUNER_PLUGIN").ok()?;
        debug::info(ENV | TUNING, &format!("NCCL_TUNER_PLUGIN set by environment to {name}"));
        if purpose::is_unopened() {
            say(&format!("TUNER/Plugin: {name}: cannot allocate memory in static TLS block"));
            return None;
        }
        let path = CString::new(name.clone()).ok()?;
        // SAFETY: the plugin's constructors may run; it is never closed.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failure there is a text, which lives until the next one.
            let error = unsafe { CStr::from_ptr(libc::dlerror()) };
            say(&match error.to_string_lossy() {
                error if error.contains("No such file or directory") => format!("TUNER/Plugin: Could not find: {name}"),
                error => format!("TUNER/Plugin: {name}: {error}"),
            });
            return None;
        }
        let found = interfaces(purpose::version()).iter().find_map(|&interface| {
            let symbol = CString::new(format!("ncclTunerPlugin_v{interface}")).ok()?;
            // SAFETY: the library is open.
            let table = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            (!table.is_null()).then_some((interface, table))
        });
        let Some((interface, table)) = found else {
            say(&format!("External tuner plugin {name} is unsupported"));
            return None;
        };
        // SAFETY: all tables begin with a name.
        let plugin = unsafe { CStr::from_ptr(table.cast::<*const c_char>().read()) }.to_string_lossy();
        if is_modern() {
            say(&format!("TUNER/Plugin: Using {plugin} (v{interface})"));
            say(&format!("Successfully loaded external tuner plugin {name}"));
        } else {
            say(&format!("TUNER/Plugin: Using tuner plugin {plugin}"));
        }
        // SAFETY: the symbol says which table it is.
        unsafe { Self::start(interface, table, world) }
    }

    /// # Safety
    /// `table` is the one of this interface.
    unsafe fn start(interface: u32, table: *const c_void, world: usize) -> Option<Self> {
        let mut context = std::ptr::null_mut();
        let none = std::ptr::null_mut;
        // SAFETY: the tables and their functions are those of the interface.
        unsafe {
            let (result, get_coll_info, finish) = if interface < 5 {
                let table = &*table.cast::<OldTable>();
                let result = (table.init)(world, world, debug::logger(), &raw mut context);
                (result, table.get_coll_info, table.destroy)
            } else {
                let table = &*table.cast::<NewTable>();
                let result = (table.init)(&raw mut context, 1, world, world, debug::logger(), none(), none());
                (result, table.get_coll_info, table.finalize)
            };
            (result == crate::SUCCESS).then_some(Self { interface, get_coll_info, finish, context })
        }
    }

    /// Asks the plugin. Returns the channels that it wants, and an algorithm and protocol where its interface has them.
    fn ask(&self, collective: usize, bytes: usize, costs: &mut Costs) -> (i32, Option<(usize, usize)>) {
        let (mut channels, mut algorithm, mut protocol) = (0, -1, -1);
        let (function, rows, columns) = (collective as c_int, ALGORITHMS.len() as c_int, PROTOCOLS.len() as c_int);
        let table: *mut *mut f32 = std::ptr::from_mut(costs).cast();
        // SAFETY: the pointer is the function of this interface; NCCL passes the flat table as a pointer to pointers.
        let result = unsafe {
            match self.interface {
                2 => {
                    let ask: InfoV2 = std::mem::transmute(self.get_coll_info);
                    let (a, p, c) = (&raw mut algorithm, &raw mut protocol, &raw mut channels);
                    ask(self.context, function, bytes, 0, 0, 1, a, p, c)
                }
                3 => {
                    let ask: InfoV3 = std::mem::transmute(self.get_coll_info);
                    ask(self.context, function, bytes, 1, table, rows, columns, &raw mut channels)
                }
                _ => {
                    let ask: InfoV4 = std::mem::transmute(self.get_coll_info);
                    ask(self.context, function, bytes, 1, table, rows, columns, 0, &raw mut channels)
                }
            }
        };
        debug_assert_eq!(result, crate::SUCCESS, "NCCL fails the collective then");
        let chosen = usize::try_from(algorithm).ok().zip(usize::try_from(protocol).ok());
        (channels, chosen.filter(|&(a, p)| a < ALGORITHMS.len() && p < PROTOCOLS.len()))
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        // SAFETY: the plugin's own context, ended once.
        unsafe { (self.finish)(self.context) };
    }
}

/// What NCCL would predict: ring/simple is best, tree serves all-reduce only, LL128 may not be used (as over sockets).
fn predictions(collective: usize) -> Costs {
    let mut costs = [[IGNORE; PROTOCOLS.len()]; ALGORITHMS.len()];
    costs[RING] = [30.0, IGNORE, 20.0];
    if collective == ALL_REDUCE {
        costs[TREE] = [40.0, IGNORE, 25.0];
    }
    costs
}

/// What a call runs.
pub(crate) fn select(tuner: Option<&Tuner>, collective: usize, bytes: usize) -> Selection {
    let mut costs = predictions(collective);
    let tuner = tuner.filter(|_| !purpose::is_bypassed());
    let (channels, chosen) = tuner.map_or((0, None), |tuner| tuner.ask(collective, bytes, &mut costs));
    let is_own = channels <= 0 && chosen.is_none() && costs == predictions(collective);
    let cells = (0..ALGORITHMS.len()).flat_map(|a| (0..PROTOCOLS.len()).map(move |p| (a, p)));
    let best = cells
        .filter(|&(a, p)| costs[a][p] >= 0.0)
        .reduce(|best, next| if costs[next.0][next.1] < costs[best.0][best.1] { next } else { best });
    let (algorithm, protocol) = chosen.or(best).unwrap_or((RING, 2));
    let channels = if channels > 0 { channels } else { OWN_CHANNELS }.min(purpose::channel_ceiling());
    Selection { collective, algorithm, protocol, channels, is_own }
}
