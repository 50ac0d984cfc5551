// Converts the rows of a workflow to and from text.
#include "workflow/step_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>

#include "api/fields.h"
#include "api/workflow_shapes.h"
#include "base/fnv.h"
#include "base/mutant.h"

namespace mainspring::workflow {
namespace {

// The number of values of each enumeration in the rows.
constexpr std::int64_t count_of(StepState) {
  return kStepStateCount;
}
constexpr std::int64_t count_of(UndoOrder) {
  return 2;
}

// Refuses values that do not fit: only damaged rows have them. The limit leaves room to add two
// values.
template <auto Member, class T>
bool as_any(JsonReader& in, T& into) {
  using Field = std::remove_reference_t<decltype(into.*Member)>;
  std::int64_t value = 0;
  if constexpr (std::is_same_v<Field, WallTime>) {
    if (!in.integer(value, INT64_MIN, INT64_MAX)) return false;
    into.*Member = WallTime::from_us(value);
  } else if constexpr (std::is_enum_v<Field>) {
    if (!in.integer(value, std::int64_t{0}, count_of(Field()) - 1)) return false;
    into.*Member = static_cast<Field>(value);
  } else {
    constexpr std::int64_t kMost = std::numeric_limits<Field>::max() / 2;
    if (!in.integer(value, std::int64_t{0}, kMost)) return false;
    into.*Member = static_cast<Field>(value);
  }
  return true;
}

bool read_numbers(JsonReader& in, std::vector<int>& out) {
  return in.array(kMaxStepsInAll,
                  [&](std::size_t) { return in.integer(out.emplace_back(), 1, INT32_MAX); });
}
bool read_refs(JsonReader& in, std::map<std::string, int>& out) {
  return in.members([&](std::string_view name) {
    if (!check_memo_name("refs", name)) return in.fail_here("must be names of steps");
    return in.integer(out[std::string(name)], 1, INT32_MAX);
  });
}
void write_numbers(JsonWriter& w, std::string_view key, const std::vector<int>& numbers) {
  if (numbers.empty()) return;
  w.key(key).begin_array();
  for (const int number : numbers) w.number(number);
  w.end_array();
}
void write_refs(JsonWriter& w, const std::map<std::string, int>& refs) {
  if (refs.empty()) return;
  w.key("refs").begin_object();
  for (const auto& [name, number] : refs) w.key(name).number(number);  // names need no escaping
  w.end_object();
}

constexpr JsonField<StepStatus> kStatus[] = {
    {"state", &as_any<&StepStatus::state>},
    {"pending", &as_any<&StepStatus::pending>},
    {"came", &as_any<&StepStatus::came>},
    {"job", &as_any<&StepStatus::job>},
    {"undo_job", &as_any<&StepStatus::undo_job>},
    {"workflow", &as_any<&StepStatus::workflow>},
    {"of", &as_any<&StepStatus::of>},
    {"index", &as_any<&StepStatus::index>},
    {"seq", &as_any<&StepStatus::seq>},
    {"first", &as_any<&StepStatus::first>},
    {"count", &as_any<&StepStatus::count>},
    {"bytes", &as_any<&StepStatus::bytes>},
    {"reason", [](JsonReader& in, StepStatus& s) { return in.string(s.reason); }},
    {"started_at", &as_any<&StepStatus::started_at>},
    {"ended_at", &as_any<&StepStatus::ended_at>},
    {"taken_over", &as_boolean<&StepStatus::taken_over>},
    {"unknown", &as_boolean<&StepStatus::unknown>},
};

bool read_states(JsonReader& in, std::vector<StepStatus>& out) {
  return in.array(kMaxPackedSteps,
                  [&](std::size_t) { return in.object(kStatus, out.emplace_back()); });
}

constexpr JsonField<Summary> kSummary[] = {
    {"paused", &as_boolean<&Summary::paused>},
    {"reason", [](JsonReader& in, Summary& s) { return in.string(s.reason); }},
    {"started_at", &as_any<&Summary::started_at>},
    {"deadline_at", &as_any<&Summary::deadline_at>},
    {"undo_order", &as_any<&Summary::undo_order>},
    {"cancelled", &as_boolean<&Summary::cancelled>},
    {"version",
     [](JsonReader& in, Summary& s) { return in.integer(s.version, std::int64_t{1}, INT64_MAX); }},
    {"steps", &as_any<&Summary::steps>},
    {"open", &as_any<&Summary::open>},
    {"live", &as_any<&Summary::live>},
    {"parked", &as_any<&Summary::parked>},
    {"undoing", &as_any<&Summary::undoing>},
    {"stuck", &as_any<&Summary::stuck>},
    {"seq", &as_any<&Summary::seq>},
    {"signals", &as_any<&Summary::signals>},
    {"waiting_signals", &as_any<&Summary::waiting_signals>},
    {"heard", &as_any<&Summary::heard>},
    {"completed", &as_any<&Summary::completed>},
    {"failed", &as_any<&Summary::failed>},
    {"skipped", &as_any<&Summary::skipped>},
    {"running", &as_any<&Summary::running>},
    {"undone", &as_any<&Summary::undone>},
    {"undo_failed", &as_any<&Summary::undo_failed>},
    {"refs", [](JsonReader& in, Summary& s) { return read_refs(in, s.refs); }},
    {"fork_of",
     [](JsonReader& in, Summary& s) {
       return in.integer(s.forked_from.id, std::int64_t{1}, INT64_MAX);
     }},
    {"fork_step", [](JsonReader& in, Summary& s) { return in.string(s.forked_from.step); }},
    {"parent",
     [](JsonReader& in, Summary& s) {
       return in.integer(s.parent.workflow, std::int64_t{1}, INT64_MAX);
     }},
    {"parent_step", &as_any<&Summary::parent_step>},
    {"parent_name", [](JsonReader& in, Summary& s) { return in.string(s.parent.step); }},
    {"ended_at", &as_any<&Summary::ended_at>},
    {"states", [](JsonReader& in, Summary& s) { return read_states(in, s.states); }},
    {"queues", [](JsonReader& in, Summary& s) { return in.string(s.queues); }},
    {"key_for",
     [](JsonReader& in, Summary& s) {
       std::int64_t us = 0;
       if (!in.integer(us, std::int64_t{0}, kMaxWorkflowKeyFor.count())) return false;
       s.key_for = Duration(us);
       return true;
     }},
    {"key_until", &as_any<&Summary::key_until>},
    {"removed", &as_boolean<&Summary::removed>},
};

constexpr JsonField<StepDefinition> kDefinition[] = {
    {"step", [](JsonReader& in, StepDefinition& d) { return read_step_spec(in, d.spec); }},
    {"parents", [](JsonReader& in, StepDefinition& d) { return read_numbers(in, d.plan.parents); }},
    {"children",
     [](JsonReader& in, StepDefinition& d) { return read_numbers(in, d.plan.children); }},
    {"refs", [](JsonReader& in, StepDefinition& d) { return read_refs(in, d.plan.refs); }},
};

// A program's text may have U+0000, which no database accepts in JSON.
void write_reason(JsonWriter& w, std::string reason) {
  if (reason.empty()) return;
  if (!MS_MUTANT(reason_kept_raw)) std::replace(reason.begin(), reason.end(), '\0', '?');
  w.key("reason").string(reason);
}

// Numbers that are 0 are omitted.
class Numbers {
 public:
  explicit Numbers(JsonWriter& w) : w_(w) {}
  Numbers& put(std::string_view key, std::int64_t value) {
    if (value != 0) w_.key(key).number(value);
    return *this;
  }

