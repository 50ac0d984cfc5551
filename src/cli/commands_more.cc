// The table of commands: queues, dead, workers; verify, store, config and the rest.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const Argument kId = {"ID", "a job's id", Count::one};
const Argument kIds = {"ID", "ids of jobs", Count::many};

std::vector<Flag> filter_flags() {
  return {{.name = "queue", .value = "QUEUE", .help = "only this queue"},
          {.name = "kind", .value = "KIND", .help = "only this kind"},
          {.name = "tag", .value = "TAG", .help = "only this tag"}};
}

std::vector<Flag> list_flags() {
  std::vector<Flag> flags = filter_flags();
  flags.push_back({.name = "since",
                   .value = "TIME",
                   .help = "only created since then: 2h, 2026-01-31T09:00 or an instant"});
  flags.push_back({.name = "until", .value = "TIME", .help = "only created before then"});
  flags.push_back({.name = "limit", .value = "N", .help = "at most N [50]"});
  flags.push_back({.name = "all", .value = "", .help = "all of them"});
  return flags;
}

// For commands that change queues: without it, a mistyped name is an error.
const Flag kCreateQueue = {
    .name = "create", .value = "", .help = "create the queue if it does not exist"};

Command queue_limit_command(const Argument& name) {
  return {.name = "limit",
          .summary = "limit concurrency and rate of a queue",
          .description =
              "Limit a queue over all workers and servers, effective at once. Omitted limits are "
              "unchanged; `none` removes a limit. Running jobs continue.",
          .arguments = {name},
          .flags = {kCreateQueue,
                    {.name = "concurrency", .value = "N", .help = "running jobs"},
                    {.name = "key-concurrency", .value = "N", .help = "running jobs per limit key"},
                    {.name = "rate", .value = "N/TIME", .help = "attempts per period: 100/1m"},
                    {.name = "rate-kind",
                     .value = "KIND",
                     .help = "kind of the rate: bucket, sliding or fixed [bucket]"},
                    {.name = "burst",
                     .value = "N",
                     .help = "of a bucket: attempts at once after a pause [the rate]"},
                    {.name = "key-rate",
                     .value = "N/TIME",
                     .help = "attempts per limit key and period: 10/1m"},
                    {.name = "key-rate-kind",
                     .value = "KIND",
                     .help = "kind of that rate: bucket, sliding or fixed [bucket]"},
                    {.name = "key-burst",
                     .value = "N",
                     .help = "of that bucket: attempts at once after a pause [the rate]"},
                    {.name = "cost",
                     .value = "KIND=N",
                     .help = "slots of a job of this kind, 2 to 1000; KIND=none: 1",
                     .repeated = true},
                    {.name = "fair",
                     .value = "on|off",
                     .help = "share fairly between limit keys within a priority"},
                    {.name = "weight",
                     .value = "KEY=N",
                     .help = "weight of a fair key, 0.001 to 1000 [1]; KEY=none: 1",
                     .repeated = true},
                    {.name = "ageing",
                     .value = "TIME",
                     .help = "waiting jobs gain one priority per interval"},
                    {.name = "breaker",
                     .value = "NAME",
                     .help = "circuit breaker of the queue: see `mainspring breaker`"},
                    {.name = "quarantine-after",
                     .value = "N",
                     .help = "lost attempts before quarantine, 0 to 10; 0: never [2]"},
                    {.name = "searchable",
                     .value = "PATH",
                     .help = "path in args to index, up to 8: customer.id; replaces all paths; "
                             "none: no paths",
                     .repeated = true}},
          .scopes = kClient,
          .examples = {{"mainspring queues limit mails --concurrency 5 --rate 100/1m", ""},
                       {"mainspring queues limit mails --key-concurrency 2 --key-rate 10/1m", ""},
                       {"mainspring queues limit mails --rate none", ""},
                       {"mainspring queues limit media --concurrency 6 --cost render=4", ""},
                       {"mainspring queues limit mails --fair on --weight acme=3", ""},
                       {"mainspring queues limit mails --ageing 10m", ""},
                       {"mainspring queues limit addresses --breaker geocoder", ""},
                       {"mainspring queues limit photos --quarantine-after 1", ""},
                       {"mainspring queues limit mails --searchable order --searchable customer.id",
                        ""}},
          .exits = {{66, "no such queue"}},
          .run = run_queues_limit};
}

