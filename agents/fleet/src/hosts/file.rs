//! Host files: one host or host list per line, `slots=N` or `:N` after it, `#` comments.

use super::{Host, HostCause, HostError, HostList, expand::expand_items, without_repeats};

/// Reads a host file. `file` is its name for messages.
///
/// # Errors
/// [`HostError`] with file, line and column.
pub fn parse_hostfile(text: &str, file: &str) -> Result<HostList, HostError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let at_line = |cause| HostError { place: format!("{file}:{number}: "), cause };
            hosts.extend(parse_line(line).map_err(at_line)?);
            if hosts.len() > super::MAX_HOSTS {
                return Err(at_line(HostCause::TooMany));
            }
        }
    }
    if hosts.is_empty() {
        return Err(HostError { place: format!("{file}: "), cause: HostCause::Empty });
    }
    Ok(without_repeats(hosts))
}

fn parse_line(line: &str) -> Result<Vec<Host>, HostCause> {
    let mut words = line.split_whitespace();
    let list = words.next().unwrap_or_default();
    // `host:4` is MPICH's form; an IPv6 address has more than one colon.
    let (list, mut slots) = match list.rsplit_once(':') {
        Some((host, count)) if !host.contains(':') => (host, Some(parse_slots(count, list)?)),
        _ => (list, None),
    };
    for word in words {
        let count = word.strip_prefix("slots=").ok_or_else(|| HostCause::Word { word: word.to_owned() })?;
        slots = Some(parse_slots(count, word)?);
    }
    let mut hosts = expand_items(list)?;
    for host in &mut hosts {
        host.slots = slots;
    }
    Ok(hosts)
}

fn parse_slots(count: &str, word: &str) -> Result<u32, HostCause> {
    match count.parse() {
        Ok(slots @ 1..=1024) => Ok(slots),
        _ => Err(HostCause::Word { word: word.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_hosts_slots_and_users() {
        let text = "# cluster\nme@node[01-02] slots=8  # two\n\nfe80::1\nold:4\n";
        let list = parse_hostfile(text, "h").unwrap();
        let shown: Vec<(&str, Option<&str>, Option<u32>)> =
            list.hosts.iter().map(|h| (h.name.as_str(), h.user.as_deref(), h.slots)).collect();
        assert_eq!(
            shown,
            [
                ("node01", Some("me"), Some(8)),
                ("node02", Some("me"), Some(8)),
                ("fe80::1", None, None),
                ("old", None, Some(4)),
            ]
        );
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            ("a\nb[2-\n", "h:2: column 2: "),
            ("a slots=0", "h:1: `slots=0` is not understood"),
            ("a max_slots=3", "h:1: `max_slots=3` is not understood"),
            ("a:x", "h:1: `a:x` is not understood"),
            ("# nothing\n", "h: no host in the list"),
        ] {
            let error = parse_hostfile(text, "h").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in "([a-b0-9\\[\\]:@#= -]{0,12}\n){0,4}") {
            parse_hostfile(&text, "h").ok();
        }
    }
}
