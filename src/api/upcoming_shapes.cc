// Upcoming ticks, and sets of schedules, as JSON.
#include "api/fields.h"
#include "api/pool_window_shapes.h"
#include "api/schedule_shapes.h"

namespace mainspring {
namespace {

constexpr JsonField<UpcomingTick> kUpcomingTick[] = {
    {"schedule", &as_string<&UpcomingTick::schedule>},
    {"nominal", &as_time<&UpcomingTick::nominal>},
    {"note", &as_string<&UpcomingTick::note>},
};
constexpr JsonField<DueJobs> kDueJobs[] = {
    {"at", &as_time<&DueJobs::at>},
    {"jobs", &as_count<&DueJobs::jobs>},
};

bool read_workers(JsonReader& in, std::optional<std::int64_t>& out) {
  return in.null() || in.integer(out.emplace(), 0, INT32_MAX);
}
constexpr JsonField<PoolWindow> kPoolWindow[] = {
    {"pool", &as_string<&PoolWindow::pool>},
    {"min", [](JsonReader& in, PoolWindow& w) { return read_workers(in, w.min); }},
    {"max", [](JsonReader& in, PoolWindow& w) { return read_workers(in, w.max); }},
    {"from", &as_time<&PoolWindow::from>},
    {"to", &as_time<&PoolWindow::to>},
};

constexpr std::size_t kMaxSchedulesNamed = 1000;  // in one request

bool read_schedule_names(JsonReader& in, std::vector<std::string>& out, std::size_t most) {
  return in.array(most, [&](std::size_t) { return in.string(out.emplace_back()); });
}
template <auto Member, class T>
bool as_schedule_names(JsonReader& in, T& into) {
  return read_schedule_names(in, into.*Member, kMaxSchedules);
}

constexpr JsonField<UpcomingAnswer> kUpcoming[] = {
    {"from", &as_time<&Upcoming::from>},
    {"to", &as_time<&Upcoming::to>},
    {"ticks",
     [](JsonReader& in, UpcomingAnswer& u) {
       return in.array(kMaxUpcomingTicks, [&](std::size_t) {
         return in.object(kUpcomingTick, u.ticks.emplace_back());
       });
     }},
    {"truncated", &as_boolean<&Upcoming::truncated>},
    {"cut", &as_schedule_names<&Upcoming::cut>},
    {"due",
     [](JsonReader& in, UpcomingAnswer& u) {
       constexpr std::size_t kMostHours = 24 * 7 + 1;
       return in.array(kMostHours,
                       [&](std::size_t) { return in.object(kDueJobs, u.due.emplace_back()); });
     }},
    {"windows",
     [](JsonReader& in, UpcomingAnswer& u) {
       return in.array(kMaxUpcomingWindows, [&](std::size_t) {
         return in.object(kPoolWindow, u.windows.emplace_back());
       });
     }},
};

struct ScheduleSetBody {
  ScheduleSetRequest request;
  bool all = false;
};
constexpr JsonField<ScheduleSetBody> kScheduleSet[] = {
    {"names",
     [](JsonReader& in, ScheduleSetBody& body) {
       return in.null() || read_schedule_names(in, body.request.which.names, kMaxSchedulesNamed);
     }},
    {"prefix",
     [](JsonReader& in, ScheduleSetBody& body) {
       return in.null() || in.string(body.request.which.prefix.emplace());
     }},
    {"all", [](JsonReader& in, ScheduleSetBody& body) { return in.boolean(body.all); }},
    {"reason", [](JsonReader& in,
                  ScheduleSetBody& body) { return in.null() || in.string(body.request.reason); }},
};

constexpr JsonField<ScheduleChanges> kScheduleChanges[] = {
    {"changed", &as_schedule_names<&ScheduleChanges::changed>},
    {"unchanged", &as_schedule_names<&ScheduleChanges::unchanged>},
    {"missing", &as_schedule_names<&ScheduleChanges::missing>},
};

void write_schedule_names(JsonWriter& w, std::string_view key,
                          const std::vector<std::string>& names) {
  w.key(key).begin_array();
  for (const std::string& name : names) w.string(name);
  w.end_array();
}

}  // namespace

void encode_upcoming(const UpcomingAnswer& upcoming, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("from").time(upcoming.from).key("to").time(upcoming.to);
  w.key("ticks").begin_array();
  for (const UpcomingTick& tick : upcoming.ticks) {
    w.begin_object().key("schedule").string(tick.schedule).key("nominal").time(tick.nominal);
    if (!tick.note.empty()) w.key("note").string(tick.note);
    w.end_object();
  }
  w.end_array().key("truncated").boolean(upcoming.truncated);
  if (!upcoming.cut.empty()) write_schedule_names(w, "cut", upcoming.cut);
  w.key("due").begin_array();
  for (const DueJobs& due : upcoming.due) {
    w.begin_object().key("at").time(due.at).key("jobs").number(due.jobs).end_object();
  }
  w.end_array().key("windows").begin_array();
  for (const PoolWindow& window : upcoming.windows) {
    w.begin_object().key("pool").string(window.pool).key("min");
    window.min ? w.number(*window.min) : w.null();
    w.key("max");
    window.max ? w.number(*window.max) : w.null();
    w.key("from").time(window.from).key("to").time(window.to).end_object();
  }
  w.end_array().end_object();
}

Result<UpcomingAnswer> decode_upcoming_answer(std::string_view body) {
  return decode_response(body, kUpcoming);
}

Result<Upcoming> decode_upcoming(std::string_view body) {
  return decode_upcoming_answer(body);
}

Result<ScheduleSetRequest> decode_schedule_set(std::string_view body) {
  MS_TRY_ASSIGN(ScheduleSetBody read, decode_request(body, kScheduleSet));
  ScheduleSet& which = read.request.which;
  const int ways = (which.names.empty() ? 0 : 1) + (which.prefix ? 1 : 0) + (read.all ? 1 : 0);
  if (ways != 1) {
    return invalid("names", "names: exactly one of names, prefix and all must be given");
  }
  if (which.prefix && which.prefix->empty()) {
    return invalid("prefix", "prefix: must not be empty; for every schedule give all");
  }
  if (read.all) which.prefix = "";
  return std::move(read.request);
}

void encode_schedule_set(const ScheduleSetRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.which.prefix) {
    write_schedule_names(w, "names", request.which.names);
  } else if (request.which.prefix->empty()) {
    w.key("all").boolean(true);
  } else {
    w.key("prefix").string(*request.which.prefix);
  }
  if (!request.reason.empty()) w.key("reason").string(request.reason);
  w.end_object();
}

void encode_schedule_changes(const ScheduleChanges& changes, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_schedule_names(w, "changed", changes.changed);
  write_schedule_names(w, "unchanged", changes.unchanged);
  write_schedule_names(w, "missing", changes.missing);
  w.end_object();
}

Result<ScheduleChanges> decode_schedule_changes(std::string_view body) {
  return decode_response(body, kScheduleChanges);
}

}  // namespace mainspring