Command pause_queue_command(const Argument& names) {
  return {.name = "pause",
          .summary = "stop claims from queues",
          .description =
              "Pause queues: no job of them is claimed until you resume them, also after a "
              "restart. Running jobs and enqueues continue. With --for or --until the queues "
              "resume by themselves.",
          .arguments = {names},
          .flags = {kCreateQueue,
                    {.name = "reason", .value = "TEXT", .help = "shown while they are paused"},
                    {.name = "for", .value = "TIME", .help = "resume after this time: 2h"},
                    {.name = "until", .value = "INSTANT", .help = "resume at this time"}},
          .scopes = kClient,
          .examples = {{"mainspring queues pause photos", ""},
                       {"mainspring queues pause mail --for 2h --reason 'provider is down'", ""}},
          .exits = {{66, "there is no such queue"}},
          .run = run_queues_pause};
}

Command queues_command() {
  const Argument name = {"QUEUE", "the queue's name", Count::one};
  const Argument names = {"QUEUE", "names of queues", Count::many};
  return {
      .name = "queues",
      .summary = "list, pause, set and remove queues",
      .description = "Show and change queues.",
      .children = {{.name = "list",
                    .summary = "list queues with their counts",
                    .description = "List all queues with the number of jobs in each state.",
                    .scopes = kClient,
                    .examples = {{"mainspring queues list", ""}},
                    .run = run_queues_list},
                   {.name = "show",
                    .summary = "show a queue's counters and settings",
                    .description = "Show a queue's counters and settings.",
                    .arguments = {name},
                    .scopes = kClient,
                    .examples = {{"mainspring queues show photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_show},
                   pause_queue_command(names),
                   {.name = "resume",
                    .summary = "resume paused queues",
                    .description = "Resume paused queues.",
                    .arguments = {names},
                    .flags = {kCreateQueue},
                    .scopes = kClient,
                    .examples = {{"mainspring queues resume photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_resume},
                   {.name = "set",
                    .summary = "set a queue's retention",
                    .description = "Set how long the ended jobs of a queue stay readable, for jobs "
                                   "that end later. `default` restores the server's setting.",
                    .arguments = {name},
                    .flags = {kCreateQueue,
                              {.name = "retention-completed",
                               .value = "TIME",
                               .help = "completed and cancelled jobs"},
                              {.name = "retention-dead", .value = "TIME", .help = "dead jobs"}},
                    .scopes = kClient,
                    .examples = {{"mainspring queues set photos --retention-completed 1h", ""},
                                 {"mainspring queues set photos --retention-dead default", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_set},
                   {.name = "remove",
                    .summary = "remove empty queues",
                    .description =
                        "Remove queues that have no jobs, with their settings. Finished jobs "
                        "count as long as they are kept. A later enqueue creates the queue again.",
                    .arguments = {names},
                    .scopes = kClient,
                    .examples = {{"mainspring queues remove photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_remove},
                   queue_limit_command(name)}};
}

Command dead_command() {
  std::vector<Flag> groups = filter_flags();
  groups.push_back({.name = "since",
                    .value = "TIME",
                    .help = "only died since then: 2h, 2026-01-31T09:00 or an instant"});
  std::vector<Flag> redrive = filter_flags();
  redrive.push_back({.name = "fingerprint", .value = "F", .help = "only this group"});
  redrive.push_back({.name = "all", .value = "", .help = "dead jobs of all queues"});
  redrive.push_back({.name = "limit", .value = "N", .help = "maximum [all]"});
  redrive.push_back({.name = "rate", .value = "N/s", .help = "maximum speed; also N/m and N/h"});
  redrive.push_back({.name = "canary",
                     .value = "",
                     .help = "redrive 1 job, then 10, then the rest; wait for each group to end; "
                             "stop if a job fails with the same error"});
  redrive.push_back({.name = "background",
                     .value = "",
                     .help = "let the server redrive them in a job; print its id"});
  redrive.push_back({.name = "dry-run", .value = "", .help = "print the jobs; change nothing"});
  return {.name = "dead",
          .summary = "the dead letter: list, show, retry, redrive",
          .description = "Show dead jobs, which failed for good, and retry them.",
          .children = {
              {.name = "list",
               .summary = "list dead jobs with their reasons",
               .description = "List dead jobs, newest first, with the reason and the last error. A "
                              "list of up to 200 jobs also shows the peak memory of programs.",
               .flags = list_flags(),
               .scopes = kClient,
               .examples = {{"mainspring dead list --queue photos --since 2h", ""}},
               .run = run_dead_list},
              {.name = "show",
               .summary = "show a dead job with all its errors",
               .description = "Show a dead job with the error of each attempt.",
               .arguments = {kId},
               .scopes = kClient,
               .examples = {{"mainspring dead show 42", ""}},
               .exits = {{65, "the job is not dead"}, {66, "no such job"}},
               .run = run_dead_show},
              {.name = "groups",
               .summary = "group dead jobs by error",
               .description = "Group the newest 200,000 dead jobs by kind and error, ignoring "
                              "numbers, hex, UUIDs and quoted texts.",
               .flags = groups,
               .scopes = kClient,
               .examples = {{"mainspring dead groups --queue photos --since 2h", ""}},
               .run = run_dead_groups},
              {.name = "redrive",
               .summary = "run all matching dead jobs again",
               .description = "Make all matching dead jobs available again, oldest first. "
                              "Needs a filter or --all. If interrupted, print how many are done.",
               .flags = redrive,
               .scopes = kClient,
               .examples = {{"mainspring dead redrive --queue photos --kind thumbnail", ""},
                            {"mainspring dead redrive --fingerprint 1f0c6a2be4d93857 --dry-run",
                             "a group from `mainspring dead groups`"},
                            {"mainspring dead redrive --queue photos --canary --rate 20/s", ""},
                            {"mainspring dead redrive --queue photos --rate 10/m --background",
                             "continues after you log out, and after restarts"}},
               .exits = {{1, "with --canary: a job failed again with the same error"},
                         {75, "interrupted"}},
               .run = run_dead_redrive},
              {.name = "retry",
               .summary = "run dead jobs again",
               .description = "Make the given jobs available again.",
               .arguments = {kIds},
               .scopes = kClient,
               .examples = {{"mainspring dead retry 42 43", ""}},
               .exits = {{65, "a job is running or completed"}, {66, "no such job"}},
               .run = run_dead_retry}}};
}

Command events_command() {
  return {
      .name = "events",
      .summary = "stream job and queue events",
      .description =
          "Print events until interrupted. After a lost connection reconnect and continue after "
          "the last event; `gap` means that events may be missing: check with `mainspring jobs "
          "list`.",
      .flags = {{.name = "queue", .value = "QUEUE", .help = "only this queue", .repeated = true},
                {.name = "kind", .value = "KIND", .help = "only this kind", .repeated = true},
                {.name = "type",
                 .value = "TYPE",
                 .help = "only this type, and gap",
                 .repeated = true,
                 .choices = {"enqueued", "started", "completed", "retrying", "snoozed", "deferred",
                             "dead", "cancelled", "progress", "queue_paused", "queue_resumed",
                             "quarantined", "quarantine_left", "breaker_opened",
                             "breaker_half_open", "breaker_closed", "changed", "gap"}},
                {.name = "job", .value = "ID", .help = "only this job", .repeated = true},
                {.name = "tag", .value = "TAG", .help = "only this tag", .repeated = true},
                {.name = "after", .value = "ID", .help = "continue after this event [from now on]"},
                {.name = "limit", .value = "N", .help = "stop after N events [never]"}},
      .scopes = kClient,
      .examples = {{"mainspring events --queue photos --type dead --type cancelled", ""},
                   {"mainspring events --json | jq .reason", "with --json: one event per line"}},
      .run = run_events};
}

Command store_copy_command() {
  return {
      .name = "copy",
      .summary = "move a store to a database or directory while its server works",
      .description =
          "Copy everything from FROM to TO, each a data directory or a database URL, while servers "
          "work on FROM. Then block changes of FROM for a moment, copy the remainder, verify TO, "
          "and mark FROM as moved: servers on it refuse changes and report the new location. "
          "Nothing is lost: jobs keep their ids, and workers finish at TO what they started at "
          "FROM. TO must be empty, or an unfinished copy of the same store, which is continued. "
          "Until FROM is marked it is unchanged: the copy can be stopped and repeated at any time.",
      .arguments = {{"FROM", "a data directory, or postgres://… of a database",
                     Argument::Count::one},
                    {"TO", "a new directory, or postgres://… of a database", Argument::Count::one}},
      .flags = {{.name = "keep-source",
                 .value = "",
                 .help = "copy one moment; FROM stays in use, ids and tokens of TO start far "
                         "ahead"},
                {.name = "max-fence",
                 .value = "TIME",
                 .help = "maximum time to block FROM; then unblock it and try again [10s]"},
                {.name = "from-schema", .value = "NAME", .help = "schema of FROM [store_schema]"},
                {.name = "to-schema", .value = "NAME", .help = "schema of TO [store_schema]"}},
      .scopes = kStoreScope | kEverywhere,
      .examples = {{"mainspring store copy /var/lib/mainspring postgres://jobs@db/jobs", ""},
                   {"mainspring store copy postgres://jobs@db/jobs /var/lib/mainspring2", ""},
                   {"mainspring store copy --keep-source /var/lib/mainspring /srv/try", ""}},
      .exits = {{1, "TO is damaged; FROM is unchanged"},
                {65, "TO is not empty or is in use, or FROM has moved"},
                {66, "no store in FROM"},
                {69, "a database is not reachable, or the fence would last too long"}},
      .run = run_store_copy};
}

Command store_command() {
  const unsigned store = kStoreScope | kEverywhere;
  const Argument url{"URL", "postgres://… of a database", Count::optional};
  return {
      .name = "store",
      .summary = "back up, migrate and check a store",
      .description =
          "Manage a data directory or a database (--store, --store-file or URL). Only one process "
          "can open a directory, but `backup` and `info` also work while a server runs.",
      .children = {
          {.name = "backup",
           .summary = "make a consistent copy, also while the server runs",
           .description = "Copy the store into a new directory, which `mainspring serve --data` "
                          "can open. This also works while a server uses the store.",
           .arguments = {{"TO", "a directory that does not exist", Count::one}},
           .scopes = store,
           .examples = {{"mainspring store backup --data /var/lib/mainspring /backup/today", ""}},
           .exits = {{65, "the directory exists"}, {74, "the disk failed"}},
           .run = run_store_backup},
          store_copy_command(),
          {.name = "info",
           .summary = "show what a store contains",
           .description = "Show owner, schema, sizes and jobs of a data directory, or schema, "
                          "size, servers and durability of a database. With --of-server, kind, "
                          "sizes and jobs of the store that a server uses (token: `read`).",
           .arguments = {url},
           .flags = {{.name = "of-server", .value = "", .help = "ask the server at --server"}},
           .scopes = store | kClientScope,
           .examples = {{"mainspring store info --data /var/lib/mainspring", ""},
                        {"mainspring store info --of-server", ""}},
           .run = run_store_info},
          {.name = "migrate",
           .summary = "upgrade the schema",
           .description = "Open the store, upgrade its schema to this version, and close it. "
                          "`mainspring serve` does the same at its start, for a database unless "
                          "store_migrate is off.",
           .arguments = {url},
           .scopes = store,
           .examples = {{"mainspring store migrate --data /var/lib/mainspring", ""},
                        {"mainspring store migrate postgres://owner@db/jobs", ""}},
           .exits = {{65, "another process uses it, or this version cannot read it"}},
           .run = run_store_migrate},
          {.name = "compact",
           .summary = "shrink the database file of a stopped server",
           .description = "Rewrite the database of a data directory without its free pages. The "
                          "file of a store grows to its largest backlog, and its free pages are "
                          "used again. No other process may use the store. It needs free disk "
                          "space twice as large as what the store contains; if it is interrupted, "
                          "the store is unchanged. A terminal shows the progress.",
           .scopes = store,
           .examples = {{"mainspring store compact --data /var/lib/mainspring", ""}},
           .exits = {{65, "another process uses the store"}, {74, "the disk failed or is full"}},
           .run = run_store_compact},
          {.name = "check",
           .summary = "check the files and recount the jobs",
           .description = "Check the database's pages and indexes, then recount every job like "
                          "`mainspring verify`. No other process may use the store.",
           .scopes = store,
           .examples = {{"mainspring store check --data /var/lib/mainspring", ""}},
           .exits = {{1, "problems were found and printed"}},
           .run = run_store_check}}};
}

Command config_command() {
  return {.name = "config",
          .summary = "show settings, their values and origins",
          .description =
              "Show the effective settings. Order of precedence, lowest first: default, TOML file "
              "(--config, else $MAINSPRING_CONFIG, else ~/.config/mainspring/config.toml, else "
              "/etc/mainspring/config.toml), credential, environment, flag. With --of-server, the "
              "settings of a running server (token: `admin`).",
          .flags = {{.name = "explain", .value = "", .help = "with rules and meanings"},
                    {.name = "of-server", .value = "", .help = "ask the server at --server"},
                    {.name = "reference", .value = "", .help = "docs/reference/config.md"}},
          .scopes = kEverywhere | kClientScope | kServeScope | kStoreScope | kWorkScope,
          .examples = {{"mainspring config --explain", ""},
                       {"mainspring config --of-server", ""},
                       {"MAINSPRING_DATA=/srv/jobs mainspring config --json", ""}},
          .run = run_config};
}

const Argument kWorkerNames = {"NAME", "id, its first characters, host, or a pattern: 'web-*'",
                               Argument::Count::many};
const ExitCode kMissingWorker = {66, "a NAME matches no connected worker; nothing was changed"};

Command workers_command() {
  return {
      .name = "workers",
      .summary = "list connected workers",
      .description = "List workers: their queues, running jobs and last request.",
      .scopes = kClient,
      .examples = {{"mainspring workers", ""}},
      .children = {{.name = "quiet",
                    .summary = "stop workers from claiming, for example before a deploy",
                    .description = "Stop workers from claiming jobs. Their running jobs finish. A "
                                   "restart of the server resumes them.",
                    .arguments = {kWorkerNames},
                    .scopes = kClient,
                    .examples = {{"mainspring workers quiet 'web-*'", ""}},
                    .exits = {kMissingWorker},
                    .run = run_workers_quiet},
                   {.name = "stop",
                    .summary = "end workers after their running jobs",
                    .description =
                        "Stop workers from claiming jobs, and end them when their running jobs "
                        "have finished. After its stop timeout a worker releases the remaining "
                        "jobs. Workers of job folders only become quiet.",
                    .arguments = {kWorkerNames},
                    .scopes = kClient,
                    .examples = {{"mainspring workers stop 3f2a91c07d1e", ""}},
                    .exits = {kMissingWorker},
                    .run = run_workers_stop},
                   {.name = "resume",
                    .summary = "let quiet workers claim again",
                    .description = "Let quiet workers claim jobs again, within 5 seconds. A worker "
                                   "that is stopping cannot be resumed.",
                    .arguments = {kWorkerNames},
                    .scopes = kClient,
                    .examples = {{"mainspring workers resume 'web-*'", ""}},
                    .exits = {kMissingWorker, {1, "a worker is stopping"}},
                    .run = run_workers_resume}},
      .run = run_workers};
}

}  // namespace

std::vector<Command> looking_commands() {
  return {jobs_command(), queues_command(), dead_command(),   bulk_command(),
          why_command(),  events_command(), workers_command()};
}

std::vector<Command> operating_commands() {
  return {
      {.name = "verify",
       .summary = "recount and check everything",
       .description =
           "Recount every job of a store and compare with the counters and invariants (enqueued = "
           "live + completed + cancelled + dead + pruned + expired). With --data open that "
           "directory, which no server may use; with --store that database; otherwise ask the "
           "server.",
       .scopes = kStoreScope | kClient,
       .examples = {{"mainspring verify", ""},
                    {"mainspring verify --data /var/lib/mainspring", ""}},
       .exits = {{0, "sound"}, {1, "problems were found and printed"}},
       .run = run_verify},
      store_command(),
      tls_command(),
      config_command(),
      {.name = "version",
       .summary = "print the version",
       .description = "Print the version.",
       .examples = {{"mainspring version", ""}},
       .run = run_version},
      {.name = "completion",
       .summary = "print completions for a shell",
       .description = "Print the completion script of a shell.",
       .arguments = {{"SHELL", "bash, zsh or fish", Count::one, {"bash", "zsh", "fish"}}},
       .examples = {{"source <(mainspring completion bash)", ""},
                    {"mainspring completion fish > ~/.config/fish/completions/mainspring.fish",
                     ""}},
       .run = run_completion},
      {.name = "help",
       .summary = "show help on a command",
       .description = "Print the help of a command.",
       .arguments = {{"COMMAND",
                      "for example: jobs list; connection = the flags of the connection "
                      "to a server",
                      Count::optional},
                     {"SUBCOMMAND", "its second word", Count::optional}},
       .flags = {{.name = "all", .value = "", .help = "list all commands"}},
       .examples = {{"mainspring help jobs list", ""}, {"mainspring help --all", ""}},
       .run = run_help},
      {.name = "man",
       .summary = "print the man page",
       .description = "Print the man page.",
       .run = run_man,
       .hidden = true},
  };
}

}  // namespace mainspring::cli
