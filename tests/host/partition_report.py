#!/usr/bin/env python3
"""How quick the server is while its jobs burn all CPU: p50 and p99 of GET /healthz and POST /v1/jobs.

Usage: partition_report.py PROGRAM [--children 50] [--seconds 20]

Three servers, one after the other: without jobs, with the children fenced in as they are by default, and
with --strict-webjobs, where they are not. Not a test: figures depend on the machine. Those of
docs/reference/performance.md are from here.
"""
import argparse
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

options = argparse.ArgumentParser()
options.add_argument("program")
options.add_argument("--children", type=int, default=50)
options.add_argument("--seconds", type=float, default=20)
options = options.parse_args()


def percentile(samples, part):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * part))] * 1000


def measure(name, children, flags):
    work = tempfile.mkdtemp(prefix="partition-report-")
    jobs = os.path.join(work, "jobs")
    os.makedirs(os.path.join(jobs, "triggered"))
    with open(os.path.join(jobs, "host.json"), "w") as file:
        json.dump({"pools": {"default": {"concurrency": max(children, 1)}}}, file)
    for i in range(children):
        folder = os.path.join(jobs, "triggered", f"burner-{i}")
        os.mkdir(folder)
        with open(os.path.join(folder, "run.sh"), "w") as file:
            file.write("#!/bin/bash\necho burning\nwhile :; do :; done\n")
        os.chmod(os.path.join(folder, "run.sh"), 0o755)
        with open(os.path.join(folder, "settings.job"), "w") as file:
            file.write('{"stopping_wait_time": 0}')
    server = subprocess.Popen(
        [options.program, "serve", "--data", os.path.join(work, "data"), "--jobs", jobs, "--listen", "127.0.0.1:0",
         "--jobs-user", "none" if os.geteuid() else "root", "--json", "--log-level", "error", *flags], stdout=subprocess.PIPE, text=True)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def ask(method, path, body=None):
            begin = time.perf_counter()
            client.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = client.getresponse()
            text = answer.read()
            return time.perf_counter() - begin, answer.status, text

        for i in range(children):
            while ask("POST", f"/v1/host/jobs/triggered/burner-{i}/run")[1] == 404:
                time.sleep(0.05)
        while json.loads(ask("GET", "/v1/host")[2])["running"] < children:
            time.sleep(0.2)
        health, enqueue = [], []
        end = time.perf_counter() + options.seconds
        while time.perf_counter() < end:
            health.append(ask("GET", "/healthz")[0])
            enqueue.append(ask("POST", "/v1/jobs", '{"queue":"q","kind":"k"}')[0])
            time.sleep(0.02)
        print(f"{name:28} {len(health):6} each   healthz p50 {percentile(health, .5):7.2f} p99 {percentile(health, .99):7.2f} ms"
              f"   enqueue p50 {percentile(enqueue, .5):7.2f} p99 {percentile(enqueue, .99):7.2f} ms", flush=True)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(work)


measure("no children", 0, [])
measure(f"{options.children} children", options.children, [])
measure(f"{options.children} children, not fenced", options.children, ["--strict-webjobs"])
