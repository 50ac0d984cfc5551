// The table of commands: queues, dead, workers; verify, store, config and the rest.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const Argument kId = {"ID", "a job's number", Count::one};
const Argument kIds = {"ID", "jobs' numbers", Count::many};

std::vector<Flag> filter_flags() {
  return {{.name = "queue", .value = "QUEUE", .help = "only of this queue"},
          {.name = "kind", .value = "KIND", .help = "only of this kind"},
          {.name = "tag", .value = "TAG", .help = "only with this tag"}};
}

std::vector<Flag> list_flags() {
  std::vector<Flag> flags = filter_flags();
  flags.push_back({.name = "limit", .value = "N", .help = "at most N [50]"});
  flags.push_back({.name = "all", .value = "", .help = "all of them"});
  return flags;
}

// Of commands that change queues: without it, a mistyped name is an error.
const Flag kCreateQueue = {
    .name = "create", .value = "", .help = "create the queue if it does not exist"};

Command queue_limit_command(const Argument& name) {
  return {.name = "limit",
          .summary = "limit how many jobs run at once, or begin in a time",
          .description =
              "Limits a queue, over all workers and nodes, at once and until it is changed. What "
              "is not given stays as it is; `none` lifts a limit. Jobs that run go on.",
          .arguments = {name},
          .flags = {kCreateQueue,
                    {.name = "concurrency", .value = "N", .help = "jobs that run at once"},
                    {.name = "key-concurrency",
                     .value = "N",
                     .help = "jobs with the same limit key that run at once"},
                    {.name = "rate", .value = "N/TIME", .help = "attempts that begin: 100/1m"},
                    {.name = "rate-kind",
                     .value = "KIND",
                     .help = "of the rate: bucket, sliding or fixed [bucket]"},
                    {.name = "burst",
                     .value = "N",
                     .help = "of a bucket: so many at once after a rest [as many as the rate]"},
                    {.name = "key-rate",
                     .value = "N/TIME",
                     .help = "attempts with the same limit key that begin: 10/1m"},
                    {.name = "key-rate-kind",
                     .value = "KIND",
                     .help = "of that rate: bucket, sliding or fixed [bucket]"},
                    {.name = "key-burst",
                     .value = "N",
                     .help = "of that bucket: so many at once after a rest [as many as the rate]"},
                    {.name = "cost",
                     .value = "KIND=N",
                     .help = "slots that a job of a heavy kind takes, 2 to 1000; KIND=none: 1",
                     .repeated = true},
                    {.name = "fair",
                     .value = "on|off",
                     .help = "whether limit keys take turns within a priority"},
                    {.name = "weight",
                     .value = "KEY=N",
                     .help = "of a fair key, 0.001 to 1000 [1]; KEY=none: as others",
                     .repeated = true},
                    {.name = "ageing",
                     .value = "TIME",
                     .help = "jobs rise by one priority each such time that they wait"},
                    {.name = "breaker",
                     .value = "NAME",
                     .help = "that holds its jobs back: see `mainspring breaker`"},
                    {.name = "quarantine-after",
                     .value = "N",
                     .help = "lost attempts before a job is set apart, 0 to 10; 0: never [2]"}},
          .scopes = kClient,
          .examples = {{"mainspring queues limit mails --concurrency 5 --rate 100/1m", ""},
                       {"mainspring queues limit mails --key-concurrency 2 --key-rate 10/1m", ""},
                       {"mainspring queues limit mails --rate none", ""},
                       {"mainspring queues limit media --concurrency 6 --cost render=4", ""},
                       {"mainspring queues limit mails --fair on --weight acme=3", ""},
                       {"mainspring queues limit mails --ageing 10m", ""},
                       {"mainspring queues limit addresses --breaker geocoder", ""},
                       {"mainspring queues limit photos --quarantine-after 1", ""}},
          .exits = {{66, "there is no such queue"}},
          .run = run_queues_limit};
}

