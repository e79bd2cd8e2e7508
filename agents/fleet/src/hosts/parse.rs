//! Host lists and host files: entries, users, slots, comments. The names themselves are `expand`'s.

use std::collections::HashMap;

use super::{
    Host, HostError, HostList, MAX_HOSTS, Place,
    expand::{Fault, expand},
    keys::Keys,
};

/// Most ranks on one host that make sense to us; larger numbers are typing errors.
const MAX_SLOTS: u32 = 4096;

/// Reads a host list such as `-w 'node[01-04],root@gpu1:8'`. `source` names its origin in errors.
///
/// # Errors
/// [`HostError`] with line and column.
pub fn parse_list(source: &str, text: &str) -> Result<HostList, HostError> {
    let mut reader = Reader::new(source);
    reader.entries(text, 0, &Keys::default())?;
    reader.finish(text)
}

/// Reads a host file: one host list a line (`node[01-02]`, `user@host`), `:N` or words such as `slots=N` and `port=N` after
/// it, `#` comments. Files of Open MPI and of MPICH are such files.
///
/// # Errors
/// [`HostError`] with line and column.
pub fn parse_file(source: &str, text: &str) -> Result<HostList, HostError> {
    let mut reader = Reader::new(source);
    for (index, line) in text.lines().enumerate() {
        reader.line = index + 1;
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        reader.file_line(line)?;
    }
    reader.finish(text)
}

struct Reader<'a> {
    source: &'a str,
    line: usize,
    list: HostList,
    seen: HashMap<String, Place>,
    /// Names so far, those that came again included: a short text may say a long range many times.
    named: usize,
}

impl<'a> Reader<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, line: 1, list: HostList::default(), seen: HashMap::new(), named: 0 }
    }

    fn place(&self, offset: usize) -> Place {
        Place { source: self.source.to_owned(), line: self.line, column: offset + 1 }
    }

    fn error(&self, base: usize, fault: Fault) -> HostError {
        HostError { place: self.place(base + fault.offset), problem: fault.problem, expected: fault.expected }
    }

    fn finish(mut self, text: &str) -> Result<HostList, HostError> {
        if self.list.hosts.is_empty() {
            self.line = text.lines().count().max(1);
            return Err(self.error(0, Fault::new(0, "no host is named", "a host name such as node[01-04]")));
        }
        Ok(self.list)
    }

    fn file_line(&mut self, line: &str) -> Result<(), HostError> {
        let mut words = words(line).into_iter();
        let Some((list_offset, list)) = words.next() else { return Ok(()) };
        let mut keys = Keys::default();
        for (offset, word) in words {
            keys.take(word).map_err(|fault| self.error(offset, fault))?;
        }
        self.entries(list, list_offset, &keys)
    }

    /// Reads a comma-separated list that starts at a character offset of the line.
    fn entries(&mut self, text: &str, base: usize, keys: &Keys) -> Result<(), HostError> {
        for (offset, entry) in split_outside_brackets(text) {
            let leading = entry.chars().take_while(|character| character.is_whitespace()).count();
            self.entry(entry.trim(), base + offset + leading, keys)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &str, base: usize, keys: &Keys) -> Result<(), HostError> {
        let (user, rest) = match entry.rsplit_once('@') {
            Some((user, rest)) => (Some(check_user(user).map_err(|fault| self.error(base, fault))?), rest),
            None => (None, entry),
        };
        let name_base = base + entry.chars().count() - rest.chars().count();
        let (pattern, own_slots) = match rest.split_once(':') {
            Some((pattern, number)) => {
                let at = pattern.chars().count() + 1;
                (pattern, Some(parse_slots(number, at).map_err(|fault| self.error(name_base, fault))?))
            }
            None => (rest, None),
        };
        if own_slots.is_some() && keys.slots.is_some() {
            return Err(self.error(name_base, Fault::new(0, "slots given twice, as :N and slots=N", "one of the two")));
        }
        if user.is_some() && keys.user.is_some() {
            return Err(self.error(base, Fault::new(0, "user given twice, as NAME@ and user=", "one of the two")));
        }
        let user = user.or_else(|| keys.user.clone());
        let room = MAX_HOSTS - self.named;
        for name in expand(pattern, room).map_err(|fault| self.error(name_base, fault))? {
            self.named += 1;
            let slots = own_slots.or(keys.slots);
            self.add(Host { name, user: user.clone(), port: keys.port, slots }, name_base);
        }
        Ok(())
    }

    fn add(&mut self, host: Host, base: usize) {
        let place = self.place(base);
        if let Some(first) = self.seen.get(&host.name) {
            let warning = format!("{place}: host {} was already named at {first}; left out here", host.name);
            self.list.warnings.push(warning);
            return;
        }
        self.seen.insert(host.name.clone(), place);
        self.list.hosts.push(host);
    }
}

