#!/usr/bin/env python3
"""Writes mainspring.json, the Grafana dashboard, beside this file. Usage: dashboard.py [--print]"""
import json
import pathlib
import sys

SERVER = 'job=~"$job", instance=~"$instance"'
QUEUE = SERVER + ', queue=~"$queue"'


def target(expr, legend):
    return {"expr": expr, "legendFormat": legend}


# Row, then panels: title, unit, explanation, and (query, legend) pairs. "stat" before the title makes it one figure.
ROWS = [
    ("Overview", [
        ("stat", "Servers up", "short", "Servers that answer the scrape.", [(f"sum(up{{{SERVER}}})", "")]),
        ("stat", "Leader", "short", "Servers that run schedules, retries and rescues: must be 1 for each store.", [(f"sum(mainspring_leader{{{SERVER}}})", "")]),
        ("stat", "Waiting", "short", "Jobs that are due and have no worker.", [(f'sum(max by (job, queue) (mainspring_queue_jobs{{{SERVER}, state="available"}}))', "")]),
        ("stat", "Running", "short", "Jobs that workers have.", [(f'sum(max by (job, queue) (mainspring_queue_jobs{{{SERVER}, state="running"}}))', "")]),
        ("stat", "Dead", "short", "Jobs in the dead letter.", [(f'sum(max by (job, queue) (mainspring_queue_jobs{{{SERVER}, state="dead"}}))', "")]),
        ("stat", "Oldest due job", "s", "How long the oldest due job of any queue has waited.", [(f"max(mainspring_queue_oldest_available_seconds{{{SERVER}}})", "")]),
    ]),
    ("Jobs", [
        ("Throughput", "ops", "Jobs enqueued and claimed, and attempts ended, per second.", [
            (f"sum(rate(mainspring_jobs_enqueued_total{{{SERVER}}}[$__rate_interval]))", "enqueued"),
            (f"sum(rate(mainspring_jobs_claimed_total{{{SERVER}}}[$__rate_interval]))", "claimed"),
            (f"sum(rate(mainspring_attempts_total{{{SERVER}}}[$__rate_interval]))", "ended"),
        ]),
        ("Attempts by outcome", "ops", "Finished attempts by outcome.", [(f"sum by (outcome) (rate(mainspring_attempts_total{{{QUEUE}}}[$__rate_interval]))", "{{outcome}}")]),
        ("Jobs by state", "short", "Jobs kept, by state.", [(f"sum by (state) (max by (job, queue, state) (mainspring_queue_jobs{{{QUEUE}}}))", "{{state}}")]),
        ("Lost workers", "ops", "Jobs whose lease expired, jobs that expired before they started, and standstills of the server.", [
            (f"sum(rate(mainspring_jobs_rescued_total{{{SERVER}}}[$__rate_interval]))", "rescued"),
            (f"sum(rate(mainspring_jobs_expired_total{{{SERVER}}}[$__rate_interval]))", "expired"),
            (f"sum(rate(mainspring_standstills_total{{{SERVER}}}[$__rate_interval]))", "standstills"),
        ]),
    ]),
    ("Queues", [
        ("Waiting jobs by queue", "short", "Jobs that are due and have no worker.", [(f'max by (queue) (mainspring_queue_jobs{{{QUEUE}, state="available"}})', "{{queue}}")]),
        ("Oldest due job by queue", "s", "How long the oldest due job has waited.", [(f"max by (queue) (mainspring_queue_oldest_available_seconds{{{QUEUE}}})", "{{queue}}")]),
        ("Wait of jobs (p95)", "s", "From the time a job is due to its claim.", [(f"histogram_quantile(0.95, sum by (queue, le) (rate(mainspring_job_wait_seconds_bucket{{{QUEUE}}}[$__rate_interval])))", "{{queue}}")]),
        ("Time to drain", "s", "How long the queue needs at the present rates.", [(f"max by (queue) (mainspring_queue_drain_seconds{{{QUEUE}}})", "{{queue}}")]),
        ("Use of limits", "percentunit", "Slots taken, of queues with a limit of concurrency.", [(f"max by (queue) (mainspring_queue_limit_use_ratio{{{QUEUE}}})", "{{queue}}")]),
        ("Failing attempts by queue", "percentunit", "Share of attempts that are retried or dead.", [
            (f'sum by (queue) (rate(mainspring_attempts_total{{{QUEUE}, outcome=~"retry|dead"}}[$__rate_interval])) / (sum by (queue) (rate(mainspring_attempts_total{{{QUEUE}}}[$__rate_interval])) > 0)', "{{queue}}")]),
        ("Duration of attempts (p95)", "s", "From the claim to the outcome.", [(f"histogram_quantile(0.95, sum by (queue, le) (rate(mainspring_attempt_seconds_bucket{{{QUEUE}}}[$__rate_interval])))", "{{queue}}")]),
        ("Dead jobs by queue", "short", "Jobs in the dead letter.", [(f'max by (queue) (mainspring_queue_jobs{{{QUEUE}, state="dead"}})', "{{queue}}")]),
        ("Quarantine and breakers", "short", "Jobs in quarantine, and breakers: 0 closed, 1 half open, 2 open.", [
            (f"max by (queue) (mainspring_queue_quarantined{{{QUEUE}}}) > 0", "quarantine {{queue}}"),
            (f"max by (breaker) (mainspring_breaker_state{{{SERVER}}})", "breaker {{breaker}}"),
        ]),
    ]),
    ("Store and scheduler", [
        ("Commit time", "s", "From taking a batch to its durable commit.", [
            (f"histogram_quantile(0.5, sum by (le) (rate(mainspring_commit_seconds_bucket{{{SERVER}}}[$__rate_interval])))", "p50"),
            (f"histogram_quantile(0.99, sum by (le) (rate(mainspring_commit_seconds_bucket{{{SERVER}}}[$__rate_interval])))", "p99"),
        ]),
        ("Operations per commit", "short", "How many operations share a commit.", [(f"sum(rate(mainspring_commit_operations_sum{{{SERVER}}}[$__rate_interval])) / sum(rate(mainspring_commit_operations_count{{{SERVER}}}[$__rate_interval]))", "mean")]),
        ("Schedules", "ops", "Ticks that fired and ticks that were skipped.", [
            (f"sum(rate(mainspring_ticks_fired_total{{{SERVER}}}[$__rate_interval]))", "fired"),
            (f"sum(rate(mainspring_ticks_skipped_total{{{SERVER}}}[$__rate_interval]))", "skipped"),
        ]),
        ("Lateness of schedules (p99)", "s", "From the time of a tick to its firing.", [(f"histogram_quantile(0.99, sum by (le) (rate(mainspring_tick_lateness_seconds_bucket{{{SERVER}}}[$__rate_interval])))", "p99")]),
    ]),
    ("HTTP", [
        ("Requests by status", "reqps", "Requests per second.", [(f"sum by (status) (rate(mainspring_http_requests_total{{{SERVER}}}[$__rate_interval]))", "{{status}}")]),
        ("Time of requests (p99)", "s", "From the head of a request to its reply. Waiting claims are left out.", [(f"histogram_quantile(0.99, sum by (route, le) (rate(mainspring_http_request_seconds_bucket{{{SERVER}}}[$__rate_interval])))", "{{route}}")]),
        ("Connections", "short", "Open connections, waiting claims and event streams.", [
            (f"sum(mainspring_http_connections{{{SERVER}}})", "connections"),
            (f"sum(mainspring_parked_claims{{{SERVER}}})", "waiting claims"),
            (f"sum(mainspring_event_streams{{{SERVER}}})", "event streams"),
        ]),
        ("Refused", "reqps", "Requests without a valid token, over a rate, and refused connections.", [
            (f"sum(rate(mainspring_http_unauthenticated_total{{{SERVER}}}[$__rate_interval]))", "unauthenticated"),
            (f"sum(rate(mainspring_http_throttled_total{{{SERVER}}}[$__rate_interval]))", "throttled"),
            (f"sum(rate(mainspring_http_refused_connections_total{{{SERVER}}}[$__rate_interval]))", "connections"),
        ]),
    ]),
    ("Process and workers", [
        ("CPU", "percentunit", "Cores that the server uses.", [(f"sum by (instance) (rate(process_cpu_seconds_total{{{SERVER}}}[$__rate_interval]))", "{{instance}}")]),
        ("Memory", "bytes", "Resident memory of the server.", [(f"max by (instance) (process_resident_memory_bytes{{{SERVER}}})", "{{instance}}")]),
        ("File descriptors", "percentunit", "Open, of those allowed.", [(f"process_open_fds{{{SERVER}}} / process_max_fds{{{SERVER}}}", "{{instance}}")]),
        ("Workers by version", "short", "Workers that are connected.", [(f"sum by (language, version) (mainspring_workers{{{SERVER}}})", "{{language}} {{version}}")]),
        ("Servers by version", "short", "A mixture is an upgrade under way.", [(f"count by (version) (mainspring_build_info{{{SERVER}}})", "{{version}}")]),
    ]),
    ("Around it", [
        ("Callbacks by outcome", "ops", "Requests to callback addresses.", [(f"sum by (outcome) (rate(mainspring_callbacks_total{{{SERVER}}}[$__rate_interval]))", "{{outcome}}")]),
        ("Certificate expires in", "s", "Negative when it has expired.", [(f"min by (instance) (mainspring_tls_certificate_expiry_seconds{{{SERVER}}})", "{{instance}}")]),
        ("Runs of job folders", "ops", "By status.", [(f"sum by (status) (rate(mainspring_host_runs_total{{{SERVER}}}[$__rate_interval]))", "{{status}}")]),
        ("Oldest transaction (PostgreSQL)", "s", "It keeps the database from removing dead rows.", [(f"max(mainspring_store_oldest_snapshot_seconds{{{SERVER}}})", "age")]),
    ]),
]


