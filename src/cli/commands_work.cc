// The table of commands: work and lease.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

// Inside a time slot; refused without --slot.
std::vector<Flag> slot_flags() {
  return {
      {.name = "slot", .value = "TIME", .help = "end within this time"},
      {.name = "name",
       .value = "NAME",
       .help = "--slot: name; at most one process per name works "
               "[default]"},
      {.name = "estimate",
       .value = "TIME",
       .help = "--slot: assumed duration of an unknown job [2s]"},
      {.name = "tolerance",
       .value = "N",
       .help = "--poll: number of mean durations that must fit "
               "[5]"},
      {.name = "poll", .value = "", .help = "--slot: simple rule: mean times tolerance"},
      {.name = "idle", .value = "TIME", .help = "--poll: interval to check an empty queue [5s]"},
      {.name = "standby",
       .value = "",
       .help = "--slot: wait as standby while another process of the "
               "name runs"}};
}

// Continuous timers; refused without --timer.
std::vector<Flag> timer_flags() {
  return {{.name = "timer", .value = "", .help = "run continuous timers"},
          {.name = "batch", .value = "N", .help = "--timer: maximum items per batch [100]"},
          {.name = "batch-idle", .value = "TIME", .help = "--timer: pause after exit code 3 [1s]"},
          {.name = "timer-slots", .value = "N", .help = "--timer: kinds that run at once [3]"}};
}

std::vector<Flag> work_flags() {
  std::vector<Flag> flags = {
      {.name = "queue",
       .value = "QUEUE",
       .help = "claim jobs of this queue, or of all with a prefix: 'tenant/*'",
       .repeated = true},
      {.name = "exec", .value = "COMMAND", .help = "the program and its arguments"},
      {.name = "kind", .value = "KIND", .help = "only this kind", .repeated = true},
      {.name = "directory", .value = "DIR", .help = "working directory of the program"},
      {.name = "timeout",
       .value = "TIME",
       .help = "time limit of an attempt, if shorter than the job's own"},
      {.name = "retry-after",
       .value = "TIME",
       .help = "delay before the second attempt, doubled for each further one [the server's "
               "back-off]"},
      {.name = "max-attempts",
       .value = "N",
       .help = "dead after N failed attempts, if fewer than the job's own"},
      {.name = "target",
       .value = "TIME",
       .help = "--slots N..N: time in which waiting jobs start [30s]"},
      {.name = "worker-version",
       .value = "TEXT",
       .help = "version of the program, shown by `mainspring workers`"},
      {.name = "job", .value = "ID", .help = "this job only, deferred or not started; then stop"},
      {.name = "once", .value = "", .help = "stop after one job"},
      {.name = "drain",
       .value = "",
       .help = "stop when the queues have no available, running or retryable job"}};
  for (const std::vector<Flag>& more : {slot_flags(), timer_flags()}) {
    flags.insert(flags.end(), more.begin(), more.end());
  }
  return flags;
}

}  // namespace

Command work_command() {
  return {
      .name = "work",
      .summary = "run a program for each job",
      .description =
          "Claim jobs of the given queues from a server and run a program for each, up to --slots "
          "at once. A job with a cost takes that many slots and waits until they are free.\n"
          "\n"
          "The program gets the job as JSON on standard input, and MAINSPRING_JOB_ID, _QUEUE, "
          "_KIND, _ATTEMPT, _TOKEN, _SESSION, _IDEMPOTENCY_KEY in its environment. Exit code 0 "
          "completes the job; the last line of its output is the result. 75 retries later, 65 "
          "makes the job dead, any other code or a signal is a failed attempt, retried later; the "
          "end of standard error is the error. The program can write lines of JSON to file "
          "descriptor 3: {\"progress\":{\"value\":0.5}} {\"checkpoint\":…} {\"message\":…} "
          "{\"result\":…} {\"error\":\"…\"} {\"retry_after\":\"30s\"} {\"session_state\":…} "
          "{\"defer\":\"why\"}: defers the job (with exit code 0) until `work --job` claims it.\n"
          "\n"
          "The command is split into words, with quotes, without a shell: use --exec \"sh -c '…'\" "
          "for pipes. SIGTERM and Ctrl-C let running jobs finish for --graceful-stop and release "
          "the others.\n"
          "\n"
          "With --slot it is started every minute by cron, systemd or Kubernetes: it runs jobs one "
          "at a time, starts none that is not expected to fit, and prints one line at the end. "
          "With --timer it runs continuous timers: the program runs once per batch, with "
          "MAINSPRING_TIMER_NAME, _BATCH_MAX, _TOKEN, _REMAINING_MS and _BATCH; exit code 0 "
          "continues at once, 3 pauses, any other is an error.",
      .flags = work_flags(),
      .scopes = kClientScope | kWorkScope | kEverywhere,
      .examples =
          {{"mainspring work --queue photos --exec './thumbnail.sh --width 200' --slots 4", ""},
           {"mainspring work --queue photos --exec ./thumbnail.sh --slots 2..16 --target 30s",
            "slots by demand"},
           {"mainspring work --queue mail --queue sms --exec ./send.py --retry-after 10s", ""},
           {"mainspring work --queue reports --exec \"sh -c 'jq .args | ./report'\" --drain",
            "run the waiting jobs, then stop"},
           {"mainspring work --queue mail --exec ./send.py --slot 60s --standby",
            "from a crontab: * * * * *"},
           {"mainspring work --queue orders --job 17 --exec ./ship.sh", "run a deferred job"},
           {"mainspring work --queue timers --timer --exec ./outbox.sh", ""}},
      .exits = {{0, "stopped by a signal, --job, --once, --drain or the end of the slot"},
                {65, "--job: it runs, has ended, or cannot start now"},
                {66, "--job: no such job"},
                {64, "an invalid flag, or a missing program"},
                {69, "the server is not reachable at the start"},
                {75, "--job, --once, --drain, --slot: the program cannot be started"}},
      .run = run_work,
      .service = true};
}

