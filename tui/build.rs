//! Gives the build its id: a hash of every source file of the workspace. Both ends of a run compare it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// The folders of the workspace that hold sources.
const SOURCES: &[&str] = &["tui", "tuner", "agents", "profiles", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for source in SOURCES {
        let path = root.join(source);
        println!("cargo::rerun-if-changed={}", path.display());
        collect(&path, &mut files);
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().into_owned();
        let text = fs::read(file).unwrap_or_default();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(&text);
    }
    let id = u64::from_be_bytes(hash.finalize()[..8].try_into().expect("a digest has more than 8 bytes"));
    println!("cargo::rustc-env=GDRTUNE_BUILD_ID={id:016x}");
}

/// Adds the Rust and manifest files below `path`; test code and snapshots are no part of the product.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        let relevant = path.extension().is_some_and(|e| e == "rs" || e == "toml" || e == "lock");
        if relevant {
            files.push(path.to_owned());
        }
        return;
    }
    let skipped = path.file_name().is_some_and(|name| name == "target" || name == "tests" || name == "snapshots");
    if skipped {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        collect(&entry.path(), files);
    }
}
