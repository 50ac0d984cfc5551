// pipeline run, check, show: workers of one process for the filters of a file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "api/json.h"
#include "base/secret.h"
#include "cli/handlers.h"
#include "cli/pipeline_file.h"
#include "cli/work.h"
#include "cli/worker_end.h"
#include "env/private_memory.h"
#include "worker/pipe.h"

namespace mainspring::cli {
namespace {

// A filter that this process runs, and its worker.
struct Running {
  const Filter* filter = nullptr;
  std::unique_ptr<WorkerRuntime> worker;
};

// Shared by the filters' workers.
struct Shop {
  Jobs& jobs;
  const Clock& clock;
  Random& random;
  Log& log;
  Processes& processes;
  const ProgramAccess access;
  Refusal& refusal;
};

// The filters that this process runs: those of --filter, or all that have a program.
Result<std::vector<std::size_t>> chosen_steps(const Pipeline& pipeline,
                                              const Invocation& invocation, Io& io) {
  std::vector<std::size_t> out;
  const auto& wanted = invocation.all_flags("filter");
  for (const std::string& name : wanted) {
    const auto found = std::find_if(pipeline.filters.begin(), pipeline.filters.end(),
                                    [&](const Filter& filter) { return filter.name == name; });
    if (found == pipeline.filters.end())
      return invalid("filter", fmt::format("--filter \"{}\": the file has no such filter", name));
    if (!found->runs_here()) {
      return invalid("filter", fmt::format("--filter \"{}\": its exec is \"none\": workers "
                                           "elsewhere run it",
                                           name));
    }
    const auto at = static_cast<std::size_t>(found - pipeline.filters.begin());
    if (std::find(out.begin(), out.end(), at) == out.end()) out.push_back(at);
  }
  for (std::size_t i = 0; wanted.empty() && i < pipeline.filters.size(); ++i) {
    if (pipeline.filters[i].runs_here()) out.push_back(i);
  }
  if (out.empty()) {
    return invalid("filters", "filters: each has exec \"none\": there is nothing to run here");
  }
  for (const std::size_t i : out) {
    const Filter& filter = pipeline.filters[i];
    std::error_code error;  // an earlier filter may create it
    if (!filter.directory.empty() && !std::filesystem::is_directory(filter.directory, error)) {
      io.err(
          fmt::format("filters[{}].directory \"{}\": does not exist; its jobs wait until it does\n",
                      i, filter.directory));
    }
    if (program_exists(filter.argv[0], filter.directory, io)) continue;
    return invalid("exec",
                   fmt::format("filters[{}].exec: no executable program {}", i, filter.argv[0]));
  }
  return out;
}

Result<std::unique_ptr<WorkerRuntime>> worker_of(const Pipeline& pipeline, std::size_t at,
                                                 const Invocation& invocation, const Shop& shop) {
  const Filter& filter = pipeline.filters[at];
  const std::int64_t slots =
      filter.slots > 0 ? filter.slots : worker_slots(invocation.options).last;
  WorkerOptions options;
  options.queues = {filter.queue};
  options.slots = static_cast<int>(slots);
  options.lease = invocation.options.lease;
  options.graceful_stop = invocation.options.graceful_stop;
  shop.refusal.obey(options);
  ExecOptions exec;
  exec.argv = filter.argv;
  exec.directory = filter.directory;
  exec.access = shop.access;
  for (const auto& mistakes : {options.validate(), exec.validate()}) {
    if (!mistakes.empty()) return mistakes.front();
  }
  Handler handler = exec_handler(shop.processes, std::move(exec));
  if (at + 1 < pipeline.filters.size()) {
    const Filter& next = pipeline.filters[at + 1];
    handler = piped(std::move(handler), {.queue = next.queue,
                                         .kind = next.posted_kind(),
                                         .carries = filter.carries,
                                         .timeout = next.timeout});
  }
  KindOptions kind;
  kind.timeout = filter.timeout.value_or(Duration{0});
  kind.retry.first_delay = filter.retry_after;
  kind.retry.max_attempts = filter.max_attempts;
  auto worker = std::make_unique<WorkerRuntime>(shop.jobs, shop.clock, shop.random, shop.log,
                                                std::move(options));
  if (filter.kind.empty()) {
    worker->on_any(std::move(handler), kind);
  } else {
    worker->on(filter.kind, std::move(handler), kind);
  }
  return worker;
}

// Checks the queues in the order of the pipeline: a job that leaves a queue after its check is in a
// queue that is checked later.
bool all_through(Jobs& jobs, const Pipeline& pipeline) {
  return std::all_of(pipeline.filters.begin(), pipeline.filters.end(), [&](const Filter& filter) {
    const auto empty = drained(jobs, {filter.queue}, filter.kinds());
    return empty && *empty;
  });
}

std::optional<Error> first_trouble(const std::vector<Running>& running) {
  for (const Running& one : running) {
    if (auto trouble = one.worker->start_failure()) return trouble;
  }
  return std::nullopt;
}

void wait_until_through(Jobs& jobs, const Pipeline& pipeline, const std::vector<Running>& running,
                        StopSignals& signals, Io& io) {
  ProgressLine progress(io);
  wait_until(signals, [&] {
    std::string line;
    for (const Running& one : running) {
      const WorkerStats stats = one.worker->stats();
      line += fmt::format("{}{}: {} completed, {} running", line.empty() ? "" : "; ",
                          one.filter->name, stats.completed, stats.running);
    }
    progress.show(line);
    return first_trouble(running).has_value() || all_through(jobs, pipeline);
  });
}

// All workers stop claiming before any is waited for, so that the total time is that of the slowest
// filter.
void stop_programs(std::vector<Running>& running) {
  for (Running& one : running) one.worker->request_stop();
  for (Running& one : running) one.worker->stop();
}

void print_end(const Invocation& invocation, Io& io, const std::vector<Running>& running) {
  for (const Running& one : running) {
    const WorkerStats stats = one.worker->stats();
    if (invocation.json) {
      std::string name;
      append_json_string(name, one.filter->name);
      print_line(io, fmt::format("{{\"filter\":{},{}}}", name, stats_json(stats)));
    } else {
      print_line(io, fmt::format("{}: {}", one.filter->name, stats_text(stats)));
    }
  }
}

// Counts of one filter's queue.
struct Row {
  std::int64_t waiting = 0, running = 0, done = 0, dead = 0;
  bool paused = false;
};

Row row_of(const std::vector<QueueStats>& queues, const std::string& queue) {
  Row row;
  for (const QueueStats& stats : queues) {
    if (stats.name != queue) continue;
    const auto count = [&](JobState state) {
      return stats.counts[static_cast<std::size_t>(state)];
    };
    row.waiting = count(JobState::waiting) + count(JobState::scheduled) +
                  count(JobState::available) + count(JobState::retryable);
    row.running = count(JobState::running);
    row.done = count(JobState::completed);
    row.dead = count(JobState::dead);
    row.paused = stats.paused;
  }
  return row;
}

}  // namespace

Result<int> run_pipeline_run(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const Pipeline pipeline, pipeline_of_file(*invocation.argument("FILE")));
  MS_TRY_ASSIGN(const auto filters, chosen_steps(pipeline, invocation, io));
  const bool drain = invocation.has("drain");
  StopSignals signals;
  if (!invocation.options.allow_core) MS_TRY(keep_memory_private());
  const SystemClock clock;
  SystemRandom random;
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  SystemProcesses processes;
  MS_TRY_ASSIGN(const auto connection, connect(invocation, 15s));
  MS_TRY(connection->client->ready());
  if (drain) MS_TRY(check_visible(*connection->client, pipeline.queues()));

