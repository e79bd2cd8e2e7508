//! `nccl.conf`: `/etc/nccl.conf`, `~/.nccl.conf` and `$NCCL_CONF_FILE`.
//!
//! Source: NCCL `src/misc/param.cc` (`setEnvFile`) at 2.30.7. Nothing is trimmed but a final LF and CR, there are no
//! quotes, and `#` is a comment in column 0 only. A variable that is already set is kept, so the first line wins.

use super::{fgets_pieces, is_variable_name};
use crate::{diagnostic::Diagnostic, vocab::Environment};

/// NCCL reads with `fgets` into 4096 bytes.
pub(crate) const LONGEST_LINE: usize = 4095;
/// Names and values are cut at 1023 bytes.
pub(crate) const LONGEST_VALUE: usize = 1023;

/// What a process that has none of these variables gets from the file, and where it is probably not what was meant.
///
/// Lines that set a variable which cannot be named (such as `export NCCL_NET`) are errors and left out; everything else
/// is in the environment exactly as NCCL reads it.
pub fn parse(text: &str, file: &str) -> (Environment, Vec<Diagnostic>) {
    let mut environment = Environment::new();
    let mut diagnostics = Vec::new();
    for piece in fgets_pieces(text, LONGEST_LINE) {
        if piece.is_continuation {
            diagnostics.push(Diagnostic::error(file, piece.line, "the line is longer than 4095 bytes: NCCL splits it"));
        }
        let line = piece.text.strip_suffix('\r').unwrap_or(&piece.text);
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            diagnostics.push(Diagnostic::error(file, piece.line, "the line has no `=`: NCCL skips it"));
            continue;
        };
        if !is_variable_name(name) {
            diagnostics.push(Diagnostic::error(file, piece.line, bad_name(name)));
            continue;
        }
        let value = cut(value);
        diagnostics.extend(traps(value).map(|cause| Diagnostic::warning(file, piece.line, cause)));
        if line.len() - name.len() - 1 != value.len() {
            diagnostics.push(Diagnostic::error(file, piece.line, "the value is longer than 1023 bytes: NCCL cuts it"));
        }
        if environment.get(name).is_some() {
            let message = format!("{name} is set above already: NCCL keeps the first");
            diagnostics.push(Diagnostic::warning(file, piece.line, message));
            continue;
        }
        environment = environment.with(name, value);
    }
    (environment, diagnostics)
}

/// Why the file cannot hold `name=value` so that NCCL reads the same back.
pub(crate) fn refuses(name: &str, value: &str) -> Option<&'static str> {
    if value.contains(['\n', '\0']) {
        return Some("nccl.conf cannot hold a line break or NUL byte");
    }
    if value.ends_with('\r') {
        return Some("NCCL drops a carriage return at the end of the line");
    }
    if LONGEST_VALUE < value.len() || LONGEST_VALUE < name.len() {
        return Some("NCCL cuts names and values at 1023 bytes");
    }
    None
}

