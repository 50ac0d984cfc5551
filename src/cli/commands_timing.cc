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
  return {
      {.name = "cron", .value = "EXPR", .help = "'30 2 * * *', or 6 fields, seconds first"},
      {.name = "every", .value = "TIME", .help = "an interval, from 100ms"},
      {.name = "at", .value = "INSTANT", .help = "once, at 2026-01-31T09:00:00Z"},
      {.name = "time-zone",
       .value = "ZONE",
       .help = "time zone of --cron: Europe/Berlin "
               "[UTC]"},
      {.name = "repeated-hour",
       .value = "RULE",
       .help = "runs of a time that comes twice as clocks go back [once]",
       .choices = {"once", "twice"}},
      {.name = "jitter", .value = "TIME", .help = "delay every tick by a fixed part of this [0s]"},
      {.name = "start-at", .value = "INSTANT", .help = "no tick before this"},
      {.name = "end-at", .value = "INSTANT", .help = "no tick at or after this"}};
}

// Flags about misfires, overlaps and jitter.
std::vector<Flag> policy_flags() {
  return {{.name = "misfire",
           .value = "POLICY",
           .help = "policy for late ticks [once]",
           .choices = kMisfires},
          {.name = "misfire-window",
           .value = "TIME",
           .help = "ticks later than this never fire "
                   "[24h]"},
          {.name = "misfire-cap",
           .value = "N",
           .help = "with --misfire all: maximum of late ticks "
                   "[100]"},
          {.name = "overlap",
           .value = "POLICY",
           .help = "policy while jobs of earlier ticks run [skip]",
           .choices = kOverlaps},
          {.name = "max-runs", .value = "N", .help = "end after N jobs"},
          {.name = "pause-on-failure", .value = "", .help = "pause when one of its jobs is dead"}};
}

std::vector<Flag> template_flags(JobTimeout timeout) {
  return joined({{.name = "queue", .value = "QUEUE", .help = "queue of its jobs [default]"},
                 {.name = "kind", .value = "KIND", .help = "of its jobs"},
                 {.name = "args",
                  .value = "JSON",
                  .help = "args of its jobs: JSON, @FILE or - "
                          "[{}]"}},
                job_flags(timeout));
}

