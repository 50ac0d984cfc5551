// The plans of the dead letter: its jobs, its groups by what they died of, and their way back.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "api/json.h"
#include "http/plans.h"
#include "model/fingerprint.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kMaxDeadLooked = 20'000;  // the newest
constexpr int kDeadPage = 200;                  // read at once
constexpr int kMaxDeadPages = 1000;             // a page may be short
constexpr std::size_t kMaxGroups = 1000;
constexpr std::size_t kMaxExampleBytes = 1024;

struct DeadGroup {
  std::string fingerprint, kind, reason;
  std::int64_t count = 0;
  JobId first = 0, last = 0;  // oldest, newest
  WallTime first_at, last_at;
  std::string message;  // of the newest
  bool masked = false;  // … which the caller may not see
};
struct DeadGroups {
  std::vector<DeadGroup> groups;  // the largest first
  std::int64_t jobs = 0;          // looked at
  bool cut = false;               // there are more jobs, or groups
};

std::string first_bytes(const std::string& text) {
  std::size_t end = std::min(text.size(), kMaxExampleBytes);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return text.substr(0, end);
}

void add(std::unordered_map<std::string, DeadGroup>& groups, const Job& job,
         const Within& payloads) {
  std::string fingerprint = fingerprint_of(job);
  DeadGroup& group = groups[fingerprint];
  const WallTime at = job.finished_at.value_or(job.created_at);
  if (group.count++ == 0) {
    group.fingerprint = std::move(fingerprint);
    group.kind = job.kind;
    group.reason = job.reason;
    group.last = job.id;
    group.last_at = at;
    group.masked = !payloads.has(job.queue);
    if (!group.masked) group.message = first_bytes(job.description);
  }
  group.first = job.id;  // they come newest first
  group.first_at = at;
}

Result<DeadGroups> group_dead(const Store& store, const JobFilter& filter, const Within& payloads) {
  std::unordered_map<std::string, DeadGroup> groups;
  DeadGroups out;
  JobId before = 0;
  for (int pages = 0;; ++pages) {
    MS_TRY_ASSIGN(const JobPage page, store.list(filter, kDeadPage, before));
    for (const Job& job : page.jobs) add(groups, job, payloads);
    out.jobs += static_cast<std::int64_t>(page.jobs.size());
    if (!page.next) break;
    before = *page.next;
    out.cut = out.jobs >= static_cast<std::int64_t>(kMaxDeadLooked) || pages == kMaxDeadPages;
    if (out.cut) break;
  }
  for (auto& [fingerprint, group] : groups) out.groups.push_back(std::move(group));
  std::sort(out.groups.begin(), out.groups.end(), [](const DeadGroup& a, const DeadGroup& b) {
    return a.count != b.count ? a.count > b.count : a.last > b.last;
  });
  out.cut = out.cut || out.groups.size() > kMaxGroups;
  out.groups.resize(std::min(out.groups.size(), kMaxGroups));
  return out;
}

// What a redrive would do. Whether a job gets its unique key is known only then.
Result<Reply> try_redrive(const Store& store, Redrive redrive) {
  redrive.filter.state = JobState::dead;
  std::vector<JobId> ids;  // the newest first
  JobId before = 0;
  bool cut = false;
  for (int pages = 0;; ++pages) {
    MS_TRY_ASSIGN(const JobPage page, store.list(redrive.filter, kDeadPage, before));
    for (const Job& job : page.jobs) {
      if (job.id > redrive.after) ids.push_back(job.id);
    }
    if (!page.next || *page.next <= redrive.after) break;
    before = *page.next;
    cut = ids.size() >= kMaxDeadLooked || pages == kMaxDeadPages;
    if (cut) break;
  }
  std::reverse(ids.begin(), ids.end());
  RedriveResult would;
  const auto limit = static_cast<std::size_t>(redrive.limit);
  if (ids.size() > limit) {
    ids.resize(limit);
    would.next = ids.back();
  }
  would.redriven = static_cast<int>(ids.size());
  would.ids = std::move(ids);
  Reply reply;
  encode_redrive_response(would, reply.body);
  reply.body.pop_back();
  reply.body += fmt::format(R"(,"dry_run":true,"cut":{}}})", cut);
  return reply;
}

void write_end(JsonWriter& w, std::string_view name, JobId id, WallTime at) {
  w.key(name).begin_object().key("id").number(id).key("at").time(at).end_object();
}

Reply groups_reply(const DeadGroups& groups) {
  Reply reply;
  JsonWriter w(reply.body);
  w.begin_object().key("groups").begin_array();
  for (const DeadGroup& group : groups.groups) {
    w.begin_object().key("fingerprint").string(group.fingerprint).key("kind").string(group.kind);
    w.key("reason").string(group.reason).key("count").number(group.count);
    write_end(w, "first", group.first, group.first_at);
    write_end(w, "last", group.last, group.last_at);
    w.key("message");
    group.masked ? w.null() : w.string(group.message);
    if (group.masked) w.key("masked").boolean(true);
    w.end_object();
  }
  w.end_array().key("jobs").number(groups.jobs).key("cut").boolean(groups.cut).end_object();
  return reply;
}

}  // namespace

Plan plan_list_dead(const Request& request, Services& services) {
  auto filter = parse_filter(request);
  if (!filter) return error_reply(filter.error());
  filter->state = JobState::dead;
  const std::string* const fingerprint = query_value(request, "fingerprint");
  if (fingerprint == nullptr) return plan_page(request, services, std::move(*filter));
  auto good = check_fingerprint("fingerprint", *fingerprint);
  if (!good) return error_reply(good.error());
  return plan_page(request, services, std::move(*filter), *fingerprint);
}

Plan plan_dead_groups(const Request& request, Services& services) {
  auto filter = parse_filter(request);
  if (!filter) return error_reply(filter.error());
  filter->state = JobState::dead;
  filter->within = request.caller->within(Verb::read);
  return DoRead{[&services, filter = std::move(*filter),
                 payloads = request.caller->within(Verb::read_payload)] {
    auto groups = group_dead(services.store, filter, payloads);
    return groups ? groups_reply(*groups) : error_reply(groups.error());
  }};
}

Plan plan_redrive(const Request& request, Services& services) {
  auto redrive = decode_redrive_request(request.body);
  if (!redrive) return error_reply(redrive.error());
  redrive->operation.filter.within = request.caller->within(Verb::admin);
  if (redrive->dry_run) {
    return DoRead{[&services, redrive = std::move(redrive->operation)] {
      auto would = try_redrive(services.store, redrive);
      return would ? std::move(*would) : error_reply(would.error());
    }};
  }
  std::string asked;
  encode_redrive_request(*redrive, asked);
  return DoWrite{std::move(redrive->operation),
                 [](OperationResult& result) {
                   Reply reply;
                   encode_redrive_response(std::get<RedriveResult>(result), reply.body);
                   return reply;
                 },
                 audit_of_request(request, "", std::move(asked))};
}

}  // namespace mainspring::http
