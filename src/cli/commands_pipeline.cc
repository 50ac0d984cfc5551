// The table of commands: pipelines.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

Command pipeline_run_command() {
  return {
      .name = "run",
      .summary = "run the filters of a pipeline",
      .description =
          "Runs a program for each job of each filter's queue, as `work` does. FILE is JSON: "
          "{\"name\", \"filters\": [{\"name\", \"exec\", \"queue\"?, \"kind\"?, \"slots\"?, "
          "\"directory\"?, \"timeout\"?, \"retry_after\"?, \"max_attempts\"?, \"args\"?}, …]}. A "
          "filter's queue is PIPELINE.FILTER if it is not named; its exec is \"none\" if workers "
          "elsewhere take its jobs.\n"
          "\n"
          "What a program leaves as its result goes into the next filter's queue, in the "
          "transaction that completes its job: an object is one job, a list of objects many, "
          "nothing or null drops the item. The object's members are laid over the args of the "
          "item; with \"args\": \"replace\" they are all the args. Exit code 65 takes an item out: "
          "it is dead, with the program's words.\n"
          "\n"
          "Several processes may run the same file; --filter runs some of its filters here. "
          "SIGTERM and Ctrl-C let running jobs end, then give them back.",
      .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
      .flags = {{.name = "filter",
                 .value = "NAME",
                 .help = "only this one [all that have a program]",
                 .repeated = true},
                {.name = "drain",
                 .value = "",
                 .help = "stop when no queue of it has an available, running or retryable job"}},
      .scopes = kClientScope | kWorkScope | kEverywhere,
      .examples = {{"mainspring pipeline run photos.json", ""},
                   {"mainspring pipeline run photos.json --filter shrink --slots 8", ""},
                   {"mainspring pipeline run photos.json --drain", "run what is there, then stop"}},
      .exits = {{0, "stopped by a signal or --drain"},
                {64, "the definition breaks a rule, or a program is not there"},
                {69, "the server is not reachable (at the start; later it waits for it)"}},
      .run = run_pipeline_run};
}

}  // namespace

Command pipeline_command() {
  return {
      .name = "pipeline",
      .summary = "filters that post into each other's queues",
      .description = "Runs pipelines of filters, and shows how far the items have come.",
      .children = {
          pipeline_run_command(),
          {.name = "show",
           .summary = "how many jobs each filter has",
           .description =
               "Shows what waits, runs, is done and is dead in the queue of each filter. Done jobs "
               "are counted as long as they are kept.",
           .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
           .scopes = kClientScope | kEverywhere,
           .examples = {{"mainspring pipeline show photos.json", ""}},
           .exits = {{64, "the definition breaks a rule"}},
           .run = run_pipeline_show},
          {.name = "check",
           .summary = "check a definition, without a server",
           .description = "Holds definitions against the rules, and prints their way.",
           .arguments = {{"FILE", "definitions; - = standard input", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring pipeline check photos.json", ""}},
           .exits = {{64, "it breaks a rule; the field is named"}},
           .run = run_pipeline_check}}};
}

}  // namespace mainspring::cli
