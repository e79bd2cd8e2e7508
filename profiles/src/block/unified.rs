//! The difference of two texts as `diff -u` writes it, where they differ in one place.

use super::lines;

/// Lines of context around a difference, as of `diff -u`.
const CONTEXT: usize = 3;

/// A unified difference that `patch` takes, with one hunk from the first line that differs to the last; nothing where none does.
pub fn unified(file: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let (olds, news): (Vec<&[u8]>, Vec<&[u8]>) =
        (lines(old).map(|line| line.1).collect(), lines(new).map(|line| line.1).collect());
    let same = olds.iter().zip(&news).take_while(|(a, b)| a == b).count();
    if same == olds.len() && same == news.len() {
        return Vec::new();
    }
    let most = olds.len().min(news.len()) - same;
    let tail = olds.iter().rev().zip(news.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (before, after) = (same.saturating_sub(CONTEXT), tail.saturating_sub(CONTEXT));
    let range = |count: usize| {
        let shown = count - after - before;
        // An empty range names the line that it follows.
        format!("{},{shown}", if shown == 0 { before } else { before + 1 })
    };
    let mut text =
        format!("--- {file}\n+++ {file}\n@@ -{} +{} @@\n", range(olds.len()), range(news.len())).into_bytes();
    for line in &olds[before..same] {
        push(&mut text, b' ', line);
    }
    for line in &olds[same..olds.len() - tail] {
        push(&mut text, b'-', line);
    }
    for line in &news[same..news.len() - tail] {
        push(&mut text, b'+', line);
    }
    for line in &olds[olds.len() - tail..olds.len() - after] {
        push(&mut text, b' ', line);
    }
    text
}

fn push(text: &mut Vec<u8>, sign: u8, line: &[u8]) {
    text.push(sign);
    text.extend(line);
    if !line.ends_with(b"\n") {
        text.extend(b"\n\\ No newline at end of file\n");
    }
}