/// Words of a line and their character offsets.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut offset = 0;
    for piece in line.split(char::is_whitespace) {
        if !piece.is_empty() {
            found.push((offset, piece));
        }
        offset += piece.chars().count() + 1;
    }
    found
}

/// Cuts at commas that are not inside brackets; offsets count characters.
fn split_outside_brackets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    let (mut start_byte, mut start_character) = (0, 0);
    for (character_index, (byte, character)) in text.char_indices().enumerate() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                found.push((start_character, &text[start_byte..byte]));
                (start_byte, start_character) = (byte + 1, character_index + 1);
            }
            _ => {}
        }
    }
    found.push((start_character, &text[start_byte..]));
    found
}

pub(super) fn check_user(user: &str) -> Result<String, Fault> {
    if user.is_empty() || user.starts_with('-') {
        return Err(Fault::new(0, format!("{user:?} as user name"), "a user name before '@'"));
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-._+".contains(character);
    match user.chars().position(|character| !allowed(character)) {
        Some(offset) => Err(Fault::new(
            offset,
            format!("{user:?} as user name"),
            "letters, digits, '-', '.', '_' or '+' before '@'",
        )),
        None => Ok(user.to_owned()),
    }
}

pub(super) fn parse_slots(text: &str, offset: usize) -> Result<u32, Fault> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten().filter(|number| (1..=MAX_SLOTS).contains(number));
    let expected = format!("a number of ranks from 1 to {MAX_SLOTS}");
    number.ok_or_else(|| Fault::new(offset, format!("{text:?} as slots"), expected))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(name: &str, user: Option<&str>, slots: Option<u32>) -> Host {
        Host { user: user.map(str::to_owned), slots, ..Host::named(name) }
    }

    #[test]
    fn reads_a_list() {
        let list = parse_list("-w", "node[01-02], root@gpu-r[1-2]n[1,3]:8 ,alias").unwrap();
        let gpu = |name: &str| host(name, Some("root"), Some(8));
        assert_eq!(
            list.hosts,
            [
                host("node01", None, None),
                host("node02", None, None),
                gpu("gpu-r1n1"),
                gpu("gpu-r1n3"),
                gpu("gpu-r2n1"),
                gpu("gpu-r2n3"),
                host("alias", None, None),
            ]
        );
        assert!(list.warnings.is_empty());
    }

    #[test]
    fn reads_a_file() {
        let text = "# racks\n\nnode[2-1]#\n".replace("[2-1]", "[1-2]")
            + "  root@gpu1   slots=4 # fast\nnode2\na1:2,b[1-2]:3\n\tc slots=1\r\n";
        let list = parse_file("hosts.txt", &text).unwrap();
        assert_eq!(
            list.hosts,
            [
                host("node1", None, None),
                host("node2", None, None),
                host("gpu1", Some("root"), Some(4)),
                host("a1", None, Some(2)),
                host("b1", None, Some(3)),
                host("b2", None, Some(3)),
                host("c", None, Some(1)),
            ]
        );
        assert_eq!(list.warnings, ["hosts.txt:5:1: host node2 was already named at hosts.txt:3:1; left out here"]);
    }

    #[test]
    fn reads_the_files_of_mpi() {
        let text = "n1 slots=4 max_slots=8\nn2 max-slots=2 slots=2 # Open MPI\nn3:3\nbob@n[4-5] ranks=1 port=2222\n\
                    n6 user=amy\n";
        let list = parse_file("h", text).unwrap();
        let bob = |name: &str| Host { port: Some(2222), ..host(name, Some("bob"), Some(1)) };
        let expected = [
            host("n1", None, Some(4)),
            host("n2", None, Some(2)),
            host("n3", None, Some(3)),
            bob("n4"),
            bob("n5"),
            host("n6", Some("amy"), None),
        ];
        assert_eq!(list, HostList { hosts: expected.to_vec(), warnings: vec![] });
    }

    #[test]
    fn errors_name_place_and_remedy() {
        for (text, expected) in [
            ("node[1-2]\nnode[3-1]", "read hosts: h:2:6: range 3-1 runs backwards; expected [1-3]"),
            (
                "  -oProxyCommand=id",
                "read hosts: h:1:3: a name that starts with '-' looks like an option; expected a host name",
            ),
            ("-l@node1", "read hosts: h:1:1: \"-l\" as user name; expected a user name before '@'"),
            (
                "a b",
                "read hosts: h:1:3: \"b\" after the hosts; expected slots=N, user=NAME or port=N, or a comma before another host",
            ),
            ("a slot=2", "read hosts: h:1:3: unknown word \"slot\"; expected slots="),
            ("a cores=2", "read hosts: h:1:3: unknown word \"cores\"; expected slots=, user= or port="),
            ("a slots=2 ranks=2", "read hosts: h:1:11: ranks= given twice; expected it once"),
            ("a max_slots=2 slots=3", "read hosts: h:1:15: 3 slots of at most 2; expected slots within max_slots"),
            ("a port=0", "read hosts: h:1:8: \"0\" as port; expected a number from 1 to 65535"),
            ("a port=65536", "read hosts: h:1:8: \"65536\" as port; expected a number from 1 to 65535"),
            ("a user=-l", "read hosts: h:1:8: \"-l\" as user name; expected a user name before '@'"),
            ("x@a user=y", "read hosts: h:1:1: user given twice, as NAME@ and user=; expected one of the two"),
            ("a slots=0", "read hosts: h:1:9: \"0\" as slots; expected a number of ranks from 1 to 4096"),
            ("a:2 slots=2", "read hosts: h:1:1: slots given twice, as :N and slots=N; expected one of the two"),
            ("x@a:b", "read hosts: h:1:5: \"b\" as slots; expected a number of ranks from 1 to 4096"),
            ("a,,b", "read hosts: h:1:3: an empty name; expected a host name such as node[01-04]"),
            ("# nothing\n", "read hosts: h:1:1: no host is named; expected a host name such as node[01-04]"),
            ("", "read hosts: h:1:1: no host is named; expected a host name such as node[01-04]"),
        ] {
            assert_eq!(parse_file("h", text).unwrap_err().to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_cap_counts_the_whole_list() {
        let list = parse_list("-w", "a[1-40000],b[1-25536]").unwrap();
        assert_eq!(list.hosts.len(), MAX_HOSTS);
        // Said again, they would be as much work, and a warning each.
        let error = parse_list("-w", "n[1-40000],n[1-40000]").unwrap_err();
        assert_eq!(error.problem, "more than 65536 hosts");
        let error = parse_list("-w", "a[1-40000],b[1-25537]").unwrap_err();
        assert_eq!(error.place.column, 12);
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-a\\[\\]0-9,@:# =\\n\u{e4}]{0,40}|(n[1-9] (slots|user|port|x)=[-0-9a]{0,6} ?){1,3}|.{0,60}") {
            if let Ok(list) = parse_file("h", &text) {
                prop_assert!(list.hosts.iter().all(|host| !host.name.starts_with('-') && !host.name.is_empty()));
            }
            if let Err(error) = parse_list("-w", &text) {
                prop_assert!(error.place.column >= 1 && error.place.column <= text.chars().count() + 1);
            }
        }
    }
}
