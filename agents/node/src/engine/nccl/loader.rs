//! Finds NCCL and the CUDA driver.
//!
//! Paths are looked at, never run: an interpreter that is started to ask for its packages may hang or print. Nothing found
//! is one error that names all that was tried.
#![expect(unsafe_code, reason = "loading a library runs its constructors")]

use std::{
    ffi::{OsString, c_int},
    fmt,
    path::{Path, PathBuf},
};

use gdrtune_profiles::version;

use super::api::{Api, SUCCESS, cause};
use crate::engine::EngineError;

/// Names that the dynamic linker looks up: `LD_LIBRARY_PATH`, then its cache. The first is what every package ships.
const LINKER_NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Where NVIDIA's Python wheel (`nvidia-nccl-cu12`) keeps the library, below a folder of packages.
pub(crate) const WHEEL_PATH: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Names of the CUDA driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// A version of NCCL, as `ncclGetVersion` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) c_int);

impl Version {
    /// 2.19: the first with tuner plugins and all functions that are required here.
    const OLDEST: Self = Self::first(2, 19);
    /// 2.21: the first whose tuner interface (v2) our plugin has.
    pub(super) const FIRST_WITH_PLUGIN: Self = Self::first(2, 21);
    /// 2.33, the first that nobody has read.
    const TOO_NEW: Self = Self::first(2, 33);

    const fn first(major: u16, minor: u16) -> Self {
        Self(version::Version::new(major, minor).code().cast_signed())
    }

    fn is_supported(self) -> bool {
        (Self::OLDEST..Self::TOO_NEW).contains(&self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A number below 0 is none of NCCL's.
        version::Version::from_code(self.0.try_into().unwrap_or_default()).fmt(f)
    }
}

/// A loaded NCCL.
pub(super) struct Nccl {
    pub(super) api: Api,
    pub(super) version: Version,
    /// What was given to the dynamic linker.
    pub(super) path: PathBuf,
}

impl Nccl {
    /// Loads the library at `wanted`, else the first usable one of the usual places.
    pub(super) fn load(wanted: Option<&Path>) -> Result<Self, EngineError> {
        let candidates = match wanted {
            Some(path) => vec![path.to_owned()],
            None => candidates(|name| std::env::var_os(name)),
        };
        let mut failures = Vec::new();
        for path in candidates {
            match Self::open(&path) {
                Ok(nccl) => return Ok(nccl),
                Err(why) if why.contains(&*path.to_string_lossy()) => failures.push(why),
                Err(why) => failures.push(format!("{}: {why}", path.display())),
            }
        }
        let why = format!("{}; give its path with --nccl PATH", failures.join("; "));
        Err(EngineError::Library { what: "load NCCL".to_owned(), why })
    }

