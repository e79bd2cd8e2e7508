//! What runs on the host: one constant script for `sh`, of one line, without characters that a login shell would replace
//! even in quotes.
//!
//! It says what it finds in blocks between marker lines, each with a word for what it is and `name=value` lines:
//!
//! | it says | with | and waits for |
//! |---|---|---|
//! | `unfit` | `system`: no executable is for this one | nothing: it ends |
//! | `waiting` | `place`: another host is writing to the same folder | nothing: it looks again |
//! | `place` | `system`, `place`, `state`: `there` or `absent` | `run`, or `upload` and the executable |
//! | `failed` | `place`, `step`: `prepare`, `store` or `start`, `code`, `libc`, `why` to the end of the block | `next` |
//! | `ready` | | nothing: it becomes the agent |
//! | `none` | no place is left | nothing: it ends |
//!
//! Hosts that share a home find a claim (`mkdir`, which one of them makes) and wait for what its maker stores; after the
//! time for that, whoever still waits stores it too: nothing is ever written in place, so that does no harm. A claim that can
//! neither be made nor seen may have been given back in between, so it is tried once more; where that fails as well
//! (a full disk), nobody is waited for.

use super::prune::PRUNE;

/// Arguments, each a word: marker; what there is to upload (`SYSTEM/MACHINE/SHA256/BYTES`, separated by blanks); the user's own
/// folder or nothing; a temporary name; seconds to wait for others; then variables of the agent.
///
/// A place `$c` gets `gdrtune/agent/HASH/gdrtune`. Folders are made private, and used only where they are ours and no links:
/// others may write where they stand.
const FUNCTIONS: &str = r#"m="$1"; a="$2"; b="$3"; t="$4"; w="$5"; shift 5; \
say() { printf "\n%s begin\n" "$m"; printf "%s\n" "$@"; printf "%s end\n" "$m"; }; \
own() { mkdir -p "$1" || return; if test -L "$1"; then echo "$1 is a link" >&2; return 1; fi; \
if test -O "$1"; then chmod 700 "$1"; else echo "$1 belongs to somebody else" >&2; return 1; fi; }; \
prepare() { LC_ALL=C; export LC_ALL; umask 077; \
case "$c" in /*) ;; *) echo "neither HOME nor XDG_CACHE_HOME is a full path" >&2; return 1;; esac; \
if test "$k" = cache || own "$c"; then own "$c/gdrtune" && own "$c/gdrtune/agent" && own "$d"; else return 1; fi; }; \
there() { if test -L "$f"; then rm -f "$f"; fi; test -f "$f" && test "$(($(wc -c < "$f")))" = "$n"; }; \
look() { z=; g=; e=$(($(date +%s) + w)); until there; do \
if mkdir "$d/.claim" 2>/dev/null; then v="$d/.claim"; if there; then break; fi; z=absent; return; fi; \
if test -d "$d/.claim"; then g=; elif test -n "$g"; then z=absent; return; else g=1; continue; fi; \
if test "$(date +%s)" -ge "$e"; then z=absent; return; fi; \
if test -z "$z"; then z=waiting; say waiting "place=$c"; fi; sleep 0.2 2>/dev/null || sleep 1; ls "$d" >/dev/null 2>&1; done; z=there; }; \
yield() { if test -n "$v"; then rmdir "$v" 2>/dev/null; v=; fi; }; \
store() { LC_ALL=C; export LC_ALL; umask 077; x="$d/$t.$$"; trap 'rm -f "$x"' 0; trap "exit 1" HUP INT TERM; \
head -c "$n" | { cat > "$x" || { cat >/dev/null; false; }; } || return; s=$(sha256sum < "$x") || return; s=${s%% *}; \
if test "$s" = "$h"; then chmod 700 "$x" && mv -f "$x" "$f"; else echo "the file arrived with another hash ($s)" >&2; return 1; fi; }; \
fail() { yield; say failed "place=$c" "step=$1" "code=$2" "libc=$3" "why=$q"; read -r r || exit 1; test "$r" = next || exit 1; }"#;

/// Goes through the places until one takes the executable and lets it start.
const COURSE: &str = r#"s=$(uname -s); u=$(uname -m); h=; \
for p in $a; do case "$p" in "$s/$u/"*) p=${p#"$s/$u/"}; h=${p%/*}; n=${p#*/};; esac; done; \
if test -z "$h"; then say unfit "system=$s $u"; exit 1; fi; \
if test -n "$b"; then l=cache; else l="cache tmp run"; fi; v=; trap yield 0; trap "exit 1" HUP INT TERM; \
for k in $l; do case $k in \
cache) c=$b; if test -z "$c"; then c=${XDG_CACHE_HOME:-}; case "$c" in /*) ;; *) c=${HOME:+$HOME/.cache};; esac; fi;; \
tmp) c=${TMPDIR:-/tmp}/gdrtune-$(id -u);; run) c=${XDG_RUNTIME_DIR:-}; if test -z "$c"; then continue; fi; c=$c/gdrtune-agent;; esac; \
d="$c/gdrtune/agent/$h"; f="$d/gdrtune"; if q=$(prepare 2>&1); then :; else fail prepare 1 ""; continue; fi; \
look; say place "system=$s $u" "place=$c" "state=$z""#;

/// Starts the executable once before it becomes the agent: a folder may be mounted noexec, a C library too old.
const BECOME: &str = r#"read -r r || exit 1; case "$r" in run) ;; upload) \
if q=$(store 2>&1); then v="$d/.claim"; else fail store 1 ""; continue; fi;; *) exit 1;; esac; yield; \
q=$(LC_ALL=C; export LC_ALL; env "$@" "$f" --version </dev/null 2>&1 >/dev/null); y=$?; \
if test "$y" = 0; then say ready; exec env "$@" "$f" agent; fi; \
fail start "$y" "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"; done; say none; exit 1"#;

/// The script, in one line.
pub(super) fn script() -> String {
    format!("{FUNCTIONS}; {COURSE}; {PRUNE}; {BECOME}").replace("\\\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_line_without_what_csh_replaces() {
        let script = script();
        assert!(!script.contains('\n') && !script.contains('!'), "{script}");
        // Some ways in have a limit on what they carry: a request line of kubectl's has 8 KiB behind common proxies.
        assert!(script.len() < 5000, "{}", script.len());
    }
}