Command schedule_set_command() {
  return {.name = "set",
          .summary = "create or change a schedule",
          .description =
              "Create or change a schedule: its ticks and the job that each enqueues. The same "
              "definition again changes nothing; another one is the next version. Omitted options "
              "get their default: `set` replaces the whole definition.\n\n--file reads the "
              "definition as JSON, as in PUT /v1/schedules/{name}. A file with one {\"name\":…} "
              "per line sets many; applying it again changes only schedules that differ.",
          .arguments = {{"NAME", "the schedule's name", Count::optional}},
          .flags =
              joined(joined(joined(tick_flags(), policy_flags()), template_flags(JobTimeout::flag)),
                     {{.name = "paused", .value = "", .help = "create it paused"},
                      {.name = "restart-count",
                       .value = "",
                       .help = "forget earlier runs: count --max-runs from 0, run --at again"},
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
          .exits = {{64, "an invalid flag or field; nothing was set"}},
          .run = run_schedules_set};
}

Command preview_command() {
  return {.name = "preview",
          .summary = "show the next ticks",
          .description =
              "Show the next ticks of a schedule, or of a new one: give --cron, --every or --at "
              "instead of NAME. The note explains ticks moved by a clock change.",
          .arguments = {{"NAME", "the schedule's name", Count::optional}},
          .flags = joined({{.name = "from",
                            .value = "INSTANT",
                            .help = "ticks after this time "
                                    "[now]"},
                           {.name = "count", .value = "N", .help = "1 to 1000 [10]"}},
                          tick_flags()),
          .scopes = kClient,
          .examples = {{"mainspring schedules preview nightly", ""},
                       {"mainspring schedules preview --cron '30 2 * * *' --time-zone "
                        "Europe/Berlin --from 2026-03-27T00:00:00Z",
                        "over a clock change, before it is set"}},
          .exits = {{66, "no such schedule"}},
          .run = run_schedules_preview};
}

Command backfill_command() {
  return {.name = "backfill",
          .summary = "run the ticks of a past period",
          .description =
              "Run the ticks from --from up to but not including --to, oldest first. Ticks that "
              "ran before are skipped, so it can be repeated. If interrupted, print where to "
              "continue.",
          .arguments = {{"NAME", "the schedule's name", Count::one}},
          .flags = {{.name = "from", .value = "INSTANT", .help = "the first tick"},
                    {.name = "to", .value = "INSTANT", .help = "no tick at or after this"},
                    {.name = "overlap",
                     .value = "POLICY",
                     .help = "overlap policy of its jobs [buffer_all: one at a time]",
                     .choices = kOverlaps}},
          .scopes = kClient,
          .examples = {{"mainspring schedules backfill nightly --from 2026-01-01T00:00:00Z --to "
                        "2026-02-01T00:00:00Z",
                        ""}},
          .exits = {{66, "no such schedule"},
                    {75, "too many of its jobs wait; prints where to continue"}},
          .run = run_schedules_backfill};
}

Command trigger_command() {
  return {.name = "trigger",
          .summary = "run a schedule's job now",
          .description =
              "Run the schedule's job now, also while it is paused. Future ticks are unchanged.",
          .arguments = {{"NAME", "the schedule's name", Count::one}},
          .flags = {{.name = "overlap",
                     .value = "POLICY",
                     .help = "overlap policy instead of the schedule's own",
                     .choices = kOverlaps}},
          .scopes = kClient,
          .examples = {{"mainspring schedules trigger nightly", ""},
                       {"mainspring schedules trigger nightly --overlap allow", ""}},
          .exits = {{65, "the overlap policy forbids it"}, {66, "no such schedule"}},
          .run = run_schedules_trigger};
}

Command schedule_ledger_command() {
  return {.name = "ledger",
          .summary = "show the outcome of every tick",
          .description =
              "List the ticks of a schedule, newest first: fired with its job, or skipped with the "
              "reason. Consecutive ticks with the same outcome share a line.",
          .arguments = {{"NAME", "the schedule's name", Count::one}},
          .flags = {{.name = "limit", .value = "N", .help = "maximum [50]"},
                    {.name = "all", .value = "", .help = "all kept rows: the last 10,000"}},
          .scopes = kClient,
          .examples = {{"mainspring schedules ledger nightly", ""},
                       {"mainspring schedules ledger nightly --all --json | jq "
                        "'select(.state == \"skipped\")'",
                        ""}},
          .exits = {{66, "no such schedule"}},
          .run = run_schedules_ledger};
}

Command upcoming_command() {
  return {.name = "upcoming",
          .summary = "list the ticks of the next hours",
          .description =
              "List the ticks of every schedule that is not paused, in order of "
              "time, how many scheduled and retryable jobs are due in each hour, and the "
              "calendar windows of worker pools. Of a schedule with many ticks the first 300 are "
              "shown.",
          .flags = {{.name = "within",
                     .value = "TIME",
                     .help = "length of the period, at most 7d [24h]"},
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
      .name = "prefix", .value = "TEXT", .help = "schedules whose names start with TEXT"};
  const Flag all_flag = {.name = "all", .value = "", .help = "every schedule"};
  const ExitCode missing = {66, "there is no such schedule"};
  return {.name = "schedules",
          .summary = "manage schedules",
          .description = "Define schedules, list them and show the outcomes of their ticks.",
          .children = {
              schedule_set_command(),
              {.name = "list",
               .summary = "list schedules with their next ticks",
               .description = "List schedules by name.",
               .flags = {{.name = "limit", .value = "N", .help = "at most N [1000]"},
                         {.name = "all", .value = "", .help = "all of them"}},
               .scopes = kClient,
               .examples = {{"mainspring schedules list", ""},
                            {"mainspring schedules list --all --json | jq -r .name", ""}},
               .run = run_schedules_list},
              {.name = "show",
               .summary = "show a schedule",
               .description = "Show a schedule's definition and state.",
               .arguments = {name},
               .scopes = kClient,
               .examples = {{"mainspring schedules show nightly", ""}},
               .exits = {missing},
               .run = run_schedules_show},
              preview_command(),
              upcoming_command(),
              trigger_command(),
              {.name = "pause",
               .summary = "pause schedules",
               .description = "Pause schedules, also over a restart. Running jobs continue. The "
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
               .summary = "resume paused schedules",
               .description = "Resume paused schedules with their next tick.",
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
               .description = "Remove schedules. Their jobs stay, and jobs that waited for earlier "
                              "runs become available.",
               .arguments = {names},
               .scopes = kClient,
               .examples = {{"mainspring schedules remove nightly", ""}},
               .exits = {missing},
               .run = run_schedules_remove}}};
}

Command timers_set_command() {
  return {
      .name = "set",
      .summary = "create or change a timer",
      .description =
          "Create or change a continuous timer: a job that handles batch after batch until its "
          "timeout minus the margin, then hands over to a standby that is already queued. If it "
          "dies, its fallback schedule (--every or --cron) starts it again.",
      .arguments = {{"NAME", "the timer's name", Count::one}},
      .flags = joined({{.name = "timeout", .value = "TIME", .help = "timeout of a run [20m]"},
                       {.name = "margin",
                        .value = "TIME",
                        .help = "last part of a run in which no batch starts [1m]"},
                       {.name = "handoff",
                        .value = "TIME",
                        .help = "start the standby this long before that; 0s = no standby [30s]"},
                       {.name = "every", .value = "TIME", .help = "fallback interval [5m]"},
                       {.name = "cron", .value = "EXPR", .help = "fallback as a cron expression"},
                       {.name = "time-zone", .value = "ZONE", .help = "time zone of --cron [UTC]"},
                       {.name = "stopped", .value = "", .help = "create it stopped"}},
                      template_flags(JobTimeout::none)),
      .scopes = kClient,
      .examples =
          {{"mainspring timers set orders --queue timers --kind orders --every 5m --timeout "
            "20m --margin 60s --handoff 30s",
            ""}},
      .exits = {{64, "an invalid flag; nothing was set"}},
      .run = run_timers_set};
}

Command timers_stop_command() {
  return {.name = "stop",
          .summary = "stop timers",
          .description =
              "Stop timers before their next batch, also across restarts. The current batch "
              "finishes.",
          .arguments = {{"NAME", "names of timers", Count::many}},
          .flags = {{.name = "reason",
                     .value = "TEXT",
                     .help = "reason, shown while it is "
                             "stopped"}},
          .scopes = kClient,
          .examples = {{"mainspring timers stop orders --reason 'wrong prices'", ""}},
          .exits = {{65, "a schedule, but not a timer"}, {66, "no such timer"}},
          .run = run_timers_stop};
}

Command timers_command() {
  const Argument name = {"NAME", "the timer's name", Count::one};
  const Argument names = {"NAME", "names of timers", Count::many};
  const ExitCode missing = {66, "no such timer"};
  const ExitCode other = {65, "a schedule, but not a timer"};
  return {
      .name = "timers",
      .summary = "manage continuous timers",
      .description =
          "Timers are schedules that run continuously. `mainspring schedules` shows their ledger "
          "and changes other options.",
      .children = {
          timers_set_command(),
          {.name = "list",
           .summary = "list timers with their state",
           .description = "List timers by name.",
           .scopes = kClient,
           .examples = {{"mainspring timers list", ""}},
           .run = run_timers_list},
          {.name = "show",
           .summary = "show a timer",
           .description = "Show a timer's definition and state.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring timers show orders", ""}},
           .exits = {other, missing},
           .run = run_timers_show},
          {.name = "start",
           .summary = "start stopped timers",
           .description = "Start stopped timers now.",
           .arguments = {names},
           .scopes = kClient,
           .examples = {{"mainspring timers start orders", ""}},
           .exits = {other, missing},
           .run = run_timers_start},
          timers_stop_command(),
          {.name = "wake",
           .summary = "start a timer now",
           .description = "Start a timer now instead of at its next fallback time. If it is "
                          "running, queue its standby.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring timers wake orders", ""}},
           .exits = {{65, "it is stopped, or a standby is queued"}, missing},
           .run = run_timers_wake},
          {.name = "timeout",
           .summary = "change the timeout of a timer",
           .description = "Change the timeout of a timer at once, also for the current run. `own` "
                          "restores that of its definition.",
           .arguments = {name, {"TIME", "such as 5m, or own", Count::one}},
           .scopes = kClient,
           .examples = {{"mainspring timers timeout orders 5m", ""},
                        {"mainspring timers timeout orders own", ""}},
           .exits = {other, missing},
           .run = run_timers_timeout},
          {.name = "remove",
           .summary = "remove timers",
           .description = "Remove timers. A current run ends after its batch.",
           .arguments = {names},
           .scopes = kClient,
           .examples = {{"mainspring timers remove orders", ""}},
           .exits = {missing},
           .run = run_timers_remove}}};
}

