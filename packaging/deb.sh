#!/bin/bash
# Makes the Debian packages of a build tree: mainspring, mainspring-dbgsym, mainspring-jobs and libmainspring-dev.
# Usage: packaging/deb.sh BUILD OUTPUT. The same tree gives the same bytes. Needs debhelper; compiles nothing.
set -euo pipefail
build=$(readlink -f "$1")
mkdir -p "$2"
output=$(readlink -f "$2")
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
need_build "$build"

work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022
# debhelper puts packages beside the directory in which it runs.
source=$work/source
mkdir "$source"
cp -r packaging/debian "$source/debian"
root=$source/staged
units=$root/lib/systemd/system
mkdir -p "$root/usr/bin" "$root/usr/lib/mainspring" "$root/etc/mainspring" "$units" "$root/doc" "$root/examples"

# Not stripped: debhelper puts the debug information into mainspring-dbgsym.
install -m 755 "$build/mainspring" "$root/usr/bin/mainspring"
DESTDIR=$root cmake --install "$build" --prefix /usr --component mainspring-dev >/dev/null
# Debian keeps the libraries of each architecture in a directory of its own.
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
library=$root/usr/lib/$multiarch
mkdir -p "$library"
mv "$root"/usr/lib/{libmainspring.a,cmake,pkgconfig} "$library"
sed -i -e '/^get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)$/d' \
  -e 's|^get_filename_component(_IMPORT_PREFIX .*|set(_IMPORT_PREFIX "/usr")|' \
  -e "s|/lib/libmainspring.a|/lib/$multiarch/libmainspring.a|" \
  -e 's|^get_filename_component(PACKAGE_PREFIX_DIR .*|set(PACKAGE_PREFIX_DIR "/usr")|' "$library"/cmake/Mainspring/*.cmake
sed -i -e 's|^prefix=.*|prefix=/usr|' -e "s|^libdir=.*|libdir=\${prefix}/lib/$multiarch|" "$library/pkgconfig/mainspring.pc"
install -m 755 packaging/backup.sh "$root/usr/lib/mainspring/backup"
install -m 640 packaging/config.toml "$root/etc/mainspring/config.toml"
install -m 644 packaging/systemd/*.service packaging/systemd/*.timer "$units"
for kind in sysusers tmpfiles; do
  for package in mainspring mainspring-jobs; do
    install -m 644 "packaging/systemd/$package.$kind" "$source/debian/$package.$kind"
  done
done
python3 packaging/man_pages.py "$build/share/mainspring.1" "$root/usr/share/man/man1"
install -D -m 644 "$build/share/completion/mainspring.bash" "$root/usr/share/bash-completion/completions/mainspring"
install -D -m 644 "$build/share/completion/_mainspring" "$root/usr/share/zsh/vendor-completions/_mainspring"
install -D -m 644 "$build/share/completion/mainspring.fish" "$root/usr/share/fish/vendor_completions.d/mainspring.fish"
python3 packaging/packaged_docs.py "$root/doc" docs/guides/{install,operating,exposing,reverse_proxy,load_balancing,alerts}.md \
  docs/reference/{config,metrics,licences,operations,limits}.md
cp -r packaging/prometheus packaging/grafana packaging/nginx packaging/caddy packaging/haproxy \
  "$root/examples"
install -m 644 packaging/systemd/serve-jobs.conf "$root/examples"
find "$root" -exec touch -h -d "@$(dpkg-parsechangelog -l "$source/debian/changelog" -S Timestamp)" {} +

SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Timestamp)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC DEB_RULES_REQUIRES_ROOT=no DH_VERBOSE=0 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}"
as_root=()
if ((EUID != 0)); then as_root=(fakeroot); fi
(cd "$source" && "${as_root[@]}" debian/rules binary) >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; die "debhelper failed"; }
rm -f "$output"/mainspring*.deb "$output"/libmainspring-dev*.deb
mv "$work"/*.deb "$output"
(cd "$output" && sha256sum -- *.deb)
