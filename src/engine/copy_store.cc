// Each round copies the differences between a snapshot of the source and the target. The rest
// decides when to run how many rounds.
#include "engine/copy_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr int kMaxRounds = 12;                                   // of catching up
constexpr int kMaxFences = 4;                                    // that may be lifted
constexpr std::int64_t kBlocksPerLook = 64;                      // during the full copy
constexpr Duration kPatience = std::chrono::milliseconds(2500);  // wait for running writes
// A round slower than this is worth another round before the fence.
constexpr Duration kQuickRound = std::chrono::milliseconds(200);

Error too_long(Duration fence) {
  return {
      .code = ErrorCode::unavailable,
      .message = fmt::format("the fence would last longer than {}: the source is unchanged; allow "
                             "more (--max-fence), or try again under less load",
                             format_duration(fence)),
      .retry_after_ms = 1000};
}

class Copy {
 public:
  Copy(TransferSource& source, TransferTarget& target, const CopyOptions& options,
       const Clock& clock)
      : source_(source), target_(target), options_(options), clock_(clock) {}
  ~Copy() { source_.lift(); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  Result<CopyReport> run();

 private:
  enum class Looks : std::uint8_t { many, one };  // snapshots of the source per round

  Result<bool> begin();  // false: nothing to do
  Result<void> round(CopyProgress::Stage stage, Looks looks);
  Result<void> copy_section(TransferSection section, Looks looks);
  Result<void> copy_block(TransferSection section, std::int64_t block);
  Result<void> copy_jobs(std::int64_t block);
  Result<void> copy_workflows(std::int64_t block);
  Result<void> copy_ledgers(const TransferCatalog& catalog);
  Result<void> copy_audit(const TransferCatalog& catalog);
  Result<void> catch_up();
  Result<bool> verify();  // false: the target breaks invariants
  Result<bool> finish();  // false: took too long; the fence was lifted
  Result<bool> finish_in_fence();
  Result<void> check_time() const;
  Error no_end() const;
  void wrote(std::int64_t rows);
  Instant now() const { return clock_.now().instant; }

  TransferSource& source_;
  TransferTarget& target_;
  const CopyOptions& options_;
  const Clock& clock_;
  CopyReport report_;
  CopyProgress progress_;
  std::array<TransferBlocks, kTransferSections.size()> copied_;
  std::map<std::int64_t, std::int64_t> ledgers_;  // the target's last row of each
  std::optional<TransferCatalog> catalog_;        // as written last
  Duration round_took_{0}, verify_took_{0};
  Instant deadline_ = Instant::never();
  std::string no_fence_;  // why the last fence failed; "" = it did not
};

void Copy::wrote(std::int64_t rows) {
  progress_.rows_done += rows;
  report_.rows += rows;
  if (options_.progress) options_.progress(progress_);
}

Result<void> Copy::check_time() const {
  if (now() < deadline_) return {};
  return too_long(options_.max_fence);
}

Result<bool> Copy::begin() {
  const TransferPlace from = source_.place(), to = target_.place();
  if (from.store == to.store) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("{} and {} are one store", from.place, to.place)};
  }
  MS_TRY_ASSIGN(const auto moved, source_.moved());
  if (moved && moved->store != to.store && options_.source == SourceGoesOn::no) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("{} has moved to {}", from.place, moved->place)};
  }
  report_.only_finished = moved && options_.source == SourceGoesOn::no;
  const auto found = target_.unfinished();
  // The copy was finished before, and the target may be in use: nothing to do.
  if (report_.only_finished && !found && found.error().code == ErrorCode::conflict) return false;
  MS_TRY_ASSIGN(const auto unfinished, found);
  if (unfinished && unfinished->store != from.store) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("{} holds the unfinished copy of another store, {}",
                                        to.place, unfinished->place)};
  }
  report_.resumed = unfinished.has_value();
  MS_TRY(target_.begin(from, clock_.now().wall));
  if (report_.only_finished) {
    MS_TRY(target_.complete(clock_.now().wall));
    return false;
  }
  for (const TransferSection section : kTransferSections) {
    MS_TRY_ASSIGN(copied_[static_cast<std::size_t>(section)], target_.copied(section));
  }
  MS_TRY_ASSIGN(ledgers_, target_.ledgers());
  return true;
}

Result<void> Copy::round(CopyProgress::Stage stage, Looks looks) {
  progress_ = {.stage = stage};
  const Instant started = now();
  if (stage != CopyProgress::Stage::fenced) MS_TRY(source_.look());
  for (const TransferSection section : kTransferSections) MS_TRY(copy_section(section, looks));
  MS_TRY_ASSIGN(TransferCatalog catalog, source_.catalog());
  MS_TRY(copy_ledgers(catalog));
  MS_TRY(copy_audit(catalog));
  MS_TRY(check_time());
  MS_TRY(target_.write_catalog(catalog, catalog_ ? &*catalog_ : nullptr, clock_.now()));
  catalog_ = std::move(catalog);
  report_.jobs = 0;
  for (const auto& [block, is] : copied_[0]) report_.jobs += is.rows;
  round_took_ = now() - started;
  return {};
}

