// The table of commands: schedules, timers, leases, sessions.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const std::vector<std::string> kMisfires = {"skip", "once", "all"};
const std::vector<std::string> kOverlaps = {"skip",         "buffer_one",      "buffer_all",
                                            "cancel_other", "terminate_other", "allow"};

std::vector<Flag> joined(std::vector<Flag> flags, const std::vector<Flag>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// When the ticks are.
std::vector<Flag> tick_flags() {
  return {{.name = "cron", .value = "EXPR", .help = "'30 2 * * *', or 6 fields, seconds first"},
          {.name = "every", .value = "TIME", .help = "an interval, from 1s"},
          {.name = "at", .value = "INSTANT", .help = "once: 2026-01-31T09:00:00Z"},
          {.name = "time-zone", .value = "ZONE", .help = "of --cron: Europe/Berlin [UTC]"},
          {.name = "jitter",
           .value = "TIME",
           .help = "each tick fires later by one fixed part of it [0s]"},
          {.name = "start-at", .value = "INSTANT", .help = "no tick before"},
          {.name = "end-at", .value = "INSTANT", .help = "no tick at or after"}};
}

// What becomes of them.
std::vector<Flag> policy_flags() {
  return {{.name = "misfire",
           .value = "POLICY",
           .help = "ticks that nobody could fire in time [once]",
           .choices = kMisfires},
          {.name = "misfire-window", .value = "TIME", .help = "later than that never fires [24h]"},
          {.name = "misfire-cap", .value = "N", .help = "of --misfire all: the last so many [100]"},
          {.name = "overlap",
           .value = "POLICY",
           .help = "jobs of earlier ticks have not ended [skip]",
           .choices = kOverlaps},
          {.name = "max-runs", .value = "N", .help = "ends after so many jobs"},
          {.name = "pause-on-failure", .value = "", .help = "pauses when a job of it is dead"}};
}

std::vector<Flag> template_flags(JobTimeout timeout) {
  return joined({{.name = "queue", .value = "QUEUE", .help = "of its jobs [default]"},
                 {.name = "kind", .value = "KIND", .help = "of its jobs"},
                 {.name = "args", .value = "JSON", .help = "of its jobs: JSON, @FILE or - [{}]"}},
                job_flags(timeout));
}

Command schedule_set_command() {
  return {
      .name = "set",
      .summary = "define a schedule, or change it",
      .description =
          "Defines a schedule: when its ticks are, and the job that each enqueues. The same "
          "definition again changes nothing; another one is its next version. What is not given "
          "has its default: `set` replaces the whole definition.\n"
          "\n"
          "--file takes the definition as JSON, as PUT /v1/schedules/{name} does. A file of many, "
          "one {\"name\":…} per line, can be applied again and again: only what has changed "
          "changes.",
      .arguments = {{"NAME", "the schedule's name", Count::optional}},
      .flags =
          joined(joined(joined(tick_flags(), policy_flags()), template_flags(JobTimeout::flag)),
                 {{.name = "paused", .value = "", .help = "paused from the start"},
                  {.name = "file",
                   .value = "FILE",
                   .help = "one definition as JSON, or one per line; - = standard input"}}),
      .scopes = kClient,
      .examples =
          {{"mainspring schedules set nightly --cron '30 2 * * *' --time-zone Europe/Berlin "
            "--queue "
            "reports --kind nightly",
            ""},
           {"mainspring schedules set poll --every 5m --queue feeds --kind poll --overlap skip",
            ""},
           {"mainspring schedules set --file schedules.jsonl", "a repository of schedules"}},
      .exits = {{64, "a flag or a field breaks a rule; nothing was set"}},
      .run = run_schedules_set};
}

Command preview_command() {
  return {.name = "preview",
          .summary = "the ticks to come",
          .description =
              "Shows the next ticks of a schedule, or of one that is not set yet: give --cron, "
              "--every or --at instead of a NAME. The note says how a clock change moves a tick.",
          .arguments = {{"NAME", "the schedule's name", Count::optional}},
          .flags = joined({{.name = "from", .value = "INSTANT", .help = "ticks after it [now]"},
                           {.name = "count", .value = "N", .help = "1 to 1000 [10]"}},
                          tick_flags()),
          .scopes = kClient,
          .examples = {{"mainspring schedules preview nightly", ""},
                       {"mainspring schedules preview --cron '30 2 * * *' --time-zone "
                        "Europe/Berlin --from 2026-03-27T00:00:00Z",
                        "over a clock change, before it is set"}},
          .exits = {{66, "there is no such schedule"}},
          .run = run_schedules_preview};
}

Command backfill_command() {
  return {.name = "backfill",
          .summary = "run the ticks of a time that has passed",
          .description =
              "Runs the ticks from --from up to, but without, --to, oldest first; those that have "
              "run before are skipped, so it can be given again. A long time is done in parts; an "
              "interrupted one says where to go on.",
          .arguments = {{"NAME", "the schedule's name", Count::one}},
          .flags = {{.name = "from", .value = "INSTANT", .help = "the first tick"},
                    {.name = "to", .value = "INSTANT", .help = "no tick at or after"},
                    {.name = "overlap",
                     .value = "POLICY",
                     .help = "how its jobs run beside each other [buffer_all: one after the other]",
                     .choices = kOverlaps}},
          .scopes = kClient,
          .examples = {{"mainspring schedules backfill nightly --from 2026-01-01T00:00:00Z --to "
                        "2026-02-01T00:00:00Z",
                        ""}},
          .exits = {{66, "there is no such schedule"},
                    {75, "too many of its jobs wait; it says where to go on"}},
          .run = run_schedules_backfill};
}

Command trigger_command() {
  return {
      .name = "trigger",
      .summary = "run its job now",
      .description =
          "Runs the schedule's job now, also while it is paused. The ticks to come "
          "stay as they are.",
      .arguments = {{"NAME", "the schedule's name", Count::one}},
      .flags = {{.name = "overlap",
                 .value = "POLICY",
                 .help = "instead of the schedule's own",
                 .choices = kOverlaps}},
      .scopes = kClient,
      .examples = {{"mainspring schedules trigger nightly", ""},
                   {"mainspring schedules trigger nightly --overlap allow", ""}},
      .exits = {{65, "the overlap policy kept it from running"}, {66, "there is no such schedule"}},
      .run = run_schedules_trigger};
}

Command schedule_ledger_command() {
  return {.name = "ledger",
          .summary = "what became of every tick",
          .description =
              "Lists the ticks of a schedule, newest first: fired with its job, or why not. Ticks "
              "in a row that had one fate share a line.",
          .arguments = {{"NAME", "the schedule's name", Count::one}},
          .flags = {{.name = "limit", .value = "N", .help = "at most so many [50]"},
                    {.name = "all", .value = "", .help = "all that are kept: the last 10,000"}},
          .scopes = kClient,
          .examples = {{"mainspring schedules ledger nightly", ""},
                       {"mainspring schedules ledger nightly --all --json | jq "
                        "'select(.state == \"skipped\")'",
                        ""}},
          .exits = {{66, "there is no such schedule"}},
          .run = run_schedules_ledger};
}

Command upcoming_command() {
  return {.name = "upcoming",
          .summary = "ticks of all schedules in the next hours",
          .description =
              "Lists the ticks of every schedule that is not paused, in order of "
              "time, and how many scheduled and retryable jobs are due in each hour. "
              "Of a schedule with many ticks the first 100 are shown.",
          .flags = {{.name = "within", .value = "TIME", .help = "how far, at most 7d [24h]"},
                    {.name = "limit", .value = "N", .help = "at most this many ticks [1000]"}},
          .scopes = kClient,
          .examples = {{"mainspring schedules upcoming --within 24h", ""},
                       {"mainspring schedules upcoming --within 7d --json | jq .due", ""}},
          .run = run_schedules_upcoming};
}

Command schedules_command() {
  const Argument name = {"NAME", "the schedule's name", Count::one};
  const Argument names = {"NAME", "schedules' names", Count::many};
  const Argument some_names = {"NAME", "schedules' names", Count::any};
  const Flag prefix_flag = {
      .name = "prefix", .value = "TEXT", .help = "schedules whose names begin so"};
  const Flag all_flag = {.name = "all", .value = "", .help = "every schedule"};
  const ExitCode missing = {66, "there is no such schedule"};
  return {
      .name = "schedules",
      .summary = "jobs that are made by the clock",
      .description = "Defines schedules, looks at them and at what became of their ticks.",
      .children = {
          schedule_set_command(),
          {.name = "list",
           .summary = "all schedules with their next ticks",
           .description = "Lists schedules by name.",
           .flags = {{.name = "limit", .value = "N", .help = "at most so many [1000]"},
                     {.name = "all", .value = "", .help = "all of them"}},
           .scopes = kClient,
           .examples = {{"mainspring schedules list", ""},
                        {"mainspring schedules list --all --json | jq -r .name", ""}},
           .run = run_schedules_list},
          {.name = "show",
           .summary = "everything about a schedule",
           .description = "Shows a schedule's definition and state.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring schedules show nightly", ""}},
           .exits = {missing},
           .run = run_schedules_show},
          preview_command(),
          upcoming_command(),
          trigger_command(),
          {.name = "pause",
           .summary = "fire no ticks",
           .description = "Pauses schedules, also over a restart. Running jobs continue. The "
                          "ledger lists ticks of the pause as skipped.",
           .arguments = {some_names},
           .flags = {prefix_flag,
                     all_flag,
                     {.name = "reason", .value = "TEXT", .help = "kept while it is paused"}},
           .scopes = kClient,
           .examples = {{"mainspring schedules pause nightly --reason 'disk is full'", ""},
                        {"mainspring schedules pause --prefix report- --reason migration", ""}},
           .exits = {missing},
           .run = run_schedules_pause},
          {.name = "resume",
           .summary = "undo pause",
           .description = "Resumes paused schedules with their next tick.",
           .arguments = {some_names},
           .flags = {prefix_flag, all_flag},
           .scopes = kClient,
           .examples = {{"mainspring schedules resume nightly", ""},
                        {"mainspring schedules resume --all", ""}},
           .exits = {missing},
           .run = run_schedules_resume},
          schedule_ledger_command(),
          backfill_command(),
          {.name = "remove",
           .summary = "remove schedules and their ledgers",
           .description = "Removes schedules. Their jobs stay, and those that waited for others "
                          "begin.",
           .arguments = {names},
           .scopes = kClient,
           .examples = {{"mainspring schedules remove nightly", ""}},
           .exits = {missing},
           .run = run_schedules_remove}}};
}