    fn open(path: &Path) -> Result<Self, String> {
        let api = Api::open(path)?;
        let mut code = 0;
        // SAFETY: the function writes one integer.
        let result = unsafe { (api.get_version)(&raw mut code) };
        let version = Version(code);
        if result != SUCCESS {
            return Err(format!("does not tell its version (result {result})"));
        }
        if !version.is_supported() {
            return Err(format!("is NCCL {version}: 2.19 to 2.32 can be used"));
        }
        Ok(Self { api, version, path: path.to_owned() })
    }
}

/// Makes sure that the CUDA driver is there: its bindings panic where it is not.
pub(crate) fn load_driver() -> Result<(), EngineError> {
    let mut failures = Vec::new();
    for name in DRIVER_NAMES {
        // SAFETY: the driver's constructors may run.
        match unsafe { libloading::Library::new(name) } {
            Ok(library) => {
                // Never unloaded: threads that it started may still run in it.
                std::mem::forget(library);
                // SAFETY: as above; finds the library that is loaded now.
                if unsafe { cudarc::driver::sys::is_culib_present() } {
                    return Ok(());
                }
                failures.push(format!("{name} loads, but not by the names that the bindings try"));
            }
            Err(error) => failures.push(cause(&error)),
        }
    }
    let why = format!(
        "{}: this node has no NVIDIA driver, or the container hides it (does nvidia-smi work there?)",
        failures.join("; ")
    );
    Err(EngineError::Library { what: "load the CUDA driver".to_owned(), why })
}

/// The first of these functions that the loaded driver lacks: its bindings panic where one is called.
pub(super) fn missing_in_driver(functions: &[&'static str]) -> Option<&'static str> {
    // SAFETY: the driver is loaded for good; this only counts one use more, and then one less.
    let driver = DRIVER_NAMES.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok());
    functions.iter().copied().find(|function| {
        // SAFETY: the symbol is looked for, and neither read nor called.
        driver.as_ref().is_none_or(|driver| unsafe { driver.get::<*const ()>(*function) }.is_err())
    })
}

/// Where NCCL may be, best first; `lookup` gives environment variables.
fn candidates(lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = LINKER_NAMES.iter().map(PathBuf::from).collect();
    for folder in package_folders(Path::new("/"), lookup) {
        let path = folder.join(WHEEL_PATH);
        if path.is_file() && !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// Folders of Python packages of the machine below `root`, as they are called there: the active environment's first, the system's last.
pub(crate) fn package_folders(root: &Path, lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let split = |name: &str| lookup(name).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default();
    let mut folders: Vec<PathBuf> = split("PYTHONPATH");
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().flat_map(&split).collect();
    let interpreters = split("PATH").into_iter().filter(|folder| below(root, &folder.join("python3")).exists());
    prefixes.extend(interpreters.filter_map(|folder| folder.parent().map(Path::to_owned)));
    prefixes.extend(lookup("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    for prefix in prefixes {
        for library in ["lib", "lib64"] {
            folders.extend(packages_below(root, &prefix.join(library)));
        }
    }
    folders.retain(|folder| folder.is_absolute());
    folders
}

/// `python3*/site-packages` and `python3*/dist-packages` below a `lib` folder, newest Python first.
fn packages_below(root: &Path, library: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below(root, library)).into_iter().flatten().flatten();
    let is_python = |name: &OsString| name.to_string_lossy().starts_with("python3");
    let mut pythons: Vec<OsString> = entries.map(|entry| entry.file_name()).filter(is_python).collect();
    // `python3.9` before `python3.10`, as numbers.
    pythons.sort_by_key(|name| (name.len(), name.clone()));
    pythons
        .iter()
        .rev()
        .flat_map(|python| ["site-packages", "dist-packages"].map(|kind| library.join(python).join(kind)))
        .collect()
}

/// Where a path of the machine below `root` is here. A relative one is as it is.
fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix("/").map_or(path.to_owned(), |inner| root.join(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        for (code, text, is_supported) in [
            (2_708, "2.7.8", false),
            (21_805, "2.18.5", false),
            (21_903, "2.19.3", true),
            (22_809, "2.28.9", true),
            (23_299, "2.32.99", true),
            (23_300, "2.33.0", false),
        ] {
            assert_eq!((Version(code).to_string().as_str(), Version(code).is_supported()), (text, is_supported));
        }
    }

    #[test]
    fn wheels_of_the_active_environment_come_after_the_linker_and_before_others() {
        let root = tempfile::tempdir().unwrap();
        let wheel = |place: &str| {
            let path = root.path().join(place).join(WHEEL_PATH);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let home = wheel("home/.local/lib/python3.10/site-packages");
        let old = wheel("venv/lib/python3.9/site-packages");
        let new = wheel("venv/lib/python3.12/site-packages");
        let on_path = wheel("tool/lib/python3.11/site-packages");
        std::fs::create_dir_all(root.path().join("tool/bin")).unwrap();
        std::fs::write(root.path().join("tool/bin/python3"), "").unwrap();
        let found = candidates(|name| match name {
            "VIRTUAL_ENV" => Some(root.path().join("venv").into()),
            "HOME" => Some(root.path().join("home").into()),
            "PATH" => Some(root.path().join("tool/bin").into()),
            _ => None,
        });
        let mut expected: Vec<PathBuf> = LINKER_NAMES.map(PathBuf::from).to_vec();
        expected.extend([new, old, on_path, home]);
        // The machine's own wheels may follow.
        assert_eq!(found[..expected.len()], expected);
    }

    #[test]
    fn a_library_that_is_none_is_named_with_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnccl.so.2");
        std::fs::write(&path, "text").unwrap();
        let error = Nccl::load(Some(&path)).err().unwrap().to_string();
        assert!(error.starts_with("cannot load NCCL: ") && error.contains(&*path.to_string_lossy()), "{error}");
        assert!(error.contains("give its path with --nccl PATH"), "{error}");
    }
}