Command step_command() {
  return {
      .name = "step",
      .summary = "save results of a job's steps",
      .description = "Commands for the steps of the current job.",
      .children = {
          {.name = "run",
           .summary = "run a command once over all attempts of a job",
           .description =
               "For programs of jobs (mainspring work --exec, scripts of queue folders): a long "
               "job resumes where it was.\n"
               "\n"
               "The first time, run the command; if it exits with 0, save its output durably and "
               "print it. In later attempts of the job only print the saved output. Output is "
               "saved as JSON or text, up to 64 KiB, without trailing white space. Each step needs "
               "its own name; a job keeps 1000 until it completes. A failing command runs again "
               "next time.\n"
               "\n"
               "It needs file descriptors 3 and 4 of the program and no server: the worker saves "
               "the result.",
           .arguments = {{"NAME", "the step's name, 1 to 64 of A-Z, a-z, 0-9, _ and -", Count::one},
                         {"COMMAND", "the program and its arguments, after --", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring step run load -- ./load.sh --day 2026-11-22", ""},
                        {"payment=$(mainspring step run charge -- ./charge.sh)", ""}},
           .exits = {{0, "the result is printed"},
                     {64, "not run by the program of a job"},
                     {65, "the output is too large"},
                     {75,
                      "the job is lost, or has too many results; other codes are the command's, "
                      "128 + N for signal N"}},
           .run = run_step_run}}};
}

Command lease_command() {
  return {
      .name = "lease",
      .summary = "run a command while holding a lock",
      .description = "Commands for one lock.",
      .children = {
          {.name = "run",
           .summary = "run a command while holding a lock",
           .description =
               "Run a command while this process holds a named lock, one holder in the whole "
               "system. The command inherits input and output, and gets MAINSPRING_LEASE_NAME and "
               "MAINSPRING_LEASE_TOKEN. Pass the token to what you write to (enqueue --fence), so "
               "that a late holder is refused.\n"
               "\n"
               "If the lock is lost (the server is unreachable for most of --ttl), the command and "
               "its processes get TERM, and KILL after 2 seconds, before another holder can get "
               "the lock. SIGTERM and Ctrl-C are passed on as TERM. The lock is released when the "
               "command has ended.",
           .arguments = {{"NAME", "the lock's name", Count::one},
                         {"COMMAND", "the program and its arguments, after --", Count::many}},
           .flags = {{.name = "ttl",
                      .value = "TIME",
                      .help = "time until others can get it, 1s to 12h [15s]"},
                     {.name = "wait",
                      .value = "TIME",
                      .help = "time to wait for another holder "
                              "[0s]"}},
           .scopes = kClientScope | kEverywhere,
           .examples = {{"mainspring lease run report/eu -- ./report.sh --country eu", ""},
                        {"mainspring lease run nightly --wait 10s -- rsync -a /a /b", ""}},
           .exits = {{0, "the command's exit code; 128 + N for signal N"},
                     {66, "no such program"},
                     {69, "the server is not reachable"},
                     {75, "another holder has the lock, or it was lost"}},
           .run = run_lease_run}}};
}

}  // namespace mainspring::cli
