// The table of commands: the program itself, and serve, enqueue and bench.
#include "cli/commands.h"

#include <algorithm>

#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

Command serve_command() {
  return {
      .name = "serve",
      .summary = "run the server over the embedded store",
      .description =
          "Run the server: HTTP over the embedded store in a data directory, which is created if "
          "needed. Print the address when it is ready. SIGTERM, Ctrl-C and a "
          "terminal that closes stop it cleanly; a second signal stops it at once. Acknowledged "
          "jobs are on disk in both cases.\n\nWith --jobs it also runs job folders: scripts and "
          "programs that run continuously, on demand, "
          "on a schedule, or for the jobs of a queue. See `mainspring jobs-host`.\n\nA loopback "
          "address or a unix socket needs no TLS and no token. An address that other machines can "
          "reach requires TLS (--tls-cert, --tls-key; see `mainspring tls`) and a token; without "
          "them the server does not start. New certificates are loaded when their files change, or "
          "on SIGHUP; connections stay open.\n\nWith --test it is a server for tests: on a free "
          "port, with a temporary store that is not synced, and with routes below /v1/test that "
          "move the clock and inject faults. It prints one line of JSON with url, token and seed. "
          "It stops and removes the store on a signal, when standard input is a pipe that closes, "
          "or when its parent process ends.",
      .flags = {{.name = "hints", .value = "", .help = "print three commands to try next"},
                {.name = "test",
                 .value = "",
                 .help = "serve tests: a temporary store, a free port"},
                {.name = "seed", .value = "N", .help = "with --test: the seed of faults [random]"}},
      .scopes = kServeScope | kHostScope | kEverywhere,
      .examples = {{"mainspring serve", "on 127.0.0.1:8080, data in ./data"},
                   {"mainspring serve --jobs jobs", "runs the job folders in ./jobs too"},
                   {"mainspring serve --data /var/lib/mainspring --listen 127.0.0.1:9000", ""},
                   {"mainspring serve --listen unix:/run/mainspring/socket", "its owner only"},
                   {"mainspring serve --tls-cert tls/server.pem --tls-key tls/server.key",
                    "https://127.0.0.1:8080"},
                   {"mainspring serve --test", "for tests"},
                   {"MAINSPRING_LOG_LEVEL=debug mainspring serve", ""}},
      .exits = {{0, "stopped cleanly by a signal"},
                {64, "a setting breaks a rule"},
                {65, "another process has the data directory, or this version cannot read it"},
                {66, "a file that a setting names does not exist"},
                {69, "the address is taken, or not there yet"},
                {74, "the disk or the store failed; nothing acknowledged is lost"}},
      .run = run_serve,
      .service = true};
}

std::vector<Flag> enqueue_flags() {
  std::vector<Flag> flags = {
      {.name = "delay", .value = "TIME", .help = "delay before the earliest start"},
      {.name = "run-at", .value = "INSTANT", .help = "earliest start: 2026-01-31T09:00:00Z"},
      {.name = "unique", .value = "KEY", .help = "unique key: one live job per queue and key"},
      {.name = "unique-for",
       .value = "TIME",
       .help = "with --unique: also for this time after the "
               "first enqueue"},
      {.name = "on-conflict",
       .value = "POLICY",
       .help = "with --unique: effect on the existing job [keep]",
       .choices = {"keep", "replace", "postpone"}},
      {.name = "session",
       .value = "KEY",
       .help = "jobs of a queue with the same session run in order, one at a time"},
      {.name = "session-on-dead",
       .value = "POLICY",
       .help = "with --session: effect on the session if the job dies [skip]",
       .choices = {"skip", "block", "park"}},
      {.name = "fence", .value = "LEASE:TOKEN", .help = "refuse unless this token holds the lock"},
      {.name = "idempotency-key",
       .value = "KEY",
       .help = "the same key within 24 h returns the same job"},
      {.name = "many",
       .value = "FILE",
       .help = "one job per line as JSON ({\"args\":…,\"priority\":…}); QUEUE and KIND are for "
               "lines that have none; - = standard input"},
      {.name = "wait",
       .value = "[=TIME]",
       .help = "wait for the end [1h], print the result, exit with the outcome"},
  };
  const std::vector<Flag> job = job_flags(JobTimeout::flag);
  flags.insert(flags.begin() + 2, job.begin(), job.end());
  return flags;
}

