#!/bin/bash
# Runs the tests of the Django Tasks backend against a real Django 6, in a newer Debian made for it.
# Usage: tests/python/django_tasks.sh PROGRAM [SUITE [EXTRA]]. Django comes from EXTRA (experimental), all else from SUITE (sid).
# Needs root, mmdebstrap and Debian's mirror. Takes minutes. Exit code 77: one of them is missing, or Django is older than 6.
set -euo pipefail
program=$(readlink -f "$1") suite=${2:-sid} extra=${3:-experimental}
client=$(readlink -f "$(dirname "$(readlink -f "$0")")/../../clients/python")
mirror=${MAINSPRING_DEBIAN_MIRROR:-http://deb.debian.org/debian}
skip() { echo "django_tasks: skipped: $*"; exit 77; }
((EUID == 0)) || skip "must be root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"

work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-django.XXXXXX")
root=$work/root
finish() {
  umount "$root/proc" "$root/client" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# A clock that is ahead of the mirror's must not count: Check-Valid-Until. The packages' signatures are checked.
mmdebstrap --variant=apt --mode=root --format=directory --dpkgopt=force-unsafe-io \
  --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --include=python3,python3-pytest \
  --customize-hook="chroot \"\$1\" apt-get install -y -t $extra python3-django" \
  "$suite" "$root" "deb $mirror $suite main" "deb $mirror $extra main" >"$work/log" 2>&1 ||
  { tail -n 5 "$work/log"; skip "cannot make a Debian $suite with Django"; }

# The program with its own libraries and loader: those of the other Debian differ.
mkdir -p "$root/opt/mainspring" "$root/client"
strip -o "$root/opt/mainspring/program" "$program"
ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do cp -L "$library" "$root/opt/mainspring/"; done
loader=$(basename "$(ldd "$program" | grep -oE '/[^ ]*/ld-linux[^ ]+')")
printf '#!/bin/sh\nexec /opt/mainspring/%s --library-path /opt/mainspring /opt/mainspring/program "$@"\n' "$loader" \
  >"$root/usr/local/bin/mainspring"
chmod 755 "$root/usr/local/bin/mainspring"
mount -t proc proc "$root/proc"
mount --bind -o ro "$client" "$root/client"

inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "$@"; }
inside python3 -c 'import platform, django
print(f"Python {platform.python_version()}, Django {django.__version__}")
raise SystemExit(77 if django.VERSION < (6,) else 0)' || skip "Django is older than 6"
inside python3 -m pytest -q -p no:cacheprovider --rootdir /client /client/tests/test_django_tasks.py \
  /client/tests/test_django_admin.py
