//! Quoting for the far side's shell: the only way anything of ours reaches one.

/// The text as one word of a POSIX shell, and of csh: single quotes, and nothing in them that either would expand.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    // csh expands `!` even in single quotes; a backslash before it, outside of them, is safe in both.
    format!("'{}'", text.replace('\'', r"'\''").replace('!', r"'\!'"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words() {
        assert_eq!(quote("/a/b-1.2"), "/a/b-1.2");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quote("a!b"), r"'a'\!'b'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_real_shell_reads_back_what_was_quoted(text in "[^\0]{0,24}") {
            let output = Command::new("sh").arg("-c").arg(format!("printf %s {}", quote(&text))).output().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
