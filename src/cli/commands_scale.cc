// The table of commands: scale.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

std::vector<Flag> scale_flags(std::vector<Flag> more) {
  std::vector<Flag> flags = {
      {.name = "queue",
       .value = "QUEUE",
       .help = "a queue, or a prefix such as 'tenant/*' [all queues]",
       .repeated = true},
      {.name = "target", .value = "TIME", .help = "time in which waiting jobs start [30s]"},
      {.name = "slots", .value = "N", .help = "jobs that a worker runs at once [1]"},
      {.name = "min", .value = "N", .help = "fewest workers [0]"},
      {.name = "max", .value = "N", .help = "most workers [100]"},
      {.name = "lead", .value = "TIME", .help = "time that a worker takes to start [20s]"},
      {.name = "hold", .value = "TIME", .help = "time before the number falls [5m]"}};
  flags.insert(flags.begin(), more.begin(), more.end());
  return flags;
}

const Flag kScalePool = {
    .name = "pool", .value = "NAME", .help = "name of the pool, for its gauges"};
const Flag kScaleWindow = {.name = "window",
                           .value = "TEXT",
                           .help =
                               "another min or max at times of the calendar: 'min=4; cron=0 8 * * "
                               "1-5; for=10h; time_zone=Europe/Berlin'",
                           .repeated = true};
const Flag kScaleEvery = {
    .name = "every", .value = "TIME", .help = "interval to ask for the number, 1s to 60s [15s]"};

Command units_command() {
  return {
      .name = "units",
      .summary = "start and stop instances of a systemd template",
      .description =
          "Keep as many instances of a systemd template running as the queues need: TEMPLATE@1 to "
          "TEMPLATE@n. Of surplus instances the highest become quiet: they claim no more jobs. "
          "They are stopped when they hold no job. It needs the rights to start and stop these "
          "units, to read queues and workers, and to make workers quiet.",
      .arguments = {{"TEMPLATE", "the template, such as mainspring-worker@", Argument::Count::one}},
      .flags = scale_flags({kScalePool, kScaleEvery, kScaleWindow}),
      .scopes = kClient,
      .examples = {{"mainspring scale units mainspring-worker@ --queue mail --min 1 --max 8", ""}},
      .run = run_scale_units};
}

}  // namespace

Command scale_command() {
  return {
      .name = "scale",
      .summary = "scale workers by demand and calendar",
      .description = "Commands that show and apply how many workers queues need.",
      .children = {
          {.name = "show",
           .summary = "show how many workers queues need",
           .description = "Print the number of workers that the demand of the queues needs, and "
                          "the reason.",
           .flags = scale_flags({kScalePool, kScaleWindow}),
           .scopes = kClient,
           .examples = {{"mainspring scale show --queue mail --slots 4", ""},
                        {"mainspring scale show --queue 'tenant/*' --json | jq .queues", ""}},
           .run = run_scale_show},
          {.name = "run",
           .summary = "run a program whenever the number of workers changes",
           .description =
               "Ask the server how many workers the queues need, and run a program whenever the "
               "number changes. {desired} in its arguments becomes the number; the program also "
               "gets MAINSPRING_SCALE_DESIRED and _REASON. A program that fails runs again, with "
               "growing pauses. One process per pool does so, by the lock scale/POOL; others wait "
               "as standbys.",
           .flags = scale_flags(
               {{.name = "exec", .value = "COMMAND", .help = "the program and its arguments"},
                kScalePool,
                kScaleEvery,
                kScaleWindow}),
           .scopes = kClient,
           .examples = {{"mainspring scale run --pool video --queue 'video/*' --slots 4 --max 20 "
                         "--exec './set-size {desired}'",
                         ""}},
           .exits = {{0, "stopped by a signal"}, {75, "the lock was lost"}},
           .run = run_scale_run},
          units_command(),
          {.name = "simulate",
           .summary = "simulate the rule on recorded arrivals",
           .description =
               "Replay the recorded arrivals and run times of queues, and print the waiting times "
               "and worker hours of the scaling rule, and of a fixed number of workers that is "
               "the rule's highest. Minutes are recorded for two days, before that hours.",
           .flags = scale_flags(
               {{.name = "from", .value = "TIME", .help = "how far back to start [24h]"}}),
           .scopes = kClient,
           .examples = {{"mainspring scale simulate --from 7d --queue mail --slots 4 --target 1m",
                         ""}},
           .run = run_scale_simulate}}};
}

}  // namespace mainspring::cli
