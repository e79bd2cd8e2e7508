//! Libraries that matter, found by looking only: nothing is loaded.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use gdrtune_wire::{Library, LibraryKind, LibrarySource};

use super::LiveSystem;
use crate::{
    engine::{WHEEL_PATH, package_folders},
    inventory::Reader,
};

/// Folders where drivers' and clouds' packages put libraries that the loader's cache may not have.
const FOLDERS: [&str; 12] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nccl-rdma-sharp-plugins/lib",
    "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/aws-ofi-nccl/lib",
];

/// Bytes of a library in which its version is looked for. NCCL's constants lie before its kernels, in the first three million (2.28.9).
const CONTENTS_BYTES: u64 = 8 << 20;

/// Stands before NCCL's version in its constants: `NCCL version 2.28.9+cuda13.0`.
const NCCL_VERSION: &[u8] = b"NCCL version ";

/// Most libraries that are told of.
const MOST: usize = 64;

/// Most links that are followed.
const MOST_LINKS: usize = 16;

impl Reader<'_> {
    /// Each file once, in the order in which a program would find them.
    pub(super) fn libraries(&self, live: &LiveSystem) -> Vec<Library> {
        let mut candidates: Vec<(String, LibrarySource)> = Vec::new();
        let library_path = live.variable("LD_LIBRARY_PATH").unwrap_or_default();
        for folder in library_path.split(':').filter(|folder| folder.starts_with('/')) {
            candidates.extend(self.in_folder(folder).map(|path| (path, LibrarySource::LibraryPath)));
        }
        let cached = self.cached_libraries(|name| kind(name).is_some());
        candidates.extend(cached.into_iter().map(|path| (path, LibrarySource::LoaderCache)));
        for folder in FOLDERS {
            candidates.extend(self.in_folder(folder).map(|path| (path, LibrarySource::UsualFolder)));
        }
        let lookup = |name: &str| live.variable(name).map(OsString::from);
        let wheels = package_folders(self.root, lookup).into_iter().map(|folder| folder.join(WHEEL_PATH));
        let wheels = wheels.filter_map(|path| Some(path.to_str()?.to_owned()));
        candidates.extend(wheels.map(|path| (path, LibrarySource::Python)));
        let mut seen = BTreeSet::new();
        let library = |(path, found): (String, LibrarySource)| {
            let path = self.followed(&path)?;
            (seen.len() < MOST && seen.insert(path.clone())).then(|| self.library(path, found))?
        };
        candidates.into_iter().filter_map(library).collect()
    }

    fn in_folder(&self, folder: &str) -> impl Iterator<Item = String> {
        let names = self.names(folder.trim_start_matches('/')).into_iter().filter(|name| kind(name).is_some());
        names.map(move |name| format!("{folder}/{name}"))
    }

    /// Where a path leads to below the root, as it is called there: absolute links are those of the machine that was recorded. `None` where
    /// there is no file.
    fn followed(&self, path: &str) -> Option<String> {
        let (mut done, mut links) = (PathBuf::from("/"), 0);
        let mut rest: VecDeque<OsString> = parts(Path::new(path));
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&part);
            match std::fs::read_link(self.path(next.strip_prefix("/").ok()?.to_str()?)) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    let mut all = parts(&target);
                    all.append(&mut rest);
                    rest = all;
                }
                Err(_) => done = next,
            }
        }
        self.path(done.strip_prefix("/").ok()?.to_str()?).is_file().then(|| done.display().to_string())
    }

    fn library(&self, path: String, found: LibrarySource) -> Option<Library> {
        let name = path.rsplit('/').next()?;
        let kind = kind(name)?;
        // `libcuda.so.550.54.15`; `libnccl.so.2` tells no version.
        let numbers = name.split_once(".so.").map(|(_, numbers)| numbers).filter(|numbers| numbers.contains('.'));
        let mut library =
            Library { kind, version: numbers.unwrap_or_default().to_owned(), path, cuda: String::new(), found };
        if kind == LibraryKind::Nccl {
            let bytes = self.try_bytes(library.path.trim_start_matches('/'), CONTENTS_BYTES).unwrap_or_default();
            if let Some((version, cuda)) = nccl_version(&bytes) {
                (library.version, library.cuda) = (version, cuda);
            }
        }
        Some(library)
    }
}

