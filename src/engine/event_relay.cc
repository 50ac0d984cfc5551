// Relays a node's events to other nodes, as JSON.
#include "engine/event_relay.h"

#include <algorithm>

#include "api/fields.h"
#include "api/json.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

// Maximum events read for one frame; fewer go into it if they are long.
constexpr std::size_t kAtOnce = 500;
constexpr std::size_t kEnvelope = 256;  // bytes around the events
constexpr std::size_t kMaxSaid = 2 * kAtOnce;
constexpr std::size_t kMaxProcessBytes = 64;

// -- to JSON --------------------------------------------------------------------------------------

void write_event(JsonWriter& w, const Event& event) {
  w.begin_object().key("n").number(static_cast<std::int64_t>(event.number));
  w.key("type").string(to_string(event.type)).key("at").number(event.at.us());
  if (event.job != 0) w.key("job").number(event.job);
  if (event.attempt != 0) w.key("attempt").number(event.attempt);
  if (!event.reason.empty()) w.key("reason").string(event.reason);
  if (event.progress) {
    w.key("value").real(event.progress->value).key("text").string(event.progress->text);
  }
  if (event.facts != nullptr) {
    w.key("queue").string(event.facts->queue).key("kind").string(event.facts->kind);
    w.key("tags").begin_array();
    for (const std::string& tag : event.facts->tags) w.string(tag);
    w.end_array();
  }
  if (event.breaker != nullptr) {
    w.key("breaker").string(event.breaker->name);
    if (event.breaker->open_until) w.key("until").number(event.breaker->open_until->us());
  }
  if (!event.object.empty()) w.key("object").string(event.object);
  if (!event.settled) w.key("open").boolean(true);
  if (event.ended) w.key("ended").boolean(true);
  w.end_object();
}

// -- from JSON ------------------------------------------------------------------------------------

struct Line {
  Event event;
  JobFacts facts;
  bool has_facts = false;
  std::optional<BreakerInfo> breaker;
  bool known = true;  // the type is known
};

// The process name becomes part of event ids.
bool is_process(std::string_view name) {
  return !name.empty() && name.size() <= kMaxProcessBytes &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); });
}

bool read_number(JsonReader& in, std::uint64_t& into) {
  std::int64_t value = 0;
  if (!in.integer(value, 0, INT64_MAX)) return false;
  into = static_cast<std::uint64_t>(value);
  return true;
}

bool read_type(JsonReader& in, Line& line) {
  std::string text;
  if (!in.string(text)) return false;
  const auto type = parse_event_type(text);
  line.known = type.has_value();
  if (type) line.event.type = *type;
  return true;
}

bool read_time(JsonReader& in, WallTime& into) {
  std::int64_t us = 0;
  if (!in.integer(us, INT64_MIN, INT64_MAX)) return false;
  into = WallTime::from_us(us);
  return true;
}

Progress& progress_of(Line& line) {
  return line.event.progress ? *line.event.progress : line.event.progress.emplace();
}
BreakerInfo& breaker_of(Line& line) {
  return line.breaker ? *line.breaker : line.breaker.emplace();
}

constexpr JsonField<Line> kLine[] = {
    {"n", [](JsonReader& in, Line& l) { return read_number(in, l.event.number); }},
    {"type", &read_type},
    {"at", [](JsonReader& in, Line& l) { return read_time(in, l.event.at); }},
    {"job", [](JsonReader& in, Line& l) { return in.integer(l.event.job, 1, INT64_MAX); }},
    {"attempt", [](JsonReader& in, Line& l) { return in.integer(l.event.attempt, 1, INT32_MAX); }},
    {"reason", [](JsonReader& in, Line& l) { return in.string(l.event.reason); }},
    {"value", [](JsonReader& in, Line& l) { return in.number(progress_of(l).value, 0, 1); }},
    {"text", [](JsonReader& in, Line& l) { return in.string(progress_of(l).text); }},
    {"queue", [](JsonReader& in, Line& l) { return l.has_facts = true, in.string(l.facts.queue); }},
    {"kind", [](JsonReader& in, Line& l) { return in.string(l.facts.kind); }},
    {"tags", [](JsonReader& in, Line& l) { return read_strings(in, l.facts.tags, kMaxTags); }},
    {"breaker", [](JsonReader& in, Line& l) { return in.string(breaker_of(l).name); }},
    {"until",
     [](JsonReader& in, Line& l) { return read_time(in, breaker_of(l).open_until.emplace()); }},
    {"object", [](JsonReader& in, Line& l) { return in.string(l.event.object); }},
    {"open",
     [](JsonReader& in, Line& l) {
       bool open = false;
       if (!in.boolean(open)) return false;
       l.event.settled = !open;
       return true;
     }},
    {"ended", [](JsonReader& in, Line& l) { return in.boolean(l.event.ended); }},
};

bool read_lines(JsonReader& in, Events::Said& said) {
  return in.array(kMaxSaid, [&](std::size_t) {
    Line line;
    if (!in.object(kLine, line)) return false;
    // Skip an event of a later version whose type or subject this version does not know.
    const bool about = line.event.job != 0 || line.has_facts || line.breaker.has_value() ||
                       !line.event.object.empty();
    if (!line.known || !about) return true;
    if (line.has_facts) line.event.facts = std::make_shared<JobFacts>(std::move(line.facts));
    if (line.breaker)
      line.event.breaker = std::make_shared<const BreakerInfo>(std::move(*line.breaker));
    said.events.push_back(std::move(line.event));
    return true;
  });
}

