// A redrive's state to and from JSON.
#include "redrive/redrive_json.h"

#include <algorithm>

#include "api/fields.h"
#include "model/fingerprint.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxSteps = 16;

void write_step(JsonWriter& w, const RedriveStep& step) {
  w.begin_object().key("step").number(step.number).key("redriven").number(step.redriven);
  w.key("completed").number(step.completed).key("cancelled").number(step.cancelled);
  w.key("dead").number(step.dead).key("gone").number(step.gone);
  if (step.again) {
    w.key("again").begin_object().key("job").number(step.again->id);
    w.key("fingerprint").string(fingerprint_of(*step.again));
    w.key("reason").string(step.again->reason);
    w.key("description").string(step.again->description);
    w.key("state").string(to_string(step.again->state));
    w.key("attempt").number(step.again->attempt).end_object();
  }
  w.end_object();
}

void write_steps(JsonWriter& w, const RedriveState& state) {
  w.key("steps").begin_array();
  for (const RedriveStep& step : state.steps) write_step(w, step);
  w.end_array();
}

constexpr JsonField<RedriveStep> kStep[] = {
    {"step", &as_integer<&RedriveStep::number, 1, INT_MAX>},
    {"redriven", &as_count<&RedriveStep::redriven>},
    {"completed", &as_count<&RedriveStep::completed>},
    {"cancelled", &as_count<&RedriveStep::cancelled>},
    {"dead", &as_count<&RedriveStep::dead>},
    {"gone", &as_count<&RedriveStep::gone>},
};
constexpr JsonField<DeadJob> kLive[] = {
    {"job", &as_id<&DeadJob::id>},
    {"attempt", &as_integer<&DeadJob::attempt, 0, INT_MAX>},
};
constexpr JsonField<RedriveState> kState[] = {
    {"after", &as_count<&RedriveState::after>},
    {"tried", &as_count<&RedriveState::tried>},
    {"redriven", &as_count<&RedriveState::redriven>},
    {"step", [](JsonReader& in, RedriveState& s) { return in.object(kStep, s.step); }},
    {"steps",
     [](JsonReader& in, RedriveState& s) {
       return in.array(kMaxSteps,
                       [&](std::size_t) { return in.object(kStep, s.steps.emplace_back()); });
     }},
    {"live",
     [](JsonReader& in, RedriveState& s) {
       return in.array(kMaxLive,
                       [&](std::size_t) { return in.object(kLive, s.live.emplace_back()); });
     }},
    {"known", [](JsonReader& in, RedriveState& s) { return read_strings(in, s.known, kMaxKnown); }},
};

}  // namespace

std::string json_of(const RedriveStep& step) {
  std::string out;
  JsonWriter w(out);
  write_step(w, step);
  return out;
}

std::string_view to_string(RedriveReport::End end) {
  switch (end) {
    case RedriveReport::End::done:
      return "done";
    case RedriveReport::End::died_again:
      return "died_again";
    case RedriveReport::End::failed_again:
      return "failed_again";
    case RedriveReport::End::interrupted:
      return "interrupted";
  }
  return "";
}

std::string result_of(const RedriveReport& report, const RedriveState& state) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("redriven").number(report.redriven).key("left").number(report.left);
  w.key("end").string(to_string(report.end));
  if (!state.steps.empty()) write_steps(w, state);
  w.end_object();
  return out;
}

std::string checkpoint_of(const RedriveState& state) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("after").number(state.after).key("tried").number(state.tried);
  w.key("redriven").number(state.redriven).key("step");
  write_step(w, state.step);
  write_steps(w, state);
  w.key("live").begin_array();
  const std::size_t first = state.live.size() - std::min(state.live.size(), kMaxLive);
  for (std::size_t i = first; i < state.live.size(); ++i) {
    w.begin_object().key("job").number(state.live[i].id);
    w.key("attempt").number(state.live[i].attempt).end_object();
  }
  w.end_array().key("known").begin_array();
  for (std::size_t i = 0; i < std::min(state.known.size(), kMaxKnown); ++i)
    w.string(state.known[i]);
  w.end_array().end_object();
  return out;
}

Result<RedriveState> state_of(std::string_view checkpoint) {
  RedriveState state;
  JsonReader in(checkpoint, JsonReader::Unknown::skip);
  if (!in.object(kState, state) || !in.end()) return in.error();
  return state;
}

}  // namespace mainspring
