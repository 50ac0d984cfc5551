#!/bin/bash
# Writes what is linked into a program, with versions and licences: an SPDX 2.3 document (JSON), or with --licences the
# page docs/reference/licences.md. Usage: packaging/sbom.sh [--licences] PROGRAM
set -euo pipefail
format=spdx
if [[ ${1:-} == --licences ]]; then format=page; shift; fi
program=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")/.."

# Compiled in, so that ldd does not show them.
HEADER_ONLY=(libboost1.81-dev rapidjson-dev libexpected-dev libcli11-dev libtomlplusplus-dev)

# Direct libraries (NEEDED), then those that they need; the package of each.
packages() {
  local direct path name
  direct=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  while read -r name path; do
    [[ -e $path ]] || continue
    how=indirect
    if grep -qxF "$name" <<<"$direct"; then how=direct; fi
    # dpkg knows files by the path that they were installed under, before or after /usr was merged.
    package=$({ dpkg -S "$(readlink -f "$path")" || dpkg -S "${path#/usr}" || dpkg -S "/usr$path"; } 2>/dev/null |
      head -n 1 | cut -d: -f1)
    printf '%s %s\n' "${package:?no package has $path}" "$how"
  done < <(ldd "$program" | sed -n 's/^\t\([^ ]*\) => \([^ ]*\) .*/\1 \2/p')
  printf '%s compiled-in\n' "${HEADER_ONLY[@]}"
}

# The short names of a package's licences: Debian's copyright file says them where it is in the machine-readable format.
licences() {
  local file=/usr/share/doc/$1/copyright names
  names=$(sed -n 's/^License: *\([^ ].*\)/\1/p' "$file" 2>/dev/null | sort -u | paste -sd, - | sed 's/,/, /g')
  printf '%s' "${names:-see $file}"
}

# The libraries in the dashboard's bundle, as "name version licence". esbuild writes the bundle and is not part of it.
bundled() {
  grep -qaF '<title>Mainspring</title>' "$program" || return 0
  python3 - web/package.json web/package-lock.json <<'PY'
import json, sys
wanted = json.load(open(sys.argv[1]))["dependencies"]
locked = json.load(open(sys.argv[2]))["packages"]
for name in sorted(set(wanted) - {"esbuild"}):
    one = locked["node_modules/" + name]
    print(name, one["version"], one["license"])
PY
}

list=$(packages | sort -u | awk '!($1 in how) || $2 == "direct" { how[$1] = $2 } END { for (p in how) print p, how[p] }' | sort)
rows=$(while read -r package how; do
  printf '%s\t%s\t%s\t%s\n' "$package" "$(dpkg-query -W -f '${Version}' "$package" | head -c 80)" "$how" "$(licences "$package")"
done <<<"$list"
bundled | while read -r package version licence; do
  printf '%s\t%s\tdashboard\t%s\n' "$package" "$version" "$licence"
done)

if [[ $format == page ]]; then
  cat <<'PAGE'
# Licences

Mainspring is licensed under the Apache License 2.0: see `LICENSE`.

What the program is linked with, on Debian 12, and the licences that Debian's copyright files name for any part
of each package; at the end the JavaScript libraries in the dashboard, from npm. `packaging/sbom.sh PROGRAM` writes the same as an SPDX document, with versions; this
page is made by `packaging/sbom.sh --licences PROGRAM`.

| Package | How | Licences |
|---|---|---|
PAGE
  awk -F'\t' '{ printf "| `%s` | %s | %s |\n", $1, $3, $4 }' <<<"$rows"
  exit
fi
ROWS=$rows PROGRAM=$program python3 - <<'JSON'
import hashlib, json, os, re, datetime
program = os.environ["PROGRAM"]
digest = hashlib.sha256(open(program, "rb").read()).hexdigest()
epoch = int(os.environ.get("SOURCE_DATE_EPOCH", os.path.getmtime(program)))
identifier = lambda name: "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
packages = [{"SPDXID": "SPDXRef-mainspring", "name": "mainspring", "downloadLocation": "NOASSERTION",
             "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
             "checksums": [{"algorithm": "SHA256", "checksumValue": digest}], "filesAnalyzed": False}]
relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-mainspring")]
for row in os.environ["ROWS"].splitlines():
    name, version, how, licences = row.split("\t")
    packages.append({"SPDXID": identifier(name), "name": name, "versionInfo": version, "filesAnalyzed": False,
                     "downloadLocation": "NOASSERTION", "licenseComments": licences,
                     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                       "referenceLocator": f"{'pkg:npm' if how == 'dashboard' else 'pkg:deb/debian'}/{name}@{version}"}]})
    relation = "STATIC_LINK" if how in ("compiled-in", "dashboard") else "DYNAMIC_LINK" if how == "direct" else "DEPENDS_ON"
    relations.append(("SPDXRef-mainspring", relation, identifier(name)))
created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                  "name": "mainspring", "documentNamespace": f"https://mainspring.invalid/sbom/{digest}",
                  "creationInfo": {"created": created, "creators": ["Tool: packaging/sbom.sh"]},
                  "packages": packages,
                  "relationships": [{"spdxElementId": a, "relationshipType": b, "relatedSpdxElement": c}
                                    for a, b, c in relations]}, indent=1))
JSON
