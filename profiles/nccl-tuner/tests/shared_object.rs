//! The library as it is deployed: made from its one source file by the compiler alone, and opened by path.
#![expect(unsafe_code, reason = "a C interface, behind the dynamic loader")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    process::Command,
    ptr,
};

use gdrtune_nccl_tuner::{GdrtuneDecision, TunerV2, TunerV3, TunerV4, TunerV5, TunerV6};

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

/// `RTLD_NOW` of Linux, and `RTLD_LOCAL`, which is 0: how NCCL opens plugins (NCCL `src/plugin/plugin_open.cc`).
const NOW: c_int = 2;

/// Compiles `src/lib.rs` as node's build script does.
fn build(folder: &Path) -> PathBuf {
    let library = folder.join("libnccl-tuner-gdrtune.so");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "gdrtune_nccl_tuner", "-Dwarnings"]);
    command.args(["-C", "opt-level=3", "-C", "panic=unwind", "-C", "strip=symbols", "-o"]).arg(&library).arg(source);
    let output = command.env_remove("RUSTFLAGS").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// The names that a 64-bit little-endian ELF file defines for others (`.dynsym`; see `man 5 elf`).
fn exports(library: &Path) -> Vec<String> {
    const SHT_DYNSYM: u64 = 11;
    let file = std::fs::read(library).unwrap();
    let number = |at: usize, n_bytes: usize| {
        file[at..at + n_bytes].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let headers_at = number(0x28, 8) as usize;
    let header = |idx: u64| headers_at + idx as usize * number(0x3a, 2) as usize;
    let table = (0..number(0x3c, 2)).map(header).find(|at| number(at + 4, 4) == SHT_DYNSYM).unwrap();
    let (symbols_at, symbols_bytes) = (number(table + 24, 8) as usize, number(table + 32, 8) as usize);
    let names_at = number(header(number(table + 40, 4)) + 24, 8) as usize;
    let is_defined = |at: &usize| number(at + 6, 2) != 0;
    let name = |at: usize| {
        let name = &file[names_at + number(at, 4) as usize..];
        CStr::from_bytes_until_nul(name).unwrap().to_str().unwrap().to_owned()
    };
    let mut names: Vec<String> =
        (symbols_at..symbols_at + symbols_bytes).step_by(24).filter(is_defined).map(name).collect();
    names.sort();
    names
}

struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: The library has no constructors of its own.
        let handle = unsafe { dlopen(path.as_ptr(), NOW) };
        assert!(!handle.is_null());
        Self(handle)
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: The handle is open.
        let symbol = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?} is not exported");
        symbol
    }

    fn v4(&self) -> &TunerV4 {
        // SAFETY: The name says its type.
        unsafe { &*self.symbol(c"ncclTunerPlugin_v4").cast::<TunerV4>() }
    }

    fn set(&self, collective: i32, algorithm: i32, protocol: i32, channels: i32) -> i32 {
        // SAFETY: The name says its type.
        let set: extern "C" fn(i32, i32, i32, i32) -> i32 =
            unsafe { std::mem::transmute(self.symbol(c"gdrtune_tuner_set")) };
        set(collective, algorithm, protocol, channels)
    }

    fn clear(&self) {
        // SAFETY: The name says its type.
        let clear: extern "C" fn() = unsafe { std::mem::transmute(self.symbol(c"gdrtune_tuner_clear")) };
        clear();
    }

    fn last(&self) -> Option<GdrtuneDecision> {
        // SAFETY: The name says its type.
        let last: unsafe extern "C" fn(*mut GdrtuneDecision) -> i32 =
            unsafe { std::mem::transmute(self.symbol(c"gdrtune_tuner_last")) };
        let mut decision = GdrtuneDecision::EMPTY;
        // SAFETY: It may be written to.
        (unsafe { last(&raw mut decision) } == 1).then_some(decision)
    }

    /// Starts a communicator, asks once for an all-reduce, and ends it: the preferred cell and the channels.
    fn choose(&self) -> (Option<usize>, i32) {
        let tuner = self.v4();
        let (mut context, mut costs, mut channels) = (ptr::null_mut(), [5.0_f32; 21], 0);
        // SAFETY: The arguments are NCCL's.
        unsafe {
            assert_eq!((tuner.init)(4, 2, None, &raw mut context), 0);
            let table = costs.as_mut_ptr().cast();
            assert_eq!((tuner.get_coll_info)(context, 4, 1024, 1, table, 7, 3, 0, &raw mut channels), 0);
            assert_eq!((tuner.destroy)(context), 0);
        }
        (costs.iter().position(|cost| *cost == 0.0), channels)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: Nothing of it is in use any more.
        assert_eq!(unsafe { dlclose(self.0) }, 0);
    }
}

#[test]
fn the_library_is_made_from_one_file_and_shares_its_state_by_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(folder.path());
    let expected = [
        "gdrtune_tuner_clear",
        "gdrtune_tuner_last",
        "gdrtune_tuner_set",
        "ncclTunerPlugin_v2",
        "ncclTunerPlugin_v3",
        "ncclTunerPlugin_v4",
        "ncclTunerPlugin_v5",
        "ncclTunerPlugin_v6",
    ];
    assert_eq!(exports(&path), expected, "nothing else may meet the names of other people's libraries");
    // Cargo puts the workspace's build beside this program.
    let cargos = std::env::current_exe().unwrap().with_file_name("libgdrtune_nccl_tuner.so");
    assert_eq!(exports(&cargos), expected);

    let rules = folder.path().join("nccl-tuner.csv");
    std::fs::write(&rules, "allreduce,0,1024,ring,simple,3,2,4\n").unwrap();
    // SAFETY: This program has this one test.
    unsafe { std::env::set_var("GDRTUNE_RULES", &rules) };

    let nccls = Library::open(&path);
    let names = [
        // SAFETY: The names say their types.
        unsafe { (*nccls.symbol(c"ncclTunerPlugin_v2").cast::<TunerV2>()).name.0 },
        // SAFETY: As above.
        unsafe { (*nccls.symbol(c"ncclTunerPlugin_v3").cast::<TunerV3>()).name.0 },
        nccls.v4().name.0,
        // SAFETY: As above.
        unsafe { (*nccls.symbol(c"ncclTunerPlugin_v5").cast::<TunerV5>()).name.0 },
        // SAFETY: As above.
        unsafe { (*nccls.symbol(c"ncclTunerPlugin_v6").cast::<TunerV6>()).name.0 },
    ];
    for name in names {
        // SAFETY: It is a string of the library.
        assert_eq!(unsafe { CStr::from_ptr(name) }, c"gdrtune");
    }
    assert_eq!(nccls.choose(), (Some(5), 3), "by rule: row 1 (ring), column 2 (simple)");

    // The worker opens the same path: one state. A copy of the file has its own.
    let workers = Library::open(&path);
    assert_eq!(workers.set(4, 0, 0, 2), 0);
    assert_eq!(nccls.choose(), (Some(0), 2));
    assert_eq!(workers.last().map(|decision| (decision.calls, decision.channels)), Some((1, 2)));
    let copied_path = folder.path().join("copy.so");
    std::fs::copy(&path, &copied_path).unwrap();
    assert_eq!(Library::open(&copied_path).choose(), (Some(5), 3));

    // NCCL closes the library with its last communicator; what the worker set must outlive that.
    drop(nccls);
    let nccls = Library::open(&path);
    assert_eq!(nccls.choose(), (Some(0), 2));
    workers.clear();
    assert_eq!(nccls.choose(), (None, 0));
}