Result<void> Copy::copy_section(TransferSection section, Looks looks) {
  MS_TRY_ASSIGN(const TransferBlocks is, source_.blocks(section, std::nullopt));
  TransferBlocks& copied = copied_[static_cast<std::size_t>(section)];
  TransferBlocks differ;
  for (const auto& [block, want] : is) {
    const auto found = copied.find(block);
    if (found == copied.end() || found->second.stamp != want.stamp ||
        found->second.rows != want.rows) {
      differ[block] = want;
    }
  }
  for (const auto& [block, had] : copied) {
    if (!is.contains(block)) differ[block] = {};
  }
  for (const auto& [block, want] : differ) progress_.rows += want.rows;
  std::int64_t since_look = 0;
  for (const auto& [block, want] : differ) {
    MS_TRY(check_time());
    TransferBlock seen = want;
    if (looks == Looks::many) {
      if (++since_look % kBlocksPerLook == 0) MS_TRY(source_.look());
      MS_TRY_ASSIGN(const TransferBlocks now_is, source_.blocks(section, block));
      const auto found = now_is.find(block);
      seen = found == now_is.end() ? TransferBlock{} : found->second;
    }
    MS_TRY(copy_block(section, block));
    // Noted after the copy: if the copy stops in between, the block is compared again.
    MS_TRY(target_.note(section, block, seen));
    copied[block] = seen;
    if (seen.rows == 0) copied.erase(block);
  }
  return {};
}

Result<void> Copy::copy_block(TransferSection section, std::int64_t block) {
  if (section == TransferSection::jobs) return copy_jobs(block);
  if (section == TransferSection::finished) {
    MS_TRY_ASSIGN(const auto rows, source_.finished(block));
    MS_TRY(target_.write_finished(block, rows));
    wrote(static_cast<std::int64_t>(rows.size()));
    return {};
  }
  if (section == TransferSection::workflows) return copy_workflows(block);
  if (section == TransferSection::windows) {
    MS_TRY_ASSIGN(const auto rows, source_.windows(block));
    MS_TRY(target_.write_windows(block, rows));
    wrote(static_cast<std::int64_t>(rows.size()));
    return {};
  }
  if (section == TransferSection::history) {
    MS_TRY_ASSIGN(const auto rows, source_.history(block));
    MS_TRY(target_.write_history(block, rows));
    wrote(static_cast<std::int64_t>(rows.size()));
    return {};
  }
  MS_TRY_ASSIGN(const auto rows, source_.keys(block));
  MS_TRY(target_.write_keys(block, rows));
  wrote(static_cast<std::int64_t>(rows.size()));
  return {};
}

Result<void> Copy::copy_workflows(std::int64_t block) {
  MS_TRY_ASSIGN(const auto workflows, source_.workflows(block));
  MS_TRY(target_.write_workflows(block, workflows));
  wrote(static_cast<std::int64_t>(workflows.size()));
  std::optional<TransferWorkflowRow> last;
  for (;;) {
    MS_TRY(check_time());
    MS_TRY_ASSIGN(auto rows, source_.workflow_rows(block, last ? &*last : nullptr));
    if (rows.empty()) return {};
    MS_TRY(target_.append_workflow_rows(rows));
    last = std::move(rows.back());
  }
}

Result<void> Copy::copy_jobs(std::int64_t block) {
  MS_TRY_ASSIGN(const std::vector<JobStamp> is, source_.stamps(block));
  MS_TRY_ASSIGN(const std::vector<JobStamp> has, target_.stamps(block));
  std::vector<JobStamp> gone;
  std::vector<JobId> come;
  auto old = has.begin();
  for (const JobStamp& job : is) {
    for (; old != has.end() && old->id < job.id; ++old) gone.push_back(*old);
    const bool known = old != has.end() && old->id == job.id;
    if (!known || *old != job) come.push_back(job.id);
    if (known) ++old;
  }
  gone.insert(gone.end(), old, has.end());
  if (!gone.empty() && !MS_MUTANT(copy_keeps_pruned_jobs)) MS_TRY(target_.remove_jobs(gone));
  progress_.rows_done += static_cast<std::int64_t>(is.size() - come.size());
  for (std::span<const JobId> left(come); !left.empty();) {
    MS_TRY(check_time());
    std::vector<TransferJob> jobs;
    MS_TRY_ASSIGN(const std::size_t done, source_.jobs(left, jobs));
    if (!jobs.empty()) MS_TRY(target_.write_jobs(jobs, clock_.now()));
    left = left.subspan(done);
    wrote(static_cast<std::int64_t>(jobs.size()));
  }
  return {};
}

