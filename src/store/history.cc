// Sums of the history, and the choice of queues and kinds that get their own rows.
#include "store/history.h"

#include <fmt/format.h>

#include <tuple>

namespace mainspring {

void HistoryCounts::add(const HistoryCounts& other) {
  enqueued += other.enqueued, started += other.started, completed += other.completed;
  failed += other.failed, dead += other.dead, cancelled += other.cancelled;
  wait.add(other.wait), run.add(other.run);
}

// -- reads
// -----------------------------------------------------------------------------------------

bool HistoryRead::adds(std::string_view of_queue, std::string_view of_kind) const {
  if (!queue.empty()) return of_queue == queue && of_kind == kind && within.has(of_queue);
  if (kind.empty() && within.scopes == nullptr) return of_queue.empty() && of_kind.empty();
  return !of_queue.empty() && of_kind == kind && within.has(of_queue);
}

bool HistoryRead::adds(const HistoryRow& row) const {
  return (queue.empty() || row.queue == queue) && (kind.empty() || row.kind == kind) &&
         within.has(row.queue);
}

Result<void> HistoryRead::check_rows(std::size_t series) const {
  const std::int64_t rows = static_cast<std::int64_t>(series) * ((to - from) / span());
  if (rows <= kMaxHistoryRows) return {};
  return Error{
      .code = ErrorCode::invalid_argument,
      .message = fmt::format("from {}: {} queues and kinds have up to {} rows in this window: must "
                             "be at most {}; use a shorter window, a step of 1h or more, or name a "
                             "queue",
                             format_wall_time(from), series, rows, kMaxHistoryRows),
      .field = "from"};
}

HistoryCounts* HistoryRead::find(std::vector<HistoryCounts>& counts, WallTime at) const {
  if (at < from || at >= to) return nullptr;
  return &counts.at(static_cast<std::size_t>((at - from) / step));
}

// -- names
// -----------------------------------------------------------------------------------------

void HistoryNames::clear() {
  all_.clear(), kinds_.clear();
  leaves_ = 0;
}

HistoryNames::Series& HistoryNames::add(const std::string& queue, const std::string& kind,
                                        Series series) {
  const auto [found, fresh] = all_.insert_or_assign({queue, kind}, series);
  if (fresh && !kind.empty()) ++kinds_[queue], ++leaves_;
  return found->second;
}

void HistoryNames::remove(const std::string& queue, const std::string& kind) {
  if (all_.erase({queue, kind}) == 0 || kind.empty()) return;
  --leaves_;
  if (--kinds_[queue] == 0) kinds_.erase(queue);
}

HistoryNames::Series* HistoryNames::find(const std::string& queue, const std::string& kind) {
  const auto found = all_.find({queue, kind});
  return found == all_.end() ? nullptr : &found->second;
}

bool HistoryNames::knows(const HistoryRows& rows) const {
  for (const HistoryRow& row : rows) {
    if (!all_.contains({row.queue, row.kind})) return false;
  }
  return true;
}

// kHistoryOther does not count against the limits: it holds everything beyond them.
HistoryNames::Key HistoryNames::bounded(const HistoryRow& row) const {
  if (all_.contains({row.queue, row.kind})) return {row.queue, row.kind};
  const std::string other(kHistoryOther);
  const auto queue = kinds_.find(row.queue);
  if (queue == kinds_.end()) {
    const std::size_t queues = kinds_.size() - kinds_.count(other);
    if (queues >= kMaxHistoryQueues || leaves_ >= kMaxHistorySeries) return {other, other};
    return {row.queue, row.kind};
  }
  if (queue->second >= kMaxHistoryKinds || leaves_ >= kMaxHistorySeries) return {row.queue, other};
  return {row.queue, row.kind};
}

std::vector<HistoryEntry> HistoryNames::fold(const HistoryRows& rows) {
  std::map<std::tuple<Duration, WallTime, std::string, std::string>, HistoryCounts> sums;
  for (const HistoryRow& row : rows) {
    const Key key = bounded(row);
    for (const Key& one : {Key{}, Key{key.first, ""}, key}) {
      if (!all_.contains(one)) add(one.first, one.second, {});
      for (const Duration span : {kHistoryMinute, kHistoryHour})
        sums[{span, step_start(row.at, span), one.first, one.second}].add(row.counts);
    }
  }
  std::vector<HistoryEntry> out;
  out.reserve(sums.size());
  for (auto& [place, counts] : sums) {
    const auto& [span, at, queue, kind] = place;
    out.push_back({span, at, queue, kind, std::move(counts)});
  }
  return out;
}

}  // namespace mainspring
