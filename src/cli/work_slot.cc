// work --slot: one time slot, and its summary.
#include <fmt/format.h>

#include <charconv>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/work.h"

namespace mainspring::cli {
namespace {

const char* const kSlotOnly[] = {"name", "estimate", "tolerance", "idle", "poll", "standby"};

Result<double> tolerance_of(const Invocation& invocation) {
  const auto given = invocation.flag("tolerance");
  const std::string name = given ? "tolerance" : "slot_tolerance";
  const std::string* const text = given ? &*given : &invocation.options.slot_tolerance;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc() && end == text->data() + text->size()) return value;
  return invalid(name, fmt::format("{}{} \"{}\": must be a number such as 2.5", given ? "--" : "",
                                   name, *text));
}

std::string json_of_slot(const SlotSummary& slot) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("end").string(to_string(slot.end));
  w.key("handled").number(slot.handled).key("given_back").number(slot.given_back);
  w.key("completed").number(slot.worker.completed).key("failed").number(slot.worker.failed);
  w.key("dead").number(slot.worker.dead);
  w.key("busy_share").real(slot.busy_share());
  w.key("waited_ms").number(slot.waited.count() / 1000);
  w.key("ran_ms").number(slot.ran.count() / 1000);
  w.key("slack_ms").number(slot.slack.count() / 1000);
  if (!slot.holder.empty()) w.key("holder").string(slot.holder);
  w.end_object();
  return out;
}

std::string why(SlotEnd end) {
  switch (end) {
    case SlotEnd::full:
      return "no job would fit any more";
    case SlotEnd::empty:
      return "the queue is empty, and no time is left to wait";
    case SlotEnd::stopped:
      return "stopped by a signal";
    case SlotEnd::lease_lost:
      return "the slot's lease was lost";
    default:
      return "";
  }
}

std::string seconds(Duration d) {
  return fmt::format("{:.2f} s", double(d.count()) / 1e6);
}

std::string text_of_slot(const SlotSummary& slot, const std::string& name) {
  if (slot.end == SlotEnd::held) {
    return fmt::format("nothing done: slot {} is held by {}", name, printable(slot.holder));
  }
  std::string line = fmt::format("{} handled, {:.1f} % busy in {}", format_count(slot.handled),
                                 100 * slot.busy_share(), seconds(slot.ran));
  if (slot.worker.failed > 0) line += ", " + counted(slot.worker.failed, "failed attempt");
  if (slot.worker.dead > 0) line += fmt::format(", {} dead", format_count(slot.worker.dead));
  if (slot.given_back > 0) line += fmt::format(", {} given back", format_count(slot.given_back));
  line += ": " + why(slot.end);
  if (slot.slack < Duration(0)) return line + fmt::format("; {} too late", seconds(-slot.slack));
  return line + fmt::format("; {} left", seconds(slot.slack));
}

}  // namespace

Result<std::optional<SlotOptions>> slot_of(const Invocation& invocation) {
  if (!invocation.has("slot")) {
    for (const char* name : kSlotOnly) {
      if (!invocation.has(name)) continue;
      return invalid(name, fmt::format("--{}: can be given with --slot only", name));
    }
    return std::optional<SlotOptions>();
  }
  SlotOptions slot;
  slot.name = invocation.flag("name").value_or(slot.name);
  if (invocation.has("poll")) slot.rule = SlotRule::poll;
  slot.standby = invocation.has("standby");
  if (invocation.has("idle") && slot.rule != SlotRule::poll) {
    return invalid("idle", "--idle: needs --poll");
  }
  MS_TRY_ASSIGN(const auto length, invocation.duration("slot"));
  MS_TRY_ASSIGN(const auto estimate, invocation.duration("estimate"));
  MS_TRY_ASSIGN(const auto idle, invocation.duration("idle"));
  MS_TRY_ASSIGN(slot.tolerance, tolerance_of(invocation));
  slot.length = length.value_or(slot.length);
  slot.estimate = estimate.value_or(invocation.options.slot_estimate);
  slot.idle = idle.value_or(invocation.options.slot_idle);
  for (Error& error : slot.validate()) {
    error.message = "--" + error.message;
    return error;
  }
  return std::optional(slot);
}

Result<int> run_work_slot(const Invocation& invocation, Io& io, const WorkPlan& plan, Jobs& jobs,
                          const Handler& handler, StopSignals& signals) {
  const SystemClock clock;
  SystemRandom random;
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  SlotRunner runner(jobs, clock, random, log, plan.options, *plan.slot);
  if (plan.kinds.empty()) runner.on_any(handler, plan.kind_options);
  for (const std::string& kind : plan.kinds) runner.on(kind, handler, plan.kind_options);
  MS_TRY_ASSIGN(const SlotSummary slot, runner.run(signals.stop()));
  log_stop(log, signals);
  print_line(io, invocation.json ? json_of_slot(slot) : text_of_slot(slot, plan.slot->name));
  return kExitOk;
}

}  // namespace mainspring::cli
