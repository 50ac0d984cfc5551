#!/usr/bin/env python3
"""Parts of `./package release`. See packaging/release.sh.

  release.py image LAYOUT VERSION TAR EPOCH    a tar for `docker load` and `podman load`
  release.py sdist ARCHIVE EPOCH               pack a .tar.gz again, with fixed times and owners
  release.py notes CHANGELOG VERSION           print a version's part of the changelog
  release.py provenance DIR COMMIT VERSION     print an in-toto statement about the files of DIR
"""

import gzip
import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile

SOURCE = "https://users.noreply.a-seed-a85ea3db.example/mainspring"


def add(tar, name, data, epoch, mode=0o644):
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), epoch, mode
    tar.addfile(member, io.BytesIO(data))


def dump(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def image(layout, version, archive, epoch):
    """An OCI layout with Docker's manifest.json beside it, as `docker save` writes it."""
    layout = pathlib.Path(layout)
    index = json.loads((layout / "index.json").read_text())
    [entry] = index["manifests"]
    blob = lambda digest: "blobs/" + digest.replace(":", "/")
    manifest = json.loads((layout / blob(entry["digest"])).read_text())
    entry["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/mainspring:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    layers = [blob(layer["digest"]) for layer in manifest["layers"]]
    docker = [
        {
            "Config": blob(manifest["config"]["digest"]),
            "RepoTags": [f"mainspring:{version}"],
            "Layers": layers,
        }
    ]
    wanted = sorted({blob(entry["digest"]), docker[0]["Config"], *layers})
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', int(epoch))
        add(tar, "index.json", dump(index), int(epoch))
        add(tar, "manifest.json", dump(docker), int(epoch))
        for name in wanted:
            add(tar, name, (layout / name).read_bytes(), int(epoch))


def sdist(archive, epoch):
    with tarfile.open(archive) as old:
        members = [(one, old.extractfile(one).read()) for one in old if one.isfile()]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in sorted(members, key=lambda pair: pair[0].name):
            add(tar, member.name, data, int(epoch), 0o755 if member.mode & 0o100 else 0o644)
    with open(archive, "wb") as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=int(epoch)) as out:
            out.write(packed.getvalue())


def notes(changelog, version):
    text = pathlib.Path(changelog).read_text()
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        sys.exit(f"release: {changelog} has no part for {version}")
    # A reader of the notes does not have the repository's files.
    # Lines that no version has yet are in the files all the same.
    later = re.search(r"^## \[Unreleased\].*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    body = found[1]
    if later and later[1].strip():
        print(f"release: lines of {changelog} below [Unreleased] come first", file=sys.stderr)
        body = f"## After {version}\n{later[1]}\n## {version}\n{body}"
    body = re.sub(r"\]\((?!https?:)([^)]+)\)", rf"]({SOURCE}/blob/v{version}/\1)", body)
    print(f"# Mainspring {version}\n\n{body.strip()}\n\nCheck the files: `sha256sum -c SHA256SUMS`.")


def provenance(directory, commit, version):
    subjects = [
        {"name": one.name, "digest": {"sha256": hashlib.sha256(one.read_bytes()).hexdigest()}}
        for one in sorted(pathlib.Path(directory).iterdir())
    ]
    definition = {
        "buildType": f"{SOURCE}/blob/main/package#release",
        "externalParameters": {"command": "./package release", "version": version},
        "resolvedDependencies": [
            {"uri": f"git+{SOURCE}.git", "digest": {"gitCommit": commit}},
        ],
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": definition,
            "runDetails": {"builder": {"id": f"{SOURCE}/blob/main/packaging/release.sh"}},
        },
    }
    print(json.dumps(statement, indent=2))


if __name__ == "__main__":
    command = {"image": image, "sdist": sdist, "notes": notes, "provenance": provenance}
    command[sys.argv[1]](*sys.argv[2:])