Command pause_queue_command(const Argument& names) {
  return {.name = "pause",
          .summary = "give no more jobs of queues",
          .description =
              "Pauses queues: nothing of them is claimed until they are resumed, also "
              "after a restart. Running jobs continue; enqueueing too. With --for or "
              "--until the queues resume by themselves.",
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
  const Argument names = {"QUEUE", "queues' names", Count::many};
  return {
      .name = "queues",
      .summary = "list, pause, set and remove queues",
      .description = "Looks at queues and changes them.",
      .children = {{.name = "list",
                    .summary = "all queues with their counts",
                    .description = "Lists all queues with the number of jobs in each state.",
                    .scopes = kClient,
                    .examples = {{"mainspring queues list", ""}},
                    .run = run_queues_list},
                   {.name = "show",
                    .summary = "everything about a queue",
                    .description = "Shows a queue's counters and settings.",
                    .arguments = {name},
                    .scopes = kClient,
                    .examples = {{"mainspring queues show photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_show},
                   pause_queue_command(names),
                   {.name = "resume",
                    .summary = "undo pause",
                    .description = "Resumes paused queues.",
                    .arguments = {names},
                    .flags = {kCreateQueue},
                    .scopes = kClient,
                    .examples = {{"mainspring queues resume photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_resume},
                   {.name = "set",
                    .summary = "set a queue's retention",
                    .description =
                        "Sets how long the ended jobs of a queue stay readable, for jobs that end "
                        "later. `default` goes back to the server's setting.",
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
                        "Removes queues that have no jobs, with their settings. Finished jobs "
                        "count as long as they are kept. A later enqueue creates the queue again.",
                    .arguments = {names},
                    .scopes = kClient,
                    .examples = {{"mainspring queues remove photos", ""}},
                    .exits = {{66, "there is no such queue"}},
                    .run = run_queues_remove},
                   queue_limit_command(name)}};
}

Command dead_command() {
  std::vector<Flag> redrive = filter_flags();
  redrive.push_back({.name = "fingerprint", .value = "F", .help = "only of this group"});
  redrive.push_back({.name = "limit", .value = "N", .help = "at most so many [all]"});
  redrive.push_back({.name = "rate", .value = "N/s", .help = "at most so fast; N/m and N/h too"});
  redrive.push_back({.name = "canary",
                     .value = "",
                     .help = "1 job, then 10, then the rest, each when those before have ended; "
                             "stop if one fails again of the same"});
  redrive.push_back({.name = "background",
                     .value = "",
                     .help = "the server does it, by a job: print its id and end"});
  redrive.push_back({.name = "dry-run", .value = "", .help = "say how many, and change nothing"});
  return {.name = "dead",
          .summary = "the dead letter: list, show, retry, redrive",
          .description =
              "Looks at dead jobs, those that failed for good, and gives them another chance.",
          .children = {
              {.name = "list",
               .summary = "dead jobs with their reasons",
               .description =
                   "Lists dead jobs, newest first, with the reason and the last error. A "
                   "list of up to 200 jobs also shows the peak memory of programs.",
               .flags = list_flags(),
               .scopes = kClient,
               .examples = {{"mainspring dead list --queue photos", ""}},
               .run = run_dead_list},
              {.name = "show",
               .summary = "a dead job with all its errors",
               .description = "Shows a dead job with the error of each attempt.",
               .arguments = {kId},
               .scopes = kClient,
               .examples = {{"mainspring dead show 42", ""}},
               .exits = {{65, "the job is not dead"}, {66, "there is no such job"}},
               .run = run_dead_show},
              {.name = "groups",
               .summary = "dead jobs by what they died of",
               .description = "Groups the newest 20,000 dead jobs by kind and error; numbers, hex, "
                              "UUIDs and quoted texts do not count.",
               .flags = filter_flags(),
               .scopes = kClient,
               .examples = {{"mainspring dead groups --queue photos", ""}},
               .run = run_dead_groups},
              {.name = "redrive",
               .summary = "run all matching dead jobs again",
               .description = "Makes all dead jobs that match available again, oldest first. "
                              "Interrupted, it says how far it came.",
               .flags = redrive,
               .scopes = kClient,
               .examples = {{"mainspring dead redrive --queue photos --kind thumbnail", ""},
                            {"mainspring dead redrive --fingerprint 1f0c6a2be4d93857 --dry-run",
                             "a group of `mainspring dead groups`"},
                            {"mainspring dead redrive --queue photos --canary --rate 20/s", ""},
                            {"mainspring dead redrive --queue photos --rate 10/m --background",
                             "it goes on when you log out, and over restarts"}},
               .exits = {{1, "with --canary: a job failed again of what they had died of"},
                         {75, "it was interrupted"}},
               .run = run_dead_redrive},
              {.name = "retry",
               .summary = "run dead jobs again",
               .description = "Makes the given jobs available again.",
               .arguments = {kIds},
               .scopes = kClient,
               .examples = {{"mainspring dead retry 42 43", ""}},
               .exits = {{65, "a job is running or completed"}, {66, "there is no such job"}},
               .run = run_dead_retry}}};
}

Command events_command() {
  return {
      .name = "events",
      .summary = "what becomes of jobs and queues, as it happens",
      .description =
          "Prints events as they happen, until it is interrupted. When the server goes away it "
          "connects again, and goes on behind the last event; `gap` says that some may be missing: "
          "then look with `mainspring jobs list`.",
      .flags = {{.name = "queue",
                 .value = "QUEUE",
                 .help = "only of this queue; several may be given",
                 .repeated = true},
                {.name = "kind", .value = "KIND", .help = "only of this kind", .repeated = true},
                {.name = "type",
                 .value = "TYPE",
                 .help = "only of this type, and gap",
                 .repeated = true,
                 .choices = {"enqueued", "started", "completed", "retrying", "snoozed", "deferred",
                             "dead", "cancelled", "progress", "queue_paused", "queue_resumed",
                             "quarantined", "quarantine_left", "breaker_opened",
                             "breaker_half_open", "breaker_closed", "gap"}},
                {.name = "job", .value = "ID", .help = "only of this job", .repeated = true},
                {.name = "tag", .value = "TAG", .help = "only with this tag", .repeated = true},
                {.name = "after", .value = "ID", .help = "go on behind this event [from now on]"},
                {.name = "limit", .value = "N", .help = "end after so many [never]"}},
      .scopes = kClient,
      .examples = {{"mainspring events --queue photos --type dead --type cancelled", ""},
                   {"mainspring events --json | jq .reason", "with --json: one event per line"}},
      .run = run_events};
}

Command store_copy_command() {
  return {
      .name = "copy",
      .summary = "move a store to a database or a directory, while its server works",
      .description =
          "Copies everything from FROM to TO, each a data directory or the URL of a database, "
          "while servers work on FROM. Then nobody changes FROM for a moment, what changed since "
          "is "
          "copied, TO is verified, and FROM is marked as moved: a server on it takes nothing more "
          "and says where to, and one that is started on it is refused. Nothing is lost: jobs keep "
          "their numbers, and a worker finishes at TO what it began at FROM. TO must be empty, or "
          "the unfinished copy of the same store, which is gone on with. Until FROM is marked it "
          "is as it was: the copy may be ended at any time and begun again.",
      .arguments = {{"FROM", "a data directory, or postgres://… of a database",
                     Argument::Count::one},
                    {"TO", "a new directory, or postgres://… of a database", Argument::Count::one}},
      .flags = {{.name = "keep-source",
                 .value = "",
                 .help = "copy as of one moment; FROM goes on, ids and tokens of TO begin far "
                         "ahead"},
                {.name = "max-fence",
                 .value = "TIME",
                 .help = "nobody changes FROM for longer; else it goes on and another try is made "
                         "[10s]"},
                {.name = "from-schema", .value = "NAME", .help = "of FROM [store_schema]"},
                {.name = "to-schema", .value = "NAME", .help = "of TO [store_schema]"}},
      .scopes = kStoreScope | kEverywhere,
      .examples = {{"mainspring store copy /var/lib/mainspring postgres://jobs@db/jobs", ""},
                   {"mainspring store copy postgres://jobs@db/jobs /var/lib/mainspring2", ""},
                   {"mainspring store copy --keep-source /var/lib/mainspring /srv/try", ""}},
      .exits = {{1, "TO is not sound; FROM is as it was"},
                {65, "TO holds something, FROM has moved, or somebody has TO open"},
                {66, "FROM holds no store"},
                {69, "a database is not reached, or the fence would stand too long"}},
      .run = run_store_copy};
}

Command store_command() {
  const unsigned store = kStoreScope | kEverywhere;
  const Argument url{"URL", "postgres://… of a database", Count::optional};
  return {
      .name = "store",
      .summary = "back up, migrate and check a store",
      .description =
          "Works on a data directory, or on a database (--store, --store-file or URL). Only one "
          "process may have a directory open: `backup` and `info` also work while a server has "
          "it. A database is open to all.",
      .children = {
          {.name = "backup",
           .summary = "a consistent copy, also while the server runs",
           .description = "Copies the store into a new directory, which `mainspring serve --data` "
                          "can open. While a server has the store open the copy is made by reading "
                          "beside it.",
           .arguments = {{"TO", "a directory that does not exist", Count::one}},
           .scopes = store,
           .examples = {{"mainspring store backup --data /var/lib/mainspring /backup/today", ""}},
           .exits = {{65, "the directory exists"}, {74, "the disk failed"}},
           .run = run_store_backup},
          store_copy_command(),
          {.name = "info",
           .summary = "what a store holds",
           .description = "Shows owner, schema, sizes and jobs of a data directory; schema, size, "
                          "servers and durability of a database.",
           .arguments = {url},
           .scopes = store,
           .examples = {{"mainspring store info --data /var/lib/mainspring", ""}},
           .run = run_store_info},
          {.name = "migrate",
           .summary = "bring the schema up to this version",
           .description = "Opens the store, which brings its schema up to this version, and closes "
                          "it. `mainspring serve` does the same at its start, for a database "
                          "unless store_migrate is off.",
           .arguments = {url},
           .scopes = store,
           .examples = {{"mainspring store migrate --data /var/lib/mainspring", ""},
                        {"mainspring store migrate postgres://owner@db/jobs", ""}},
           .exits = {{65, "another process has it open, or this version cannot read it"}},
           .run = run_store_migrate},
          {.name = "check",
           .summary = "check the files and recount the jobs",
           .description = "Checks the database's pages and indexes, then recounts every job as "
                          "`mainspring verify` does. Nobody else may have the store open.",
           .scopes = store,
           .examples = {{"mainspring store check --data /var/lib/mainspring", ""}},
           .exits = {{1, "something is wrong; it is printed"}},
           .run = run_store_check}}};
}

Command config_command() {
  return {.name = "config",
          .summary = "every setting, its value and where it came from",
          .description =
              "Shows the settings as a command would get them: default, TOML file (--config, else "
              "$MAINSPRING_CONFIG, else ~/.config/mainspring/config.toml, else "
              "/etc/mainspring/config.toml), environment, flag; the later ones override.",
          .flags = {{.name = "explain", .value = "", .help = "with rules and meanings"},
                    {.name = "reference", .value = "", .help = "docs/reference/config.md"}},
          .scopes = kEverywhere | kClientScope | kServeScope | kStoreScope | kWorkScope,
          .examples = {{"mainspring config --explain", ""},
                       {"MAINSPRING_DATA=/srv/jobs mainspring config --json", ""}},
          .run = run_config};
}

}  // namespace

std::vector<Command> looking_commands() {
  return {jobs_command(),
          queues_command(),
          dead_command(),
          bulk_command(),
          why_command(),
          events_command(),
          {.name = "workers",
           .summary = "workers that the server has heard of",
           .description = "Lists workers: what they take, what they run, when they last spoke.",
           .scopes = kClient,
           .examples = {{"mainspring workers", ""}},
           .run = run_workers}};
}

std::vector<Command> operating_commands() {
  return {
      {.name = "verify",
       .summary = "recount everything and check it",
       .description =
           "Recounts every job of a store and checks it against the counters and the laws "
           "(enqueued = live + completed + cancelled + dead + pruned + expired). With "
           "--data it opens that directory, which no server may have open; with --store that "
           "database; else it asks the server.",
       .scopes = kStoreScope | kClient,
       .examples = {{"mainspring verify", ""},
                    {"mainspring verify --data /var/lib/mainspring", ""}},
       .exits = {{0, "sound"}, {1, "something is wrong; it is printed"}},
       .run = run_verify},
      store_command(),
      tls_command(),
      config_command(),
      {.name = "version",
       .summary = "the version",
       .description = "Prints the version.",
       .examples = {{"mainspring version", ""}},
       .run = run_version},
      {.name = "completion",
       .summary = "completions for a shell",
       .description = "Prints the completion script of a shell.",
       .arguments = {{"SHELL", "bash, zsh or fish", Count::one}},
       .examples = {{"source <(mainspring completion bash)", ""},
                    {"mainspring completion fish > ~/.config/fish/completions/mainspring.fish",
                     ""}},
       .run = run_completion},
      {.name = "help",
       .summary = "help on a command",
       .description = "Prints the help of a command.",
       .arguments = {{"COMMAND", "for example: jobs list", Count::optional},
                     {"SUBCOMMAND", "its second word", Count::optional}},
       .examples = {{"mainspring help jobs list", ""}},
       .run = run_help},
      {.name = "man",
       .summary = "the man page",
       .description = "Prints the man page.",
       .run = run_man,
       .hidden = true},
  };
}

}  // namespace mainspring::cli
