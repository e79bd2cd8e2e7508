#!/usr/bin/env bash
# run.sh [--binary GDRTUNE] [OUT_DIR]: our search and its rivals on the recorded grids, into OUT_DIR/results.md
#
# Everybody plays in one run: search_rivals (Rust, built here), Optuna's TPE (tpe.py), and our search: the library by
# itself, or with --binary the program as a user runs it, by its choices.json. OUT_DIR is this folder if none is given;
# results.csv and environments.csv go beside results.md. README.md says what is compared and how it is judged.
#
# SEEDS (20), TUNING_SEEDS (60); PYTHON (python3), which must have optuna: `python3 -m venv V && V/bin/pip install optuna`, PYTHON=V/bin/python;
# JOBS (all cores), processes at a time of what can be split. About 25 minutes on two cores, most of it Optuna's.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
SEEDS=${SEEDS:-20} PYTHON=${PYTHON:-python3}
# Rivals' settings are chosen on seeds that the table does not use.
TUNING_SEEDS=${TUNING_SEEDS:-60} FIRST_TUNING_SEED=10000
die() { echo "run.sh: $*" >&2; exit 2; }
binary=
case ${1:-} in
  --binary) [ -x "${2:-}" ] || die "--binary names no program"; binary=$(readlink -f "$2"); shift 2 ;;
  -*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
out=${1:-$here}
[ -d "$out" ] || die "$out is no folder"
[[ $SEEDS-$TUNING_SEEDS =~ ^[1-9][0-9]*-[1-9][0-9]*$ ]] || die "SEEDS and TUNING_SEEDS are numbers"
"$PYTHON" -c 'import optuna' || die "$PYTHON has no optuna; see the head of this script"

one=$here/data/h200-emulated-4nodes.csv two=$here/data/h200-emulated-4nodes-env.csv
other=$here/data/h200-2gpus-nvlink.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here/../.."
cargo build --release --locked -p gdrtune-tuner --example search_rivals
rivals=$(cargo metadata --no-deps --format-version 1 | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/examples/search_rivals

"$rivals" regret "$one" "$TUNING_SEEDS" "$FIRST_TUNING_SEED" > "$work/tuning.csv"
"$rivals" regret "$one" "$SEEDS" > "$work/regret.csv"
if [ -n "$binary" ]; then
  "$PYTHON" "$here/product.py" "$binary" "$one" "$SEEDS" > "$work/product-picks.csv"
  grep -v '^ours,' "$work/regret.csv" > "$work/others.csv"
  "$rivals" score "$one" "$work/product-picks.csv" | tail -n +2 | cat "$work/others.csv" - > "$work/regret.csv"
  # The product has nothing to tune.
  grep -v '^ours,' "$work/tuning.csv" > "$work/others.csv" && mv "$work/others.csv" "$work/tuning.csv"
fi
"$PYTHON" "$here/tpe.py" points "$one" "$SEEDS" > "$work/tpe-picks.csv"
"$rivals" score "$one" "$work/tpe-picks.csv" | tail -n +2 >> "$work/regret.csv"

"$rivals" environments "$two" "$SEEDS" > "$work/environments.csv"
"$PYTHON" "$here/tpe.py" environments "$two" "$SEEDS" > "$work/tpe-environments.csv"
"$rivals" score-environments "$two" "$work/tpe-environments.csv" | tail -n +2 >> "$work/environments.csv"

"$rivals" regret "$other" "$TUNING_SEEDS" "$FIRST_TUNING_SEED" > "$work/other-tuning.csv"
"$rivals" regret "$other" "$SEEDS" > "$work/other.csv"

"$PYTHON" "$here/table.py" "$out" "$work/regret.csv" "$work/tuning.csv" "$work/environments.csv" "$work/other.csv" "$work/other-tuning.csv"
echo "run.sh: $out/results.md"
