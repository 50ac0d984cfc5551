// work --timer: runs a program once per batch of a continuous timer.
#include <fmt/format.h>

#include "cli/work.h"
#include "worker/start_failure.h"

namespace mainspring::cli {
namespace {

constexpr int kExitIdle = 3;  // there was no work
constexpr std::size_t kErrorBytes = 1 << 10;
const char* const kTimerOnly[] = {"batch", "batch-idle", "timer-slots"};
const char* const kNotOfTimers[] = {"slot", "once", "drain", "retry-after", "max-attempts"};

std::string what_happened(const ProcessEnd& end) {
  std::string text = end.signal != 0 ? fmt::format("killed by {}", signal_name(end.signal))
                                     : fmt::format("exit code {}", end.exit_code);
  std::string_view tail = end.err.tail;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) tail.remove_suffix(1);
  if (tail.size() > kErrorBytes) tail.remove_prefix(tail.size() - kErrorBytes);
  return tail.empty() ? text : fmt::format("{}: {}", text, tail);
}

}  // namespace

Result<std::optional<TimerOptions>> timer_of(const Invocation& invocation) {
  if (!invocation.has("timer")) {
    for (const char* name : kTimerOnly) {
      if (!invocation.has(name)) continue;
      return invalid(name, fmt::format("--{}: can be given with --timer only", name));
    }
    return std::optional<TimerOptions>();
  }
  for (const char* name : kNotOfTimers) {
    if (!invocation.has(name)) continue;
    return invalid(name, fmt::format("--{}: cannot be given with --timer", name));
  }
  TimerOptions timer;
  MS_TRY_ASSIGN(const auto batch, invocation.number("batch", 1, 1'000'000));
  MS_TRY_ASSIGN(const auto idle, invocation.duration("batch-idle"));
  MS_TRY_ASSIGN(const auto slots, invocation.number("timer-slots", 1, kMaxTimerSlots));
  timer.batch = static_cast<int>(batch.value_or(timer.batch));
  timer.idle = idle.value_or(timer.idle);
  timer.timer_slots = static_cast<int>(slots.value_or(timer.timer_slots));
  if (const auto errors = timer.validate(); !errors.empty()) {
    return invalid("batch-idle", "--batch-" + errors.front().message);
  }
  return std::optional(timer);
}

ProcessBatch exec_batch(Processes& processes, ExecOptions options) {
  return [&processes, options = std::move(options)](TimerContext& context, int max) -> Result<int> {
    ProcessSpec spec;
    spec.argv = options.argv;
    spec.directory = options.directory;
    spec.input = context.job().args;
    spec.kill_grace = options.hurried_kill_grace;
    spec.environment = inherited_environment("MAINSPRING_");
    const auto add = [&spec](std::string_view name, std::string value) {
      spec.environment.push_back(fmt::format("MAINSPRING_{}={}", name, value));
    };
    add("TIMER_NAME", context.name());
    add("BATCH_MAX", fmt::to_string(max));
    add("BATCH", fmt::to_string(context.batch()));
    add("TOKEN", fmt::to_string(context.token()));
    // Without a token the program still runs: it may not need one.
    (void)options.access.add(spec.environment, context.job().queue, "", context.remaining());
    add("REMAINING_MS",
        fmt::to_string(std::max<std::int64_t>(context.remaining().count() / 1000, 0)));
    bool started = false;
    spec.started = [&started](ProcessIds) { started = true; };
    const auto end = processes.run(
        spec, [](std::string_view) {}, context.stop_token());
    if (!end) return started ? end.error() : start_failure(end.error());
    if (end->signal == 0 && end->exit_code == 0) return 1;
    if (end->signal == 0 && end->exit_code == kExitIdle) return 0;
    return Error{.code = ErrorCode::internal, .message = what_happened(*end)};
  };
}

}  // namespace mainspring::cli