def variable(name, query, label):
    return {
        "name": name, "label": label, "type": "query", "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": {"query": query, "refId": name}, "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"}, "sort": 1,
    }


def dashboard():
    panels, y = [], 0
    for row, items in ROWS:
        panels.append({"type": "row", "title": row, "id": len(panels) + 1, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        stats = items[0][0] == "stat"
        per_row, height = (6, 4) if stats else (2, 8)
        width = 24 // per_row
        for i, item in enumerate(items):
            title, unit, explanation, targets = item[1:] if stats else item
            panels.append({
                "type": "stat" if stats else "timeseries", "title": title, "description": explanation, "id": len(panels) + 1,
                "datasource": {"type": "prometheus", "uid": "$datasource"},
                "gridPos": {"x": i % per_row * width, "y": y + i // per_row * height, "w": width, "h": height},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0 if unit != "s" else None}, "overrides": []},
                "targets": [dict(target(expr, legend), refId=chr(ord("A") + k), datasource={"type": "prometheus", "uid": "$datasource"}) for k, (expr, legend) in enumerate(targets)],
            })
        y += (len(items) + per_row - 1) // per_row * height
    return {
        "title": "Mainspring", "uid": "mainspring", "tags": ["mainspring"], "schemaVersion": 37, "version": 1, "editable": True,
        "time": {"from": "now-3h", "to": "now"}, "refresh": "30s", "timezone": "",
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
            variable("job", "label_values(mainspring_leader, job)", "Job"),
            variable("instance", 'label_values(mainspring_leader{job=~"$job"}, instance)', "Server"),
            variable("queue", 'label_values(mainspring_queue_jobs{job=~"$job"}, queue)', "Queue"),
        ]},
        "annotations": {"list": [{"name": "Alerts", "datasource": {"type": "prometheus", "uid": "$datasource"}, "enable": True, "iconColor": "red", "expr": 'ALERTS{alertname=~"Mainspring.*", alertstate="firing"}', "titleFormat": "{{alertname}}", "textFormat": "{{queue}} {{instance}}"}]},
        "panels": panels,
    }


text = json.dumps(dashboard(), indent=1) + "\n"
if sys.argv[1:] == ["--print"]:
    sys.stdout.write(text)
else:
    (pathlib.Path(__file__).parent / "mainspring.json").write_text(text)
