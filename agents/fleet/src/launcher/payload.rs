//! The executables that can be brought onto hosts: our own, and builds of the same sources for other machines or for older
//! systems, from a folder of the user's. Read once, with their hashes.

use std::{
    fmt::{self, Write as _},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::AgentSpec;
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// Machines, as `uname -m` calls them, with their numbers in an ELF header (`e_machine` in `elf.h`).
const MACHINES: [(&str, u16); 2] = [("x86_64", 62), ("aarch64", 183)];

/// How an executable says what it was built from: in its answer to `--version`, and so in its bytes.
const BUILD: &[u8] = b"(build ";
/// Digits of a build id.
const BUILD_DIGITS: usize = 16;

/// The bytes that are uploaded and the name that they are stored under.
pub(super) struct Payload {
    /// What the host must say to `uname -sm`.
    pub(super) system: String,
    pub(super) bytes: Vec<u8>,
    /// SHA-256 in lower-case hexadecimal digits.
    pub(super) sha256: String,
}

/// What there is to upload; one for a system.
#[derive(Debug)]
pub(super) struct Payloads {
    all: Vec<Payload>,
    folder: Option<PathBuf>,
}

/// The executables of a launcher, read when they are first needed.
#[derive(Debug, Default)]
pub(super) struct PayloadCell(OnceCell<Arc<Payloads>>);

/// An executable that cannot be used.
#[derive(Debug, thiserror::Error)]
enum PayloadError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is {found}, not an executable for Linux on {machine}")]
    Machine { path: PathBuf, found: String, machine: &'static str },
    #[error("{path} is of {found}, and this gdrtune of build {ours}")]
    Build { path: PathBuf, found: String, ours: String },
    #[error("the thread that reads it: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl PayloadError {
    const fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::Thread(_) => "check that this file may be read",
            Self::Machine { .. } => "rename it for its machine, or take it out of --agent-dir",
            Self::Build { .. } => "build both from the same sources, or take it out of --agent-dir",
        }
    }
}

impl PayloadCell {
    pub(super) async fn get(&self, host: &Host, spec: &AgentSpec) -> Result<Arc<Payloads>, LaunchError> {
        let spec = spec.clone();
        // On a thread for blocking work. Bytes and hash are of one read, even if a file is being replaced.
        let read = || async { tokio::task::spawn_blocking(move || Payloads::read(&spec)).await?.map(Arc::new) };
        self.0.get_or_try_init(read).await.map(Arc::clone).map_err(|error: PayloadError| {
            LaunchError::new(&host.name, LaunchErrorKind::Local, error.to_string(), error.hint())
        })
    }
}

impl Payloads {
    fn read(spec: &AgentSpec) -> Result<Self, PayloadError> {
        let mut all = Vec::new();
        for (machine, number) in MACHINES {
            let Some(path) = spec.agent_folder.as_ref().and_then(|folder| find(folder, machine)) else { continue };
            let bytes = read(&path)?;
            check(&path, &bytes, (machine, number), &spec.build_id)?;
            all.push(Payload::new(format!("Linux {machine}"), bytes));
        }
        // One that the user gives comes first: it may be for an older system than our own.
        let own = own_system();
        if all.iter().all(|payload| payload.system != own) {
            all.push(Payload::new(own, read(&spec.executable)?));
        }
        Ok(Self { all, folder: spec.agent_folder.clone() })
    }

