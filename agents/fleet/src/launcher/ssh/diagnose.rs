//! What ssh's own words mean. ssh does not translate its messages, so they may be matched.

use super::SshOptions;
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// Words of ssh and their meaning, first match wins: a changed key also says "Host key verification failed".
const MEANINGS: [(&str, LaunchErrorKind); 22] = [
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", LaunchErrorKind::HostKeyChanged),
    ("WARNING: REVOKED HOST KEY DETECTED", LaunchErrorKind::HostKeyChanged),
    ("Host key verification failed", LaunchErrorKind::HostKeyUnknown),
    ("Could not resolve hostname", LaunchErrorKind::NameUnknown),
    ("Permission denied (", LaunchErrorKind::AuthRefused),
    ("Too many authentication failures", LaunchErrorKind::AuthRefused),
    ("No supported authentication methods", LaunchErrorKind::AuthRefused),
    ("Connection refused", LaunchErrorKind::Refused),
    ("Connection timed out", LaunchErrorKind::Unreachable),
    ("Operation timed out", LaunchErrorKind::Unreachable),
    ("No route to host", LaunchErrorKind::Unreachable),
    ("Network is unreachable", LaunchErrorKind::Unreachable),
    ("Host is down", LaunchErrorKind::Unreachable),
    ("Bad configuration option", LaunchErrorKind::SshConfig),
    ("bad configuration options", LaunchErrorKind::SshConfig),
    ("Can't open user config file", LaunchErrorKind::SshConfig),
    ("Bad owner or permissions on", LaunchErrorKind::SshConfig),
    ("kex_exchange_identification", LaunchErrorKind::Dropped),
    ("ssh_exchange_identification", LaunchErrorKind::Dropped),
    ("Connection reset by", LaunchErrorKind::Dropped),
    ("Connection closed by", LaunchErrorKind::Dropped),
    ("banner exchange", LaunchErrorKind::Dropped),
];

/// Most of ssh's words to repeat, in bytes.
const MAX_DETAIL: usize = 600;

/// Turns ssh's log of a failed connection into an error.
pub(super) fn connection(options: &SshOptions, host: &Host, log: &str) -> LaunchError {
    let found = MEANINGS.iter().find(|(words, _)| log.contains(words));
    let kind = found.map_or(LaunchErrorKind::Other, |&(_, kind)| kind);
    LaunchError::new(&host.name, kind, detail(log), hint(kind, options, host))
}

/// Words of ssh's about a changed key that tell nothing of it; what it says after them would be cut off.
const WARNINGS: [&str; 4] = [
    "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!",
    "Someone could be eavesdropping on you right now (man-in-the-middle attack)!",
    "It is also possible that a host key has just been changed.",
    "Please contact your system administrator.",
];

/// The log in one line, without the frames that ssh draws around warnings.
fn detail(log: &str) -> String {
    let framed = |line: &&str| !line.is_empty() && !line.starts_with("@@@") && !WARNINGS.contains(line);
    let lines: Vec<&str> =
        log.lines().map(str::trim).filter(framed).map(|line| line.trim_matches(['@', ' '])).collect();
    let text: String = lines.join(" / ").chars().filter(|character| !character.is_control()).collect();
    if text.is_empty() {
        return "ssh failed without a word".to_owned();
    }
    match text.char_indices().nth(MAX_DETAIL) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

fn hint(kind: LaunchErrorKind, options: &SshOptions, host: &Host) -> String {
    let by_hand = options.by_hand(host);
    match kind {
        LaunchErrorKind::HostKeyChanged => format!(
            "if the host was really reinstalled, remove its old key with `ssh-keygen -R` as ssh says above, then check `{by_hand}`"
        ),
        LaunchErrorKind::HostKeyUnknown => {
            format!("connect once with `{by_hand}` and check the key, or let new keys in with --accept-new-host-keys")
        }
        LaunchErrorKind::NameUnknown => "check the name, or give it a HostName in the ssh configuration".to_owned(),
        LaunchErrorKind::AuthRefused => {
            format!(
                "there are no password prompts: load a key into ssh-agent, then check `ssh -o BatchMode=yes` with `{by_hand}`"
            )
        }
        LaunchErrorKind::Refused => "check that sshd runs there, and its port in the ssh configuration".to_owned(),
        LaunchErrorKind::Unreachable => format!("check that the host is up, and that `{by_hand}` reaches it"),
        LaunchErrorKind::SshConfig => "mend the ssh configuration file at the place that ssh names".to_owned(),
        LaunchErrorKind::Dropped => {
            "the server takes too few connections at once (MaxStartups) or blocks us: lower --fanout".to_owned()
        }
        _ => format!("check that `{by_hand} true` works without a prompt"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        for (log, kind) in [
            ("ssh: Could not resolve hostname n1: Name or service not known", LaunchErrorKind::NameUnknown),
            ("ssh: connect to host n1 port 22: Connection refused", LaunchErrorKind::Refused),
            ("ssh: connect to host n1 port 22: Connection timed out", LaunchErrorKind::Unreachable),
            ("ssh: connect to host n1 port 22: No route to host", LaunchErrorKind::Unreachable),
            (
                "No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
                LaunchErrorKind::HostKeyUnknown,
            ),
            (
                "@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@\nHost key verification failed.",
                LaunchErrorKind::HostKeyChanged,
            ),
            ("root@n1: Permission denied (publickey).", LaunchErrorKind::AuthRefused),
            ("kex_exchange_identification: Connection closed by remote host", LaunchErrorKind::Dropped),
            ("/c: line 1: Bad configuration option: nonsense", LaunchErrorKind::SshConfig),
            ("", LaunchErrorKind::Other),
        ] {
            let error = connection(&SshOptions::new(), &Host::named("n1"), log);
            assert_eq!(error.kind, kind, "{log}");
            assert!(!error.detail.is_empty() && !error.detail.contains("@@"));
        }
    }

    #[test]
    fn hints_show_the_command_by_hand() {
        let options = SshOptions { ssh_config: Some("/x/config".into()), ..SshOptions::new() };
        let host = Host { user: Some("amy".to_owned()), ..Host::named("n1") };
        let error = connection(&options, &host, "Host key verification failed.");
        assert!(error.hint.contains("`ssh -F /x/config amy@n1`"), "{}", error.hint);
    }
}
