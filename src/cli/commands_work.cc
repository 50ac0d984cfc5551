// The table of commands: work and lease.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

// Inside a time slot; refused without --slot.
std::vector<Flag> slot_flags() {
  return {
      {.name = "slot", .value = "TIME", .help = "end before so long has passed"},
      {.name = "name", .value = "NAME", .help = "--slot: at most one of a name runs [default]"},
      {.name = "estimate",
       .value = "TIME",
       .help = "--slot: of a job of which nothing is known [2s]"},
      {.name = "tolerance", .value = "N", .help = "--slot: so many estimates are kept free [5]"},
      {.name = "poll", .value = "", .help = "--slot: the plain rule: mean times tolerance"},
      {.name = "idle", .value = "TIME", .help = "--poll: between looks at an empty queue [5s]"},
      {.name = "twin", .value = "", .help = "--slot: wait while another one of the name runs"}};
}

// Continuous timers; refused without --timer.
std::vector<Flag> timer_flags() {
  return {{.name = "timer", .value = "", .help = "jobs are runs of continuous timers"},
          {.name = "batch", .value = "N", .help = "--timer: _BATCH_MAX of each batch [100]"},
          {.name = "batch-idle", .value = "TIME", .help = "--timer: after exit code 3 [1s]"},
          {.name = "timer-slots", .value = "N", .help = "--timer: kinds that run at once [3]"}};
}

std::vector<Flag> work_flags() {
  std::vector<Flag> flags = {
      {.name = "queue", .value = "QUEUE", .help = "take jobs of this queue", .repeated = true},
      {.name = "exec", .value = "COMMAND", .help = "the program and its arguments"},
      {.name = "kind", .value = "KIND", .help = "only jobs of this kind", .repeated = true},
      {.name = "directory", .value = "DIR", .help = "where the program runs"},
      {.name = "timeout",
       .value = "TIME",
       .help = "time limit of an attempt, if shorter than the job's own"},
      {.name = "retry-after",
       .value = "TIME",
       .help = "before the second attempt, doubled for each further one; else the "
               "server decides"},
      {.name = "max-attempts",
       .value = "N",
       .help = "dead after so many failed attempts, if fewer than the job's own"},
      {.name = "worker-version",
       .value = "TEXT",
       .help = "version of the program, shown by `mainspring workers`"},
      {.name = "job", .value = "ID", .help = "this job alone, deferred or not begun; then stop"},
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
      .summary = "take jobs and run a program for each",
      .description =
          "Claims jobs of the given queues from a server and runs a program for each, as many at "
          "the same time as it has slots. A job of a kind that has a cost in its queue takes so "
          "many of them, and waits until they are free.\n"
          "\n"
          "The program gets the job as JSON on standard input, and MAINSPRING_JOB_ID, _QUEUE, "
          "_KIND, _ATTEMPT, _TOKEN, _SESSION, _IDEMPOTENCY_KEY in its environment. Exit code 0 "
          "completes the "
          "job; the last line of its output is the result. 75 tries again later, 65 makes the job "
          "dead, any other code or a signal is a failed attempt, tried again later; the end of "
          "its standard error is kept as the error. It may also write lines of JSON to file "
          "descriptor 3: {\"progress\":{\"value\":0.5}} {\"checkpoint\":…} {\"message\":…} "
          "{\"result\":…} {\"error\":\"…\"} {\"retry_after\":\"30s\"} "
          "{\"session_state\":…} {\"defer\":\"why\"}: with exit code 0 the job is put aside, until "
          "work --job takes it.\n"
          "\n"
          "The command is split into words like a shell does with quotes, but there is no shell: "
          "use --exec \"sh -c '…'\" for pipes. SIGTERM and Ctrl-C let running jobs end, then give "
          "them back.\n"
          "\n"
          "With --slot it is meant to be started every minute by somebody else (cron, systemd, "
          "Kubernetes): it runs jobs one after the other, starts none that is not expected to fit, "
          "and ends with one line that says how it went. With --timer it runs continuous timers: "
          "the program is run once per batch, with MAINSPRING_TIMER_NAME, _BATCH_MAX, _TOKEN, "
          "_REMAINING_MS and _BATCH; exit code 0 goes on at once, 3 waits, any other is an error.",
      .flags = work_flags(),
      .scopes = kClientScope | kWorkScope | kEverywhere,
      .examples =
          {{"mainspring work --queue photos --exec './thumbnail.sh --width 200' --slots 4", ""},
           {"mainspring work --queue mail --queue sms --exec ./send.py --retry-after 10s", ""},
           {"mainspring work --queue reports --exec \"sh -c 'jq .args | ./report'\" --drain",
            "run what is there, then stop"},
           {"mainspring work --queue mail --exec ./send.py --slot 60s --twin",
            "from a crontab: * * * * *"},
           {"mainspring work --queue orders --job 17 --exec ./ship.sh",
            "a job that was deferred: its answer has come"},
           {"mainspring work --queue timers --timer --exec ./outbox.sh", ""}},
      .exits = {{0, "stopped by a signal, --job, --once, --drain or the end of the slot"},
                {65, "--job: it runs, has ended, or cannot begin now"},
                {66, "--job: there is no such job"},
                {64, "a flag breaks a rule, or the program is not there"},
                {69, "the server is not reachable (at the start; later it waits for it)"}},
      .run = run_work};
}

