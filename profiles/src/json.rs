//! JSON as it is printed and written. RFC 8259 asks for escapes of U+0000 to U+001F alone, but a terminal takes U+009B for the beginning of
//! a command, and texts in here come from host names, logs and files.

use serde_json::Value;

use crate::diagnostic::is_printable;

/// A JSON text with everything in its strings escaped that [`printable`](crate::diagnostic::printable) escapes: it says the same.
pub fn escape(json: String) -> String {
    // Line ends are between values: in strings they are escaped already.
    let is_plain = |c: char| c == '\n' || is_printable(c);
    if json.chars().all(is_plain) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_plain(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    escaped
}

/// A document in indented lines, ending with a line break.
pub fn document(value: &Value) -> String {
    escape(format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_read_back() {
        let value =
            json!({"host\u{9b}31m": ["\u{7f}\u{85}\u{9d}0;x\u{7}\u{1b}[2J\n", "节点 é 🦀", "a\u{202e}b\u{feff}"]});
        let text = document(&value);
        assert_eq!(
            text,
            "{\n  \"host\\u009b31m\": [\n    \"\\u007f\\u0085\\u009d0;x\\u0007\\u001b[2J\\n\",\n    \"节点 é 🦀\",\n    \"a\\u202eb\\ufeff\"\n  ]\n}\n"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(escape("{\"a\":1}\n".to_owned()), "{\"a\":1}\n");
    }
}