Result<void> Copy::copy_ledgers(const TransferCatalog& catalog) {
  for (const TransferSchedule& schedule : catalog.schedules) {
    std::int64_t& last = ledgers_[schedule.id];
    while (last < schedule.next_seq - 1) {
      MS_TRY(check_time());
      MS_TRY_ASSIGN(const auto rows, source_.ledger(schedule.id, last));
      if (rows.empty()) break;
      MS_TRY(target_.append_ledger(rows));
      last = rows.back().seq;
      wrote(static_cast<std::int64_t>(rows.size()));
    }
  }
  return {};
}

Result<void> Copy::copy_audit(const TransferCatalog& catalog) {
  MS_TRY_ASSIGN(std::int64_t last, target_.last_audit());
  last = std::max(last, catalog.audit.base.seq);
  while (last < catalog.audit.head.seq) {
    MS_TRY(check_time());
    MS_TRY_ASSIGN(const auto rows, source_.audit(last));
    if (rows.empty()) break;
    MS_TRY(target_.append_audit(rows));
    last = rows.back().seq;
    wrote(static_cast<std::int64_t>(rows.size()));
  }
  return {};
}

Result<bool> Copy::verify() {
  progress_ = {.stage = CopyProgress::Stage::verifying};
  if (options_.progress) options_.progress(progress_);
  const Instant started = now();
  MS_TRY_ASSIGN(VerifyReport verified, target_.verify());
  verify_took_ = now() - started;
  report_.problems = std::move(verified.problems);
  return report_.problems.empty();
}

// Rounds of one snapshot each, until a round is fast or no faster than the one before.
Result<void> Copy::catch_up() {
  for (;;) {
    const Duration before = round_took_;
    MS_TRY(round(CopyProgress::Stage::catching_up, Looks::one));
    const bool slow = round_took_ > options_.max_fence / 2;
    if (++report_.rounds >= kMaxRounds && slow) return too_long(options_.max_fence);
    if (round_took_ <= kQuickRound || (!slow && round_took_ > before / 2)) return {};
  }
}

Result<bool> Copy::finish() {
  const Instant started = now();
  ++report_.fences;
  if (auto fenced = source_.fence(std::min(kPatience, options_.max_fence)); !fenced) {
    if (fenced.error().code != ErrorCode::unavailable) return fenced.error();
    source_.lift();
    no_fence_ = fmt::format(
        "cannot fence the source, because a change of it did not end; it is unchanged: {}",
        fenced.error().message);
    return false;
  }
  no_fence_.clear();
  deadline_ = started + options_.max_fence;
  auto done = finish_in_fence();
  source_.lift();
  report_.fence = now() - started;
  const bool late = now() >= deadline_;
  deadline_ = Instant::never();
  if (!done && late && done.error().code == ErrorCode::unavailable) return false;
  return done;
}

// Returns true also if the target breaks invariants: then `problems` lists them, and the source is
// not marked.
Result<bool> Copy::finish_in_fence() {
  MS_TRY(round(CopyProgress::Stage::fenced, Looks::one));
  // Verify the whole target, if the time suffices.
  report_.verified_in_fence = now() + verify_took_ * 2 < deadline_;
  if (report_.verified_in_fence) {
    MS_TRY_ASSIGN(const bool sound, verify());
    if (!sound) return true;
  }
  const Now at = clock_.now();
  MS_TRY(target_.seal(numbers_of_copy(catalog_->numbers, SourceGoesOn::no, at.wall)));
  if (!MS_MUTANT(fence_has_no_end)) MS_TRY(check_time());
  MS_TRY(source_.mark_moved(target_.place(), at.wall));
  return true;
}

Error Copy::no_end() const {
  Error error = too_long(options_.max_fence);
  if (!no_fence_.empty()) error.message = no_fence_;
  return error;
}

Result<CopyReport> Copy::run() {
  MS_TRY_ASSIGN(const bool go_on, begin());
  if (!go_on) return std::move(report_);
  MS_TRY(round(CopyProgress::Stage::copying, Looks::many));
  MS_TRY(catch_up());
  MS_TRY_ASSIGN(const bool sound, verify());
  if (!sound) return std::move(report_);
  const WallTime wall = clock_.now().wall;
  if (options_.source == SourceGoesOn::yes) {
    MS_TRY(target_.seal(numbers_of_copy(catalog_->numbers, SourceGoesOn::yes, wall)));
    MS_TRY(target_.complete(wall));
    return std::move(report_);
  }
  for (bool done = false; !done;) {
    if (report_.fences == kMaxFences) return no_end();
    if (verify_took_ > round_took_ || report_.fences > 0) MS_TRY(catch_up());
    MS_TRY_ASSIGN(done, finish());
  }
  if (!report_.problems.empty()) return std::move(report_);
  if (MS_MUTANT(copy_ends_at_the_mark))
    return Error{.code = ErrorCode::io_error, .message = "the copy ends here"};
  MS_TRY(target_.complete(clock_.now().wall));
  return std::move(report_);
}

}  // namespace

Result<CopyReport> copy_store(TransferSource& source, TransferTarget& target,
                              const CopyOptions& options, const Clock& clock) {
  return Copy(source, target, options, clock).run();
}

}  // namespace mainspring