 private:
  JsonWriter& w_;
};

std::string queues_of(const WorkflowSpec& spec) {
  std::set<std::string> queues;
  (void)for_each_step(spec, [&](const std::string&, const StepSpec& step) -> Result<void> {
    if (step.job) queues.insert(step.job->queue);
    if (step.undo) queues.insert(step.undo->queue);
    return {};
  });
  std::string out;
  for (const std::string& queue : queues) out += queue + "\n";
  return out;
}

void write_status(JsonWriter& w, const StepStatus& s) {
  w.begin_object();
  Numbers(w)
      .put("state", static_cast<int>(s.state))
      .put("pending", s.pending)
      .put("came", s.came)
      .put("job", s.job)
      .put("undo_job", s.undo_job)
      .put("workflow", s.workflow)
      .put("of", s.of)
      .put("index", s.index)
      .put("seq", s.seq)
      .put("first", s.first)
      .put("count", s.count)
      .put("bytes", s.bytes);
  write_reason(w, s.reason);
  Numbers(w).put("started_at", s.started_at).put("ended_at", s.ended_at);
  if (s.taken_over) w.key("taken_over").boolean(true);
  if (s.unknown) w.key("unknown").boolean(true);
  w.end_object();
}

// Takes a number at the start of `text`, and the one character after it.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return number;
}

std::optional<WallTime> time_or_none(std::int64_t us) {
  if (us == 0) return std::nullopt;
  return WallTime::from_us(us);
}

}  // namespace

