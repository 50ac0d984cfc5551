// events: streams job and queue events; continues after a disconnect.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "client/calls.h"
#include "client/event_blocks.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 250ms;
constexpr Duration kLongestPause = 5s;

// The fields of an event that a line for people shows.
struct EventLine {
  std::string type, at, queue, kind, breaker, object, until, reason, text;
  std::int64_t job = 0, attempt = 0;
  double progress = -1;  // below 0 = none
};

Result<EventLine> decode_line(const std::string& json) {
  EventLine event;
  JsonReader in(json, JsonReader::Unknown::skip);
  const auto progress = [&](std::string_view name) {
    if (name == "value") return in.number(event.progress, 0, 1);
    if (name == "text") return in.null() || in.string(event.text);
    return in.skip();
  };
  const bool good = in.members([&](std::string_view name) {
    if (name == "type") return in.string(event.type);
    if (name == "at") return in.string(event.at);
    if (name == "queue") return in.null() || in.string(event.queue);
    if (name == "kind") return in.null() || in.string(event.kind);
    if (name == "breaker") return in.string(event.breaker);
    if (name == "object") return in.string(event.object);
    if (name == "until") return in.string(event.until);
    if (name == "reason") return in.string(event.reason);
    if (name == "job") return in.integer(event.job, 1, INT64_MAX);
    if (name == "attempt") return in.integer(event.attempt, 1, INT64_MAX);
    if (name == "progress") return in.members(progress);
    return in.skip();
  });
  if (!good || !in.end()) return in.error();
  return event;
}

std::string line_of_event(const EventLine& event, const Io& io) {
  const auto shown = [&](const std::string& text) {
    const auto at = parse_wall_time(text);
    return at ? shown_time(io, *at) : text;
  };
  std::string out = fmt::format("{}  {}", shown(event.at), event.type);
  if (!event.object.empty()) return printable(out + " " + event.object);
  if (event.job != 0) out += fmt::format(" {}", event.job);
  if (!event.queue.empty()) out += " " + event.queue;
  if (!event.kind.empty()) out += "/" + event.kind;
  if (!event.breaker.empty()) out += " " + event.breaker;
  if (!event.until.empty()) out += " until " + shown(event.until);
  if (event.attempt > 0) out += fmt::format(" attempt {}", event.attempt);
  if (event.progress >= 0) out += fmt::format(" {:.0f} %", event.progress * 100);
  if (!event.text.empty()) out += " " + event.text;
  if (!event.reason.empty()) out += ": " + event.reason;
  return printable(out);
}

// Parses the stream, and remembers where to continue.
class Follower {
 public:
  Follower(const Invocation& invocation, Io& io, std::int64_t limit, std::stop_source& stop)
      : json_(invocation.json),
        io_(io),
        left_(limit),
        stop_(stop),
        blocks_(invocation.flag("after").value_or("")) {}

  // Returns false to end the stream.
  bool take(std::string_view piece) {
    connected_ = true;
    const auto data = [this](const std::string& text) { return show(text); };
    if (auto good = blocks_.take(piece, data); !good) {
      problem_ = good.error();
      stop_.request_stop();
    }
    return !stop_.stop_requested();
  }
  void begin() {
    connected_ = false;
    blocks_.begin();
  }
  bool connected() const { return connected_; }
  const std::string& last_id() const { return blocks_.last_id(); }
  const std::optional<Error>& problem() const { return problem_; }

 private:
  Result<void> show(const std::string& data) {
    if (left_ == 0) return {};
    if (json_) {
      print_line(io_, data);
    } else {
      MS_TRY_ASSIGN(const EventLine event, decode_line(data));
      print_line(io_, line_of_event(event, io_));
    }
    if (--left_ == 0) stop_.request_stop();
    return {};
  }

  const bool json_;
  Io& io_;
  std::int64_t left_;
  std::stop_source& stop_;
  EventBlocks blocks_;
  bool connected_ = false;
  std::optional<Error> problem_;
};

std::string query_of(const Invocation& invocation) {
  std::string query;
  for (const char* name : {"queue", "kind", "type", "job", "tag"}) {
    for (const std::string& value : invocation.all_flags(name)) {
      query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, percent_encode(value));
    }
  }
  return query;
}

bool passes_over(const Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout ||
         error.code == ErrorCode::overloaded;
}

}  // namespace

Result<int> run_events(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, INT64_MAX));
  const StopSignals signals;
  std::stop_source stop;
  const std::stop_callback on_signal(signals.stop(), [&] { stop.request_stop(); });
  MS_TRY_ASSIGN(const auto connection, connect(invocation, 0s));
  const std::string query = query_of(invocation);
  Follower follower(invocation, io, limit.value_or(-1), stop);
  const auto sink = [&](std::string_view piece) { return follower.take(piece); };
  bool known = false;  // this server has answered
  Duration wait = kFirstPause;
  while (!stop.stop_requested()) {
    std::string path = "/v1/events" + query;
    if (!follower.last_id().empty()) {
      path +=
          fmt::format("{}after={}", query.empty() ? "?" : "&", percent_encode(follower.last_id()));
    }
    follower.begin();
    const auto ended = connection->client->stream(path, sink, stop.get_token());
    if (stop.stop_requested()) break;
    known = known || follower.connected();
    if (!ended && (!known || !passes_over(ended.error()))) return ended.error();
    if (follower.connected()) wait = kFirstPause;
    if (!ended && !invocation.json) {
      io.err(fmt::format("mainspring: {}; trying again\n", printable(ended.error().message)));
    }
    pause(wait, stop.get_token());
    wait = std::min(wait * 2, kLongestPause);
  }
  if (follower.problem()) return *follower.problem();
  return kExitOk;
}

}  // namespace mainspring::cli