Command timers_set_command() {
  return {
      .name = "set",
      .summary = "define a timer, or change it",
      .description =
          "Defines a continuous timer: a job that handles batch after batch until its timeout less "
          "the margin, and hands over to a twin that was started before. If it dies, its fallback "
          "schedule (--every or --cron) starts it again.",
      .arguments = {{"NAME", "the timer's name", Count::one}},
      .flags = joined({{.name = "timeout", .value = "TIME", .help = "of one run [20m]"},
                       {.name = "margin",
                        .value = "TIME",
                        .help = "no batch begins in the last part of a run [1m]"},
                       {.name = "handoff",
                        .value = "TIME",
                        .help = "the twin is started so long before that; 0s = no twin [30s]"},
                       {.name = "every", .value = "TIME", .help = "the fallback [5m]"},
                       {.name = "cron", .value = "EXPR", .help = "the fallback, as an expression"},
                       {.name = "time-zone", .value = "ZONE", .help = "of --cron [UTC]"},
                       {.name = "stopped", .value = "", .help = "stopped from the start"}},
                      template_flags(JobTimeout::none)),
      .scopes = kClient,
      .examples =
          {{"mainspring timers set orders --queue timers --kind orders --every 5m --timeout "
            "20m --margin 60s --handoff 30s",
            ""}},
      .exits = {{64, "a flag breaks a rule; nothing was set"}},
      .run = run_timers_set};
}

