// Reads of the model store that need only its disk or its parts.
#pragma once

#include "api/search_keys.h"
#include "conformance/model_access.h"
#include "conformance/model_breakers.h"
#include "conformance/model_history.h"
#include "conformance/model_leases.h"
#include "conformance/model_limits.h"
#include "conformance/model_memos.h"
#include "conformance/model_quarantine.h"
#include "conformance/model_schedules.h"
#include "conformance/model_sessions.h"
#include "conformance/model_triggers.h"
#include "conformance/model_workflows.h"
#include "store/bounds.h"

namespace mainspring {

class ModelReads : public ModelHistory {
 public:
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const override {
    JobPage page;
    std::size_t bytes = 0;
    for (auto it = disk_.jobs.rbegin(); it != disk_.jobs.rend(); ++it) {
      if (before != 0 && it->first >= before) continue;
      ++page.examined;
      if (!matches(filter, it->second.job)) continue;
      if (static_cast<int>(page.jobs.size()) == limit || bytes >= kPageBytes) {
        page.next = page.jobs.back().id;
        break;
      }
      page.jobs.push_back(it->second.job);
      Job& job = page.jobs.back();
      job.errors.clear();
      job.warning.clear();
      job.result.clear();
      job.checkpoint.clear();
      if (!filter.whole_args && job.args.size() > kListedArgsBytes) {
        job.args_omitted = job.args.size();
        job.args.clear();
      }
      bytes += listed_bytes(job);
    }
    return page;
  }

  // Reads every job.
  Result<std::optional<IndexPage>> indexed(const IndexRead& read) const override {
    const auto queue = disk_.queues.find(read.queue);
    if (queue == disk_.queues.end() || read.value == "null") return std::optional<IndexPage>();
    const auto& paths = queue->second.limits.searchable;
    if (std::find(paths.begin(), paths.end(), read.path) == paths.end())
      return std::optional<IndexPage>();
    const std::vector<std::string> names = split_path(read.path);
    IndexPage page;
    for (auto it = disk_.jobs.rbegin(); it != disk_.jobs.rend(); ++it) {
      const Job& job = it->second.job;
      if (job.queue != read.queue || (read.before != 0 && job.id >= read.before)) continue;
      const ScalarsAt scalars(job.args, {&names});
      if (scalars.at(0) == nullptr || !is_value(*scalars.at(0), read.value)) continue;
      page.ids.push_back(job.id);
      if (std::ssize(page.ids) == read.limit) break;
    }
    return std::optional(std::move(page));
  }

