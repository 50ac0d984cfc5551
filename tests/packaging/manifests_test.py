#!/usr/bin/env python3
"""Packages, Kubernetes manifests and compose.yaml agree with the program. Usage: manifests_test.py PROGRAM

Read as text: nothing here needs a cluster or a parser of YAML. With kubectl, kustomize builds the manifests too.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROGRAM = os.path.abspath(sys.argv[1])
failures = []


def check(good, what):
    print(("ok: " if good else "FAILED: ") + what)
    if not good:
        failures.append(what)


def output(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout


def flags_of(command):
    return set(re.findall(r"--[a-z][a-z0-9-]*", output(PROGRAM, "help", command)))


version = re.search(r"project\(mainspring VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
changelog = (PACKAGING / "debian/changelog").read_text()
check(changelog.startswith(f"mainspring ({version})"), f"the Debian packages have version {version}")
for place, text in {
    "clients/python/pyproject.toml": f'version = "{version}"',
    "clients/python/src/mainspring/__init__.py": f'__version__ = "{version}"',
    "clients/typescript/package.json": f'"version": "{version}"',
    "README.md": f"mainspring_{version}_amd64.deb",
}.items():
    check(text in (ROOT / place).read_text(), f"{place} has version {version}")
settings = set(re.findall(r"^\| `(\w+)` \|", output(PROGRAM, "config", "--reference"), re.M))
known = {command: flags_of(command) for command in ("serve", "work", "host", "health")}

manifests = sorted((PACKAGING / "kubernetes").rglob("*.yaml"))
places = manifests + [PACKAGING / "container/compose.yaml"]
for place in places:
    text, name = place.read_text(), str(place.relative_to(PACKAGING))
    for line in re.findall(r"^\s*(?:args|command): \[(.*)\]", text, re.M):
        words = [word.strip().strip('"') for word in line.split(",")]
        if words[0] not in known:
            continue
        for word in words:
            if word.startswith("--"):
                check(word in known[words[0]], f"{name}: `mainspring {words[0]}` has {word}")
    for tag in re.findall(r"image: mainspring:(\d[\w.]*)|name: mainspring, newTag: ([\w.]+)", text):
        check("".join(tag) == version, f"{name}: the image has version {version}")
    for variable in re.findall(r"\bMAINSPRING_(\w+):", text):
        check(variable.lower() in settings, f"{name}: {variable.lower()} is a setting")
    if re.search(r"^kind: (Deployment|StatefulSet)", text, re.M):
        for rule in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]", "allowPrivilegeEscalation: false", "automountServiceAccountToken: false", "seccompProfile"):
            check(rule in text, f"{name}: {rule}")
keda = (PACKAGING / "kubernetes/scaling/keda.yaml").read_text()
url = re.search(r'url: "https://mainspring:8443(/v1/scale\?[^"]*)"', keda)[1]
reference = (ROOT / "docs/reference/http.md").read_text()
known_parameters = set(re.search(r"### `GET /v1/scale\?([^`]*)`", reference)[1].replace("=", "").split("&"))
given = {part.split("=")[0] for part in url.split("?")[1].split("&")}
check(given <= known_parameters, f"keda.yaml: GET /v1/scale takes {sorted(given)}")
check("valueLocation: value\n" in keda and '"value":14,' in reference, "keda.yaml: the answer has the value")
gauges = set(re.findall(r"^\| `(mainspring_scale_\w+)` \| gauge \| pool \|", (ROOT / "docs/reference/metrics.md").read_text(), re.M))
named = set(re.findall(r"mainspring_scale_\w+", (PACKAGING / "kubernetes/scaling/hpa.yaml").read_text()))
check(named and named <= gauges, f"hpa.yaml: {sorted(named)} are gauges of a pool")
rules = (PACKAGING / "systemd/50-mainspring-scale.rules").read_text()
check("mainspring-worker@[0-9]+" in rules and 'verb == "start" || verb == "stop"' in rules, "the polkit rule allows only start and stop of numbered workers")
compose = (PACKAGING / "container/compose.yaml").read_text()
for rule in ('user: "${RUN_AS_UID:-65532}:${RUN_AS_GID:-65532}"', "read_only: true", "cap_drop: [ALL]", "security_opt: [no-new-privileges:true]"):
    check(rule in compose, f"compose.yaml: {rule}")
check(compose.count("<<: *secure") == 2, "compose.yaml: server and workers have the settings of x-secure")
check(re.findall(r"stop_grace_period: (\w+)", compose) == ["60s", "60s"], "compose.yaml: a stop may take longer than stop_timeout and graceful_stop")
check(set(re.findall(r"/credentials/(\w+)", compose)) == {"store_file", "tls_cert", "tls_key", "first_token_file", "ca_file", "token_file"}, "compose.yaml names each secret")
postgresql = (PACKAGING / "kubernetes/postgresql/deployment.yaml").read_text()
check("MAINSPRING_STORE_FILE, value: /credentials/store_file" in postgresql, "kubernetes/postgresql: no server starts without store_file")
for file in re.findall(r"--from-file=(\w+)=", "".join(place.read_text() for place in manifests)):
    check(file in settings or file == "token", f"the secret's file {file} is a setting")
for file in re.findall(r"secrets/(?:server|worker)/(\w+)", (PACKAGING / "container/setup.sh").read_text()):
    check(file in settings, f"setup.sh: {file} is a setting")

with tempfile.TemporaryDirectory(prefix="mainspring-compose.") as name:
    place = pathlib.Path(name)
    shutil.copy(PACKAGING / "container/setup.sh", place)
    made = [subprocess.run([place / "setup.sh", PROGRAM], capture_output=True, text=True) for _ in range(2)]
    check([one.returncode for one in made] == [0, 0], "setup.sh makes the secrets, and a second run changes nothing " + made[0].stderr + made[1].stderr)
    server = place / "secrets/server"
    check({file.name for file in server.iterdir()} == {"tls_cert", "tls_key", "ca_file", "store_file", "first_token_file"}, "setup.sh makes what the server needs")
    check({file.name for file in (place / "secrets/worker").iterdir()} == {"ca_file", "token_file"}, "setup.sh makes what a worker needs")
    others = [str(file.relative_to(place)) for file in place.rglob("secrets/**/*") if file.stat().st_mode & 0o077]
    check(others == ["secrets/tls/ca.pem", "secrets/tls/server.pem"] or not others, f"other users can read no secret: {others}")
    # The server of compose.yaml, with a directory in place of PostgreSQL.
    (server / "store_file").unlink()
    environment = dict(os.environ, CREDENTIALS_DIRECTORY=str(server))
    process = subprocess.Popen([PROGRAM, "serve", "--json", "--listen", "0.0.0.0:0", "--data", str(place / "data"), "--restart-allowance", "0s"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        started = process.stdout.readline()
        check(started.startswith("{"), "a server starts with the secrets of setup.sh")
        port = re.search(r":(\d+)\"", started)[1]
        client = dict(os.environ, CREDENTIALS_DIRECTORY=str(place / "secrets/worker"), MAINSPRING_SERVER=f"https://localhost:{port}")
        done = subprocess.run([PROGRAM, "enqueue", "hello", "greet"], env=client, capture_output=True, text=True)
        check(done.returncode == 0, "a worker's secrets are good for the server " + done.stderr)
    finally:
        process.terminate()
        process.wait(60)

def prometheus_rule():
    """The rules of packaging/prometheus as an object of the Prometheus operator."""
    rules = (PACKAGING / "prometheus/mainspring.rules.yml").read_text()
    head = "# Made by `manifests_test.py PROGRAM --write` of packaging/prometheus/mainspring.rules.yml.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: mainspring\nspec:\n"
    return head + "".join(f"  {line}\n" if line else "\n" for line in rules[rules.index("groups:"):].splitlines())


rule_file = PACKAGING / "kubernetes/monitoring/prometheusrule.yaml"
if sys.argv[2:] == ["--write"]:
    rule_file.write_text(prometheus_rule())
check(rule_file.exists() and rule_file.read_text() == prometheus_rule(), "prometheusrule.yaml has the rules of packaging/prometheus; see --write")
label = "labels: {app.kubernetes.io/name: mainspring}"
for place in ("directory", "postgresql"):
    kinds = {file.name: file.read_text() for file in (PACKAGING / "kubernetes" / place).glob("*.yaml")}
    services = [text for text in kinds.values() if re.search("^kind: Service$", text, re.M)]
    check(sum(f"\n  {label}" in text for text in services) == 1, f"kubernetes/{place}: the ServiceMonitor finds one Service, so it scrapes each server once")
    check(sum("clusterIP: None" in text for text in services) == 1, f"kubernetes/{place}: one Service is headless")
    workload = kinds.get("statefulset.yaml", kinds.get("deployment.yaml"))
    listened = set(re.findall(r'"0\.0\.0\.0:(\d+)"', workload))
    allowed = set(re.findall(r"\{port: (\d+)\}", kinds["network.yaml"]))
    check(listened and listened == allowed, f"kubernetes/{place}: the NetworkPolicy allows the ports that the server listens on: {sorted(listened)} {sorted(allowed)}")
    named = re.findall(r"serviceName: (\S+)", workload)
    check(all(f"name: {name}\n" in kinds["pods.yaml"] for name in named), f"kubernetes/{place}: the StatefulSet names the headless Service")

packed = [f"docs/{kind}/{page}.md" for kind, pages in re.findall(r"docs/(\w+)/\{([\w,]+)\}\.md", (PACKAGING / "deb.sh").read_text()) for page in pages.split(",")]
named = [line.rpartition("/")[2] for line in (PACKAGING / "debian/mainspring.docs").read_text().split()]
check(sorted(os.path.basename(page) for page in packed) == sorted(named), f"the package has the pages that deb.sh makes: {len(packed)}")
with tempfile.TemporaryDirectory(prefix="mainspring-docs.") as name:
    subprocess.run([sys.executable, PACKAGING / "packaged_docs.py", name, *packed], check=True)
    pages = {file.name: file.read_text() for file in pathlib.Path(name).iterdir()}
    for page, text in pages.items():
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", text):
            heads = {"#" + re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", pages.get(target or page, ""), re.M)}
            good = target in pages or not target or target.startswith("examples/") and (PACKAGING / target[9:]).exists()
            check(good and (not anchor or anchor in heads), f"packaged {page}: {target}{anchor} leads somewhere")
    for url in re.findall(r"runbook_url: file:///usr/share/doc/mainspring/(\S+)#(\S+)", rule_file.read_text()):
        check(url[1] in re.findall(r"^#+ (\S+)$", pages.get(url[0], "").lower(), re.M), f"the package has the runbook {url[0]}#{url[1]}")

for unit in (PACKAGING / "systemd").glob("*.service"):
    for line in re.findall(r"^ExecStart=/usr/bin/mainspring (.*)$", unit.read_text(), re.M):
        command = line.split()[0]
        for flag in re.findall(r"--[a-z-]+", line):
            check(flag in output(PROGRAM, "help", command), f"{unit.name}: `mainspring {command}` has {flag}")
    for credential in re.findall(r"LoadCredential=(\w+):", unit.read_text()):
        check(credential in settings, f"{unit.name}: the credential {credential} is a setting")
config = PACKAGING / "config.toml"
done = subprocess.run([PROGRAM, "config", "--config", str(config)], capture_output=True, text=True)
check(done.returncode == 0, "the settings of the package are valid " + done.stderr)
for name in re.findall(r"^#?(\w+) = ", config.read_text(), re.M):
    check(name in settings, f"config.toml: {name} is a setting")

pages = subprocess.run([sys.executable, PACKAGING / "man_pages.py", pathlib.Path(PROGRAM).parent / "share/mainspring.1", "/dev/null/none"], capture_output=True)
check(pages.returncode != 0, "man pages cannot be written to a place that is none")
with tempfile.TemporaryDirectory(prefix="mainspring-man.") as name:
    subprocess.run([sys.executable, PACKAGING / "man_pages.py", pathlib.Path(PROGRAM).parent / "share/mainspring.1", name], check=True)
    written = {file.name: file.read_text() for file in pathlib.Path(name).iterdir()}
    check(all("\n.nh\n" in text and "\n.SH SYNOPSIS\n" in text for text in written.values()), "each man page has a synopsis and does not hyphenate")
    check(re.search(r"^\.B mainspring dead list\nList dead jobs", written["mainspring.1"], re.M), "mainspring(1) says what each command does")


def lost(given, kept, path=""):
    """Fields of `given` that `kept` lacks."""
    if isinstance(given, dict):
        missing = [f"{path}.{key}" for key in given if not isinstance(kept, dict) or key not in kept]
        return missing + [one for key in given if key in (kept or {}) for one in lost(given[key], kept[key], f"{path}.{key}")]
    if isinstance(given, list):
        return [one for at, each in enumerate(given) for one in lost(each, kept[at], f"{path}[{at}]")]
    return []


def known_to_kubernetes(manifest):
    """kubectl drops fields that the API does not have when it reads an object with a pod template."""
    given = subprocess.run(["kubectl", "annotate", "--local", "-f", "-", "-o", "json", "a=b"], input=manifest, capture_output=True, text=True)
    kept = subprocess.run(["kubectl", "set", "env", "--local", "-f", "-", "-o", "json", "A=B"], input=manifest, capture_output=True, text=True)
    return lost(json.loads(given.stdout)["spec"], json.loads(kept.stdout)["spec"])


if shutil.which("kubectl"):
    for place in ("directory", "postgresql", "workers", "monitoring"):
        done = subprocess.run(["kubectl", "kustomize", PACKAGING / "kubernetes" / place], capture_output=True, text=True)
        check(done.returncode == 0, f"kustomize builds kubernetes/{place} {done.stderr}")
        for manifest in done.stdout.split("\n---\n"):
            if "kind: StatefulSet" in manifest or "kind: Deployment" in manifest:
                check(known_to_kubernetes(manifest) == [], f"kubernetes/{place}: Kubernetes knows each field of the pod: {known_to_kubernetes(manifest)}")
                wrong = manifest.replace("readOnlyRootFilesystem", "readOnlyRoot")
                check(len(known_to_kubernetes(wrong)) == 1, f"kubernetes/{place}: an unknown field is detected")
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