// A quote within a string would be escaped, so the text can only be a member name.
bool is_packed(std::string_view summary) {
  return summary.find("\"states\":[") != std::string_view::npos;
}

bool is_removed(std::string_view summary) {
  return summary.starts_with("{\"removed\":true");
}

std::optional<WorkflowRecord> left_of(const WorkflowRecord& record, Duration retention,
                                      WallTime now) {
  if (record.key.empty() || is_removed(record.data)) return std::nullopt;
  const auto summary = decode_summary(record.data);
  if (!summary || summary->key_until <= now || MS_MUTANT(key_goes_with_workflow))
    return std::nullopt;
  WorkflowRecord left = record;
  left.finished_at = summary->key_until - retention;
  left.data =
      encode(Summary{.queues = summary->queues, .key_until = summary->key_until, .removed = true});
  return left;
}

std::string encode(const Summary& s) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  if (s.removed) w.key("removed").boolean(true);
  if (s.paused) w.key("paused").boolean(true);
  write_reason(w, s.reason);
  if (s.cancelled) w.key("cancelled").boolean(true);
  if (s.deadline_at != WallTime::never()) w.key("deadline_at").number(s.deadline_at.us());
  Numbers(w)
      .put("started_at", s.started_at.us())
      .put("undo_order", static_cast<int>(s.undo_order))
      .put("version", s.version)
      .put("steps", s.steps)
      .put("open", s.open)
      .put("live", s.live)
      .put("parked", s.parked)
      .put("undoing", s.undoing)
      .put("stuck", s.stuck)
      .put("seq", s.seq)
      .put("signals", s.signals)
      .put("waiting_signals", s.waiting_signals)
      .put("heard", s.heard)
      .put("completed", s.completed)
      .put("failed", s.failed)
      .put("skipped", s.skipped)
      .put("running", s.running)
      .put("undone", s.undone)
      .put("undo_failed", s.undo_failed);
  write_refs(w, s.refs);
  if (s.forked_from.id != 0)
    w.key("fork_of").number(s.forked_from.id).key("fork_step").string(s.forked_from.step);
  if (s.parent.workflow != 0) {
    w.key("parent").number(s.parent.workflow).key("parent_step").number(s.parent_step);
    w.key("parent_name").string(s.parent.step);
    Numbers(w).put("ended_at", s.ended_at.us());
  }
  if (s.packed()) {
    w.key("states").begin_array();
    for (const StepStatus& status : s.states) write_status(w, status);
    w.end_array();
  }
  if (!s.queues.empty()) w.key("queues").string(s.queues);
  Numbers(w).put("key_for", s.key_for.count()).put("key_until", s.key_until.us());
  w.end_object();
  return out;
}

Result<Summary> decode_summary(std::string_view text) {
  return decode_request(text, kSummary);
}

std::string encode(const StepDefinition& step) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("step");
  write_step_spec(w, step.spec);
  write_numbers(w, "parents", step.plan.parents);
  write_numbers(w, "children", step.plan.children);
  write_refs(w, step.plan.refs);
  w.end_object();
  return out;
}

Result<StepDefinition> decode_definition(std::string_view text) {
  MS_TRY_ASSIGN(StepDefinition read, decode_request(text, kDefinition));
  if (read.spec.name.empty()) return Error{ErrorCode::internal, "step: must be given"};
  return read;
}

Prepared prepare(const WorkflowSpec& spec, std::vector<PlannedStep> plan) {
  Prepared out{.steps = {}, .queues = queues_of(spec), .refs = result_refs(spec)};
  out.steps.reserve(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    auto definition = std::make_shared<const StepDefinition>(
        StepDefinition{.spec = spec.steps[i], .plan = std::move(plan[i])});
    std::string text = encode(*definition);
    out.steps.push_back({.definition = std::move(definition), .text = std::move(text)});
  }
  return out;
}

std::string encode(const StepStatus& s) {
  std::string out;
  JsonWriter w(out);
  write_status(w, s);
  return out;
}

