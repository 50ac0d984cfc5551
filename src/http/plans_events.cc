// The plan of the event stream: server-sent events, filtered, resumed by the last id.
//
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "broker/follow.h"
#include "http/plans.h"
#include "http/sealed_id.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kShownIdBytes = 64;
constexpr std::size_t kPieceBytes = 64 << 10;  // approximate; more are read after these are sent
constexpr std::size_t kPageEvents = 512;
constexpr int kPagesAtOnce = 20;  // pages filtered for one piece

// Each value of a parameter that may be repeated, or be a list.
template <class Take>
Result<void> each_value(const Request& request, std::string_view name, Take take) {
  std::size_t count = 0;
  for (const auto& [key, value] : request.query) {
    if (key != name) continue;
    std::string_view rest = value;
    do {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (++count > kMaxEventFilterValues) {
        return invalid(std::string(name),
                       fmt::format("{}: must be at most {} values", name, kMaxEventFilterValues));
      }
      MS_TRY(take(one));
    } while (!rest.empty());
  }
  return {};
}

Result<EventType> read_type(std::string_view text) {
  const auto type = parse_event_type(text);
  if (type) return *type;
  std::string known;
  for (int i = 0; i < kEventTypeCount; ++i) {
    known.append(i == 0 ? "" : ", ").append(to_string(static_cast<EventType>(i)));
  }
  return invalid("type", fmt::format("type \"{}\": must be one of {}", cut_text(text, 64), known));
}