  Refusal refusal(signals);
  JobTokens job_tokens(*connection->client, clock);
  const Shop shop{connection->jobs(),
                  clock,
                  random,
                  log,
                  processes,
                  program_access(invocation, job_tokens),
                  refusal};
  std::vector<Running> running;
  for (const std::size_t at : filters) {
    MS_TRY_ASSIGN(auto worker, worker_of(pipeline, at, invocation, shop));
    refusal.watch(*worker);
    running.push_back({&pipeline.filters[at], std::move(worker)});
  }
  for (Running& one : running) MS_TRY(one.worker->start());
  if (!invocation.json) {
    std::vector<std::string> names;
    for (const Running& one : running) names.push_back(one.filter->name);
    io.err(fmt::format("pipeline {} runs {} from {}. Ctrl-C stops it.\n", pipeline.name,
                       fmt::join(names, ", "), without_password(invocation.options.server)));
  }
  if (drain) {
    wait_until_through(connection->jobs(), pipeline, running, signals, io);
  } else {
    signals.wait();
  }
  log_stop(log, signals);
  const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });
  stop_programs(running);
  print_end(invocation, io, running);
  if (auto trouble = first_trouble(running); trouble && drain) return std::move(*trouble);
  return refusal.exit_code();
}

Result<int> run_pipeline_check(const Invocation& invocation, Io& io) {
  for (const std::string& file : invocation.all_arguments("FILE")) {
    MS_TRY_ASSIGN(const Pipeline pipeline, pipeline_of_file(file));
    if (invocation.json) {
      std::string line;
      JsonWriter w(line);
      w.begin_object().key("name").string(pipeline.name).key("filters").begin_array();
      for (const Filter& filter : pipeline.filters) {
        w.begin_object().key("name").string(filter.name).key("queue").string(filter.queue);
        w.key("kind").string(filter.posted_kind()).key("runs_here").boolean(filter.runs_here());
        w.end_object();
      }
      w.end_array().end_object();
      print_line(io, line);
      continue;
    }
    std::string way;
    for (const Filter& filter : pipeline.filters) {
      way += fmt::format("{}{}{}", way.empty() ? "" : " -> ", filter.queue,
                         filter.runs_here() ? "" : " (elsewhere)");
    }
    print_line(io, fmt::format("{}: {}", pipeline.name, way));
  }
  return kExitOk;
}

Result<int> run_pipeline_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const Pipeline pipeline, pipeline_of_file(*invocation.argument("FILE")));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, connection->jobs().queues());
  Table table({{.title = "FILTER", .keep = true},
               {.title = "QUEUE", .keep = true},
               {"WAITING", Align::right},
               {"RUNNING", Align::right},
               {"DONE", Align::right},
               {"DEAD", Align::right},
               {""}});
  for (const Filter& filter : pipeline.filters) {
    const Row row = row_of(queues, filter.queue);
    if (invocation.json) {
      std::string line;
      JsonWriter w(line);
      w.begin_object().key("filter").string(filter.name).key("queue").string(filter.queue);
      w.key("waiting").number(row.waiting).key("running").number(row.running);
      w.key("done").number(row.done).key("dead").number(row.dead);
      w.key("paused").boolean(row.paused).end_object();
      print_line(io, line);
      continue;
    }
    table.add({{filter.name},
               {filter.queue},
               {format_count(row.waiting)},
               {format_count(row.running)},
               {format_count(row.done)},
               {format_count(row.dead), row.dead > 0 ? Colour::red : Colour::none},
               {row.paused ? "paused" : "", Colour::yellow}});
  }
  if (!invocation.json) io.out(table.render(io));
  return kExitOk;
}

}  // namespace mainspring::cli