Command timers_stop_command() {
  return {.name = "stop",
          .summary = "the kill switch",
          .description =
              "Stops timers: it is read before every batch, without a deployment, and "
              "kept over restarts. The batch that runs is finished.",
          .arguments = {{"NAME", "timers' names", Count::many}},
          .flags = {{.name = "reason", .value = "TEXT", .help = "kept while it is stopped"}},
          .scopes = kClient,
          .examples = {{"mainspring timers stop orders --reason 'wrong prices'", ""}},
          .exits = {{65, "it is a schedule, but not a timer"}, {66, "there is no such timer"}},
          .run = run_timers_stop};
}

Command timers_command() {
  const Argument name = {"NAME", "the timer's name", Count::one};
  const Argument names = {"NAME", "timers' names", Count::many};
  const ExitCode missing = {66, "there is no such timer"};
  const ExitCode other = {65, "it is a schedule, but not a timer"};
  return {
      .name = "timers",
      .summary = "work that runs almost continuously",
      .description =
          "Timers are schedules that run continuously: `mainspring schedules` shows "
          "their ledger and changes the rest.",
      .children = {
          timers_set_command(),
          {.name = "list",
           .summary = "all timers and what they do",
           .description = "Lists timers by name.",
           .scopes = kClient,
           .examples = {{"mainspring timers list", ""}},
           .run = run_timers_list},
          {.name = "show",
           .summary = "everything about a timer",
           .description = "Shows a timer's definition and state.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring timers show orders", ""}},
           .exits = {other, missing},
           .run = run_timers_show},
          {.name = "start",
           .summary = "undo stop, and run it now",
           .description = "Lets timers run again, and starts them.",
           .arguments = {names},
           .scopes = kClient,
           .examples = {{"mainspring timers start orders", ""}},
           .exits = {other, missing},
           .run = run_timers_start},
          timers_stop_command(),
          {.name = "wake",
           .summary = "run it now",
           .description = "Starts a timer before its fallback schedule does; if it runs, its twin, "
                          "which waits for its end.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring timers wake orders", ""}},
           .exits = {{65, "it is stopped, or a twin is there"}, missing},
           .run = run_timers_wake},
          {.name = "timeout",
           .summary = "another timeout, while it runs",
           .description = "Changes the timeout of a timer at once, also of the run that is under "
                          "way. `own` goes back to that of its definition.",
           .arguments = {name, {"TIME", "such as 5m, or own", Count::one}},
           .scopes = kClient,
           .examples = {{"mainspring timers timeout orders 5m", ""},
                        {"mainspring timers timeout orders own", ""}},
           .exits = {other, missing},
           .run = run_timers_timeout},
          {.name = "remove",
           .summary = "remove timers",
           .description = "Removes timers. A run that is under way ends after its batch.",
           .arguments = {names},
           .scopes = kClient,
           .examples = {{"mainspring timers remove orders", ""}},
           .exits = {missing},
           .run = run_timers_remove}}};
}

