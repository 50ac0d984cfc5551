// bench: runs the measurements, prints figures, targets and the machine.
#include "cli/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/support.h"
#include "cli/table.h"
#include "cli/version.h"

namespace mainspring::cli {
namespace bench {
namespace {

struct Measurement {
  std::string_view name;
  std::string_view what;
  Result<void> (*run)(Context&);
};

constexpr Measurement kMeasurements[] = {
    {"alone", "one caller, one job at a time, in process: how long until it is durable",
     measure_alone},
    {"enqueue", "enqueue in process, acknowledged jobs per second", measure_enqueue},
    {"lifecycle", "enqueue, claim, complete in process, all durable, jobs kept as history",
     measure_lifecycle},
    {"http-alone", "one caller, one job at a time, over HTTP", measure_http_alone},
    {"http-enqueue", "enqueue over HTTP", measure_http_enqueue},
    {"http-lifecycle", "enqueue, claim, complete over HTTP", measure_http_lifecycle},
    {"wake", "idle server, one job over HTTP, until the handler of a remote worker starts",
     measure_wake},
    {"lateness", "jobs that are due at different times: from run_at until the handler starts",
     measure_lateness},
    {"due", "a million jobs due at one instant: how long others wait meanwhile", measure_due},
    {"queues", "lifecycle with 100,000 jobs waiting among 1,000 queues", measure_queues},
    {"sessions", "lifecycle of jobs that go to 1,000 and to 100,000 sessions", measure_sessions},
    {"workflows", "workflows of three steps, against four jobs each", measure_workflows},
    {"answers", "callers that wait for the end of a job: from its commit to their answer",
     measure_answers},
    {"million", "claims, memory and start-up with a million jobs queued", measure_million},
    {"idle", "what an idle server costs", measure_idle},
};

void write_json(std::string& out, const Context& context) {
  JsonWriter json(out);
  json.begin_object().key("version").string(kVersion).key("machine").begin_object();
  for (const auto& [name, value] : context.machine) json.key(name).string(value);
  json.end_object().key("disk").begin_array();
  for (const auto& [bytes, us] : context.disk.measured()) {
    json.begin_object().key("bytes").number(bytes).key("sync_us").real(us).end_object();
  }
  json.end_array().key("figures").begin_array();
  for (const Figure& figure : context.report.figures()) {
    json.begin_object().key("name").string(figure.name).key("setup").string(figure.setup);
    json.key("value").real(figure.value).key("unit").string(figure.unit);
    if (figure.disk > 0) json.key("disk_ratio").real(figure.disk);
    if (!figure.target.empty()) json.key("target").string(figure.target);
    if (figure.met) json.key("met").boolean(*figure.met);
    for (const auto& [name, value] : figure.more) json.key(name).real(value);
    if (!figure.note.empty()) json.key("note").string(figure.note);
    json.end_object();
  }
  json.end_array().end_object();
  out += '\n';
}

Result<std::vector<const Measurement*>> chosen_measurements(const Invocation& invocation) {
  std::vector<const Measurement*> out;
  for (const std::string& name : invocation.all_flags("only")) {
    const auto found = std::find_if(std::begin(kMeasurements), std::end(kMeasurements),
                                    [&](const Measurement& m) { return m.name == name; });
    if (found == std::end(kMeasurements)) {
      return invalid("only",
                     fmt::format("--only \"{}\": must be one of those that --list shows", name));
    }
    out.push_back(found);
  }
  if (out.empty()) {
    for (const Measurement& measurement : kMeasurements) out.push_back(&measurement);
  }
  return out;
}

void print_verdict(Io& io, const Report& report) {
  int met = 0;
  int missed = 0;
  for (const Figure& figure : report.figures()) {
    if (!figure.met) continue;
    (*figure.met ? met : missed) += 1;
  }
  io.out(fmt::format("\n{} targets met, {} missed\n", met, missed));
}

}  // namespace

Plan quick_plan() {
  Plan plan;
  plan.quick = true;
  plan.repeats = 1;
  plan.warm_up = 200ms;
  plan.run_for = 700ms;
  plan.samples = 300;
  plan.clients = {1, 16, 256};
  plan.batches = {1, 100, 1000};
  plan.payloads = {200};
  plan.preload = 100'000;
  plan.idle_for = 3s;
  return plan;
}

void Report::section(const std::string& title) {
  progress_.clear();
  if (!json_) {
    io_.out(fmt::format("\n{}\n", coloured(io_, title, Colour::bold)));
    io_.out(coloured(io_,
                     fmt::format("  {:<58} {:>10} {:<6} {:>7}  {}", "", "", "", "disk", "target"),
                     Colour::dim) +
            "\n");
  }
}

void Report::add(Figure figure) {
  progress_.clear();
  if (!json_) {
    const std::string ratio = figure.disk > 0 ? fmt::format("{:.2f}x", figure.disk) : "";
    std::string target = figure.target;
    if (figure.met) {
      target += *figure.met ? coloured(io_, "  met", Colour::green)
                            : coloured(io_, "  MISSED", Colour::red);
    }
    std::string line = fmt::format("  {:<58} {:>10} {:<6} {:>7}  {}", figure.setup,
                                   format_value(figure), figure.unit, ratio, target);
    if (!figure.note.empty()) line += fmt::format("  ({})", figure.note);
    while (line.back() == ' ') line.pop_back();
    io_.out(line + "\n");
  }
  figures_.push_back(std::move(figure));
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = static_cast<std::ptrdiff_t>(share * last + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

double microseconds(Duration d) {
  return static_cast<double>(d.count());
}

Result<Figure> alone_figure(Context& context, std::string setup,
                            const std::vector<double>& times_us, std::int64_t bytes) {
  Figure figure{.name = "alone",
                .setup = std::move(setup),
                .value = percentile(times_us, 0.5),
                .unit = "us p50"};
  const auto count = static_cast<std::int64_t>(times_us.size());
  MS_TRY_ASSIGN(figure.disk, context.disk.ratio(figure.value / 1e6, 1, bytes / count));
  MS_TRY_ASSIGN(figure.more["disk_same_bytes_us"], context.disk.sync_us(bytes / count));
  MS_TRY_ASSIGN(figure.more["disk_4k_us"], context.disk.sync_us(1));
  figure.more["bytes_per_commit"] = static_cast<double>(bytes / count);
  figure.more["p99_us"] = percentile(times_us, 0.99);
  figure.note = fmt::format("p99 {:.0f} us; the disk: {} KiB {:.0f} us, 4 KiB {:.0f} us",
                            figure.more["p99_us"], bytes / count / 1024,
                            figure.more["disk_same_bytes_us"], figure.more["disk_4k_us"]);
  return figure;
}

std::string payload_of(int bytes) {
  constexpr std::string_view kHead = R"({"data":")";
  constexpr std::string_view kTail = R"("})";
  const auto filler = static_cast<std::size_t>(bytes) - kHead.size() - kTail.size();
  return std::string(kHead) + std::string(filler, 'x') + std::string(kTail);
}

std::string combination(std::string_view where, int clients, int batch, int payload) {
  return fmt::format(
      "{}, {} client{}, batch {}, {}", where, clients, clients == 1 ? "" : "s", batch,
      payload >= 1024 ? fmt::format("{} KiB", payload / 1024) : fmt::format("{} B", payload));
}

}  // namespace bench

