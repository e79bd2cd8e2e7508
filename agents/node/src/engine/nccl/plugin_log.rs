//! What NCCL's own log says of tuner plugins: the proof that an installed plugin was loaded and has read its rules.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// Path of the log that NCCL writes to for this rank; the agent sets it where an installation is checked.
pub const PLUGIN_LOG_VARIABLE: &str = "GDRTUNE_PLUGIN_LOG";

/// How much of a log is looked at: plugins are loaded before anything that makes it long.
const MOST_BYTES: u64 = 16 << 20;
/// Lines and characters of each that are told.
const MOST_LINES: usize = 64;
const LONGEST_LINE: usize = 1024;

/// The log's lines about tuner plugins. A log that cannot be read is told as a line of its own.
pub(super) fn read(path: &Path) -> Vec<String> {
    match text(path) {
        Ok(text) => lines(&text),
        Err(error) => vec![format!("cannot read NCCL's log {}: {error}", path.display())],
    }
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// NCCL's lines say `TUNER/Plugin`, `tuner plugin` or `NCCL_TUNER_PLUGIN`; our plugin's say `TUNER/gdrtune`.
fn lines(text: &str) -> Vec<String> {
    let is_about_plugins = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.contains("tuner/") || line.contains("tuner plugin") || line.contains("tuner_plugin")
    };
    text.lines()
        .filter(is_about_plugins)
        .take(MOST_LINES)
        .map(|line| line.chars().take(LONGEST_LINE).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_tuner_plugins_are_found() {
        // The texts are those of NCCL's src/plugin/tuner.cc and src/plugin/tuner/tuner_v5.cc.
        let text = "h:1:1 [0] NCCL INFO cudaDriverVersion 12080\n\
                    h:1:1 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to /opt/p.so\n\
                    h:1:1 [0] NCCL INFO TUNER/Plugin: Using gdrtune (v5)\n\
                    h:1:1 [0] NCCL INFO Successfully loaded external tuner plugin /opt/p.so\n\
                    h:1:1 [0] NCCL INFO TUNER/gdrtune: read 2 rules\n\
                    h:1:1 [0] NCCL INFO Channel 00/02 : 0 1\n";
        assert_eq!(lines(text).join("\n"), text.lines().skip(1).take(4).collect::<Vec<_>>().join("\n"));
        let many = "TUNER/x\n".repeat(1000) + "TUNER/";
        assert_eq!(lines(&many).len(), MOST_LINES);
        assert_eq!(lines(&format!("TUNER/{}", "é".repeat(5000)))[0].chars().count(), LONGEST_LINE);
    }

    #[test]
    fn a_missing_log_is_told() {
        let line = read(Path::new("/nonexistent/log")).remove(0);
        assert!(line.starts_with("cannot read NCCL's log /nonexistent/log: No such file"), "{line}");
    }
}