Command enqueue_command() {
  return {
      .name = "enqueue",
      .summary = "enqueue jobs",
      .description =
          "Put a job, or the jobs of a file, into a queue, and print their ids. They are on disk "
          "when the command returns. ARGS is JSON; @FILE reads a file, - standard input; the "
          "default is {}.\n"
          "\n"
          "Up to 10,000 lines of --many are one request, all or nothing; larger files are several.",
      .arguments = {{"QUEUE", "the queue, created at first use", Argument::Count::optional},
                    {"KIND", "selects the handler", Argument::Count::optional},
                    {"ARGS", "JSON, @FILE or -", Argument::Count::optional}},
      .flags = enqueue_flags(),
      .scopes = kClientScope | kEverywhere,
      .examples = {{"mainspring enqueue photos thumbnail '{\"path\":\"a.jpg\"}'", ""},
                   {"mainspring enqueue mail welcome @user.json --delay 10m --tag signup", ""},
                   {"mainspring enqueue photos thumbnail --many photos.jsonl", ""},
                   {"mainspring enqueue reports monthly --wait=10m > report.json",
                    "wait for the result, as for a program"}},
      .exits = {{0, "enqueued; with --wait: completed"},
                {1, "with --wait: dead"},
                {2, "with --wait: cancelled"},
                {64, "a flag or a field breaks a rule; nothing was enqueued"},
                {65, "the idempotency key was used with other jobs, or the request is too large"},
                {69, "the server is not reachable"},
                {75, "refused for now, try again; with --wait: not ended in time"}},
      .run = run_enqueue};
}

Command bench_command() {
  return {
      .name = "bench",
      .summary = "measure speed on this machine",
      .description =
          "Measure enqueue and full lifecycle (enqueue, claim, complete, all durable) in process "
          "and over HTTP, wake latency, a million queued jobs, a thousand queues and the cost of "
          "an idle server, each with its own store. Print each figure with its ratio to a bare "
          "write and fdatasync of the same bytes, and the target. A full run takes about ten "
          "minutes. Use a directory on a real disk, not tmpfs. With MAINSPRING_STORE the "
          "in-process part runs on that PostgreSQL database, in temporary schemas.",
      .flags = {{.name = "dir",
                 .value = "DIR",
                 .help = "directory for temporary stores [./bench-data]"},
                {.name = "quick", .value = "", .help = "fewer, shorter runs: about a minute"},
                {.name = "only",
                 .value = "NAME",
                 .help = "only this measurement; see --list",
                 .repeated = true},
                {.name = "list", .value = "", .help = "list the measurements"},
                {.name = "save", .value = "FILE", .help = "write the figures as JSON"},
                {.name = "report",
                 .value = "FILE",
                 .help = "write the figures as Markdown between the markers of FILE"}},
      .scopes = kEverywhere,
      .examples = {{"mainspring bench --quick", ""},
                   {"mainspring bench --only wake --only idle", ""},
                   {"mainspring bench --save bench.json", ""}},
      .exits = {{0, "measured, whether or not the targets were met"}, {74, "the disk failed"}},
      .run = run_bench};
}

Command make_root() {
  Command root{
      .name = "mainspring",
      .summary = "durable background jobs: the server, the worker and the command line",
      .description =
          "Durable background jobs: never lost, on time, in parallel. `mainspring serve` is the "
          "server, `mainspring work` runs a program for each job; other commands enqueue, inspect "
          "and control jobs. Each command has --help with examples. Singular and plural are "
          "equivalent: `job list` is `jobs list`.",
      .examples = {{"mainspring serve", "in one terminal"},
                   {"mainspring enqueue hello greet '{\"name\":\"you\"}'", "in another one"},
                   {"mainspring work --queue hello --exec cat --drain", ""},
                   {"mainspring jobs list", ""}},
  };
  for (auto part : {running_commands(), looking_commands(), health_commands(), chart_commands(),
                    timing_commands(), host_commands(), access_commands(), operating_commands()}) {
    root.children.insert(root.children.end(), part.begin(), part.end());
  }
  return root;
}

}  // namespace

