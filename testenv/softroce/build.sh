#!/bin/bash
# build.sh make     makes the guest's kernel and initrd, once; does nothing when they are there and newer than these scripts
# build.sh remake   makes them anew
# Debian's linux-image-amd64 is downloaded and unpacked, not installed (on bookworm that of its backports: rdma_rxe of
# Linux 6.1 locks up when a link is cut or busy queue pairs go away); the initrd holds busybox, the modules and this
# machine's bash, ip, tc, rdma and libibverbs (and perftest where it is there) with their shared objects.
#
# TE_SOFTROCE_DIR   where they go (softroce in TESTENV_DIR): about 500 MB, a directory that CI can keep
# TE_EXTRA_BINS     further commands of this machine for the initrd, by name
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$HERE/../lib.sh"
[ $# = 1 ] || usage
PATH=$PATH:/usr/sbin:/sbin
need_cmd softroce qemu-system-x86_64 busybox cpio xz depmod modprobe ip tc rdma
te_init
W=${TE_SOFTROCE_DIR:-$TE_DIR/softroce}
case $1 in
  make) [ "$HERE/build.sh" -nt "$W/initrd.gz" ] || [ "$HERE/guest-init" -nt "$W/initrd.gz" ] || [ ! -e "$W/vmlinuz" ] || exit 0 ;;
  remake) ;;
  *) usage ;;
esac
mkdir -p "$W"
cd "$W"
rm -f vmlinuz initrd.gz
APT=()
# shellcheck source=/dev/null
if [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ]; then
  # Its lists are kept apart from this machine's.
  mkdir -p apt/lists/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main" > apt/sources.list
  APT=(-o "Dir::Etc::sourcelist=$W/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$W/apt/lists"
       -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
fi
kernel() { apt-cache "${APT[@]}" depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ {print $2; exit}' || true; }
K=$(kernel)
if [ -z "$K" ]; then apt-get "${APT[@]}" update -qq; K=$(kernel); fi
[ -n "$K" ] || die "no linux-image-amd64 in the package lists"
V=${K#linux-image-}
if [ ! -d "k/lib/modules/$V" ]; then
  rm -rf k dl; mkdir dl
  (cd dl && { apt-get "${APT[@]}" download -qq "$K" || { apt-get "${APT[@]}" update -qq && apt-get "${APT[@]}" download -qq "$K"; }; })
  dpkg-deb -x dl/*.deb k
  rm -rf dl
fi
depmod -b k "$V"

R=$W/root L=/usr/lib/x86_64-linux-gnu
rm -rf "$R"
mkdir -p "$R"/{bin,sbin,proc,sys,dev,tmp,run,etc/libibverbs.d,root,share,testenv,usr/bin,usr/sbin,lib64,"lib/modules/$V"} "$R$L/libibverbs"
cp "$(command -v busybox)" "$R/bin/busybox"
ln -s /bin/busybox "$R/sbin/modprobe"
echo 'root:x:0:0:root:/root:/bin/bash' > "$R/etc/passwd"
# crc32_generic: without it `rdma link add` fails with ENOENT
for m in virtio_pci virtio_net virtio_rng 9p 9pnet_virtio veth rdma_rxe \
         ib_uverbs sch_tbf sch_netem crc32_generic crc32_pclmul; do
  modprobe -d "$W/k" -S "$V" --show-depends "$m" 2>/dev/null | awk '/^insmod/ {print $2}'
done | sort -u | while read -r f; do
  mkdir -p "$R/$(dirname "${f#"$W/k/"}")"
  cp "$f" "$R/${f#"$W/k/"}"
  case $f in *.xz) xz -d "$R/${f#"$W/k/"}" ;; esac # busybox's modprobe takes them plain
done
cp "k/lib/modules/$V"/modules.{order,builtin,builtin.modinfo} "$R/lib/modules/$V/"
depmod -b "$R" "$V"
bins=()
# shellcheck disable=SC2086
for b in bash ip tc rdma ibv_devinfo ib_write_bw ib_write_lat ${TE_EXTRA_BINS:-}; do
  if p=$(command -v "$b"); then cp -L "$p" "$R/usr/bin/"; bins+=("$p"); fi
done
cp -L /etc/libibverbs.d/rxe.driver "$R/etc/libibverbs.d/" # only this driver: each other one warns on every run
cp -L "$L"/libibverbs/librxe-rdmav*.so "$R$L/libibverbs/"
for so in libgcc_s.so.1 libm.so.6 librt.so.1 libdl.so.2 libpthread.so.0; do cp -L "/lib/x86_64-linux-gnu/$so" "$R$L/"; done
cp -L "$L/libibverbs.so.1" "$R$L/"
{ for f in "${bins[@]}" "$L"/libibverbs/librxe-rdmav*.so "$L/libibverbs.so.1"; do ldd "$f" 2>/dev/null || true; done; } |
  grep -oE '/[^ ]+' | sort -u | while read -r so; do mkdir -p "$R$(dirname "$so")"; cp -L "$so" "$R$so"; done
cp "$HERE/guest-init" "$R/init"
chmod 755 "$R/init"
(cd "$R" && find . | cpio -o -H newc --quiet | gzip -1) > initrd.tmp
rm -rf "$R"
cp "k/boot/vmlinuz-$V" vmlinuz
mv initrd.tmp initrd.gz
echo "$K: $(stat -c '%n %s bytes' vmlinuz initrd.gz | paste -sd' ')"