constexpr JsonField<Events::Said> kSaid[] = {
    {"process", [](JsonReader& in, Events::Said& s) { return in.string(s.process); }},
    {"from", [](JsonReader& in, Events::Said& s) { return read_number(in, s.from); }},
    {"to", [](JsonReader& in, Events::Said& s) { return read_number(in, s.to); }},
    {"last", [](JsonReader& in, Events::Said& s) { return in.boolean(s.last); }},
    {"events", &read_lines},
};

}  // namespace

EventRelay::EventRelay(Events& events, const Clock& clock, std::int64_t node)
    : events_(events), clock_(clock) {
  events_.join(node);
  events_.on_listener([this] { nudge(); });
}

EventRelay::~EventRelay() {
  events_.on_listener(nullptr);
  MutexLock lock(mutex_);
  askers_.clear();
}

void EventRelay::nudge() {
  if (changed) changed();
}

EventRelay::Asker* EventRelay::find(std::int64_t node) {
  drop_late();
  const auto found = askers_.find(node);
  return found == askers_.end() ? nullptr : &found->second;
}

void EventRelay::drop_late() {
  const Instant now = clock_.now().instant;
  std::erase_if(askers_, [&](const auto& asker) { return asker.second.until < now; });
  if (askers_.empty()) listener_.reset();
}

PeerRelay::Ask EventRelay::asks() {
  if (events_.listened(clock_.now().instant)) return Ask::here;
  MutexLock lock(mutex_);
  drop_late();
  for (const auto& [node, asker] : askers_) {
    if (asker.here) return Ask::along;
  }
  return Ask::nothing;
}

void EventRelay::asked(std::int64_t node, Ask what) {
  if (what == Ask::nothing || MS_MUTANT(events_not_sent_to_nodes)) return;
  {
    MutexLock lock(mutex_);
    drop_late();
    if (listener_ == nullptr) listener_ = events_.listen_for_others();
    const auto [asker, fresh] = askers_.try_emplace(node);
    if (fresh) asker->second.at.own = asker->second.before.own = events_.newest_own();
    asker->second.here = what == Ask::here;
    asker->second.until = clock_.now().instant + std::chrono::seconds(kAskedForSeconds);
  }
  nudge();
}

bool EventRelay::serves(std::int64_t node) {
  MutexLock lock(mutex_);
  return find(node) != nullptr;
}

bool EventRelay::has(std::int64_t node) {
  MutexLock lock(mutex_);
  Asker* const asker = find(node);
  if (asker == nullptr) return false;
  const Asker::Has& at = asker->at;
  if (closing_) return !at.last_said;
  if (!at.started || events_.newest() > at.own.position) return true;
  asker->watch = events_.watch(at.own.position, [this] { nudge(); });
  return false;
}

std::string EventRelay::take(std::int64_t node, std::size_t room) {
  MutexLock lock(mutex_);
  Asker* const asker = find(node);
  if (asker == nullptr) return {};
  Events::Own own = events_.read_own(asker->at.own, kAtOnce);
  std::string events;
  for (std::size_t i = 0; i < own.events.size(); ++i) {
    std::string one;
    JsonWriter w(one);
    write_event(w, *own.events[i]);
    if (events.size() + one.size() + kEnvelope > room) {
      // The rest goes with the next frame. An event too long for any frame is reported as missing.
      own.position = own.events[i]->position - (i == 0 ? 0 : 1);
      own.to = own.events[i]->number - (i == 0 ? 0 : 1);
      if (i == 0) own.from = own.to;
      break;
    }
    if (!events.empty()) events += ',';
    events += one;
  }
  const bool last = closing_ && events_.newest() <= own.position;
  Asker::Has& at = asker->at;
  const bool missing = own.from > at.own.to;
  asker->before = at;
  at.own.position = own.position;
  // If only local events were skipped, their numbers go with the next frame.
  if (events.empty() && at.started && !missing && !last) return {};
  at.own.to = own.to;
  at.started = true;
  at.last_said = last;
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("process").string(events_.process());
  w.key("from").number(static_cast<std::int64_t>(own.from));
  w.key("to").number(static_cast<std::int64_t>(own.to));
  if (last) w.key("last").boolean(true);
  w.key("events").raw("[" + events + "]");
  w.end_object();
  return out;
}

void EventRelay::lost(std::int64_t node) {
  MutexLock lock(mutex_);
  if (Asker* const asker = find(node); asker != nullptr && !MS_MUTANT(events_lost_not_repeated))
    asker->at = asker->before;
}

void EventRelay::heard(std::int64_t node, std::string_view bytes) {
  Events::Said said;
  auto read = decode_response(bytes, kSaid);
  if (!read || !is_process(read->process)) return;  // from a program with another format
  events_.take_said(node, std::move(*read), clock_.now());
  events_.tell();
}

void EventRelay::gone(std::int64_t node) {
  {
    MutexLock lock(mutex_);
    askers_.erase(node);
    drop_late();
  }
  events_.forget_node(node, clock_.now());
  events_.tell();
}

void EventRelay::closing() {
  MutexLock lock(mutex_);
  closing_ = true;
}

}  // namespace mainspring