std::vector<Flag> job_flags(JobTimeout timeout) {
  std::vector<Flag> flags = {
      {.name = "priority", .value = "N", .help = "0 (first) to 9 [5]"},
      {.name = "max-attempts", .value = "N", .help = "1 to 1000 [20]"},
      {.name = "timeout", .value = "TIME", .help = "time limit of an attempt, or none [15m]"},
      {.name = "expires-in", .value = "TIME", .help = "cancel if it has not started by then"},
      {.name = "on-expiry",
       .value = "END",
       .help = "state of an expired job: dead puts it into the dead letter [cancel]",
       .choices = {"cancel", "dead"}},
      {.name = "tag", .value = "TAG", .help = "a tag to search by", .repeated = true},
      {.name = "header", .value = "NAME=VALUE", .help = "passed to the worker", .repeated = true},
      {.name = "correlation-id", .value = "ID", .help = "passed to the worker"},
      {.name = "reply-to",
       .value = "QUEUE",
       .help = "queue that gets a job of kind reply at its end, and of kind message for each "
               "message"},
      {.name = "reply-session", .value = "KEY", .help = "with --reply-to: the session of replies"},
      {.name = "reply-expires-in",
       .value = "TIME",
       .help = "with --reply-to: cancel replies that have not started by then [24h]"},
      {.name = "reply-progress",
       .value = "",
       .help = "with --reply-to: also a job of kind progress for each changed progress"},
      {.name = "limit-key",
       .value = "KEY",
       .help = "key for the queue's limits per key, for example a customer"},
      {.name = "then",
       .value = "QUEUE/KIND[@END,...]",
       .help = "follow-up job at an end (completed, cancelled, dead; default: each), or while it "
               "runs (message, progress)",
       .repeated = true},
      {.name = "callback",
       .value = "URL",
       .help = "URL for a signed request when the job has "
               "ended"},
      {.name = "callback-on",
       .value = "ENDS",
       .help = "only for: completed, cancelled, dead, message, progress [each end]"},
  };
  if (timeout == JobTimeout::none) flags.erase(flags.begin() + 2);
  return flags;
}

std::vector<Command> running_commands() {
  return {serve_command(), work_command(),    scale_command(), lease_command(),
          step_command(),  enqueue_command(), bench_command(), pipeline_command()};
}

const Command& root() {
  static const Command command = make_root();
  return command;
}

const std::vector<Flag>& common_flags() {
  static const std::vector<Flag> flags = {
      {.name = "json", .value = "", .help = "print JSON, errors too"},
      {.name = "config", .value = "FILE", .help = "settings from this TOML file"},
      {.name = "help", .value = "", .help = "this text"}};
  return flags;
}

std::vector<const Setting*> settings_of(const Command& command) {
  std::vector<const Setting*> out;
  for (const Setting& setting : settings()) {
    if ((setting.scopes & command.scopes) != 0) out.push_back(&setting);
  }
  return out;
}

std::string other_number(const std::string& name) {
  return name.ends_with("s") ? name.substr(0, name.size() - 1) : name + "s";
}

const Command* child_named(const Command& parent, const std::string& word) {
  const Command* other = nullptr;
  for (const Command& child : parent.children) {
    if (child.name == word) return &child;
    if (!child.children.empty() && other_number(child.name) == word) other = &child;
  }
  return other;
}

const Command* find_command(const std::vector<std::string>& path) {
  const Command* at = &root();
  for (const std::string& word : path) {
    at = child_named(*at, word);
    if (at == nullptr) return nullptr;
  }
  return at;
}

}  // namespace mainspring::cli
