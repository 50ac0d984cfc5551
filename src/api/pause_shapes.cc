// The pause of a queue as JSON, and the request that makes it.
#include "api/pause_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "api/shapes.h"

namespace mainspring {
namespace {

constexpr JsonField<QueuePause> kQueuePause[] = {
    {"reason", &as_string<&QueuePause::reason>},
    {"by", &as_string<&QueuePause::by>},
    {"at", &as_time<&QueuePause::at>},
    {"until", &as_optional_time<&QueuePause::until>},
};

struct PauseQueueBody {
  std::string reason;
  std::optional<WallTime> until;
  std::optional<Duration> lasting;
};
constexpr JsonField<PauseQueueBody> kPauseQueueBody[] = {
    {"reason", &as_optional_string<&PauseQueueBody::reason>},
    {"until", &as_optional_time<&PauseQueueBody::until>},
    {"for", &as_optional_duration<&PauseQueueBody::lasting>},
};

void write_one_pause(JsonWriter& w, const QueuePause& pause) {
  w.begin_object().key("reason").string(pause.reason).key("by").string(pause.by);
  w.key("at").time(pause.at).key("until");
  if (pause.until) {
    w.time(*pause.until);
  } else {
    w.null();
  }
  w.end_object();
}

}  // namespace

void write_pause(JsonWriter& w, const std::optional<QueuePause>& pause) {
  if (!pause) {
    w.null();
    return;
  }
  write_one_pause(w, *pause);
}

bool read_pause(JsonReader& in, std::optional<QueuePause>& pause) {
  return in.null() || in.object(kQueuePause, pause.emplace());
}

std::string pause_text(const std::optional<QueuePause>& pause) {
  std::string out;
  if (!pause) return out;
  JsonWriter w(out);
  write_one_pause(w, *pause);
  return out;
}

Result<std::optional<QueuePause>> parse_pause(std::string_view text) {
  std::optional<QueuePause> pause;
  if (text.empty()) return pause;
  MS_TRY_ASSIGN(pause, decode_response(text, kQueuePause));
  return pause;
}

Result<PauseQueue> decode_pause_queue(std::string queue, std::string_view body, WallTime now) {
  PauseQueueBody read;
  if (!body.empty()) {
    MS_TRY_ASSIGN(read, decode_request(body, kPauseQueueBody));
  }
  if (read.until && read.lasting) {
    return invalid("for", "for: cannot be given together with until");
  }
  if (read.lasting && (*read.lasting <= Duration(0) || *read.lasting > kMaxPause)) {
    return invalid("for", fmt::format("for {}: must be more than 0s and at most {}",
                                      format_duration(*read.lasting), format_duration(kMaxPause)));
  }
  PauseQueue pause{.queue = std::move(queue), .reason = std::move(read.reason)};
  pause.until = read.lasting ? std::optional(now + *read.lasting) : read.until;
  MS_TRY(check_pause(pause, now));
  return pause;
}

void encode_pause_queue(const PauseQueue& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.reason.empty()) w.key("reason").string(request.reason);
  if (request.until) w.key("until").time(*request.until);
  w.end_object();
}

}  // namespace mainspring
