// The history in and out of JSON.
#include "api/history_shapes.h"

#include <cmath>

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

constexpr double kLongestMs = 9.0e15;  // still fits a Duration as microseconds

template <auto Member>
bool as_ms(JsonReader& in, HistoryTimes& times) {
  double ms = 0;
  if (in.null()) return true;
  if (!in.number(ms, 0, kLongestMs)) return false;
  times.*Member = Duration(std::llround(ms * 1000));
  return true;
}

constexpr JsonField<HistoryTimes> kTimes[] = {
    {"count", &as_count<&HistoryTimes::count>},
    {"p50_ms", &as_ms<&HistoryTimes::p50>},
    {"p95_ms", &as_ms<&HistoryTimes::p95>},
    {"p99_ms", &as_ms<&HistoryTimes::p99>},
};
constexpr JsonField<HistoryPoint> kPoint[] = {
    {"at", &as_time<&HistoryPoint::at>},
    {"enqueued", &as_count<&HistoryPoint::enqueued>},
    {"started", &as_count<&HistoryPoint::started>},
    {"completed", &as_count<&HistoryPoint::completed>},
    {"failed", &as_count<&HistoryPoint::failed>},
    {"dead", &as_count<&HistoryPoint::dead>},
    {"cancelled", &as_count<&HistoryPoint::cancelled>},
    {"wait", [](JsonReader& in, HistoryPoint& p) { return in.object(kTimes, p.wait); }},
    {"run", [](JsonReader& in, HistoryPoint& p) { return in.object(kTimes, p.run); }},
};
constexpr JsonField<History> kHistory[] = {
    {"queue", [](JsonReader& in, History& h) { return in.null() || in.string(h.queue); }},
    {"kind", [](JsonReader& in, History& h) { return in.null() || in.string(h.kind); }},
    {"from", &as_time<&History::from>},
    {"to", &as_time<&History::to>},
    {"step", &as_duration<&History::step>},
    {"points",
     [](JsonReader& in, History& h) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kPoint, h.points.emplace_back()); });
     }},
    {"total", [](JsonReader& in, History& h) { return in.object(kPoint, h.total); }},
};

}  // namespace

void write_times(JsonWriter& w, std::string_view name, const HistoryTimes& times) {
  const auto percentile = [&](std::string_view key, Duration value) {
    w.key(key);
    times.count == 0 ? w.null() : w.real(static_cast<double>(value.count()) / 1000);
  };
  w.key(name).begin_object().key("count").number(times.count);
  percentile("p50_ms", times.p50);
  percentile("p95_ms", times.p95);
  percentile("p99_ms", times.p99);
  w.end_object();
}

namespace {

void write_counts(JsonWriter& w, const HistoryPoint& point) {
  w.key("enqueued").number(point.enqueued).key("started").number(point.started);
  w.key("completed").number(point.completed).key("failed").number(point.failed);
  w.key("dead").number(point.dead).key("cancelled").number(point.cancelled);
  write_times(w, "wait", point.wait);
  write_times(w, "run", point.run);
}

void write_name(JsonWriter& w, std::string_view key, const std::string& name) {
  w.key(key);
  name.empty() ? w.null() : w.string(name);
}

}  // namespace

void encode_history(const History& history, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_name(w, "queue", history.queue);
  write_name(w, "kind", history.kind);
  w.key("from").time(history.from).key("to").time(history.to);
  w.key("step").duration(history.step).key("points").begin_array();
  for (const HistoryPoint& point : history.points) {
    w.begin_object().key("at").time(point.at);
    write_counts(w, point);
    w.end_object();
  }
  w.end_array().key("total").begin_object();
  write_counts(w, history.total);
  w.end_object().end_object();
}

Result<History> decode_history(std::string_view body) {
  MS_TRY_ASSIGN(History history, decode_response(body, kHistory));
  history.total.at = history.from;
  return history;
}

}  // namespace mainspring