Command leases_command() {
  return {.name = "leases",
          .summary = "who holds what",
          .description = "Looks at leases by name.",
          .children = {{.name = "list",
                        .summary = "leases that are held, or have a value",
                        .description = "Lists leases by name, those of the engine too.",
                        .scopes = kClient,
                        .examples = {{"mainspring leases list", ""}},
                        .run = run_leases_list},
                       {.name = "show",
                        .summary = "a lease, its holder and its value",
                        .description = "Shows a lease.",
                        .arguments = {{"NAME", "the lease's name", Count::one}},
                        .scopes = kClient,
                        .examples = {{"mainspring leases show report/eu", ""}},
                        .exits = {{66, "nobody holds it, and nothing is left of it"}},
                        .run = run_leases_show}}};
}

Command sessions_command() {
  const Argument queue{"QUEUE", "the queue of its jobs", Count::one};
  const Argument key{"KEY", "as of enqueue --session", Count::one};
  return {
      .name = "sessions",
      .summary = "jobs that run one after the other",
      .description = "Looks at sessions: whose turn it is, who holds them, why they stand.",
      .children = {
          {.name = "list",
           .summary = "sessions of a queue",
           .description = "Lists the sessions of a queue that have jobs, a holder or a state.",
           .arguments = {queue},
           .scopes = kClient,
           .examples = {{"mainspring sessions list orders", ""}},
           .run = run_sessions_list},
          {.name = "show",
           .summary = "a session and its state",
           .description = "Shows a session.",
           .arguments = {queue, key},
           .scopes = kClient,
           .examples = {{"mainspring sessions show orders customer/7", ""}},
           .exits = {{66, "there is no such session"}},
           .run = run_sessions_show},
          {.name = "resume",
           .summary = "let blocked or parked sessions go on",
           .description =
               "Lets a session that was stopped by a dead job go on with the next one. The dead "
               "job "
               "stays dead; `mainspring jobs retry` instead puts it in front of the others again.",
           .arguments = {queue, {"KEY", "as of enqueue --session", Count::many}},
           .scopes = kClient,
           .examples = {{"mainspring sessions resume orders customer/7", ""}},
           .exits = {{66, "there is no such session"}},
           .run = run_sessions_resume}}};
}

}  // namespace

std::vector<Command> timing_commands() {
  return {schedules_command(), timers_command(),   leases_command(),   sessions_command(),
          workflow_command(),  triggers_command(), breakers_command(), quarantine_command()};
}

}  // namespace mainspring::cli