Result<StepStatus> decode_status(std::string_view text) {
  return decode_request(text, kStatus);
}

// A line "2 9 0 31 40\n", then the texts without separators. The numbers: the number of
// definitions, the length of the input, of the requested result, and of each definition.
std::string encode(const StartText& start) {
  std::string out =
      fmt::format("{} {} {}", start.specs.size(), start.input.size(), start.asked.size());
  for (const std::string& spec : start.specs) out += fmt::format(" {}", spec.size());
  out += '\n';
  out += start.input;
  out += start.asked;
  for (const std::string& spec : start.specs) out += spec;
  return out;
}

Result<StartText> decode_start(std::string_view text) {
  const Error damaged{ErrorCode::internal, "its input cannot be read"};
  const auto steps = take_number(text);
  if (!steps || *steps > kMaxPackedSteps) return damaged;
  std::array<std::size_t, kMaxPackedSteps + 2> sizes{};
  std::size_t all = 0;
  for (std::size_t i = 0; i < *steps + 2; ++i) {
    const auto size = take_number(text);
    if (!size || *size > text.size()) return damaged;
    sizes[i] = *size;
    all += *size;
  }
  if (all != text.size()) return damaged;
  StartText out;
  std::size_t i = 0;
  const auto take = [&] {
    std::string part(text.substr(0, sizes[i]));
    text.remove_prefix(sizes[i++]);
    return part;
  };
  out.input = take();
  out.asked = take();
  while (i < *steps + 2) out.specs.push_back(take());
  return out;
}

std::string key_of(const WorkflowRecord& record, const Summary& summary, int step) {
  // Like the key of a job: Context::idempotency_key().
  const std::uint64_t hash =
      fnv1a(fmt::format("{}\n{}\n{}", record.name, record.key, summary.started_at.us()));
  return fmt::format("ms-w{}-{}-{:016x}", record.id, step, hash);
}

WorkflowInfo info_of(const WorkflowRecord& record) {
  WorkflowInfo out{.id = record.id, .name = record.name, .key = record.key, .state = record.state};
  const auto summary = decode_summary(record.data);
  if (!summary) {
    out.reason = "its row cannot be read: " + summary.error().message;
    return out;
  }
  const Summary& s = *summary;
  out.paused = s.paused;
  out.reason = s.reason;
  out.steps = s.steps;
  out.completed = s.completed, out.failed = s.failed, out.skipped = s.skipped;
  out.running = s.running, out.undone = s.undone, out.undo_failed = s.undo_failed;
  out.started_at = s.started_at;
  if (record.finished_at != WallTime::never()) out.finished_at = record.finished_at;
  if (s.parent.workflow != 0) {
    out.parent = s.parent;
    out.finished_at = is_terminal(record.state) ? std::optional(s.ended_at) : std::nullopt;
  }
  if (s.deadline_at != WallTime::never()) out.deadline_at = s.deadline_at;
  out.version = s.version;
  if (s.forked_from.id != 0) out.forked_from = s.forked_from;
  return out;
}

WorkflowStep step_of(int number, const StepStatus& status, const StepDefinition& definition,
                     bool goes_forward) {
  WorkflowStep out{.number = number,
                   .name = definition.spec.name,
                   .state = status.state,
                   .job = status.job,
                   .undo_job = status.undo_job,
                   .workflow = status.workflow,
                   .of = status.of,
                   .index = status.index,
                   .reason = status.reason,
                   .started_at = time_or_none(status.started_at),
                   .ended_at = time_or_none(status.ended_at),
                   .taken_over = status.taken_over};
  if (status.of == 0) {
    out.after = definition.spec.after;
    // Also the parents that it refers to.
    for (const auto& [name, parent] : definition.plan.refs) {
      const bool named = std::find(out.after.begin(), out.after.end(), name) != out.after.end();
      if (parent != number && !named) out.after.push_back(name);
    }
  } else {
    out.name = fmt::format("{}[{}]", definition.spec.name, status.index);
  }
  // At the end of the workflow, steps that wait for it are not written again.
  const bool jobless = status.job == 0 && status.workflow == 0 && status.count == 0;
  if (!goes_forward &&
      (status.state == StepState::waiting || (status.state == StepState::running && jobless))) {
    out.state = StepState::skipped;
    out.reason = "the workflow ended before it";
  }
  return out;
}

}  // namespace mainspring::workflow
