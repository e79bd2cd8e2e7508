//! Lines of a source that may be of any length and hold any bytes.

use std::io::{self, BufRead};

/// Most bytes of a line that are kept. NCCL cuts its own at 1024 (`src/debug.cc`); launchers put labels before them.
const LONGEST: usize = 16 << 10;

/// Hands every line to `each`, without its end and cut at [`LONGEST`], with its number from 1.
///
/// # Errors
/// The reader's.
pub(super) fn each_line(mut reader: impl BufRead, mut each: impl FnMut(usize, &[u8])) -> io::Result<()> {
    let (mut line, mut number) = (Vec::new(), 1);
    loop {
        let bytes = match reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            if !line.is_empty() {
                each(number, &line);
            }
            return Ok(());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            each(number, &line);
            line.clear();
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_of_any_length_have_their_numbers() {
        let long = "x".repeat(LONGEST + 9);
        let text = format!("a\n\n{long}\nb");
        let mut lines = Vec::new();
        // A buffer that ends within lines.
        each_line(BufReader::with_capacity(7, text.as_bytes()), |number, line| lines.push((number, line.to_vec())))
            .unwrap();
        let expected: Vec<(usize, Vec<u8>)> =
            vec![(1, b"a".to_vec()), (2, Vec::new()), (3, vec![b'x'; LONGEST]), (4, b"b".to_vec())];
        assert_eq!(lines, expected);
    }
}
