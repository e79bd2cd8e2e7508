//! Gives the build its id, a hash of every source file of the workspace that both ends of a run compare, and builds the
//! NCCL tuner plugin that the executable carries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

/// The folders of the workspace that hold sources.
const SOURCES: &[&str] = &["tui", "tuner", "agents", "profiles", "Cargo.toml", "Cargo.lock"];

/// Compiles the tuner plugin's one source file for the target, as a shared object that the executable carries along.
fn build_plugin(root: &Path) {
    let variable = |name: &str| std::env::var(name).expect("cargo sets it for build scripts");
    let output = Path::new(&variable("OUT_DIR")).join("libnccl-tuner-gdrtune.so");
    // Set where another linker than the system's was chosen: for another machine, or an older C library.
    let linker = std::env::var("RUSTC_LINKER").ok().map(|linker| format!("-Clinker={linker}"));
    let status = Command::new(variable("RUSTC"))
        .args(linker)
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "gdrtune_nccl_tuner"])
        .args(["-C", "opt-level=3", "-C", "panic=unwind", "-C", "strip=symbols"])
        .args(["--target", &variable("TARGET"), "-o"])
        .arg(output)
        .arg(root.join("profiles/nccl-tuner/src/lib.rs"))
        .status();
    let built = status.is_ok_and(|status| status.success());
    assert!(built, "the NCCL tuner plugin (profiles/nccl-tuner) does not compile");
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    build_plugin(&root);
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
