#!/bin/bash
# Makes an OCI image of a build tree, without a registry and without a container engine.
# Usage: packaging/container/image.sh BUILD LAYOUT. LAYOUT becomes an OCI layout with the image "mainspring:VERSION":
#   skopeo copy oci:LAYOUT:VERSION docker-daemon:mainspring:VERSION     podman pull oci:LAYOUT:VERSION
# Needs root, mmdebstrap, umoci and binutils, and Debian's mirror. The same inputs give the same image.
set -euo pipefail
build=$(readlink -f "$1")
layout=$(readlink -m "$2")
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
((EUID == 0)) || die "must be root: files of the image belong to root and to user 65532"
version=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version | sed 's/-.*//')
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
strip -o "$work/mainspring" "$build/mainspring"

# A Debian with the libraries of the program, from packages; only what the program loads is copied out of it.
libraries=$(readelf -d "$build/mainspring" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
needed=$(for library in $libraries; do
  path=$(ldd "$build/mainspring" | awk -v name="$library" '$1 == name { print $3 }')
  [[ -z $path ]] || { dpkg -S "$(readlink -f "$path")" || dpkg -S "/usr$path" || dpkg -S "${path#/usr}"; } 2>/dev/null | sed -n '1s/:.*//p'
done | sort -u | paste -sd,)
# shellcheck disable=SC2016
step "Debian with $needed" mmdebstrap --variant=minbase --mode=root --format=directory \
  --include="$needed,tzdata,ca-certificates,gcc,libc6-dev" \
  --customize-hook="copy-in $work/mainspring packaging/container/rootfs.sh /" \
  --customize-hook='chroot "$1" bash /rootfs.sh /mainspring /out' \
  --customize-hook="sync-out /out $work/root" \
  bookworm "$work/debian"
rm -rf "$work/debian"
mkdir -p "$work/root/usr/share/mainspring"
packaging/sbom.sh "$build/mainspring" >"$work/root/usr/share/mainspring/sbom.spdx.json"
chmod 644 "$work/root/usr/share/mainspring/sbom.spdx.json"
find "$work/root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

rm -rf "$layout"
umoci init --layout "$layout"
umoci new --image "$layout:$version"
umoci insert --image "$layout:$version" --history.created "$created" --history.created_by packaging/container/image.sh "$work/root" /
umoci config --image "$layout:$version" --created "$created" --history.created "$created" --history.created_by packaging/container/image.sh \
  --architecture "$(dpkg --print-architecture)" --os linux \
  --config.user 65532:65532 --config.workingdir /data --config.volume /data --config.exposedports 8443/tcp \
  --config.entrypoint /usr/bin/mainspring --config.cmd serve \
  --config.env MAINSPRING_DATA=/data --config.env MAINSPRING_WAIT_FOR_STORE=5m --config.env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
  --config.stopsignal SIGTERM \
  --config.label org.opencontainers.image.title=mainspring --config.label "org.opencontainers.image.version=$version" \
  --config.label 'org.opencontainers.image.description=Durable background jobs' \
  --config.label org.opencontainers.image.base.name=debian:bookworm
umoci gc --layout "$layout"
install -m 644 "$work/root/usr/share/mainspring/sbom.spdx.json" "$layout.spdx.json"
say "$layout:$version: $(du -sm "$layout" | cut -f1) MiB packed, $(du -sm "$work/root" | cut -f1) MiB unpacked"
