// Dead jobs are read page by page, newest first, and counted by their fingerprints.
#include "broker/dead_groups.h"

#include <algorithm>
#include <unordered_map>

#include "model/fingerprint.h"

namespace mainspring {
namespace {

constexpr int kDeadPage = 200;   // read at once
constexpr int kMaxPages = 1000;  // a page may be short
constexpr std::size_t kMaxExampleBytes = 1024;

std::string first_bytes(const std::string& text) {
  std::size_t end = std::min(text.size(), kMaxExampleBytes);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return text.substr(0, end);
}

// Of a long traceback the exception, which is at its end.
std::string example_of(const std::string& text) {
  const std::string telling = telling_line(text);
  return first_bytes(text.size() > kMaxExampleBytes && !text.starts_with(telling) ? telling : text);
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
    if (!group.masked) group.message = example_of(job.description);
  }
  group.first = job.id;  // they come newest first
  group.first_at = at;
}

}  // namespace

Result<JobFilter> job_filter_of(const DeadFilter& dead) {
  if (!dead.queue.empty()) MS_TRY(check_name("queue", dead.queue));
  if (!dead.kind.empty()) MS_TRY(check_name("kind", dead.kind));
  if (!dead.fingerprint.empty()) MS_TRY(check_fingerprint("fingerprint", dead.fingerprint));
  JobFilter filter;
  filter.queue = dead.queue;
  filter.kind = dead.kind;
  filter.tag = dead.tag;
  filter.state = JobState::dead;
  return filter;
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
    out.cut = out.jobs >= static_cast<std::int64_t>(kMaxDeadLooked) || pages == kMaxPages;
    if (out.cut) break;
  }
  for (auto& [fingerprint, group] : groups) out.groups.push_back(std::move(group));
  std::sort(out.groups.begin(), out.groups.end(), [](const DeadGroup& a, const DeadGroup& b) {
    return a.count != b.count ? a.count > b.count : a.last > b.last;
  });
  out.cut = out.cut || out.groups.size() > kMaxDeadGroups;
  out.groups.resize(std::min(out.groups.size(), kMaxDeadGroups));
  return out;
}

}  // namespace mainspring
