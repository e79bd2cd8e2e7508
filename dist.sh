#!/usr/bin/env bash
# dist.sh [FOLDER]
# Release builds for x86_64 and aarch64 against an old glibc, so that they run on old systems, too: FOLDER (dist) gets
#   gdrtune-x86_64, gdrtune-aarch64      for --agent-dir FOLDER
#   gdrtune-VERSION-TARGET.tar.gz        the executable as `gdrtune`, with README.md, the manual (docs/) and LICENSE
#   SHA256SUMS
# Needs cargo-zigbuild with zig (`pip install ziglang cargo-zigbuild`) and Rust's libraries of both targets (`rustup target add
# aarch64-unknown-linux-gnu`). All builds are of one source, so they work with each other.
#
# GLIBC=2.17      the oldest glibc to run on; older than 2.17 Rust does not go
# TARGETS="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu"
set -euo pipefail
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
cd "$(dirname "$(readlink -f "$0")")"
glibc=${GLIBC:-2.17}
read -ra targets <<< "${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}"
built=${CARGO_TARGET_DIR:-target}/dist
version=$(sed -nE '/^\[workspace.package\]/,/^\[/s/^version = "(.*)"/\1/p' Cargo.toml)

command -v cargo-zigbuild >/dev/null || { echo "dist.sh: cargo-zigbuild is missing: pip install ziglang cargo-zigbuild" >&2; exit 2; }
for target in "${targets[@]}"; do
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] ||
    { echo "dist.sh: Rust's library for $target is missing: rustup target add $target" >&2; exit 2; }
done

# The newest glibc symbols that an ELF file wants; nothing beyond the oldest glibc may be among them.
check_glibc() { # FILE
  local newest
  newest=$(readelf --version-info "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
  newest=${newest#GLIBC_}
  [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -1)" = "$glibc" ] ||
    { echo "dist.sh: $1 wants glibc $newest, which is newer than $glibc" >&2; exit 1; }
}

for target in "${targets[@]}"; do
  echo "== $target, glibc $glibc" >&2
  cargo zigbuild --release --locked -p gdrtune --target "$target.$glibc" --target-dir "$built"
  built_file=$built/$target/release/gdrtune
  check_glibc "$built_file"
  # What the executable carries along: the tuner plugin, newest first.
  mapfile -t plugins < <(ls -t "$built/$target"/release/build/gdrtune-*/out/libnccl-tuner-gdrtune.so)
  check_glibc "${plugins[0]}"
  install -m 755 "$built_file" "$out/gdrtune-${target%%-*}"
  folder=gdrtune-$version-$target
  staging=$(mktemp -d)
  mkdir "$staging/$folder"
  install -m 755 "$built_file" "$staging/$folder/gdrtune"
  install -m 644 README.md LICENSE "$staging/$folder/"
  mkdir "$staging/$folder/docs"
  install -m 644 docs/*.md "$staging/$folder/docs/"
  tar -C "$staging" --owner=0 --group=0 --numeric-owner -czf "$out/$folder.tar.gz" "$folder"
  rm -rf "$staging"
done
(cd "$out" && sha256sum gdrtune-* > SHA256SUMS && cat SHA256SUMS)
