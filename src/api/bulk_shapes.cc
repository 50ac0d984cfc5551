// Bulk operations, to and from JSON.
#include "api/bulk_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "api/redrive_shapes.h"
#include "api/search_shapes.h"
#include "model/callback.h"

namespace mainspring {
namespace {

constexpr int kMaxAttempts = 1000;  // of the job; it survives that many restarts of its server

bool read_action(JsonReader& in, BulkOrder& order) {
  std::string text;
  if (!in.string(text)) return false;
  const auto action = parse_bulk_action(text);
  if (!action)
    return in.fail_value("must be \"cancel\", \"retry\", \"delete\" or \"reprioritise\"");
  order.action = *action;
  return true;
}

// `T` has a member `order`.
template <class T>
constexpr JsonField<T> kActionField = {
    "action", [](JsonReader& in, T& to) { return read_action(in, to.order); }};
template <class T>
constexpr JsonField<T> kFilterField = {
    "filter", [](JsonReader& in, T& to) { return read_search(in, to.order.filter); }};
template <class T>
constexpr JsonField<T> kPriorityField = {"priority", [](JsonReader& in, T& to) {
                                           return in.null() ||
                                                  in.integer(to.order.priority, 0, kLowestPriority);
                                         }};
template <class T>
constexpr JsonField<T> kReasonField = {
    "reason",
    [](JsonReader& in, T& to) { return in.null() || in.text(to.order.reason, kMaxTextBytes); }};
template <class T>
constexpr JsonField<T> kRateField = {
    "rate", [](JsonReader& in, T& to) { return in.null() || in.string(to.order.rate); }};
template <class T>
constexpr JsonField<T> kCanaryField = {
    "canary", [](JsonReader& in, T& to) {
      return in.null() || in.integer(to.order.canary, std::int64_t{0}, kMaxBulkCanary);
    }};

constexpr JsonField<BulkRequest> kBulkRequest[] = {
    kActionField<BulkRequest>,
    kFilterField<BulkRequest>,
    kPriorityField<BulkRequest>,
    kReasonField<BulkRequest>,
    kRateField<BulkRequest>,
    kCanaryField<BulkRequest>,
    {"dry_run",
     [](JsonReader& in, BulkRequest& to) { return in.null() || in.boolean(to.dry_run); }},
};
constexpr JsonField<BulkArgs> kBulkArgs[] = {
    kActionField<BulkArgs>,
    kFilterField<BulkArgs>,
    kPriorityField<BulkArgs>,
    kReasonField<BulkArgs>,
    kRateField<BulkArgs>,
    kCanaryField<BulkArgs>,
    {"by", &as_string<&BulkArgs::by>},
    {"at", &as_time<&BulkArgs::at>},
};
constexpr JsonField<BulkProgress> kProgressFields[] = {
    {"matched",
     [](JsonReader& in, BulkProgress& to) {
       return in.null() || in.integer(to.matched.emplace(), std::int64_t{0}, INT64_MAX);
     }},
    {"counted", &as_count<&BulkProgress::counted>},
    {"before", &as_count<&BulkProgress::before>},
    {"changed", &as_count<&BulkProgress::changed>},
    {"skipped", &as_count<&BulkProgress::skipped>},
    {"failed", &as_count<&BulkProgress::failed>},
    {"canary_over", &as_boolean<&BulkProgress::canary_over>},
    {"error", &as_string<&BulkProgress::error>},
};
constexpr JsonField<BulkCount> kBulkCount[] = {
    {"matched", &as_count<&BulkCount::matched>},
    {"exact", &as_boolean<&BulkCount::exact>},
    {"sample",
     [](JsonReader& in, BulkCount& to) {
       return in.array(kMaxBulkSample, [&](std::size_t) {
         return in.integer(to.sample.emplace_back(), std::int64_t{1}, INT64_MAX);
       });
     }},
};
constexpr JsonField<BulkInfo> kBulkInfo[] = {
    {"id", &as_id<&BulkInfo::id>},
    {"state",
     [](JsonReader& in, BulkInfo& to) {
       std::string text;
       if (!in.string(text)) return false;
       const auto state = parse_bulk_state(text);
       if (!state) return in.fail_value("is not a state of a bulk operation");
       to.state = *state;
       return true;
     }},
    kActionField<BulkInfo>,
    kFilterField<BulkInfo>,
    kPriorityField<BulkInfo>,
    kReasonField<BulkInfo>,
    kRateField<BulkInfo>,
    kCanaryField<BulkInfo>,
    {"matched",
     [](JsonReader& in, BulkInfo& to) {
       return in.null() || in.integer(to.matched.emplace(), std::int64_t{0}, INT64_MAX);
     }},
    {"changed", &as_count<&BulkInfo::changed>},
    {"skipped", &as_count<&BulkInfo::skipped>},
    {"failed", &as_count<&BulkInfo::failed>},
    {"error", &as_optional_string<&BulkInfo::error>},
    {"by", &as_string<&BulkInfo::by>},
    {"started_at", &as_time<&BulkInfo::started_at>},
    {"finished_at", &as_optional_time<&BulkInfo::finished_at>},
};
struct BulkListAnswer {
  std::vector<BulkInfo> bulks;
};
constexpr JsonField<BulkListAnswer> kBulkList[] = {
    {"bulks",
     [](JsonReader& in, BulkListAnswer& to) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kBulkInfo, to.bulks.emplace_back()); });
     }},
};

