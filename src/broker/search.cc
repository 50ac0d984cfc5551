// A search reads records page by page. Where terms look into payloads, it reads the whole records
// of those that match otherwise, a few at a time, until the page or its work is full.
#include "broker/search.h"

#include <algorithm>
#include <map>

#include "api/job_match.h"

namespace mainspring {
namespace {

constexpr int kNamesAtOnce = 1000;                                  // steps or ticks in one read
constexpr int kFirstRecords = 8, kMostRecords = 256;                // whole records in one read
constexpr std::size_t kFewBytes = 256 << 10, kManyBytes = 1 << 20;  // of one read

bool is_missing(const Error& error) {
  return error.code == ErrorCode::not_found || error.code == ErrorCode::expired;
}

Result<void> add_jobs_of_workflow(const Store& store, WorkflowId id, std::vector<JobId>& ids) {
  int after = 0;
  while (ids.size() < kMaxNamedJobs) {
    const auto page = store.workflow_steps(id, after, kNamesAtOnce);
    if (!page && is_missing(page.error())) return {};
    if (!page) return page.error();
    for (const WorkflowStep& step : page->steps) {
      if (step.job != 0) ids.push_back(step.job);
      if (step.undo_job != 0) ids.push_back(step.undo_job);
    }
    if (!page->next) return {};
    after = *page->next;
  }
  return {};
}

Result<void> add_jobs_of_schedule(const Store& store, const std::string& name,
                                  std::vector<JobId>& ids) {
  std::int64_t before = 0;
  while (ids.size() < kMaxNamedJobs) {
    const auto page = store.ledger(name, kNamesAtOnce, before);
    if (!page && is_missing(page.error())) return {};
    if (!page) return page.error();
    for (const LedgerRow& row : page->rows) {
      if (row.job != 0) ids.push_back(row.job);
    }
    if (!page->next) return {};
    before = *page->next;
  }
  return {};
}

Result<void> resolve_term(const Store& store, JobTerm& term) {
  std::vector<JobId> ids;
  if (term.about == JobTerm::About::workflow) {
    for (const std::int64_t id : term.ids) MS_TRY(add_jobs_of_workflow(store, id, ids));
  } else {
    for (const std::string& name : term.any) MS_TRY(add_jobs_of_schedule(store, name, ids));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  term.ids = std::move(ids);
  term.about = JobTerm::About::id;
  return {};
}

bool is_named(const JobTerm& term) {
  return term.about == JobTerm::About::workflow || term.about == JobTerm::About::schedule;
}

// One page where terms look into payloads.
class PayloadSearch {
 public:
  PayloadSearch(const Store& store, const JobFilter& filter, int limit)
      : store_(store), filter_(filter), limit_(static_cast<std::size_t>(std::max(limit, 1))) {}

  Result<JobPage> page(JobId before) {
    int records = kFirstRecords;
    for (;;) {
      MS_TRY_ASSIGN(JobPage found, store_.list(filter_, records, before));
      out_.examined += found.examined;
      const std::size_t read = bytes_;
      MS_TRY_ASSIGN(const bool full, take(found));
      if (full) return std::move(out_);
      if (!found.next) return std::move(out_);
      before = *found.next;
      const bool enough = out_.examined >= kMaxSearchedJobs || whole_ >= kMaxWholeJobs ||
                          bytes_ >= kMaxSearchedBytes;
      if (enough) {
        out_.next = before;
        return std::move(out_);
      }
      const std::size_t last = bytes_ - read;
      if (last < kFewBytes) records = std::min(records * 2, kMostRecords);
      if (last > kManyBytes) records = std::max(records / 2, 1);
    }
  }

 private:
  // True: the page is full.
  Result<bool> take(JobPage& found) {
    std::vector<JobId> ids;
    for (const Job& job : found.jobs) ids.push_back(job.id);
    if (ids.empty()) return false;
    whole_ += ids.size();
    MS_TRY_ASSIGN(const std::vector<Job> whole, store_.whole(ids));
    std::map<JobId, const Job*> by_id;
    for (const Job& job : whole) by_id[job.id] = &job;
    for (Job& job : found.jobs) {
      const auto at = by_id.find(job.id);
      if (at == by_id.end()) continue;  // it is gone by now
      bytes_ += searched_bytes(*at->second);
      if (!matches_payload(*filter_.query, *at->second)) continue;
      out_.jobs.push_back(std::move(job));
      if (out_.jobs.size() < limit_) continue;
      const bool last = at->first == ids.back() && !found.next;
      if (!last) out_.next = at->first;
      return true;
    }
    return false;
  }

  const Store& store_;
  const JobFilter& filter_;
  const std::size_t limit_;
  std::size_t whole_ = 0, bytes_ = 0;
  JobPage out_;
};

}  // namespace

Result<JobFilter> resolve_search(const Store& store, JobFilter filter) {
  if (!filter.query) return filter;
  const auto& terms = filter.query->terms;
  if (std::none_of(terms.begin(), terms.end(), is_named)) return filter;
  auto query = std::make_shared<JobQuery>(*filter.query);
  for (JobTerm& term : query->terms) {
    if (!is_named(term)) continue;
    MS_TRY(resolve_term(store, term));
    if (!term.negated && !filter.ids) filter.ids.emplace(term.ids.rbegin(), term.ids.rend());
  }
  filter.query = std::move(query);
  return filter;
}

Result<JobPage> search_jobs(const Store& store, const JobFilter& filter, int limit, JobId before) {
  MS_TRY_ASSIGN(const JobFilter resolved, resolve_search(store, filter));
  JobPage page;
  if (resolved.query && resolved.query->payload_term() != nullptr) {
    MS_TRY_ASSIGN(page, PayloadSearch(store, resolved, limit).page(before));
  } else {
    MS_TRY_ASSIGN(page, store.list(resolved, limit, before));
  }
  if (resolved.ids) {
    page.of = std::ssize(*resolved.ids);
    return page;
  }
  MS_TRY_ASSIGN(page.of, store.count_jobs(resolved));
  return page;
}

}  // namespace mainspring