    /// All as one word for the script: `SYSTEM/MACHINE/SHA256/BYTES`, separated by blanks.
    pub(super) fn word(&self) -> String {
        let words = self.all.iter().map(|payload| {
            let system = payload.system.replace(' ', "/");
            format!("{system}/{}/{}", payload.sha256, payload.bytes.len())
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The one for a system.
    pub(super) fn of(&self, system: &str) -> Option<&Payload> {
        self.all.iter().find(|payload| payload.system == system)
    }

    /// Why there is none for a system, and what to do about it.
    pub(super) fn missing(&self, system: &str) -> (String, String) {
        let own = own_system();
        let machine = system.strip_prefix("Linux ").filter(|machine| MACHINES.iter().any(|(name, _)| name == machine));
        let Some(machine) = machine else {
            let detail = format!("the host is {system}; there are agents for Linux on x86_64 and aarch64 only");
            return (detail, "leave this host out".to_owned());
        };
        let names = names(machine);
        let names = names.join(" or ");
        match &self.folder {
            Some(folder) => (
                format!(
                    "the host is {system}, our own executable is for {own}, and {} has no {names}",
                    folder.display()
                ),
                format!(
                    "put a build of the same sources for {machine} there (./dist.sh makes one), or leave this host out"
                ),
            ),
            None => (
                format!("the host is {system}, and our own executable is for {own}"),
                format!("name a folder that has {names} with --agent-dir (./dist.sh makes it), or leave this host out"),
            ),
        }
    }
}

impl Payload {
    fn new(system: String, bytes: Vec<u8>) -> Self {
        let mut sha256 = String::with_capacity(64);
        for byte in Sha256::digest(&bytes) {
            // Writing to a string cannot fail.
            write!(sha256, "{byte:02x}").ok();
        }
        Self { system, bytes, sha256 }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes, {})", self.system, self.bytes.len(), self.sha256)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PayloadError> {
    fs::read(path).map_err(|source| PayloadError::Read { path: path.to_owned(), source })
}

/// Names of the executable for a machine: by the machine alone, or by Rust's name for the target.
fn names(machine: &str) -> [String; 2] {
    [format!("gdrtune-{machine}"), format!("gdrtune-{machine}-unknown-linux-gnu")]
}

fn find(folder: &Path, machine: &str) -> Option<PathBuf> {
    names(machine).iter().map(|name| folder.join(name)).find(|path| path.exists())
}

/// Whether it is what its name says, and of the sources that we are of.
fn check(
    path: &Path,
    bytes: &[u8],
    (machine, number): (&'static str, u16),
    build_id: &str,
) -> Result<(), PayloadError> {
    let found = match elf_machine(bytes) {
        Some(found) if found == number => None,
        Some(found) => Some(match MACHINES.iter().find(|(_, number)| *number == found) {
            Some((name, _)) => format!("for {name}"),
            None => format!("for the machine with ELF number {found}"),
        }),
        None => Some("no 64-bit ELF file".to_owned()),
    };
    if let Some(found) = found {
        return Err(PayloadError::Machine { path: path.to_owned(), found, machine });
    }
    let ours = format!("(build {build_id})");
    if bytes.windows(ours.len()).any(|window| window == ours.as_bytes()) {
        return Ok(());
    }
    let found = build_of(bytes).map_or_else(|| "no build of gdrtune".to_owned(), |id| format!("build {id}"));
    Err(PayloadError::Build { path: path.to_owned(), found, ours: build_id.to_owned() })
}

/// The machine of a 64-bit little-endian ELF file (`elf(5)`).
fn elf_machine(bytes: &[u8]) -> Option<u16> {
    const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    let number = bytes.strip_prefix(ELF64_LITTLE_ENDIAN)?.get(12..14)?;
    Some(u16::from_le_bytes(number.try_into().ok()?))
}

/// The build id that an executable carries.
fn build_of(bytes: &[u8]) -> Option<String> {
    let length = BUILD.len() + BUILD_DIGITS + 1;
    let found =
        bytes.windows(length).find_map(|window| window.strip_prefix(BUILD)?.strip_suffix(b")").filter(is_id))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

fn is_id(text: &&[u8]) -> bool {
    text.iter().all(u8::is_ascii_hexdigit)
}

/// What `uname -sm` says where our own executable runs.
fn own_system() -> String {
    let system = rustix::system::uname();
    format!("{} {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";

    fn spec(folder: Option<&Path>) -> AgentSpec {
        AgentSpec {
            build_id: ID.to_owned(),
            executable: "/dev/null".into(),
            agent_folder: folder.map(Path::to_owned),
            env: vec![],
            remote_folder: None,
        }
    }

    /// The start of an executable for a machine, with a build id in it.
    fn elf(machine: u16, id: &str) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend(machine.to_le_bytes());
        bytes.extend(format!("\0gdrtune 1 (build of) (build {id})\0").as_bytes());
        bytes
    }

    #[test]
    fn hashes_as_sha256sum_does() {
        let payload = Payload::new("Linux x86_64".to_owned(), b"abc".to_vec());
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(payload.sha256, expected);
        let payloads = Payloads { all: vec![payload], folder: None };
        assert_eq!(payloads.word(), format!("Linux/x86_64/{expected}/3"));
        assert!(Payloads::read(&AgentSpec { executable: "/nonexistent".into(), ..spec(None) }).is_err());
    }

    #[test]
    fn a_folder_of_builds_is_taken_by_machine() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::write(at.join("gdrtune-x86_64"), elf(62, ID)).unwrap();
        fs::write(at.join("gdrtune-aarch64-unknown-linux-gnu"), elf(183, ID)).unwrap();
        fs::write(at.join("gdrtune-riscv64"), "").unwrap();
        let payloads = Payloads::read(&spec(Some(at))).unwrap();
        assert_eq!(payloads.of("Linux x86_64").unwrap().bytes, elf(62, ID), "comes before our own");
        assert_eq!(payloads.of("Linux aarch64").unwrap().bytes, elf(183, ID));
        assert!(payloads.of("Linux riscv64").is_none());
    }

    #[test]
    fn wrong_builds_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        for (name, bytes, expected) in [
            (
                "gdrtune-aarch64",
                elf(62, ID),
                format!("{at}/gdrtune-aarch64 is for x86_64, not an executable for Linux on aarch64"),
            ),
            (
                "gdrtune-x86_64",
                b"#!/bin/sh\n".to_vec(),
                format!("{at}/gdrtune-x86_64 is no 64-bit ELF file, not an executable for Linux on x86_64"),
            ),
            (
                "gdrtune-x86_64",
                elf(62, "00000000000000ff"),
                format!("{at}/gdrtune-x86_64 is of build 00000000000000ff, and this gdrtune of build {ID}"),
            ),
            (
                "gdrtune-aarch64",
                elf(183, "?"),
                format!("{at}/gdrtune-aarch64 is of no build of gdrtune, and this gdrtune of build {ID}"),
            ),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
            assert_eq!(Payloads::read(&spec(Some(folder.path()))).unwrap_err().to_string(), expected);
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }

    #[test]
    fn a_missing_build_is_named() {
        let without = Payloads { all: vec![], folder: None };
        let with = Payloads { all: vec![], folder: Some("/builds".into()) };
        let own = own_system();
        for (payloads, system, expected) in [
            (
                &without,
                "Linux aarch64",
                format!(
                    "the host is Linux aarch64, and our own executable is for {own}; name a folder that has gdrtune-aarch64 or \
                     gdrtune-aarch64-unknown-linux-gnu with --agent-dir (./dist.sh makes it), or leave this host out"
                ),
            ),
            (
                &with,
                "Linux aarch64",
                format!(
                    "the host is Linux aarch64, our own executable is for {own}, and /builds has no gdrtune-aarch64 or \
                     gdrtune-aarch64-unknown-linux-gnu; put a build of the same sources for aarch64 there (./dist.sh makes \
                     one), or leave this host out"
                ),
            ),
            (
                &with,
                "Linux riscv64",
                "the host is Linux riscv64; there are agents for Linux on x86_64 and aarch64 only; leave this host out"
                    .to_owned(),
            ),
        ] {
            let (detail, hint) = payloads.missing(system);
            assert_eq!(format!("{detail}; {hint}"), expected);
        }
    }
}
