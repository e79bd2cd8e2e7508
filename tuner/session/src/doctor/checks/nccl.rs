//! NCCL's libraries.

use std::collections::BTreeSet;

use gdrtune_profiles::version::Version;
use gdrtune_wire::{Library, LibraryKind, LibrarySource};

use super::{Check, Facts, Fault, Node, Outcome, Scope, cluster::alike, gpu::major_minor, no_gpu};

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "nccl-library",
            "NCCL is installed",
            "libnccl.so in LD_LIBRARY_PATH, the loader's cache, the usual folders and Python environments. Jobs in containers may bring their own.",
            "install libnccl2 (apt, dnf) or nvidia-nccl-cu12 (pip)",
            "NCCL installation guide",
        ],
        library,
    ),
    Check::node(
        [
            "nccl-version",
            "NCCL is 2.10 or newer",
            "Versions of the libraries that were found. 2.10 brought bfloat16 and averages, which frameworks take for granted; before 2.21 gdrtune cannot set choices per call.",
            "install a newer NCCL",
            "NCCL release notes 2.10.3; NCCL src/include/nccl_tuner.h at v2.21.5 (ncclTuner_v2_t)",
        ],
        version,
    ),
    Check::node(
        [
            "nccl-cuda",
            "the driver runs the CUDA that NCCL was built with",
            "The CUDA version in each library against the newest that the driver supports. A newer major version does not load.",
            "install a newer driver, or the NCCL built for the driver's CUDA",
            "CUDA compatibility guide, minor version compatibility",
        ],
        cuda,
    ),
    Check::node(
        [
            "nccl-copies",
            "there is one version of NCCL",
            "All libraries that were found. With several, which one a job gets depends on LD_LIBRARY_PATH and its Python environment.",
            "remove the ones that nobody means, or set LD_LIBRARY_PATH in jobs",
            "ld.so(8)",
        ],
        copies,
    ),
    Check::all(
        Scope::Cluster,
        [
            "nccl-alike",
            "all nodes have the same NCCL",
            "The version that the loader takes on each node. Ranks with different ones fail to connect, or hang.",
            "install the same NCCL on all nodes",
            "NCCL src/bootstrap.cc; src/init.cc, version check",
        ],
        |facts: &Facts| alike(facts, of_loader, Fault::fail),
    ),
];

/// Why nothing can be said of libraries.
fn unknown(node: &Node) -> Option<Outcome> {
    if !node.has_gpus() {
        return Some(no_gpu());
    }
    let are_read = !node.inventory.system.libraries.is_empty();
    (!are_read && node.is_recorded).then(|| Outcome::skip("this recorded tree has no libraries"))
}

fn describe(library: &Library) -> String {
    let version = if library.version.is_empty() { "of unknown version" } else { &library.version };
    format!("{version} ({})", library.path)
}

fn library(node: &Node) -> Outcome {
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    match node.nccl_libraries().next() {
        Some(library) => Outcome::pass(describe(library)),
        None => Outcome::warn("no libnccl.so is found"),
    }
}

/// Libraries with their versions, as far as they tell.
fn versions(node: &Node) -> Vec<(&Library, Version)> {
    node.nccl_libraries().filter_map(|library| Some((library, library.version.parse().ok()?))).collect()
}

/// Why nothing can be said of versions.
const NO_VERSION: &str = "no NCCL library tells its version";

fn version(node: &Node) -> Outcome {
    /// The first with bfloat16 (release notes of 2.10.3).
    const LEAST: Version = Version::new(2, 10);
    /// The first with the oldest tuner API (2) that gdrtune's plugin has, by which it sets choices per call.
    const LIVE: Version = Version::new(2, 21);
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    let known = versions(node);
    let Some((_, newest)) = known.iter().max_by_key(|(_, version)| *version) else { return Outcome::skip(NO_VERSION) };
    let old: Vec<String> =
        known.iter().filter(|(_, version)| *version < LEAST).map(|(library, _)| describe(library)).collect();
    if !old.is_empty() {
        return Outcome::fail(old.join(", "));
    }
    let middling: Vec<String> =
        known.iter().filter(|(_, version)| *version < LIVE).map(|(library, _)| describe(library)).collect();
    if middling.is_empty() {
        Outcome::pass(newest.to_string())
    } else {
        Fault::warn(middling.join(", "))
            .fixed_by("install 2.21 or newer; with this one gdrtune tunes settings of processes only")
            .into()
    }
}

fn cuda(node: &Node) -> Outcome {
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    let driver = node.inventory.system.cuda.as_str();
    let Some((most, _)) = major_minor(driver).filter(|_| !driver.is_empty()) else {
        return Outcome::skip("the CUDA version of the driver is not known");
    };
    let built: Vec<(&Library, u32)> =
        node.nccl_libraries().filter_map(|library| Some((library, major_minor(&library.cuda)?.0))).collect();
    if built.is_empty() {
        return Outcome::skip("no NCCL library tells the CUDA that it was built with");
    }
    let words = |library: &Library| format!("{} for CUDA {}", describe(library), library.cuda);
    let newer: Vec<String> =
        built.iter().filter(|(_, major)| most < *major).map(|(library, _)| words(library)).collect();
    if newer.is_empty() {
        let built: BTreeSet<&str> = built.iter().map(|(library, _)| library.cuda.as_str()).collect();
        Outcome::pass(format!("CUDA {} on {driver}", built.into_iter().collect::<Vec<_>>().join(", ")))
    } else {
        Outcome::fail(format!("{}; the driver supports {driver}", newer.join(", ")))
    }
}

fn copies(node: &Node) -> Outcome {
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    let known = versions(node);
    let different: BTreeSet<Version> = known.iter().map(|(_, version)| *version).collect();
    match different.len() {
        0 => Outcome::skip(NO_VERSION),
        1 => Outcome::pass(different.into_iter().map(|version| version.to_string()).collect::<String>()),
        _ => Outcome::warn(known.iter().map(|(library, _)| describe(library)).collect::<Vec<_>>().join(", ")),
    }
}

/// Where the loader looks first.
fn of_loader(node: &Node) -> Option<String> {
    let order = |library: &&Library| match library.found {
        LibrarySource::LibraryPath => 0,
        LibrarySource::LoaderCache => 1,
        LibrarySource::UsualFolder => 2,
        LibrarySource::Python => 3,
    };
    let libraries = node.inventory.system.libraries.iter();
    let first = libraries.filter(|library| library.kind == LibraryKind::Nccl).min_by_key(order)?;
    (!first.version.is_empty()).then(|| first.version.clone())
}
