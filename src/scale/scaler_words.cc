// What a signal says, what a request asks for, and the gauges of pools.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "broker/broker.h"
#include "scale/scaler.h"

namespace mainspring {
namespace {

constexpr Duration kReadingsKept = std::chrono::milliseconds(500);

std::string amount(double value) {
  return value < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string demand(const ScaleSignal& signal) {
  const SlotsNeeded& needed = signal.needed;
  const std::string target = format_duration(signal.options.target);
  if (signal.raw == 0) {
    return signal.held > 0 ? "no job may start" : "no job runs, waits or is due";
  }
  const std::string workers = counted(signal.raw, "worker");
  if (needed.due > 0 && needed.due >= needed.flow / kScaleUse &&
      needed.due >= needed.flow + needed.backlog) {
    return fmt::format("{} due within {} {} {} slots: {}", counted(signal.due, "job"),
                       format_duration(signal.options.lead), signal.due == 1 ? "needs" : "need",
                       amount(needed.due), workers);
  }
  if (needed.backlog > 0 && needed.flow + needed.backlog >= needed.flow / kScaleUse) {
    const std::string flow =
        needed.flow > 0 ? fmt::format(" with {} for arrivals", amount(needed.flow)) : "";
    return fmt::format("work of {} s in {} needs {} slots{}: {}", amount(signal.work_seconds),
                       target, amount(needed.flow + needed.backlog), flow, workers);
  }
  if (needed.flow > 0) {
    return fmt::format("{} jobs/s keep {} slots busy: {}", amount(signal.arrivals_per_s),
                       amount(needed.flow), workers);
  }
  return fmt::format("{}: {}", signal.ready > signal.held ? "jobs wait" : "only running jobs",
                     workers);
}

std::string held(const ScaleSignal& signal) {
  const auto most =
      std::max_element(signal.queues.begin(), signal.queues.end(),
                       [](const ScaleQueue& a, const ScaleQueue& b) { return a.held < b.held; });
  if (signal.held == 0 || most == signal.queues.end()) return "";
  return fmt::format("; {} held, most by {} of {}", counted(signal.held, "job"), most->gate,
                     most->name);
}

Result<void> read_count(int& out, const std::string& name, const std::string& text) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (problem == std::errc() && end == text.data() + text.size()) return {};
  return invalid(name, fmt::format("{} \"{}\": must be a whole number", name, text.substr(0, 64)));
}

Result<void> read_queues(std::vector<std::string>& out, std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::string_view name = one.ends_with('*') ? one.substr(0, one.size() - 1) : one;
    if (!name.empty() || one.empty()) MS_TRY(check_name("queues", name));
    if (out.size() == kMaxScaleQueues) {
      return invalid("queues", fmt::format("queues: must be at most {}", kMaxScaleQueues));
    }
    out.emplace_back(one);
  }
  return {};
}

}  // namespace

std::string scale_reason(const ScaleSignal& signal) {
  std::string out = demand(signal) + held(signal);
  const ScaleOptions& options = signal.options;
  if (signal.raw > options.max) {
    out += fmt::format("; limited by max {}", options.max);
  } else if (signal.desired > signal.raw && signal.desired == options.min) {
    out += fmt::format("; raised to min {}", options.min);
  } else if (signal.desired > signal.raw && signal.until) {
    out += fmt::format("; held at {} until {}", signal.desired, format_wall_time(*signal.until));
  } else if (signal.desired > signal.raw) {
    out += fmt::format("; held at {} for running jobs", signal.desired);
  }
  return out;
}

Result<void> ScaleRequest::read(
    const std::vector<std::pair<std::string, std::string>>& parameters) {
  for (const auto& [name, value] : parameters) {
    const auto time = [&, &name = name, &value = value](Duration& out) -> Result<void> {
      const auto read = parse_duration(value);
      if (!read) return invalid(name, fmt::format("{}: {}", name, read.error().message));
      out = *read;
      return {};
    };
    if (name == "queues" && !value.empty()) {
      queues.clear();
      MS_TRY(read_queues(queues, value));
    }
    if (name == "target") MS_TRY(time(options.target));
    if (name == "lead") MS_TRY(time(options.lead));
    if (name == "hold") MS_TRY(time(options.hold));
    if (name == "slots") MS_TRY(read_count(options.slots, name, value));
    if (name == "min") MS_TRY(read_count(options.min, name, value));
    if (name == "max") MS_TRY(read_count(options.max, name, value));
    if (name == "pool") {
      MS_TRY(check_name("pool", value));
      pool = value;
    }
    if (name == "window") {
      if (windows.size() == kMaxScaleWindows) {
        return invalid("window", fmt::format("window: must be at most {}", kMaxScaleWindows));
      }
      MS_TRY_ASSIGN(ScaleWindow window, parse_scale_window(value));
      windows.push_back(std::move(window));
    }
  }
  return options.validate();
}

std::string ScaleRequest::key() const {
  return fmt::format("{} {} {} {} {} {}", pool, fmt::join(queues, ","), options.target.count(),
                     options.slots, options.hold.count(),
                     within.scopes == nullptr ? "" : within.scopes->text());
}

// The gauges of a scrape share one reading.
std::map<std::string, Scaler::Reading> Scaler::readings() {
  std::map<std::string, ScaleRequest> named(declared_.begin(), declared_.end());
  const Instant now = clock_.now().instant;
  {
    MutexLock lock(mutex_);
    if (read_at_ != Instant::never() && now - read_at_ < kReadingsKept) return readings_;
    for (const auto& [key, pool] : pools_) {
      if (!pool.request.pool.empty()) named[pool.request.pool] = pool.request;
    }
  }
  std::map<std::string, Reading> out;
  for (const auto& [name, request] : named) {
    const auto one = signal(request);
    if (one) out[name] = {double(one->desired), one->work_seconds, double(one->held)};
  }
  MutexLock lock(mutex_);
  read_at_ = now;
  return readings_ = std::move(out);
}

Scaler::Scaler(Broker& broker, const Clock& clock, Registry& registry,
               const std::map<std::string, ScaleRequest, std::less<>>& pools)
    : broker_(broker), clock_(clock), registry_(registry), declared_(pools) {
  const auto gauge = [this](const char* name, const char* help, double Reading::*value) {
    registry_.gauges(name, help, [this, value] {
      Registry::Samples out;
      for (const auto& [pool, reading] : readings()) {
        out.emplace_back(Labels{{"pool", pool}}, reading.*value);
      }
      return out;
    });
  };
  gauge("mainspring_scale_desired_workers", "Workers that a pool needs.", &Reading::desired);
  gauge("mainspring_scale_work_seconds", "Run time of the available jobs of a pool that may start.",
        &Reading::work_seconds);
  gauge("mainspring_scale_held", "Available jobs of a pool that limits hold back.", &Reading::held);
}

Scaler::~Scaler() {
  for (const char* name : {"mainspring_scale_desired_workers", "mainspring_scale_work_seconds",
                           "mainspring_scale_held"})
    registry_.gauges(name, "", {});
}

}  // namespace mainspring
