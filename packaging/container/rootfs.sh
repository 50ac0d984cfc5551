#!/bin/bash
# Copies a program and what it needs at run time into an empty directory: the root of an image without shell and package
# manager. Usage: rootfs.sh PROGRAM DIRECTORY. Runs on the Debian that the program was built for.
set -euo pipefail
program=$1 root=$2
mkdir -p "$root"/{usr/bin,usr/lib,usr/share,etc/ssl/certs,etc/mainspring,tmp}
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
mkdir -p "$root/usr/lib64"
install -m 755 "$program" "$root/usr/bin/mainspring"

# Libraries, and the copyright files of their packages.
copy_library() {
  local real package
  real=$(readlink -f "$1")
  install -D -m 755 "$real" "$root$real"
  # By the name that programs ask for: libssl.so.3 is libssl.so.3.0.17.
  [[ ${1##*/} == "${real##*/}" ]] || ln -sf "${real##*/}" "$root${real%/*}/${1##*/}"
  package=$({ dpkg -S "$real" || dpkg -S "${real#/usr}" || dpkg -S "$1"; } 2>/dev/null | sed -n '1s/:.*//p')
  copy_package "$package"
}
copy_package() {
  install -D -m 644 "/usr/share/doc/$1/copyright" "$root/usr/share/doc/$1/copyright"
  # Where scanners of images without a package manager look.
  mkdir -p "$root/var/lib/dpkg/status.d"
  dpkg-query -s "$1" >"$root/var/lib/dpkg/status.d/$1"
}
# The loader's line has no arrow.
while read -r library; do copy_library "$library"; done < <(ldd "$program" | grep -oE '/[^ ]+')
loader=$(ldd "$program" | grep -oE '/lib64/ld-linux[^ ]+' || true)
[[ -z $loader ]] || ln -sf "$(readlink -f "$loader")" "$root/usr/lib64/$(basename "$loader")"
# Names of hosts and users are looked up by libraries that are loaded at run time.
for library in /lib/*-linux-gnu/libnss_{files,dns}.so.2 /lib/*-linux-gnu/libresolv.so.2; do
  [[ ! -e $library ]] || copy_library "$library"
done

# libarchive loads libxml2 for XAR archives, which Mainspring never reads, and libxml2 loads ICU: 31 MB of data, half of
# the image. Instead the image has ICU's data library without data.
if [[ -e /usr/lib/$(uname -m)-linux-gnu/libicudata.so.72 ]]; then
  real=$(readlink -f "/usr/lib/$(uname -m)-linux-gnu/libicudata.so.72")
  printf 'const char icudt72_dat[64] __attribute__((aligned(16))) = {0};\n' |
    gcc -shared -fPIC -nostdlib -Wl,-soname,libicudata.so.72 -Wl,--build-id=none -x c -o "$root$real" -
fi

cp -r --preserve=links /usr/share/zoneinfo "$root/usr/share/zoneinfo"
rm -rf "$root"/usr/share/zoneinfo/{right,posix}
copy_package tzdata
cat /usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
copy_package ca-certificates
printf 'root:x:0:0:root:/:/nonexistent\nmainspring:x:65532:65532:Mainspring:/data:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nmainspring:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
install -m 644 /usr/lib/os-release "$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
mkdir "$root/data"
chmod 1777 "$root/tmp"
if ((EUID == 0)); then chown 65532:65532 "$root/data"; fi
chmod 700 "$root/data"
