//! Reads the `ENV` instructions of a Dockerfile, and notices exports in `RUN`, which end with their layer.

use super::{
    file::{Noticed, Read, Setting},
    names,
    shell::words,
};

pub(super) fn read(text: &str) -> Read {
    let mut read = Read::default();
    // What one stage sets, another has only if it is built on that.
    let mut stage = 1;
    let mut lines = text.split('\n').enumerate().peekable();
    while let Some((idx, first)) = lines.next() {
        if first.trim_start().starts_with('#') {
            continue;
        }
        let mut instruction = vec![(idx + 1, first)];
        while instruction.last().is_some_and(|(_, line)| is_continued(line)) {
            let Some((idx, next)) = lines.next() else { break };
            instruction.push((idx + 1, next));
        }
        let Some((keyword, rest)) = first.trim_start().split_once(char::is_whitespace) else { continue };
        instruction[0].1 = rest;
        match keyword.to_ascii_uppercase().as_str() {
            "FROM" => stage += 1,
            "ENV" => environment(&mut read, &instruction, stage),
            "RUN" => run(&mut read, &instruction),
            _ => {}
        }
    }
    read
}

/// Comments between the lines of an instruction are skipped, and do not end it.
fn is_continued(line: &str) -> bool {
    line.trim_end().ends_with('\\') || line.trim_start().starts_with('#')
}

fn environment(read: &mut Read, instruction: &[(usize, &str)], stage: usize) {
    // `ENV NAME value with blanks`: the old form, of one line.
    if let [(line, text)] = instruction
        && let Some((name, value)) = text.trim().split_once(char::is_whitespace)
        && !name.contains('=')
    {
        if value.trim_start().starts_with("= ") {
            read.remark(*line, Noticed::BlankAtEquals, name.escape_debug().to_string());
        }
        push(read, *line, name, value.trim().trim_start_matches("= "), (!value.contains('$'), stage));
        return;
    }
    for (line, text) in instruction.iter().filter(|(_, text)| !text.trim_start().starts_with('#')) {
        for word in words(text.trim_end().trim_end_matches('\\')) {
            if let Some((name, value)) = word.text.split_once('=') {
                push(read, *line, name, value, (word.is_constant, stage));
            }
        }
    }
}

fn push(read: &mut Read, line: usize, name: &str, value: &str, (is_constant, block): (bool, usize)) {
    let setting = Setting::exported(name, value, line);
    read.settings.push(Setting { is_constant, block, ..setting });
}

fn run(read: &mut Read, instruction: &[(usize, &str)]) {
    for (line, text) in instruction {
        let words = words(text.trim_end().trim_end_matches('\\'));
        for pair in words.windows(2).filter(|pair| pair[0].text == "export") {
            if let Some((name, _)) = pair[1].text.split_once('=').filter(|(name, _)| names::is_ours(name)) {
                read.remark(*line, Noticed::RunExport, name.escape_debug().to_string());
            }
        }
    }
}