  Result<std::vector<QueueStats>> queues() const override {
    std::vector<QueueStats> all;
    std::map<std::string_view, std::size_t> places;
    for (const auto& [name, kept] : disk_.queues) {
      if (disk_.is_removed(name)) continue;
      places[name] = all.size();
      all.emplace_back(kept).name = name;
    }
    for (const auto& [id, r] : disk_.jobs) {
      const auto place = places.find(r.job.queue);
      if (place == places.end()) continue;
      QueueStats& s = all[place->second];
      if (r.job.quarantined) ++s.quarantined;
      ++(r.expired ? s.expired : s.counts[static_cast<std::size_t>(r.job.state)]);
      if (r.job.state == JobState::available &&
          (!s.oldest_available || r.job.run_at < *s.oldest_available))
        s.oldest_available = r.job.run_at;
    }
    for (QueueStats& s : all) {
      const std::string& name = s.name;
      s.slots_taken = of_.limits->slots_taken(name);
      const auto meter = disk_.meters.find(name);
      if (meter != disk_.meters.end()) s.meter = meter->second;
      s.opens_at = closed_until(s.limits, s.meter, s.opens_at);
    }
    return all;
  }

  Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const override {
    if (ModelQuarantine::waits(job)) return std::min(ModelQuarantine::ahead(disk_, job), limit);
    return count_before(job, limit, [](const Job&) { return true; });
  }
  Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const override {
    return count_before(job, limit, [&](const Job& j) { return j.limit_key == job.limit_key; });
  }
  Result<LimitKeyInfo> limit_key(const std::string& queue, const std::string& key) const override {
    LimitKeyInfo info;
    info.running = std::count_if(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == queue && j.limit_key == key && j.state == JobState::running;
    });
    info.opens_at = of_.limits->closed_until(queue, key);
    info.slots_taken = of_.limits->slots_taken(queue, key);
    info.meter = of_.limits->key_meter(queue, key);
    return info;
  }
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) const override {
    MS_TRY(get(id));
    return page_of_memos(disk_.jobs.at(id), from, limit);
  }

  Result<ScheduleInfo> schedule(const std::string& name) const override {
    return of_.schedules->read(name);
  }
  Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) const override {
    return of_.schedules->list(after, limit);
  }
  Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const override {
    constexpr std::int64_t kHour = 3'600'000'000;
    std::map<std::int64_t, std::int64_t> hours;
    for (const auto& [id, r] : disk_.jobs) {
      const Job& j = r.job;
      const bool due = j.state == JobState::scheduled || j.state == JobState::retryable;
      if (!due || ModelQuarantine::waits(j) || j.run_at >= to || !within.has(j.queue)) continue;
      ++hours[std::max(j.run_at, from).us() / kHour];
    }
    DueHours out;
    for (const auto& [hour, jobs] : hours)
      out.hours.push_back({WallTime::from_us(hour * kHour), jobs});
    return out;
  }
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const override {
    return of_.schedules->due(now, limit);
  }
  Result<LedgerPage> ledger(const std::string& name, int limit,
                            std::int64_t before) const override {
    return of_.schedules->ledger(name, limit, before);
  }
  Result<LeaseInfo> lease(const std::string& name, Instant now) const override {
    return of_.leases->read(name, now);
  }
  Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                        Instant now) const override {
    return of_.leases->list(after, limit, now);
  }

  Result<SessionInfo> session(const SessionKey& session, Instant now) const override {
    return of_.sessions->read(session, now);
  }
  Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                               Instant now) const override {
    return of_.sessions->list(queue, after, limit, now);
  }

  Result<std::vector<BreakerInfo>> breakers(WallTime now) const override {
    return describe_breakers(disk_, now);
  }
  Result<WorkflowInfo> workflow(WorkflowId id) const override { return of_.workflows->read(id); }
  Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                 WorkflowId before) const override {
    return of_.workflows->list(filter, limit, before);
  }
  Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const override {
    return of_.workflows->steps(id, after, limit);
  }

  Result<TriggerInfo> trigger(const std::string& name) const override {
    return of_.triggers->read(name);
  }
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const override {
    return of_.triggers->list(after, limit);
  }
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) const override {
    return of_.triggers->events(name, limit, before);
  }

  std::shared_ptr<const Tokens> tokens() const override {
    return std::make_shared<const Tokens>(disk_.tokens);
  }
  std::int64_t tokens_version() const override { return of_.access->tokens_version(); }
  Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                          std::int64_t from) const override {
    return of_.access->page(filter, order, limit, from);
  }
  AuditState audit_state() const override { return of_.access->state(); }

 protected:
  // They belong to the derived class and are constructed after this base.
  struct Parts {
    const ModelLeases* leases;
    const ModelSessions* sessions;
    const ModelSchedules* schedules;
    const ModelWorkflows* workflows;
    const ModelAccess* access;
    const ModelTriggers* triggers;
    const ModelLimits* limits;
  };
  ModelReads(Parts of, const ModelDisk& disk) : ModelHistory(disk), of_(of), disk_(disk) {}

 private:
  template <class Counts>
  std::int64_t count_before(const Job& job, std::int64_t limit, Counts counts) const {
    const auto place = [](const Job& j) { return std::tuple(j.priority, j.run_at, j.id); };
    const auto n = std::count_if(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == job.queue && j.state == JobState::available && place(j) < place(job) &&
             counts(j);
    });
    return std::min<std::int64_t>(n, limit);
  }

  Parts of_;
  const ModelDisk& disk_;
};

}  // namespace mainspring
