"""A separate PostgreSQL server for a measurement, and its cost: processor time and log."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
TICKS = os.sysconf("SC_CLK_TCK")

# As docs/guides/postgresql.md recommends for a server of this size; durable, and the same for all.
SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "2GB",
    "max_wal_size": "16GB",
    "min_wal_size": "4GB",
    "checkpoint_timeout": "30min",  # each measurement starts with a checkpoint
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "jit": "off",
    "log_min_messages": "warning",
}


def note(text):
    print(text, file=sys.stderr, flush=True)


class Psql:
    """One open session, so that a query needs no new process."""

    END = "--end-of-answer--"

    def __init__(self, url, as_user):
        self.process = subprocess.Popen(
            as_user + ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self("SET client_min_messages = warning")

    def __call__(self, text):
        self.process.stdin.write(f"{text}\n;\n\\echo {self.END}\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip("\n") == self.END:
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise RuntimeError(f"psql failed at: {text}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


class Server:
    def __init__(self, base="/tmp", statements=False):
        self.user = "postgres" if os.geteuid() == 0 else ""
        self.as_user = ["runuser", "-u", "postgres", "--"] if self.user else []
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mainspring-pgb.", dir=base))
        self.directory.chmod(0o755)
        self.settings = dict(SETTINGS, unix_socket_directories=f"'{self.directory}'")
        self.settings["unix_socket_permissions"] = "0777"
        if statements:
            self.settings["shared_preload_libraries"] = "'pg_stat_statements'"
        self.statements = statements
        self.pid = None
        self._sessions = {}

    def __enter__(self):
        if self.user:
            account = pwd.getpwnam(self.user)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        data = self.directory / "data"
        subprocess.run(
            self.as_user + [BIN / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E",
                            "UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.directory)
        with open(data / "postgresql.conf", "a", encoding="utf-8") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in self.settings.items())
        subprocess.run(
            self.as_user + [BIN / "pg_ctl", "-D", data, "-w", "-l", self.directory / "log",
                            "start"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.directory)
        self.pid = int((data / "postmaster.pid").read_text().split()[0])
        self.sql("CREATE ROLE mainspring LOGIN")
        self.sql("GRANT pg_read_all_stats TO mainspring")
        self.new_database("mainspring")
        return self

    def __exit__(self, *_):
        for session in self._sessions.values():
            session.process.kill()
        try:
            os.kill(self.pid, signal.SIGQUIT)
            for _ in range(300):
                os.kill(self.pid, 0)
                time.sleep(0.1)
        except (ProcessLookupError, TypeError):
            pass
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database="mainspring", user="mainspring"):
        return f"postgres://{user}@/{database}?host={self.directory}"

    def node_url(self, database):
        """For node-postgres, which takes the socket's directory as the host."""
        return f"postgres://mainspring@/{database}?host={self.directory}"

    def session(self, database="mainspring"):
        """A superuser session, owned by the caller."""
        return Psql(self.url(database, "postgres"), self.as_user)

    def sql(self, text, database="postgres"):
        if database not in self._sessions:
            self._sessions[database] = self.session(database)
        return self._sessions[database](text)

    def new_database(self, name):
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql(f"CREATE DATABASE {name} OWNER mainspring")
        if self.statements:
            self.sql("CREATE EXTENSION pg_stat_statements", name)

    def drop_database(self, name):
        session = self._sessions.pop(name, None)
        if session:
            session.close()
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def calm(self):
        """Flush earlier writes to disk, so that no run pays for another run's writes."""
        self.sql("CHECKPOINT")

    # -- cost -------------------------------------------------------------------------------------

    def cpu_seconds(self):
        """Processor time of all its processes so far, including ended ones."""
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = sum(int(n) for n in self._stat(self.pid)[11:15])
        for child in children:
            try:
                ticks += sum(int(n) for n in self._stat(child)[11:13])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return ticks / TICKS

    @staticmethod
    def _stat(pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

    def wal_bytes(self):
        return int(self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"))

    def sample(self):
        return {"cpu": self.cpu_seconds(), "wal": self.wal_bytes()}

    def top_statements(self, database, count=12):
        return self.sql(
            "SELECT round(total_exec_time)::text || ' ms  ' || calls || ' calls  ' || rows || "
            "' rows  ' || wal_bytes || ' B wal  ' || left(regexp_replace(query, E'\\\\s+', ' ', "
            "'g'), 150) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE "
            f"d.datname = '{database}' ORDER BY total_exec_time DESC LIMIT {count}", database)


class Talker:
    """A program that reads a line and answers with lines of JSON."""

    def __init__(self, command, **rest):
        self.command = [str(part) for part in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, **rest)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.command)} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(120)
        if code != 0:
            raise RuntimeError(f"{' '.join(self.command)} ended with {code}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            self.process.wait()
        else:
            self.close()


class Load(Talker):
    """benchmarks/postgres/load.cc: a node with its own load."""

    def __init__(self, bed, clients=16, batch=100, payload=200, new=True, **options):
        command = [bed.program("postgres_load"), "--url", bed.server.url(), "--clients", clients,
                   "--batch", batch, "--payload", payload]
        command += ["--new"] * new
        for name, value in options.items():
            command += [f"--{name}"] + ([] if value is True else [value])
        self.server = bed.server
        super().__init__(command)
        self.hear()  # ready

    def do(self, line):
        """One answer, with the server's cost."""
        self.tell(line)
        self.hear()  # begin
        before = self.server.sample()
        return finish(self.server, before, self.hear())


def finish(server, before, answer):
    after = server.sample()
    jobs = max(answer.get("jobs", 1), 1)
    answer["rate"] = answer.get("jobs", 0) / answer["seconds"] if answer.get("seconds") else 0
    answer["cpu_us"] = (after["cpu"] - before["cpu"]) / jobs * 1e6
    answer["wal"] = (after["wal"] - before["wal"]) / jobs
    return answer