Command leases_command() {
  return {.name = "leases",
          .summary = "show locks and their holders",
          .description = "Show named locks (leases).",
          .children = {{.name = "list",
                        .summary = "list locks that are held or have a value",
                        .description = "List named locks, including those of the engine.",
                        .scopes = kClient,
                        .examples = {{"mainspring leases list", ""}},
                        .run = run_leases_list},
                       {.name = "show",
                        .summary = "show a lock, its holder and its value",
                        .description = "Show a lock.",
                        .arguments = {{"NAME", "the lock's name", Count::one}},
                        .scopes = kClient,
                        .examples = {{"mainspring leases show report/eu", ""}},
                        .exits = {{66, "not held, and nothing is stored"}},
                        .run = run_leases_show}}};
}

Command sessions_command() {
  const Argument queue{"QUEUE", "the queue of its jobs", Count::one};
  const Argument key{"KEY", "session key, as in enqueue --session", Count::one};
  return {.name = "sessions",
          .summary = "show and resume sessions",
          .description =
              "Show sessions: the job at the head, the holder, and why a session is stopped.",
          .children = {
              {.name = "list",
               .summary = "list sessions of a queue",
               .description = "List the sessions of a queue that have jobs, a holder or a state.",
               .arguments = {queue},
               .scopes = kClient,
               .examples = {{"mainspring sessions list orders", ""}},
               .run = run_sessions_list},
              {.name = "show",
               .summary = "show a session and its state",
               .description = "Show a session.",
               .arguments = {queue, key},
               .scopes = kClient,
               .examples = {{"mainspring sessions show orders customer/7", ""}},
               .exits = {{66, "no such session"}},
               .run = run_sessions_show},
              {.name = "resume",
               .summary = "resume blocked or parked sessions",
               .description =
                   "Continue a session that a dead job stopped. Its next job becomes available. "
                   "The dead job stays dead; to run it first, use `mainspring jobs retry`.",
               .arguments = {queue, {"KEY", "session key, as in enqueue --session", Count::many}},
               .scopes = kClient,
               .examples = {{"mainspring sessions resume orders customer/7", ""}},
               .exits = {{66, "no such session"}},
               .run = run_sessions_resume}}};
}

}  // namespace

std::vector<Command> timing_commands() {
  return {schedules_command(), timers_command(),   leases_command(),   sessions_command(),
          workflow_command(),  triggers_command(), breakers_command(), quarantine_command()};
}

}  // namespace mainspring::cli
