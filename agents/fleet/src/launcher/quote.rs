//! Quoting for shells that we do not choose: the login shell may be a Bourne shell, csh or fish.

/// Quotes text as one word for sh, csh and fish alike.
///
/// Single quotes keep everything but three characters: the quote itself; `!`, which csh replaces even there; and the
/// backslash, which fish takes for an escape there. Those go outside the quotes with a backslash, which all three
/// shells read alike. A newline inside quotes is an error to csh, so callers keep newlines out.
///
/// ```
/// assert_eq!(gdrtune_fleet::launcher::quote("it's"), r"'it'\''s'");
/// ```
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for character in text.chars() {
        match character {
            '\'' | '!' | '\\' => {
                quoted.push_str("'\\");
                quoted.push(character);
                quoted.push('\'');
            }
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// What a shell makes of the quoted text; `None` where the shell is not installed.
    fn through(shell: &str, text: &str) -> Option<Vec<u8>> {
        let command = format!("/usr/bin/printf %s {}", quote(text));
        let output = Command::new(shell).args(["-c", &command]).output().ok()?;
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        Some(output.stdout)
    }

    #[test]
    fn shells_give_the_text_back() {
        for text in
            ["", "a b", "'", "\\", "!x", "$(id)", "`id`", "a'\\!'b", "~", "*", "-n", "\"", "#", "{a,b}", "\t", "\u{fc}"]
        {
            for shell in ["sh", "bash", "csh", "fish"] {
                if let Some(output) = through(shell, text) {
                    assert_eq!(String::from_utf8_lossy(&output), text, "{shell}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn sh_gives_any_text_back(text in "[^\\x00\\r\\n]{0,40}") {
            prop_assert_eq!(through("sh", &text).unwrap(), text.as_bytes());
        }
    }
}