Command step_command() {
  return {
      .name = "step",
      .summary = "keep the results of a job's steps",
      .description = "Works with the steps of the job whose program runs this.",
      .children = {
          {.name = "run",
           .summary = "run a command once over all attempts of a job",
           .description =
               "For the programs of jobs (mainspring work --exec, scripts of queue folders): a "
               "long "
               "job resumes where it was.\n"
               "\n"
               "The first time the command is run; when it ends with 0 its output is kept with the "
               "job, durably, and printed. In every later attempt of the job it is only printed. "
               "Kept is JSON as it is, anything else as a text, up to 64 KiB; without the white "
               "space at its end. Each step of a job needs a name of its own; 1000 are kept, until "
               "the job is completed. A command that ends with another code is run again next "
               "time.\n"
               "\n"
               "It needs file descriptors 3 and 4 as the program got them, and no server: the "
               "worker keeps the result.",
           .arguments = {{"NAME", "the step's name, 1 to 64 of A-Z, a-z, 0-9, _ and -", Count::one},
                         {"COMMAND", "the program and its arguments, after --", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring step run load -- ./load.sh --day 2026-11-22", ""},
                        {"payment=$(mainspring step run charge -- ./charge.sh)", ""}},
           .exits = {{0, "the result is printed"},
                     {64, "it is not run by the program of a job"},
                     {65, "the output is too large"},
                     {75,
                      "the job is lost, or has too many results; any other code is the "
                      "command's, 128 + N if signal N ended it"}},
           .run = run_step_run}}};
}

Command lease_command() {
  return {
      .name = "lease",
      .summary = "run a command while holding a lease",
      .description = "Works with one lease.",
      .children = {
          {.name = "run",
           .summary = "run a command while holding a lease",
           .description =
               "Runs a command while this process, alone in the whole system, holds the lease. The "
               "command gets this process's input and output, and MAINSPRING_LEASE_NAME and "
               "MAINSPRING_LEASE_TOKEN: hand the token on to whatever it writes to (enqueue "
               "--fence), so that a holder that comes too late is refused.\n"
               "\n"
               "When the lease is lost (the server is away for most of --ttl) the command and all "
               "that it started get TERM, and KILL after 2 seconds, before somebody else can have "
               "it. SIGTERM and Ctrl-C are passed on as TERM. The lease is released when the "
               "command has ended.",
           .arguments = {{"NAME", "the lease's name", Count::one},
                         {"COMMAND", "the program and its arguments, after --", Count::many}},
           .flags = {{.name = "ttl",
                      .value = "TIME",
                      .help = "until others may have it, 1s to 12h [15s]"},
                     {.name = "wait", .value = "TIME", .help = "while somebody else has it [0s]"}},
           .scopes = kClientScope | kEverywhere,
           .examples = {{"mainspring lease run report/eu -- ./report.sh --country eu", ""},
                        {"mainspring lease run nightly --wait 10s -- rsync -a /a /b", ""}},
           .exits = {{0, "the command's own exit code; 128 + N if signal N ended it"},
                     {66, "there is no such program"},
                     {69, "the server is not reachable"},
                     {75, "somebody else has the lease, or it was lost"}},
           .run = run_lease_run}}};
}

}  // namespace mainspring::cli
