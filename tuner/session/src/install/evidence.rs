//! Judges one rank's log: was our plugin loaded from its place, and did it read the rules? Pure.

use gdrtune_profiles::install::{self, Manifest, PLUGIN_FILE, RULES_FILE};

/// What our plugin's lines begin with (`gdrtune-nccl-tuner`).
const OWN_PREFIX: &str = "TUNER/gdrtune: ";

/// The lines that prove it, or why they do not.
pub(super) fn judge(manifest: &Manifest, log: &[String]) -> Result<Vec<String>, String> {
    let plugin = install::file_path(&manifest.path, PLUGIN_FILE);
    let rules = install::file_path(&manifest.path, RULES_FILE);
    let Some(loaded) = loaded(&plugin, log) else {
        return Err(format!("NCCL did not load {plugin}{}", words(log, |line| !line.contains(OWN_PREFIX))));
    };
    let own = words(log, |line| line.contains(OWN_PREFIX));
    let Some((line, count)) = log.iter().find_map(|line| Some((line, rules_read(line, &rules)?))) else {
        return Err(format!("the plugin was loaded, but has read no rules from {rules}{own}"));
    };
    if count != manifest.rules {
        return Err(format!("the plugin has read {count} rules instead of {}{own}", manifest.rules));
    }
    Ok(loaded.into_iter().chain([line]).cloned().collect())
}

/// NCCL's lines that our plugin was loaded from this path.
fn loaded<'a>(plugin: &str, log: &'a [String]) -> Option<Vec<&'a String>> {
    // NCCL src/plugin/tuner.cc (from 2.24; before, src/misc/tuner.cc has the same text).
    let success = format!("Successfully loaded external tuner plugin {plugin}");
    let line = log.iter().find(|line| line.ends_with(&success));
    // The line of the interface's own file (src/plugin/tuner/tuner_v*.cc). Where a version lacks the line above, the path
    // is the one that it says it was told.
    let using = log.iter().find(|line| line.contains("TUNER/Plugin: Using") && line.contains("gdrtune"));
    let told = log.iter().find(|line| line.contains("set by env") && line.ends_with(plugin));
    match (line, using, told) {
        (Some(line), using, _) => Some([Some(line), using].into_iter().flatten().collect()),
        (None, Some(using), Some(told)) => Some(vec![told, using]),
        _ => None,
    }
}

/// The number in `read N rules, ... from PATH`.
fn rules_read(line: &str, rules: &str) -> Option<u32> {
    let (_, text) = line.split_once(OWN_PREFIX)?;
    let (count, rest) = text.strip_prefix("read ")?.split_once(" rules, ")?;
    let count = count.parse().ok()?;
    rest.ends_with(&format!(", from {rules}")).then_some(count)
}

/// The last line of the log of some kind, as the tail of a message.
fn words(log: &[String], is_meant: impl Fn(&str) -> bool) -> String {
    match log.iter().rfind(|line| is_meant(line)) {
        Some(line) => format!("; its log says: {line}"),
        None => "; its log says nothing about that".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::install::MANIFEST_FORMAT;

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: MANIFEST_FORMAT,
            gdrtune: "1".to_owned(),
            run: "r".to_owned(),
            path: "/opt/a b".to_owned(),
            labels: vec![],
            rules: 2,
            files: vec![],
        }
    }

    const SET: &str = "h:1:1 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to /opt/a b/libnccl-tuner-gdrtune.so";
    const USING: &str = "h:1:1 [0] NCCL INFO TUNER/Plugin: Using gdrtune (v5)";
    const LOADED: &str =
        "h:1:1 [0] NCCL INFO Successfully loaded external tuner plugin /opt/a b/libnccl-tuner-gdrtune.so";
    const READ: &str = "h:1:1 [0] NCCL INFO TUNER/gdrtune: read 2 rules, 0 of them for 4 nodes and 4 ranks, \
                        checksum 00ff, from /opt/a b/nccl-tuner.csv";

    fn judged(lines: &[&str]) -> Result<usize, String> {
        let log: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        judge(&manifest(), &log).map(|evidence| evidence.len())
    }

    #[test]
    fn both_ends_must_say_so() {
        assert_eq!(judged(&[SET, USING, LOADED, READ]), Ok(3));
        assert_eq!(judged(&[LOADED, READ]), Ok(2));
        assert_eq!(judged(&[SET, USING, READ]), Ok(3));
        let other = LOADED.replace("/opt/a b", "/opt/b");
        let elsewhere = READ.replace("/opt/a b", "/opt/b");
        let fewer = READ.replace("read 2", "read 1");
        let broken = "TUNER/gdrtune: cannot use the rules of /opt/a b/nccl-tuner.csv: line 3: ...";
        let not_found = "NCCL INFO TUNER/Plugin: Could not find: /opt/a b/libnccl-tuner-gdrtune.so";
        for (lines, expected) in [
            (&[][..], "NCCL did not load /opt/a b/libnccl-tuner-gdrtune.so; its log says nothing about that"),
            (&[SET, not_found], "Could not find: /opt/a b/libnccl-tuner-gdrtune.so"),
            (&[USING, &other, READ], "NCCL did not load /opt/a b/libnccl-tuner-gdrtune.so; its log says: h:1:1"),
            (&[USING, READ], "NCCL did not load"),
            (&[SET, READ], "NCCL did not load"),
            (&[USING, LOADED], "has read no rules from /opt/a b/nccl-tuner.csv; its log says nothing"),
            (
                &[USING, LOADED, broken],
                "has read no rules from /opt/a b/nccl-tuner.csv; its log says: TUNER/gdrtune: cannot",
            ),
            (&[USING, LOADED, &elsewhere], "has read no rules from /opt/a b/nccl-tuner.csv; its log says: h:1:1"),
            (&[USING, LOADED, &fewer], "has read 1 rules instead of 2"),
        ] {
            let why = judged(lines).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