Result<int> run_bench(const Invocation& invocation, Io& io) {
  using namespace bench;
  if (invocation.has("list")) {
    Table table({{"NAME"}, {"WHAT"}});
    for (const Measurement& measurement : kMeasurements) {
      table.add({{std::string(measurement.name)}, {std::string(measurement.what)}});
    }
    io.out(table.render(io));
    return kExitOk;
  }
  MS_TRY_ASSIGN(const std::vector<const Measurement*> measurements,
                chosen_measurements(invocation));
  Plan plan = invocation.has("quick") ? quick_plan() : Plan{};
  if (has_shared_store(invocation.options)) {
    MS_TRY_ASSIGN(plan.postgres, postgres_options(invocation.options));
  }
  const std::string base = invocation.flag("dir").value_or("bench-data");
  plan.directory = fmt::format("{}/{}", base, getpid());
  MS_TRY(make_directory(plan.directory));
  if (is_memory_file_system(plan.directory)) {
    io.err(
        fmt::format("{} is in memory: nothing reaches a disk, the figures mean nothing. Give "
                    "--dir on a real disk.\n",
                    plan.directory));
  }
  Report report(io, invocation.json);
  Disk disk(plan.directory);
  Context context{.plan = plan,
                  .report = report,
                  .disk = disk,
                  .program = "/proc/self/exe",
                  .machine = machine_facts(plan.directory)};
  if (!invocation.json) {
    io.out(fmt::format("mainspring {}\n", kVersion));
    for (const auto& [name, value] : context.machine) {
      io.out(fmt::format("  {:<12} {}\n", name, value));
    }
  }
  Result<void> failed;
  for (const Measurement* measurement : measurements) {
    report.section(fmt::format("{}: {}", measurement->name, measurement->what));
    failed = measurement->run(context);
    if (!failed) break;
  }
  std::string text;
  write_json(text, context);
  remove_directory(plan.directory);
  (void)rmdir(base.c_str());  // if it is empty
  if (!failed) return failed.error();
  if (const auto file = invocation.flag("save")) MS_TRY(write_file(*file, text));
  if (const auto file = invocation.flag("report")) MS_TRY(write_report(*file, context));
  if (invocation.json) {
    io.out(text);
  } else {
    print_verdict(io, report);
  }
  return kExitOk;
}

}  // namespace mainspring::cli
