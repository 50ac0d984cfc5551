// The store counts dead jobs by their fingerprints. One job of each group is read as its example.
#include "broker/dead_groups.h"

#include <algorithm>
#include <functional>
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

// The exception of a long traceback, which is at its end.
std::string example_of(const std::string& text) {
  const std::string telling = telling_line(text);
  return first_bytes(text.size() > kMaxExampleBytes && !text.starts_with(telling) ? telling : text);
}

WallTime died_at(const Job& job) {
  return job.finished_at.value_or(job.created_at);
}

void add(std::unordered_map<std::string, DeadGroup>& groups, const Job& job,
         const Within& payloads) {
  std::string fingerprint = fingerprint_of(job);
  DeadGroup& group = groups[fingerprint];
  const WallTime at = died_at(job);
  if (group.count++ == 0) {
    group.fingerprint = std::move(fingerprint);
    group.kind = job.kind;
    group.reason = job.reason;
    group.last = job.id;
    group.first_at = group.last_at = at;
    group.masked = !payloads.has(job.queue);
    if (!group.masked) group.message = example_of(job.description);
  }
  group.first = job.id;  // they come newest first
  group.first_at = std::min(group.first_at, at);
  group.last_at = std::max(group.last_at, at);
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

namespace {

// By reading the records: the counts of the store know nothing of tags.
Result<DeadGroups> group_records(const Store& store, const JobFilter& filter,
                                 const Within& payloads, WallTime since) {
  std::unordered_map<std::string, DeadGroup> groups;
  DeadGroups out;
  std::size_t looked = 0;
  JobId before = 0;
  for (int pages = 0;; ++pages) {
    MS_TRY_ASSIGN(const JobPage page, store.list(filter, kDeadPage, before));
    looked += page.jobs.size();
    for (const Job& job : page.jobs) {
      if (died_at(job) < since) continue;
      add(groups, job, payloads);
      ++out.jobs;
    }
    if (!page.next) break;
    before = *page.next;
    out.cut = looked >= kMaxDeadLooked || pages == kMaxPages;
    if (out.cut) break;
  }
  for (auto& [fingerprint, group] : groups) out.groups.push_back(std::move(group));
  return out;
}

// A fingerprint may be in several queues.
Result<DeadGroups> group_counts(const Store& store, const JobFilter& filter, WallTime since) {
  MS_TRY_ASSIGN(const DeadCounts counts,
                store.dead_counts(filter.queue, kMaxDeadCounted, filter.within, since));
  std::unordered_map<std::string, DeadGroup> groups;
  DeadGroups out{.groups = {}, .jobs = 0, .cut = counts.cut};
  for (const DeadCount& count : counts.counts) {
    if (!filter.kind.empty() && count.kind != filter.kind) continue;
    DeadGroup& group = groups[count.fingerprint];
    const bool first = group.count == 0;
    group.first = first ? count.first : std::min(group.first, count.first);
    group.first_at = first ? count.first_at : std::min(group.first_at, count.first_at);
    group.last = std::max(group.last, count.last);
    group.last_at = first ? count.last_at : std::max(group.last_at, count.last_at);
    group.fingerprint = count.fingerprint;
    group.kind = count.kind;
    group.count += count.count;
    out.jobs += count.count;
  }
  for (auto& [fingerprint, group] : groups) out.groups.push_back(std::move(group));
  return out;
}

// What the oldest and the newest job of each group say. A job that was retried or removed meanwhile
// says nothing.
Result<void> describe(const Store& store, const JobFilter& filter, const Within& payloads,
                      std::vector<DeadGroup>& groups) {
  JobFilter named = filter;
  std::vector<JobId>& ids = named.ids.emplace();
  for (const DeadGroup& group : groups) ids.push_back(group.first), ids.push_back(group.last);
  std::sort(ids.begin(), ids.end(), std::greater<>());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::unordered_map<JobId, Job> jobs;
  JobId before = 0;
  while (!ids.empty()) {
    MS_TRY_ASSIGN(JobPage page, store.list(named, kDeadPage, before));
    for (Job& job : page.jobs) {
      const JobId id = job.id;
      jobs.emplace(id, std::move(job));
    }
    if (!page.next) break;
    before = *page.next;
  }
  for (DeadGroup& group : groups) {
    const auto last = jobs.find(group.last);
    if (last != jobs.end()) {
      const Job& job = last->second;
      group.reason = job.reason;
      group.masked = !payloads.has(job.queue);
      if (!group.masked) group.message = example_of(job.description);
    }
  }
  std::erase_if(groups, [&](const DeadGroup& group) {
    return !jobs.contains(group.first) && !jobs.contains(group.last);
  });
  return {};
}

}  // namespace

Result<DeadGroups> group_dead(const Store& store, const JobFilter& filter, const Within& payloads,
                              WallTime since) {
  const bool counted = filter.tag.empty();
  MS_TRY_ASSIGN(DeadGroups out, counted ? group_counts(store, filter, since)
                                        : group_records(store, filter, payloads, since));
  std::sort(out.groups.begin(), out.groups.end(), [](const DeadGroup& a, const DeadGroup& b) {
    return a.count != b.count ? a.count > b.count : a.last > b.last;
  });
  out.cut = out.cut || out.groups.size() > kMaxDeadGroups;
  out.groups.resize(std::min(out.groups.size(), kMaxDeadGroups));
  if (counted) MS_TRY(describe(store, filter, payloads, out.groups));
  return out;
}

}  // namespace mainspring
