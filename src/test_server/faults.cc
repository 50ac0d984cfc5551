// Draws, and their JSON.
#include "test_server/faults.h"

#include <fmt/format.h>

#include "api/json.h"
#include "base/fnv.h"
#include "env/random.h"

namespace mainspring {
namespace {

bool read_probability(JsonReader& in, double& out) {
  return in.number(out, 0, 1);
}

struct DelayFields {
  double p = 0;
  Duration max{0};
};
constexpr JsonField<DelayFields> kDelayFields[] = {
    {"p", [](JsonReader& in, DelayFields& d) { return read_probability(in, d.p); }},
    {"max",
     [](JsonReader& in, DelayFields& d) {
       if (!in.duration(d.max)) return false;
       return d.max <= kMaxFaultDelay ||
              in.fail_value(fmt::format("must be at most {}", format_duration(kMaxFaultDelay)));
     }},
};

constexpr std::string_view kLostFinishes[] = {"either", "request", "answer"};

bool read_lost_finish(JsonReader& in, LostFinish& out) {
  std::string text;
  if (!in.string(text)) return false;
  for (std::size_t i = 0; i < std::size(kLostFinishes); ++i) {
    if (text != kLostFinishes[i]) continue;
    out = static_cast<LostFinish>(i);
    return true;
  }
  return in.fail_value("must be either, request or answer");
}

constexpr JsonField<FaultRequest> kFaultFields[] = {
    {"namespace", [](JsonReader& in, FaultRequest& r) { return in.null() || in.string(r.space); }},
    {"seed",
     [](JsonReader& in, FaultRequest& r) {
       if (in.null()) return true;
       std::int64_t seed = 0;
       if (!in.integer(seed, std::int64_t{0}, INT64_MAX)) return false;
       r.seed = static_cast<std::uint64_t>(seed);
       return true;
     }},
    {"duplicate_delivery",
     [](JsonReader& in, FaultRequest& r) {
       return read_probability(in, r.settings.duplicate_delivery);
     }},
    {"lost_lease",
     [](JsonReader& in, FaultRequest& r) { return read_probability(in, r.settings.lost_lease); }},
    {"lost_finish",
     [](JsonReader& in, FaultRequest& r) { return read_probability(in, r.settings.lost_finish); }},
    {"lost_finish_of",
     [](JsonReader& in, FaultRequest& r) {
       return read_lost_finish(in, r.settings.lost_finish_of);
     }},
    {"delay",
     [](JsonReader& in, FaultRequest& r) {
       if (in.null()) return true;
       DelayFields delay;
       if (!in.object(kDelayFields, delay)) return false;
       r.settings.delay_p = delay.p;
       r.settings.delay_max = delay.max;
       return true;
     }},
    {"store_full",
     [](JsonReader& in, FaultRequest& r) { return in.boolean(r.settings.store_full); }},
    {"crash", [](JsonReader& in, FaultRequest& r) { return in.boolean(r.crash); }},
};

}  // namespace

Result<FaultRequest> decode_fault_request(std::string_view body) {
  FaultRequest request;
  JsonReader in(body.empty() ? std::string_view("{}") : body, JsonReader::Unknown::refuse);
  if (!in.object(kFaultFields, request) || !in.end()) return in.error();
  const bool whole = request.crash || request.settings.store_full || request.settings.delay_p > 0;
  if (!request.space.empty() && whole) {
    return invalid("namespace",
                   "namespace: delay, store_full and crash are of the whole server; leave it out");
  }
  return request;
}

void append_faults(std::string& out, const FaultSettings& settings) {
  JsonWriter w(out);
  w.begin_object().key("seed").number(static_cast<std::int64_t>(settings.seed));
  w.key("duplicate_delivery").real(settings.duplicate_delivery);
  w.key("lost_lease").real(settings.lost_lease);
  w.key("lost_finish").real(settings.lost_finish);
  w.key("lost_finish_of").string(kLostFinishes[static_cast<std::size_t>(settings.lost_finish_of)]);
  w.key("delay").begin_object().key("p").real(settings.delay_p);
  w.key("max").duration(settings.delay_max).end_object();
  w.key("store_full").boolean(settings.store_full).end_object();
}

double Faults::draw(std::string_view fault, std::uint64_t of) const {
  SeededRandom random(settings_.seed ^ fnv1a(fault) ^ of);
  (void)random.next();  // seeds that differ in few bits
  return static_cast<double>(random.next() >> 11) * 0x1.0p-53;
}

std::uint64_t Faults::ordinal(std::uint64_t key, JobId id) {
  const auto known = ordinals_.find(id);
  if (known != ordinals_.end()) return known->second;
  if (ordinals_.size() >= kMaxKnown) return static_cast<std::uint64_t>(id);
  const std::uint64_t number = equal_[key]++;
  ordinals_.emplace(id, number);
  return number;
}

JobFaults Faults::of(const ClaimedJob& job, std::string_view queue) {
  JobFaults out;
  if (job.attempt >= job.max_attempts) return out;
  constexpr std::string_view kBetween("\0", 1);
  std::uint64_t key =
      fnv1a(job.args, fnv1a(kBetween, fnv1a(job.kind, fnv1a(kBetween, fnv1a(queue)))));
  const std::uint64_t number = ordinal(key, job.id);
  key = fnv1a(fmt::format("{}/{}", number, job.attempt), key);
  out.duplicate = draw("duplicate_delivery", key) < settings_.duplicate_delivery;
  out.lost_lease = draw("lost_lease", key) < settings_.lost_lease;
  if (draw("lost_finish", key) < settings_.lost_finish) {
    const bool answer = settings_.lost_finish_of == LostFinish::either
                            ? draw("lost_finish_of", key) < 0.5
                            : settings_.lost_finish_of == LostFinish::answer;
    out.finish = answer ? JobFaults::Finish::answer_lost : JobFaults::Finish::lost;
  }
  return out;
}

Duration Faults::delay_of(std::string_view route) {
  if (settings_.delay_p <= 0 || settings_.delay_max <= Duration(0)) return Duration(0);
  auto known = answers_.find(route);
  if (known == answers_.end()) known = answers_.emplace(std::string(route), 0).first;
  const std::uint64_t of = fnv1a(fmt::format("{}/{}", route, known->second++));
  if (draw("delay", of) >= settings_.delay_p) return Duration(0);
  const double part = draw("how_late", of);
  return Duration(
      static_cast<std::int64_t>(part * static_cast<double>(settings_.delay_max.count())));
}

}  // namespace mainspring