void write_order(JsonWriter& w, const BulkOrder& order) {
  w.key("action").string(to_string(order.action)).key("filter");
  write_search(w, order.filter);
  if (order.action == BulkAction::reprioritise) w.key("priority").number(order.priority);
  if (!order.reason.empty()) w.key("reason").string(order.reason);
  if (!order.rate.empty()) w.key("rate").string(order.rate);
  if (order.canary != 0) w.key("canary").number(order.canary);
}

// The states in which the action can change a job.
JobStates states_for(BulkAction action) {
  const auto all = [](std::initializer_list<JobState> list) {
    JobStates states = 0;
    for (const JobState state : list) states = static_cast<JobStates>(states | states_of(state));
    return states;
  };
  using enum JobState;
  switch (action) {
    case BulkAction::cancel:
      return all({waiting, scheduled, available, running, retryable});
    case BulkAction::retry:
      return all({scheduled, retryable, cancelled, dead});
    case BulkAction::remove:
      return all({completed, cancelled, dead});
    case BulkAction::reprioritise:
      return all({waiting, scheduled, available, retryable});
  }
  return 0;
}

void write_info(JsonWriter& w, const BulkInfo& info) {
  w.begin_object().key("id").number(info.id).key("state").string(to_string(info.state));
  write_order(w, info.order);
  w.key("matched");
  info.matched ? w.number(*info.matched) : w.null();
  w.key("changed").number(info.changed).key("skipped").number(info.skipped);
  w.key("failed").number(info.failed);
  if (!info.error.empty()) w.key("error").string(info.error);
  w.key("by").string(info.by).key("started_at").time(info.started_at);
  if (info.finished_at) w.key("finished_at").time(*info.finished_at);
  w.end_object();
}

BulkState bulk_state_of(const Job& job) {
  switch (job.state) {
    case JobState::waiting:
      return BulkState::waiting;
    case JobState::running:
      return BulkState::running;
    case JobState::completed:
      return BulkState::done;
    case JobState::cancelled:
      return BulkState::stopped;
    case JobState::dead:
      return BulkState::failed;
    case JobState::scheduled:
    case JobState::available:
    case JobState::retryable:
      break;
  }
  return job.checkpoint.empty() ? BulkState::queued : BulkState::running;
}

}  // namespace

Result<void> validate(const BulkOrder& order) {
  MS_TRY(parse_rate(order.rate));
  if (order.filter.is_empty())
    return invalid("filter", "filter: must not be empty: name a queue, states or a search");
  if (order.priority < 0 || order.priority > kLowestPriority)
    return invalid("priority",
                   fmt::format("priority {}: must be 0 to {}", order.priority, kLowestPriority));
  if (order.canary < 0 || order.canary > kMaxBulkCanary)
    return invalid("canary",
                   fmt::format("canary {}: must be 0 to {}", order.canary, kMaxBulkCanary));
  MS_TRY(bulk_filter_of(order, WallTime()));
  return {};
}

Result<BulkRequest> decode_bulk_request(std::string_view body) {
  struct Given {
    bool action = false, filter = false, priority = false;
  };
  MS_TRY_ASSIGN(BulkRequest request, decode_request(body, kBulkRequest));
  constexpr JsonField<Given> kGiven[] = {
      {"action", [](JsonReader& in, Given& g) { return (g.action = true) && in.skip(); }},
      {"filter", [](JsonReader& in, Given& g) { return (g.filter = true) && in.skip(); }},
      {"priority",
       [](JsonReader& in, Given& g) { return in.null() || ((g.priority = true) && in.skip()); }},
  };
  JsonReader in(body, JsonReader::Unknown::skip);
  Given given;
  if (!in.object(kGiven, given)) return in.error();
  if (!given.action) return invalid("action", "action: must be given");
  if (!given.filter) return invalid("filter", "filter: must be given");
  if (request.order.action == BulkAction::reprioritise && !given.priority)
    return invalid("priority", "priority: must be given for reprioritise");
  MS_TRY(validate(request.order));
  return request;
}

