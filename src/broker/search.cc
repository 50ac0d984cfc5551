// A search reads records page by page. If terms match payloads, it reads the whole records of the
// other matches, a few at a time, until the page or its work limit is full. If the index of
// searchable paths answers one of these terms, it reads the jobs that the index names, then those
// that are not in the index yet.
#include "broker/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "api/job_match.h"
#include "base/mutant.h"
#include "env/clock.h"

namespace mainspring {
namespace {

constexpr int kNamesAtOnce = 1000;                                  // steps or ticks in one read
constexpr int kIndexedAtOnce = 500;                                 // ids in one read of the index
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

// Where the index of searchable paths answers one term of a query.
struct IndexUse {
  std::vector<std::string> queues;
  std::string path, value;
};
// What it says about the ids from `end` on.
struct IndexPart {
  std::vector<JobId> ids;  // newest first
  JobId end = 0;
  bool more = false;  // the index has jobs below `end` too
};

// The queues of a search; nullopt: of some of them the path is not declared.
std::optional<std::vector<std::string>> declaring_queues(const JobFilter& filter,
                                                         const std::string& path,
                                                         const std::vector<QueueStats>& all) {
  const std::vector<std::string>* named = nullptr;
  for (const JobTerm& term : filter.query->terms) {
    if (term.about == JobTerm::About::queue && !term.negated) named = &term.any;
  }
  std::vector<std::string> queues;
  for (const QueueStats& queue : all) {
    if (!filter.queue.empty() && queue.name != filter.queue) continue;
    const bool wanted =
        named == nullptr || std::find(named->begin(), named->end(), queue.name) != named->end();
    const bool empty =
        queue.expired == 0 && std::all_of(queue.counts.begin(), queue.counts.end(),
                                          [](std::int64_t count) { return count == 0; });
    if (!wanted || empty || !filter.within.has(queue.name)) continue;
    const auto& paths = queue.limits.searchable;
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) return std::nullopt;
    queues.push_back(queue.name);
  }
  return queues;
}

Result<std::optional<IndexUse>> find_index(const Store& store, const JobFilter& filter) {
  std::optional<std::vector<QueueStats>> all;
  if (filter.ids) return std::optional<IndexUse>();
  for (const JobTerm& term : filter.query->terms) {
    if (term.about != JobTerm::About::args || term.negated) continue;
    if (!all) {
      MS_TRY_ASSIGN(all, store.queues());
    }
    std::string path = fmt::format("{}", fmt::join(term.path, "."));
    if (auto queues = declaring_queues(filter, path, *all))
      return std::optional(IndexUse{std::move(*queues), std::move(path), term.any[0]});
  }
  return std::optional<IndexUse>();
}

// nullopt: the index cannot answer it any more.
Result<std::optional<IndexPart>> read_index(const Store& store, const IndexUse& use, JobId before) {
  IndexPart part;
  JobId complete_from = 0;
  for (const std::string& queue : use.queues) {
    MS_TRY_ASSIGN(const auto page, store.indexed({.queue = queue,
                                                  .path = use.path,
                                                  .value = use.value,
                                                  .before = before,
                                                  .limit = kIndexedAtOnce}));
    if (!page) return std::optional<IndexPart>();
    complete_from = std::max(complete_from, page->complete_from);
    if (std::ssize(page->ids) == kIndexedAtOnce) {
      part.more = true;
      part.end = std::max(part.end, page->ids.back());
    }
    part.ids.insert(part.ids.end(), page->ids.begin(), page->ids.end());
  }
  if (complete_from >= part.end) part.end = complete_from, part.more = false;
  std::erase_if(part.ids, [&](JobId id) { return id < part.end; });
  std::sort(part.ids.begin(), part.ids.end(), std::greater<>());
  return std::optional(std::move(part));
}

// One page of a search with payload terms.
class PayloadSearch {
 public:
  PayloadSearch(const Store& store, const JobFilter& filter, int limit)
      : store_(store), filter_(filter), limit_(static_cast<std::size_t>(std::max(limit, 1))) {}

  Result<JobPage> page(JobId before) {
    MS_TRY_ASSIGN(const std::optional<IndexUse> use, find_index(store_, filter_));
    while (use) {
      MS_TRY_ASSIGN(std::optional<IndexPart> part, read_index(store_, *use, before));
      if (!part) break;
      const JobId end = part->end;
      if (before > 0 && end >= before) break;  // the rest is not in the index
      if (MS_MUTANT(index_answers_alone) && part->ids.empty()) return std::move(out_);
      JobFilter named = filter_;
      named.ids = std::move(part->ids);
      MS_TRY_ASSIGN(const bool full, scan(named, before));
      if (full && !out_.next && end > 1) out_.next = out_.jobs.back().id;
      if (full || end <= 1) return std::move(out_);
      before = end;
      if (is_enough()) {
        out_.next = before;
        return std::move(out_);
      }
      if (!part->more) break;
    }
    MS_TRY(scan(filter_, before));
    return std::move(out_);
  }

 private:
  bool is_enough() const {
    return out_.examined >= kMaxSearchedJobs || whole_ >= kMaxWholeJobs ||
           bytes_ >= kMaxSearchedBytes || steady_.now().instant >= started_ + kMaxSearchTime;
  }

  // True: the page is full, or its work is done. Then `next` says where to continue.
  Result<bool> scan(const JobFilter& filter, JobId before) {
    int records = kFirstRecords;
    for (;;) {
      MS_TRY_ASSIGN(JobPage found, store_.list(filter, records, before));
      out_.examined += found.examined;
      const std::size_t read = bytes_;
      MS_TRY_ASSIGN(const bool full, take(found));
      if (full) return true;
      if (!found.next) return false;
      before = *found.next;
      if (is_enough()) {
        out_.next = before;
        return true;
      }
      const std::size_t last = bytes_ - read;
      if (last < kFewBytes) records = std::min(records * 2, kMostRecords);
      if (last > kManyBytes) records = std::max(records / 2, 1);
    }
  }

  // Returns true when the page is full.
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
      if (at == by_id.end()) continue;  // it was removed meanwhile
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
  const SystemClock steady_;  // for the time of this search alone
  const Instant started_ = steady_.now().instant;
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
