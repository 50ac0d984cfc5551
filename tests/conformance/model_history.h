// The history, marks and saved views of the model store: maps of rows.
#pragma once

#include "conformance/model_state.h"

namespace mainspring {

class ModelHistory : public Store {
 public:
  void offer_history(HistoryRowsPtr rows, HistoryWrite when) override {
    offered_ = std::move(rows), when_ = when;
  }
  HistoryKept history_kept() const override { return kept_; }
  Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const override {
    std::vector<HistoryCounts> out(read.points());
    std::size_t series = 0;
    for (const auto& [name, of] : history_.history_names.all())
      series += read.adds(name.first, name.second);
    MS_TRY(read.check_rows(series));
    for (const auto& [place, counts] : history_.history) {
      const auto& [span, at, queue, kind] = place;
      HistoryCounts* const point = read.find(out, at);
      const bool kept = at >= step_start(now - kept_.of(read.step), span);
      if (point != nullptr && kept && span == read.span() && read.adds(queue, kind))
        point->add(counts);
    }
    return out;
  }
  Result<RecentCounts> recent(WallTime from) const override {
    RecentCounts out;
    for (const auto& [place, counts] : history_.history) {
      const auto& [span, at, queue, kind] = place;
      if (span == kHistoryMinute && at >= from && kind.empty() && !queue.empty())
        out[queue].add(at, counts);
    }
    return out;
  }
  Result<MarkPage> marks(const MarkFilter& filter) const override {
    MarkPage out;
    std::vector<Mark> all = history_.marks;
    std::sort(all.begin(), all.end(), [](const Mark& a, const Mark& b) {
      return MarkPlace(a.at, a.id) > MarkPlace(b.at, b.id);
    });
    for (Mark& mark : all) {
      if ((filter.from && mark.at < *filter.from) || (filter.to && mark.at >= *filter.to) ||
          (filter.before && MarkPlace(mark.at, mark.id) >= *filter.before))
        continue;
      if (std::ssize(out.marks) == filter.limit) {
        out.next = {out.marks.back().at, out.marks.back().id};
        break;
      }
      out.marks.push_back(std::move(mark));
    }
    return out;
  }
  Result<std::vector<SavedView>> views() const override {
    std::vector<SavedView> out;
    for (const auto& [name, view] : history_.views) out.push_back(view);
    return out;
  }
  Result<std::vector<JobFact>> facts(const std::vector<JobId>& ids) const override {
    std::vector<JobFact> out;
    for (const JobId id : ids) {
      const auto found = history_.jobs.find(id);
      if (found == history_.jobs.end()) continue;
      const Job& job = found->second.job;
      out.push_back(
          {id, job.queue, job.kind, job.state, job.created_at, job.started_at, job.finished_at});
    }
    return out;
  }

 protected:
  explicit ModelHistory(const ModelDisk& disk) : history_(disk) {}
  // True if there is something to commit.
  bool add_history(bool wrote, BatchReport& report, Now now, ModelDisk& disk) {
    const HistoryRowsPtr rows = std::exchange(offered_, nullptr);
    report.history_written = rows != nullptr && (wrote || when_ == HistoryWrite::always);
    if (!report.history_written) return wrote;
    for (const HistoryEntry& entry : disk.history_names.fold(*rows)) {
      disk.history[{entry.span, entry.at, entry.queue, entry.kind}].add(entry.counts);
      disk.history_names.find(entry.queue, entry.kind)->last =
          step_start(entry.at, kHistoryHour).us();
    }
    const WallTime oldest = step_start(now.wall - kept_.hours, kHistoryHour);
    std::vector<HistoryNames::Key> gone;
    for (const auto& [name, series] : disk.history_names.all())
      if (series.last < oldest.us()) gone.push_back(name);
    for (const auto& [queue, kind] : gone) disk.history_names.remove(queue, kind);
    return true;
  }
  HistoryKept kept_;

 private:
  const ModelDisk& history_;
  HistoryRowsPtr offered_;
  HistoryWrite when_ = HistoryWrite::with_batch;
};

}  // namespace mainspring
