// The mirror's bodies.
#include "simulation/mirror_store.h"

#include <fmt/format.h>

#include "conformance/compare.h"
#include "conformance/describe.h"

namespace mainspring::simulation {

MirrorStore::MirrorStore(std::unique_ptr<Store> real, MirrorMemory& memory, const SimDisk& disk,
                         const StoreOptions& options, Now now,
                         std::function<void(std::string)> broken,
                         std::function<void(const std::string&)> trace)
    : real_(std::move(real)),
      memory_(memory),
      disk_(disk),
      options_(options),
      broken_(std::move(broken)),
      trace_(std::move(trace)) {
  recover(now);
}

void MirrorStore::recover(Now now) {
  std::string after;
  if (!memory_.open_batch.empty()) {
    const auto with = copy_of(*memory_.model);
    model_ = open_model_store(with, options_, std::nullopt);
    (void)model_->apply(memory_.open_batch, memory_.open_at);
    model_ = open_model_store(with, options_, now);
    after = differs(*model_, *real_);
    memory_.open_batch.clear();
    if (after.empty()) {
      memory_.model = with;
      return;
    }
  }
  open_model(now);
  const std::string before = differs(*model_, *real_);
  if (disk_.crashed() || before.empty()) return;
  broken_(fmt::format(
      "DUR-4: the store came back as no state it was ever in.\nagainst the state before the batch "
      "under way: {}\nagainst the one after it: {}",
      before, after.empty() ? "there was none" : after));
}

Result<BatchReport> MirrorStore::apply(std::span<const Operation> batch, Now now) {
  if (dead_) return Error{.code = ErrorCode::io_error, .message = "the process is gone"};
  ++batches_;
  const std::int64_t refused_before = disk_.stats().refused_full;
  auto report = real_->apply(batch, now);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    trace_(fmt::format(
        "{} -> {}", describe(batch[i]),
        report ? describe(report->results[i]) : "batch failed: " + report.error().message));
  }
  if (!report && report.error().code == ErrorCode::io_error) {
    memory_.open_batch.assign(batch.begin(), batch.end());
    memory_.open_at = now;
    return report;
  }
  // A store that cannot commit for a full disk reads itself anew, and its leases begin anew; one
  // that only could not fold its log does not.
  if (!report) {
    open_model(now);
    return report;
  }
  const bool met_full = disk_.stats().refused_full != refused_before;
  const auto kept = met_full ? copy_of(*memory_.model) : nullptr;
  std::string why = follow(batch, *report, now);
  if (!why.empty() && met_full) {
    memory_.model = kept;
    open_model(now);
    why = follow(batch, *report, now);
  }
  if (!why.empty()) broken_(why);
  return report;
}

std::string MirrorStore::follow(std::span<const Operation> batch, const BatchReport& report,
                                Now now) {
  std::vector<Operation> taken;
  std::vector<OperationResult> answers;
  bool prunes = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Error* error = std::get_if<Error>(&report.results[i]);
    if (error != nullptr && error->code == ErrorCode::storage_full) continue;
    taken.push_back(batch[i]);
    answers.push_back(report.results[i]);
    prunes = prunes || std::holds_alternative<PruneJobs>(batch[i]);
  }
  std::map<JobId, Job> before;
  if (prunes) {
    const auto all = model_->list({}, 1'000'000, 0);
    for (const Job& j : all->jobs) before.emplace(j.id, *model_->get(j.id));
  }
  const auto mine = model_->apply(taken, now);
  for (auto& [id, job] : before) {
    if (!model_->get(id)) memory_.pruned.emplace(id, job);
  }
  if (std::string why = answers_differ(taken, mine->results, answers); !why.empty())
    return "the store and the model answer differently: " + why;
  return agenda_differs(model_->agenda(), real_->agenda());
}

void MirrorStore::look() const {
  if (std::string why = differs(*model_, *real_); !why.empty()) broken_(why);
  const auto report = real_->verify();
  if (!report) return broken_("verify: " + report.error().message);
  for (const std::string& problem : report->problems) broken_("verify: " + problem);
}

}  // namespace mainspring::simulation