fn cut(value: &str) -> &str {
    let mut end = value.len().min(LONGEST_VALUE);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

fn bad_name(name: &str) -> String {
    let bare = name.trim();
    match bare.strip_prefix("export") {
        Some(rest) if rest.starts_with(char::is_whitespace) => {
            format!("NCCL reads `export` as part of the name: write {}=...", rest.trim())
        }
        _ if bare.starts_with('#') => "a comment starts in column 0 only".to_owned(),
        _ if is_variable_name(bare) => format!("NCCL takes blanks as part of the name: write {bare}=... without them"),
        _ => format!("`{}` is not the name of a variable", name.escape_debug()),
    }
}

fn traps(value: &str) -> impl Iterator<Item = &'static str> {
    let findings = [
        (value.starts_with([' ', '\t']), "the value starts with a blank, which NCCL keeps"),
        (value.ends_with([' ', '\t']), "the value ends with a blank, which NCCL keeps"),
        (value.starts_with(['"', '\'']), "the value starts with a quote, which NCCL keeps"),
        (value.contains(" #"), "NCCL knows no comment after a value: it becomes part of it"),
    ];
    findings.into_iter().filter(|(is_found, _)| *is_found).map(|(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (String, Vec<String>) {
        let (environment, diagnostics) = parse(text, "nccl.conf");
        (environment.to_string(), diagnostics.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn lines_are_read_as_nccl_reads_them() {
        let text = "# c\nNCCL_SOCKET_IFNAME==eth0\r\n\nNCCL_NET=IB\nNCCL_NET=Socket";
        let (environment, diagnostics) = read(text);
        assert_eq!(environment, "NCCL_NET=IB NCCL_SOCKET_IFNAME==eth0");
        assert_eq!(diagnostics, ["nccl.conf:5: warning: NCCL_NET is set above already: NCCL keeps the first"]);
    }

    #[test]
    fn traps_are_named_with_their_line() {
        for (text, environment, message) in [
            ("NCCL_NET", "defaults", "nccl.conf:1: the line has no `=`: NCCL skips it"),
            (
                "\nexport NCCL_NET=IB",
                "defaults",
                "nccl.conf:2: NCCL reads `export` as part of the name: write NCCL_NET=...",
            ),
            (
                "NCCL_NET = IB",
                "defaults",
                "nccl.conf:1: NCCL takes blanks as part of the name: write NCCL_NET=... without them",
            ),
            (" # NCCL_NET=IB", "defaults", "nccl.conf:1: a comment starts in column 0 only"),
            ("a-b=IB", "defaults", "nccl.conf:1: `a-b` is not the name of a variable"),
            ("NCCL_NET= IB", "NCCL_NET= IB", "nccl.conf:1: warning: the value starts with a blank, which NCCL keeps"),
            ("NCCL_NET='IB'", "NCCL_NET='IB'", "nccl.conf:1: warning: the value starts with a quote, which NCCL keeps"),
            ("NCCL_NET=IB ", "NCCL_NET=IB ", "nccl.conf:1: warning: the value ends with a blank, which NCCL keeps"),
            (
                "NCCL_NET=IB # x",
                "NCCL_NET=IB # x",
                "nccl.conf:1: warning: NCCL knows no comment after a value: it becomes part of it",
            ),
        ] {
            assert_eq!(read(text), (environment.to_owned(), vec![message.to_owned()]), "{text}");
        }
    }

    #[test]
    fn long_values_are_cut_and_long_lines_split() {
        let (environment, diagnostics) = parse(&format!("A={}\n", "x".repeat(1024)), "f");
        assert_eq!(environment.get("A").unwrap().len(), 1023);
        assert_eq!(diagnostics[0].message, "the value is longer than 1023 bytes: NCCL cuts it");
        let (environment, diagnostics) = parse(&format!("#{}B=1\n", "x".repeat(4094)), "f");
        assert_eq!(environment.get("B"), Some("1"), "the rest of a long comment is a line of its own");
        assert_eq!(diagnostics[0].message, "the line is longer than 4095 bytes: NCCL splits it");
        let (environment, diagnostics) = parse(&format!("#{}\nB=1\n", "x".repeat(4094)), "f");
        assert_eq!((environment.get("B"), diagnostics.len()), (Some("1"), 0), "exactly 4095 bytes are not split");
    }

    proptest! {
        #[test]
        fn what_is_not_refused_is_read_back(name in "[A-Z_][A-Z0-9_]{0,20}", value in "[^\\x00]{0,20}|\\PC{0,1100}") {
            if refuses(&name, &value).is_none() {
                let (environment, _) = parse(&format!("# c\n{name}={value}\n"), "f");
                prop_assert_eq!(environment.get(&name), Some(value.as_str()));
            }
        }

        #[test]
        fn any_text_is_read(text in "(?s).{0,200}") {
            drop(parse(&text, "f"));
        }
    }
}