void encode_bulk_request(const BulkRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_order(w, request.order);
  if (request.dry_run) w.key("dry_run").boolean(true);
  w.end_object();
}

Result<BulkArgs> decode_bulk_args(std::string_view json) {
  MS_TRY_ASSIGN(BulkArgs args, decode_request(json, kBulkArgs));
  MS_TRY(validate(args.order));
  return args;
}

NewJob bulk_job(const BulkArgs& args) {
  NewJob job;
  job.queue = kRedriveQueue;
  job.kind = kBulkKind;
  job.args.clear();
  JsonWriter w(job.args);
  w.begin_object();
  write_order(w, args.order);
  w.key("by").string(args.by).key("at").time(args.at).end_object();
  job.max_attempts = kMaxAttempts;
  job.timeout = kForever;
  return job;
}

std::string encode_bulk_progress(const BulkProgress& progress) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("matched");
  progress.matched ? w.number(*progress.matched) : w.null();
  w.key("counted").number(progress.counted).key("before").number(progress.before);
  w.key("changed").number(progress.changed).key("skipped").number(progress.skipped);
  w.key("failed").number(progress.failed).key("canary_over").boolean(progress.canary_over);
  w.key("error").string(progress.error).end_object();
  return out;
}

Result<BulkProgress> decode_bulk_progress(std::string_view json) {
  return decode_request(json, kProgressFields);
}

Result<JobFilter> bulk_filter_of(const BulkOrder& order, WallTime now) {
  MS_TRY_ASSIGN(JobFilter filter, job_filter_of(order.filter, now));
  const JobStates able = states_for(order.action);
  JobStates wanted = 0;
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    if (filter.wants(state)) wanted = static_cast<JobStates>(wanted | states_of(state));
  }
  filter.states = wanted & able;
  if (filter.states == 0) {
    std::string names;
    for (int i = 0; i < kJobStateCount; ++i) {
      const auto state = static_cast<JobState>(i);
      if ((able & states_of(state)) != 0)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(state));
    }
    return invalid("filter.state", fmt::format("filter.state: {} changes jobs that are {}; the "
                                               "filter asks for none of these",
                                               to_string(order.action), names));
  }
  return filter;
}

Result<BulkInfo> bulk_info_of(const Job& job) {
  if (job.queue != kRedriveQueue || job.kind != kBulkKind)
    return Error{ErrorCode::not_found, fmt::format("job {}: is not a bulk operation", job.id)};
  BulkInfo info{.id = job.id, .state = bulk_state_of(job), .started_at = job.created_at};
  info.finished_at = job.finished_at;
  if (auto args = decode_bulk_args(job.args)) {
    info.order = std::move(args->order);
    info.by = std::move(args->by);
  }
  const std::string& kept = job.result.empty() ? job.checkpoint : job.result;
  if (auto progress =
          kept.empty() ? Result<BulkProgress>(BulkProgress{}) : decode_bulk_progress(kept)) {
    info.matched = progress->matched;
    info.changed = progress->changed;
    info.skipped = progress->skipped;
    info.failed = progress->failed;
    info.error = std::move(progress->error);
  }
  if (job.state == JobState::dead) info.error = job.description;
  return info;
}

void encode_bulk_count(const BulkCount& count, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("matched").number(count.matched).key("exact").boolean(count.exact);
  w.key("sample").begin_array();
  for (const JobId id : count.sample) w.number(id);
  w.end_array().end_object();
}

Result<BulkCount> decode_bulk_count(std::string_view body) {
  return decode_response(body, kBulkCount);
}

void encode_bulk_info(const BulkInfo& info, std::string& out) {
  JsonWriter w(out);
  write_info(w, info);
}

Result<BulkInfo> decode_bulk_info(std::string_view body) {
  return decode_response(body, kBulkInfo);
}

void encode_bulk_list(const std::vector<BulkInfo>& bulks, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("bulks").begin_array();
  for (const BulkInfo& info : bulks) write_info(w, info);
  w.end_array().end_object();
}

Result<std::vector<BulkInfo>> decode_bulk_list(std::string_view body) {
  MS_TRY_ASSIGN(BulkListAnswer answer, decode_response(body, kBulkList));
  return std::move(answer.bulks);
}

std::vector<std::string_view> bulk_request_fields(std::string_view schema) {
  if (schema == "BulkRequest") return field_names(kBulkRequest);
  return {};
}

}  // namespace mainspring
