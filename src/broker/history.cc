// Counts jobs and attempts per minute.
#include "broker/history.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace mainspring {
namespace {

// A follow-up with a unique key may name an older job instead of a new one.
constexpr Duration kMadeLately = std::chrono::minutes(1);
// Rows of past minutes that wait for a commit.
constexpr std::size_t kMaxClosedRows = 100'000;

void count_end(JobState state, HistoryCounts& counts) {
  // Only dead and cancelled jobs can be restarted: an operator did, or the job was pruned.
  if (state == JobState::completed) {
    ++counts.completed;
  } else if (state == JobState::cancelled) {
    ++counts.cancelled;
  } else {
    ++counts.dead;
  }
}

}  // namespace

HistoryCounter::SeriesPtr HistoryCounter::series(const std::string& queue,
                                                 const std::string& kind) {
  const auto found = series_.find({queue, kind});
  if (found != series_.end()) return found->second;
  if (series_.size() >= kMaxHistorySeries && queue != kHistoryOther)
    return series(std::string(kHistoryOther), std::string(kHistoryOther));
  auto made = std::make_shared<Series>();
  made->queue = queue, made->kind = kind;
  series_.emplace(std::pair(queue, kind), made);
  return made;
}

HistoryCounts& HistoryCounter::at(Series& series, WallTime now) {
  const WallTime minute = step_start(now, kHistoryMinute);
  if (series.minute != minute) {
    close(series);
    series.minute = minute;
  }
  if (!series.touched) touched_.push_back(&series);
  series.touched = true;
  return series.counts;
}

void HistoryCounter::close(Series& series) {
  HistoryCounts counts = std::exchange(series.counts, {});
  if (counts.empty()) return;
  if (closed_.size() >= kMaxClosedRows) {
    ++dropped_;
    return;
  }
  closed_.push_back({series.minute, series.queue, series.kind, std::move(counts)});
}

void HistoryCounter::enqueued(const Enqueue& asked, const EnqueueResult& result, WallTime now) {
  SeriesPtr last;
  for (std::size_t i = 0; i < result.jobs.size() && i < asked.jobs.size(); ++i) {
    if (result.jobs[i].duplicate) continue;
    const NewJob& job = asked.jobs[i];
    if (last == nullptr || last->queue != job.queue || last->kind != job.kind)
      last = series(job.queue, job.kind);
    ++at(*last, now).enqueued;
  }
}

// -- unknown jobs -------------------------------------------------------------------------------

HistoryCounter::Unknown* HistoryCounter::unknown(JobId id, WallTime now) {
  const auto found = unknown_.find(id);
  if (found != unknown_.end()) return &found->second;
  if (unknown_.size() >= kMaxLookUps) {
    ++dropped_;
    return nullptr;
  }
  Unknown& fresh = unknown_[id];
  fresh.at = now;
  return &fresh;
}

void HistoryCounter::made(JobId id, const SeriesPtr& known, WallTime now) {
  if (known != nullptr) {
    ++at(*known, now).enqueued;
  } else if (Unknown* one = unknown(id, now)) {
    one->made = true;
  }
}

void HistoryCounter::claimed(JobId id, const SeriesPtr& of) {
  if (unknown_.empty()) return;
  const auto found = unknown_.find(id);
  if (found == unknown_.end() || !found->second.made) return;
  ++at(*of, found->second.at).enqueued;
  found->second.made = false;
  if (!found->second.failed && !found->second.ended) unknown_.erase(found);
}

void HistoryCounter::failed(JobId id, WallTime now) {
  if (Unknown* one = unknown(id, now)) one->failed = true;
}

void HistoryCounter::ended(JobId id, const SeriesPtr& known, Lost lost, WallTime now) {
  Unknown* one = unknown(id, now);
  if (one == nullptr) return;
  one->ended = true;
  one->lost = lost;
  if (known != nullptr) one->known = known;
}

HistoryCounter::LookUps HistoryCounter::look_up() {
  if (unknown_.size() <= kLookUpsAtOnce) return std::exchange(unknown_, {});
  LookUps some;
  while (some.size() < kLookUpsAtOnce) some.insert(unknown_.extract(unknown_.begin()));
  return some;
}

void HistoryCounter::looked_up(LookUps asked, const std::vector<JobFact>& facts) {
  for (const JobFact& fact : facts) {
    const auto found = asked.find(fact.id);
    if (found == asked.end()) continue;
    if (found->second.known == nullptr) found->second.known = series(fact.queue, fact.kind);
    settle(found->second, &fact);
    asked.erase(found);
  }
  for (const auto& [id, one] : asked) {
    if (one.known != nullptr) settle(one, nullptr);  // it was pruned since
  }
}

void HistoryCounter::settle(const Unknown& one, const JobFact* fact) {
  HistoryCounts& counts = at(*one.known, one.at);
  if (one.made && (fact == nullptr || fact->created_at + kMadeLately >= one.at)) ++counts.enqueued;
  if (one.failed) ++counts.failed;
  if (!one.ended) return;
  const JobState state = fact == nullptr ? JobState::dead : fact->state;
  count_end(state, counts);
  if (fact == nullptr || !fact->started_at) return;
  if (one.lost == Lost::maybe && state != JobState::completed) ++counts.failed;
  if (state == JobState::completed && fact->finished_at)
    counts.run.add(*fact->finished_at - *fact->started_at);
}

void HistoryCounter::give_back(LookUps asked) {
  unknown_.merge(asked);
}

// -- writes --------------------------------------------------------------------------------------

HistoryRowsPtr HistoryCounter::take() {
  MS_ASSERT(on_its_way_ == nullptr, "one write of the history at a time");
  for (Series* series : std::exchange(touched_, {})) {
    close(*series);
    series->touched = false;
  }
  if (closed_.empty()) return nullptr;
  if (series_.size() >= kMaxHistorySeries)
    std::erase_if(series_, [](const auto& entry) { return entry.second.use_count() == 1; });
  on_its_way_ = std::make_shared<const HistoryRows>(std::exchange(closed_, {}));
  ++takes_;
  return on_its_way_;
}

void HistoryCounter::written(Instant now) {
  due_at_ = now + std::max(kWriteEvery, kWriteEveryPerRow * std::ssize(*on_its_way_));
  on_its_way_.reset();
  ++takes_;
}

void HistoryCounter::not_written(Tried how, Instant now) {
  due_at_ = now + (how == Tried::nothing_to_write ? kTryAgain : kWriteEvery);
  if (how != Tried::outcome_unknown)
    closed_.insert(closed_.end(), on_its_way_->begin(), on_its_way_->end());
  on_its_way_.reset();
  ++takes_;
}

HistoryRows HistoryCounter::unwritten() const {
  HistoryRows out = closed_;
  if (on_its_way_ != nullptr) out.insert(out.end(), on_its_way_->begin(), on_its_way_->end());
  for (const Series* series : touched_) {
    if (!series->counts.empty())
      out.push_back({series->minute, series->queue, series->kind, series->counts});
  }
  return out;
}

}  // namespace mainspring
