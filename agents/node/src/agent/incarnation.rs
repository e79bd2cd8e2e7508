//! Which process it is that left a file: a process id alone comes again, and means another process in another PID namespace.
//!
//! Virtual hosts and several `slurmd` on one machine have a PID namespace each, and a folder may be shared between machines:
//! so boot id and namespace come with the id, and of a process elsewhere nothing is claimed.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

use crate::inventory;

/// One process, told apart from every other that has or had its id.
///
/// Its text is fit for a file name: `PID-START-NAMESPACE-BOOT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incarnation {
    pub(super) pid: u32,
    /// Clock ticks from boot to its start (`man 5 proc`, `/proc/PID/stat`, field 22).
    start: u64,
    place: Place,
}

/// Where a process id means the same process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Inode of the PID namespace.
    namespace: u64,
    /// Linux boot id without its dashes.
    boot: String,
}

/// What can be said of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// There is a process of that id, and nothing speaks against it.
    Alive,
    /// It has ended.
    Gone,
    /// It is, or was, in another PID namespace, on another machine, or before the last boot.
    Elsewhere,
}

impl Incarnation {
    /// This process.
    pub(super) fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this id now.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
        let boot: String = inventory::boot_id(Path::new("/")).chars().filter(char::is_ascii_hexdigit).collect();
        Ok(Self { pid, start: stat.start, place: Place { namespace, boot } })
    }

    /// Whether a process that was recorded still runs, as `self` sees it, which need not be alive.
    pub(super) fn life_of(&self, other: &Self) -> Life {
        if self.place != other.place {
            return Life::Elsewhere;
        }
        match Stat::read(other.pid) {
            Ok(stat) if stat.start == other.start && !stat.has_ended => Life::Alive,
            Ok(_) => Life::Gone,
            // `/proc` may hide the processes of others (`hidepid`, man 5 proc). A signal does not care.
            Err(_) => match i32::try_from(other.pid).ok().and_then(Pid::from_raw).map(test_kill_process) {
                Some(Ok(()) | Err(Errno::PERM)) => Life::Alive,
                Some(Err(_)) | None => Life::Gone,
            },
        }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.pid, self.start, self.place.namespace, self.place.boot)
    }
}

/// No text of an [`Incarnation`].
#[derive(Debug)]
pub(super) struct NoIncarnation;

impl FromStr for Incarnation {
    type Err = NoIncarnation;

    fn from_str(text: &str) -> Result<Self, NoIncarnation> {
        let mut fields = text.split('-');
        let (Some(pid), Some(start), Some(namespace), Some(boot), None) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(NoIncarnation);
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_no_number| NoIncarnation);
        let read = Self {
            pid: u32::try_from(number(pid)?).map_err(|_too_large| NoIncarnation)?,
            start: number(start)?,
            place: Place { namespace: number(namespace)?, boot: boot.to_owned() },
        };
        // One process has one text: no signs, no leading zeros.
        if read.to_string() == text && boot.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(read)
        } else {
            Err(NoIncarnation)
        }
    }
}

/// What `/proc/PID/stat` says.
struct Stat {
    start: u64,
    has_ended: bool,
}

impl Stat {
    fn read(pid: u32) -> io::Result<Self> {
        let path = PathBuf::from(format!("/proc/{pid}/stat"));
        let text = fs::read(&path)?;
        let odd = || io::Error::other(format!("{} has an unexpected form", path.display()));
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(odd)
    }

    /// The second field is the command in parentheses, which may hold spaces and parentheses itself.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_command) = text.rsplit_once(')')?;
        let mut fields = after_command.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
        Some(Self { start: fields.nth(18)?.parse().ok()?, has_ended })
    }
}

#[cfg(test)]
impl Incarnation {
    /// The same numbers in another PID namespace.
    pub(super) fn elsewhere(&self) -> Self {
        let place = Place { namespace: self.place.namespace + 1, ..self.place.clone() };
        Self { place, ..self.clone() }
    }

    /// A process that has ended.
    pub(super) fn ended() -> Self {
        let (process, mut child) = Self::child();
        drop(child.stdin.take());
        child.wait().unwrap();
        process
    }

    /// A process that ends with its input.
    pub(super) fn child() -> (Self, std::process::Child) {
        let child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        (Self::of(child.id()).unwrap(), child)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn a_text_is_read_back_and_others_are_refused() {
        let own = Incarnation::own().unwrap();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(own.to_string().parse::<Incarnation>().unwrap(), own);
        for text in
            ["", "1", "1-2-3", "1-2-3-ab-0", "+1-2-3-ab", "01-2-3-ab", "1-2-3-../x", "4294967296-2-3-ab", "-1-2-3"]
        {
            assert!(text.parse::<Incarnation>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_process_id_that_came_again_is_another_process() {
        let own = Incarnation::own().unwrap();
        assert_eq!(own.life_of(&own), Life::Alive);
        let earlier = Incarnation { start: own.start - 1, ..own.clone() };
        assert_eq!(own.life_of(&earlier), Life::Gone);
        let boot = Place { boot: "0".to_owned(), ..own.place.clone() };
        for other in [earlier.elsewhere(), Incarnation { place: boot, ..earlier.clone() }] {
            assert_eq!(own.life_of(&other), Life::Elsewhere);
        }
    }

    #[test]
    fn a_process_is_gone_when_it_has_ended_even_if_nobody_reaps_it() {
        let own = Incarnation::own().unwrap();
        let (recorded, mut child) = Incarnation::child();
        assert_eq!(own.life_of(&recorded), Life::Alive);
        drop(child.stdin.take());
        let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), unreaped).unwrap();
        assert_eq!(own.life_of(&recorded), Life::Gone, "a zombie");
        child.wait().unwrap();
        assert_eq!(own.life_of(&recorded), Life::Gone);
    }

    #[test]
    fn commands_may_hold_anything() {
        let fields = "S 1 2 3 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 8888 1 2";
        let stat = Stat::parse(&format!("7 (a) Z (b) {fields}")).unwrap();
        assert_eq!((stat.start, stat.has_ended), (8888, false));
        assert!(Stat::parse("7 (a) S 1").is_none() && Stat::parse("").is_none());
    }
}