/// What a file is, by its name; a library to link with, without a number, counts too.
fn kind(name: &str) -> Option<LibraryKind> {
    let (stem, rest) = name.split_once(".so")?;
    if !rest.is_empty() && !rest.starts_with('.') || rest.contains(|c: char| c != '.' && !c.is_ascii_digit()) {
        return None;
    }
    match stem {
        "libnccl" => Some(LibraryKind::Nccl),
        "libcuda" => Some(LibraryKind::Cuda),
        "libibverbs" => Some(LibraryKind::Verbs),
        "libcufile" => Some(LibraryKind::Cufile),
        _ if stem.starts_with("libnccl-net") => Some(LibraryKind::NcclNet),
        _ if stem.starts_with("libnccl-tuner") => Some(LibraryKind::NcclTuner),
        _ => None,
    }
}

/// What a record keeps of a library: where it tells its version.
pub(super) fn kept(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    /// Longer than any version.
    const TEXT_BYTES: usize = 64;
    let name = path.rsplit('/').next().filter(|name| kind(name).is_some())?;
    let texts = bytes.split(|byte| *byte == 0).filter(|text| text.starts_with(NCCL_VERSION));
    let told = texts.flat_map(|text| [&text[..text.len().min(TEXT_BYTES)], &[0]].concat());
    (kind(name) == Some(LibraryKind::Nccl)).then(|| told.collect())
}

/// NCCL's version, and CUDA's that it was built with, empty where that is not told.
fn nccl_version(bytes: &[u8]) -> Option<(String, String)> {
    let told = |text: &[u8]| {
        let rest = text.strip_prefix(NCCL_VERSION)?;
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'.' || **byte == b'+';
        let word = String::from_utf8_lossy(rest.get(..rest.iter().take_while(is_part).count())?).into_owned();
        let (version, cuda) = word.split_once("+cuda").unwrap_or((&word, ""));
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| (version.to_owned(), cuda.to_owned()))
    };
    let mut plain = None;
    // Constants are C strings.
    for found in bytes.split(|byte| *byte == 0).filter_map(told) {
        if !found.1.is_empty() {
            return Some(found);
        }
        plain = plain.or(Some(found));
    }
    plain
}

/// The parts of a path, `..` among them.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        for (name, expected) in [
            ("libnccl.so.2", Some(LibraryKind::Nccl)),
            ("libnccl.so", Some(LibraryKind::Nccl)),
            ("libnccl.so.2.28.9", Some(LibraryKind::Nccl)),
            ("libnccl-net.so", Some(LibraryKind::NcclNet)),
            ("libnccl-net-ofi.so", Some(LibraryKind::NcclNet)),
            ("libnccl-tuner-gdrtune.so", Some(LibraryKind::NcclTuner)),
            ("libcuda.so.1", Some(LibraryKind::Cuda)),
            ("libcudart.so.12", None),
            ("libnccl.so.2.bak", None),
            ("libnccl_static.a", None),
            ("libibverbs.so.1.14.39.0", Some(LibraryKind::Verbs)),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn nccl_tells_its_version() {
        let version = |text: &str| nccl_version(text.as_bytes());
        let told = |version: &str, cuda: &str| Some((version.to_owned(), cuda.to_owned()));
        assert_eq!(version("\0NCCL version %s\0NCCL version 2.28.9+cuda13.0\0"), told("2.28.9", "13.0"));
        assert_eq!(version("NCCL version 2.28.9\n\0NCCL version 2.28.9+cuda13.0 more"), told("2.28.9", "13.0"));
        assert_eq!(version("NCCL version 2.18.5"), told("2.18.5", ""));
        assert_eq!(version("NCCL version"), None);
    }
}
