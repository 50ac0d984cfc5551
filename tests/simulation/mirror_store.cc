// The bodies of MirrorStore.
#include "simulation/mirror_store.h"

#include <fmt/format.h>

#include <algorithm>

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

// Decides which state the store is in: before the batch in progress, or after it.
void MirrorStore::recover(Now now) {
  const auto with = copy_of(*memory_.model);
  auto after = open_model_store(with, options_, std::nullopt);
  if (!memory_.open_batch.empty()) (void)after->apply(memory_.open_batch, memory_.open_at);
  after = open_model_store(with, options_, now);
  open_model(now, ModelOpening::process);
  std::string not_before = differs(*model_, *real_);
  std::string not_after = differs(*after, *real_);
  if (disk_.crashed()) return;
  if (not_before.empty() && not_after.empty()) {  // how long leases are shows in the agenda only
    const std::string before_then = agenda_differs(model_->agenda(), real_->agenda());
    const std::string after_then = agenda_differs(after->agenda(), real_->agenda());
    if (before_then.empty() != after_then.empty()) {
      not_before = before_then;
      not_after = after_then;
    }
  }
  if (!not_before.empty() && !not_after.empty()) {
    return broken_(
        fmt::format("DUR-4: the store came back as no state it was ever in.\nagainst the state "
                    "before the batch "
                    "under way: {}\nagainst the one after it: {}",
                    not_before, not_after));
  }
  bool is_after = not_after.empty();
  if (is_after && not_before.empty() && !ask_keys(*after, now, is_after)) return;
  if (is_after) {
    note_pruned(*model_, *after);
    memory_.model = with;
    model_ = std::move(after);
  }
  memory_.open_batch.clear();
}

void MirrorStore::note_pruned(const Store& before, const Store& after) {
  const auto all = before.list({}, 1'000'000, 0);
  for (const Job& j : all->jobs) {
    if (!after.get(j.id)) memory_.pruned.emplace(j.id, *before.get(j.id));
  }
}

// Both states look alike if only an idempotency key or a token differs. Then this repeats the
// enqueues, as their clients will, and acquires a lease. False if the store crashed meanwhile.
bool MirrorStore::ask_keys(Store& after, Now now, bool& is_after) {
  std::vector<Operation> probe;
  for (const Operation& op : memory_.open_batch) {
    const auto* enqueue = std::get_if<Enqueue>(&op);
    if (enqueue != nullptr && !enqueue->idempotency_key.empty()) probe.push_back(op);
    // The leadership is forgotten at open: only the next token shows whether it was granted.
    const auto* acquire = std::get_if<AcquireLease>(&op);
    if (acquire != nullptr && acquire->name == kLeadershipLease)
      probe.push_back(AcquireLease{.name = fmt::format("probe/{}", memory_.open_at.wall.us()),
                                   .holder = "mirror",
                                   .ttl = kMinLease});
  }
  if (probe.empty()) return true;
  const auto told = real_->apply(probe, now);
  if (!told) return false;
  is_after = answers_differ(probe, after.apply(probe, now)->results, told->results).empty();
  if (!is_after) {
    const std::string why =
        answers_differ(probe, model_->apply(probe, now)->results, told->results);
    if (!why.empty()) broken_("DUR-4: a key is neither known nor unknown: " + why);
  }
  return true;
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
    observer_(batch, nullptr, now);
    return report;
  }
  // A store that cannot commit because of a full disk reads its data again and restarts its leases.
  // A store that only could not fold its log does not.
  if (!report) {
    open_model(now, ModelOpening::reread);
    return report;
  }
  const bool met_full = disk_.stats().refused_full != refused_before;
  const auto kept = met_full ? copy_of(*memory_.model) : nullptr;
  std::string why = follow(batch, *report, now);
  if (why.empty() && met_full) why = leases_differ(*model_, *real_);
  if (!why.empty() && met_full) {
    memory_.model = kept;
    open_model(now, ModelOpening::reread);
    why = follow(batch, *report, now);
  }
  if (!why.empty()) broken_(why);
  observer_(batch, &*report, now);
  return report;
}

std::string MirrorStore::follow(std::span<const Operation> batch, const BatchReport& report,
                                Now now) {
  std::vector<Operation> taken;
  std::vector<OperationResult> answers;
  bool prunes = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Error* error = std::get_if<Error>(&report.results[i]);
    if (error != nullptr && error->code == ErrorCode::storage_full) {
      const auto* audit = i + 1 < batch.size() ? std::get_if<Audit>(&batch[i + 1]) : nullptr;
      if (audit != nullptr && !audit->alone) ++i;  // a refused operation is not recorded
      continue;
    }
    taken.push_back(batch[i]);
    answers.push_back(report.results[i]);
    prunes = prunes || std::holds_alternative<PruneJobs>(batch[i]);
  }
  const auto before = prunes ? copy_of(*memory_.model) : nullptr;
  const auto mine = model_->apply(taken, now);
  if (prunes) note_pruned(*open_model_store(before, options_, std::nullopt), *model_);
  if (std::string why = answers_differ(taken, mine->results, answers); !why.empty())
    return "the store and the model answer differently: " + why;
  return agenda_differs(model_agenda(now.wall), real_->agenda());
}

// A store that read its data again after a failed write does not know whether it has reported the
// limit keys that opened. Where keys have rates it reports them once more, at once.
Agenda MirrorStore::model_agenda(WallTime now) const {
  Agenda agenda = model_->agenda();
  const WallTime opening = real_->agenda().next_opening;
  if (opening > now || opening == agenda.next_opening) return agenda;
  const auto queues = model_->queues();
  const bool rates = std::any_of(queues->begin(), queues->end(),
                                 [](const QueueStats& q) { return q.limits.per_key.rate; });
  if (rates) agenda.next_opening = opening;
  return agenda;
}

void MirrorStore::look() const {
  if (std::string why = differs(*model_, *real_); !why.empty()) broken_(why);
  const auto report = real_->verify();
  if (!report) return broken_("verify: " + report.error().message);
  for (const std::string& problem : report->problems) broken_("verify: " + problem);
}

}  // namespace mainspring::simulation