Result<JobId> read_job(std::string_view text) {
  JobId id = 0;
  const auto [last, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (problem == std::errc() && last == text.data() + text.size() && id >= 1) return id;
  return invalid("job",
                 fmt::format("job \"{}\": must be a whole number from 1", cut_text(text, 64)));
}

Result<EventFilter> read_filter(const Request& request) {
  EventFilter filter;
  const auto names = [&](std::string_view parameter, std::vector<std::string>& into) {
    return each_value(request, parameter, [&](std::string_view value) -> Result<void> {
      if (parameter != "tag") MS_TRY(check_name(parameter, value));
      into.emplace_back(value);
      return {};
    });
  };
  MS_TRY(names("queue", filter.queues));
  MS_TRY(names("kind", filter.kinds));
  MS_TRY(names("tag", filter.tags));
  MS_TRY(each_value(request, "type", [&](std::string_view value) -> Result<void> {
    MS_TRY_ASSIGN(const EventType type, read_type(value));
    filter.types.push_back(type);
    return {};
  }));
  MS_TRY(each_value(request, "job", [&](std::string_view value) -> Result<void> {
    MS_TRY_ASSIGN(const JobId id, read_job(value));
    filter.jobs.push_back(id);
    return {};
  }));
  return filter;
}

// A client that reconnects by itself repeats its first URL, so the header takes precedence.
Result<std::optional<EventMarks>> read_after(const Request& request, const Services& services) {
  const std::string_view header = header_value(request.headers, "Last-Event-ID");
  const std::string* const given = query_value(request, "after");
  const std::string_view text = !header.empty()    ? header
                                : given == nullptr ? std::string_view()
                                                   : std::string_view(*given);
  if (text.empty()) return std::optional<EventMarks>();
  if (auto marks = EventMarks::parse(open_id(text, services.key()).value_or(std::string(text))))
    return marks;
  const std::string_view field = header.empty() ? "after" : "Last-Event-ID";
  return invalid(std::string(field), fmt::format("{} \"{}\": must be the id of an event", field,
                                                 cut_text(text, kShownIdBytes)));
}

// One client's position in the events.
class EventStream {
 public:
  EventStream(Services& services, std::shared_ptr<const Caller> caller, EventFilter filter,
              std::optional<EventMarks> after)
      : services_(services),
        events_(services.broker.events()),
        clock_(services.clock),
        most_(services.options.max_event_streams),
        caller_(std::move(caller)),
        filter_(std::move(filter)),
        after_(std::move(after)) {}

  // `beat`: a heartbeat, if there is no event.
  StreamPiece next(bool beat);
  Result<std::shared_ptr<void>> watch(std::function<void()> ready) {
    return events_.watch(at_, std::move(ready));
  }

 private:
  StreamPiece begin();
  // Returns false if the client had the event before, from another node.
  bool is_new(const Event& event);
  bool shown(const Event& event) const;
  std::string id() const;
  void write(const Event& event, std::string& out) const;
  void write_gap(std::string_view reason, std::string& out) const;
  void write_job(JsonWriter& w, const Event& event) const;

  Services& services_;
  Events& events_;
  const Clock& clock_;
  const std::size_t most_;
  const std::shared_ptr<const Caller> caller_;
  const EventFilter filter_;
  const std::optional<EventMarks> after_;
  std::shared_ptr<void> listener_;  // nullptr = not started
  std::uint64_t at_ = 0;            // position of the last event read
  EventMarks marks_;                // the id for a reconnect
  bool new_process_ = false;        // marks_ has a new process that was not sent yet
};

StreamPiece EventStream::begin() {
  listener_ = events_.listen(most_);
  if (listener_ == nullptr) {
    return {.reply = error_reply(
                {.code = ErrorCode::overloaded,
                 .message = fmt::format(
                     "{} event streams are open, which is the limit (max_event_streams)", most_),
                 .retry_after_ms = 1000})};
  }
  StreamPiece piece{.bytes = "retry: 1000\n"};
  const Events::Place place = after_ ? events_.place_after(*after_) : events_.newest_place();
  at_ = place.position;
  marks_ = place.marks;
  if (place.gap.empty()) {
    // An id without an event: a client that disconnects before the first event resumes here.
    piece.bytes += fmt::format("id: {}\n\n", id());
    return piece;
  }
  if (place.missed > 0) events_.note_dropped(place.missed);
  write_gap(place.gap, piece.bytes);
  return piece;
}

bool EventStream::is_new(const Event& event) {
  const std::string& process = event.process == nullptr ? events_.process() : *event.process;
  const bool seen = event.number <= marks_.of(process);
  if (!seen || !marks_.has(process)) {
    if (marks_.set(process, event.number)) {
      events_.drop_unknown(marks_);
      new_process_ = true;
    }
  }
  return !event.mark && (!seen || MS_MUTANT(event_seen_reported_again));
}

StreamPiece EventStream::next(bool beat) {
  if (listener_ == nullptr) return begin();
  StreamPiece piece;
  for (int i = 0; i < kPagesAtOnce && piece.bytes.size() < kPieceBytes; ++i) {
    const Events::Page page = events_.read(at_, kPageEvents);
    if (page.missed > 0) {
      // Too slow: the client reconnects with its last id, and gets the gap.
      events_.note_dropped(page.missed);
      piece.bytes += ": too slow\n\n";
      piece.ended = true;
      return piece;
    }
    if (page.events.empty()) break;
    at_ = page.next;
    for (const EventPtr& event : page.events) {
      if (is_new(*event) && shown(*event) && passes(filter_, *event)) write(*event, piece.bytes);
    }
  }
  if (beat) events_.drop_unknown(marks_);
  // Includes the position, so that a client that reconnects skips events that did not match, and
  // sends all the processes that it knows.
  if ((std::exchange(new_process_, false) || beat) && piece.bytes.empty())
    piece.bytes = fmt::format(": \nid: {}\n\n", id());
  return piece;
}

std::string EventStream::id() const {
  if (caller_->may_all(Verb::read) || MS_MUTANT(event_ids_count_all)) return marks_.text();
  return seal_id(marks_.text(), services_.key(), services_.random);
}

bool EventStream::shown(const Event& event) const {
  if (MS_MUTANT(event_of_foreign_queue_shown)) return true;
  if (event.type == EventType::gap && event.job == 0) return true;
  if (event.object.starts_with("token/")) return caller_->may_all(Verb::admin);
  if (event.object.starts_with("lock/"))
    return caller_->may(Verb::lease, event.object.substr(std::string_view("lock/").size()));
  return event.facts == nullptr ? caller_->may_all(Verb::read)
                                : caller_->may(Verb::read, event.facts->queue);
}

void EventStream::write(const Event& event, std::string& out) const {
  const std::string_view type = to_string(event.type);
  const std::string id = this->id();
  out += fmt::format("id: {}\nevent: {}\ndata: ", id, type);
  JsonWriter w(out);
  w.begin_object().key("id").string(id).key("type").string(type);
  w.key("at").time(event.at);
  if (event.job != 0) {
    write_job(w, event);
  } else if (event.breaker != nullptr) {
    w.key("breaker").string(event.breaker->name);
    if (event.breaker->open_until) w.key("until").time(*event.breaker->open_until);
  } else if (event.type == EventType::gap) {
    w.key("reason").string(event.reason);
  } else if (event.facts != nullptr) {
    w.key("queue").string(event.facts->queue);
  }
  if (!event.object.empty()) w.key("object").string(event.object);
  w.end_object();
  out += "\n\n";
}

void EventStream::write_job(JsonWriter& w, const Event& event) const {
  w.key("job").number(event.job);
  if (event.facts == nullptr) {
    w.key("queue").null().key("kind").null();
  } else {
    w.key("queue").string(event.facts->queue).key("kind").string(event.facts->kind);
    if (!event.facts->tags.empty()) {
      w.key("tags").begin_array();
      for (const std::string& tag : event.facts->tags) w.string(tag);
      w.end_array();
    }
  }
  if (event.attempt > 0) w.key("attempt").number(event.attempt);
  if (event.type == EventType::gap) w.key("reason").string("unknown");
  if (!event.reason.empty()) w.key("reason").string(event.reason);
  if (!event.progress) return;
  w.key("progress").begin_object().key("value").real(event.progress->value);
  const std::string_view queue =
      event.facts == nullptr ? std::string_view() : std::string_view(event.facts->queue);
  w.key("text");
  if (payload_for(*caller_, queue) == Payload::shown) {
    w.string(event.progress->text);
  } else {
    w.null();
  }
  w.end_object();
}

void EventStream::write_gap(std::string_view reason, std::string& out) const {
  const std::string id = this->id();
  out += fmt::format("id: {}\nevent: gap\ndata: ", id);
  JsonWriter w(out);
  w.begin_object().key("id").string(id).key("type").string("gap");
  w.key("at").time(clock_.now().wall).key("reason").string(reason).end_object();
  out += "\n\n";
}

}  // namespace

Plan plan_events(const Request& request, Services& services) {
  auto filter = read_filter(request);
  if (!filter) return error_reply(filter.error());
  auto after = read_after(request, services);
  if (!after) return error_reply(after.error());
  const auto stream = std::make_shared<EventStream>(services, request.caller, std::move(*filter),
                                                    std::move(*after));
  return DoStream{
      .next = [stream](bool beat) { return stream->next(beat); },
      .watch = [stream](std::function<void()> ready) { return stream->watch(std::move(ready)); },
      .wait = std::nullopt,
      .content_type = "text/event-stream",
      .pool = Pool::store,
      .beat = services.options.event_heartbeat};
}

}  // namespace mainspring::http
