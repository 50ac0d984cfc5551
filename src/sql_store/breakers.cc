// Circuit breakers: in memory, with one row each, written with the batch that changed it.
#include "api/breaker_shapes.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

Breaker* SqlStore::find_breaker(const std::string& name) {
  const auto found = breakers_.find(name);
  return found == breakers_.end() ? nullptr : &found->second;
}

void SqlStore::touch(Breaker& breaker) {
  begin_write();
  if (breaker.touched) return;
  breaker.touched = true;
  breaker.reported = breaker.meter.state();
  touched_breakers_.push_back(&breaker);
}

// After a queue drops the breaker, the ends of the queue's running jobs do not count for it.
void SqlStore::set_breaker(QueueState& queue, const std::string& name) {
  Breaker* const breaker = name.empty() ? nullptr : find_breaker(name);
  if (breaker == queue.breaker) return;
  if (Breaker* before = queue.breaker) {
    touch(*before);
    std::erase(before->queues, &queue);
    const std::vector<BreakerMeter::Probe> probes = before->meter.probes();
    for (const BreakerMeter::Probe& probe : probes) {
      const auto lease = leases_.find(probe.id);
      if (lease == leases_.end() || lease->second.queue != &queue) continue;
      before->meter.end(before->settings, probe, now_.wall, BreakerMeter::End::neither, now_.wall);
    }
    if (!probes.empty()) open_queues_of(*before);
  }
  queue.breaker = breaker;
  if (breaker == nullptr) return;
  touch(*breaker);
  breaker->queues.push_back(&queue);
}

// An open breaker whose time is over becomes half open.
void SqlStore::step_breaker(Breaker& breaker) {
  if (breaker.meter.state() != BreakerState::open || breaker.meter.open_until() > now_.wall) return;
  touch(breaker);
  breaker.meter.step(breaker.settings, now_.wall);
  open_queues_of(breaker);
}

void SqlStore::step_breaker_of(const std::string& name) {
  const QueueState* queue = find_queue(name);
  if (queue != nullptr && queue->breaker != nullptr) step_breaker(*queue->breaker);
}

void SqlStore::begin_under_breaker(QueueState& queue, BreakerMeter::Probe attempt) {
  if (queue.breaker == nullptr || queue.breaker->meter.state() != BreakerState::half_open) return;
  touch(*queue.breaker);
  queue.breaker->meter.begin(attempt);
}

void SqlStore::end_under_breaker(JobId id, const Lease& lease, BreakerMeter::End how,
                                 std::optional<Duration> open_for) {
  Breaker* const breaker = lease.queue->breaker;
  if (breaker == nullptr) return;
  const BreakerState before = breaker->meter.state();
  const std::size_t probes = breaker->meter.probes().size();
  if (before != BreakerState::half_open && how != BreakerMeter::End::failed && !open_for) return;
  touch(*breaker);
  breaker->meter.end(breaker->settings, {id, lease.token}, lease.grant->claimed_at, how, now_.wall);
  if (open_for) breaker->meter.open_for(breaker->settings, *open_for, now_.wall);
  const bool wakes = !MS_MUTANT(end_of_probe_wakes_no_worker);
  if (breaker->meter.probes().size() != probes && wakes) open_queues_of(*breaker);
}

void SqlStore::open_queues_of(Breaker& breaker) {
  if (breaker.meter.room() == 0) return;
  for (QueueState* queue : breaker.queues) open_queue(*queue);
}

WallTime SqlStore::next_half_open() const {
  WallTime next = WallTime::never();
  for (const auto& [name, breaker] : breakers_) {
    if (breaker.meter.state() == BreakerState::open)
      next = std::min(next, breaker.meter.open_until());
  }
  return next;
}

// -- operations -----------------------------------------------------------------------------------

OperationResult SqlStore::operator()(const PutBreaker& op) {
  Breaker* breaker = find_breaker(op.name);
  if (breaker == nullptr && std::ssize(breakers_) >= kMaxBreakers) return too_many_breakers();
  if (breaker != nullptr && breaker->settings == op.settings) return Done{};
  if (breaker == nullptr) breaker = &breakers_[op.name];
  breaker->name = op.name;
  breaker->settings = op.settings;
  touch(*breaker);
  removed_breakers_.erase(op.name);
  return Done{};
}

OperationResult SqlStore::operator()(const RemoveBreaker& op) {
  Breaker* breaker = find_breaker(op.name);
  if (breaker == nullptr) return no_breaker(op.name);
  if (!breaker->queues.empty()) {
    std::vector<std::string> names;
    for (const QueueState* queue : breaker->queues) names.push_back(queue->name);
    std::sort(names.begin(), names.end());
    return breaker_in_use(op.name, names);
  }
  begin_write();
  std::erase(touched_breakers_, breaker);
  breakers_.erase(op.name);
  removed_breakers_.insert(op.name);
  return Done{};
}

OperationResult SqlStore::operator()(const OpenBreaker& op) {
  Breaker* breaker = find_breaker(op.name);
  if (breaker == nullptr) return no_breaker(op.name);
  touch(*breaker);
  const Duration time = op.open_for == Duration(0) ? breaker->settings.open_for : op.open_for;
  breaker->meter.set_open(breaker->settings, time, now_.wall);
  return Done{};
}

OperationResult SqlStore::operator()(const CloseBreaker& op) {
  Breaker* breaker = find_breaker(op.name);
  if (breaker == nullptr) return no_breaker(op.name);
  touch(*breaker);
  breaker->meter.set_closed(now_.wall);
  open_queues_of(*breaker);
  return Done{};
}

// -- on disk, and for readers ---------------------------------------------------------------------

void SqlStore::write_breakers() {
  if (touched_breakers_.empty() && removed_breakers_.empty()) return;
  Statement remove(db_, queries::limits::delete_breaker);
  for (const std::string& name : removed_breakers_) remove.bind(name).run();
  Statement save(db_, queries::limits::upsert_breaker);
  for (const Breaker* breaker : touched_breakers_) {
    const std::string state = MS_MUTANT(breaker_not_kept) ? "" : breaker->meter.text();
    save.bind(breaker->name, breaker_settings_text(breaker->settings),
              Statement::text_or_null(state))
        .run();
  }
}

void SqlStore::tell_breakers(Effects& effects) {
  for (const Breaker* breaker : touched_breakers_) {
    if (breaker->reported == breaker->meter.state()) continue;
    BreakerInfo& info = effects.breakers.emplace_back();
    info.name = breaker->name;
    info.settings = breaker->settings;
    breaker->meter.describe(breaker->settings, now_.wall, info);
  }
}

void SqlStore::load_breakers() {
  breakers_.clear();
  touched_breakers_.clear();
  removed_breakers_.clear();
  Statement rows(db_, queries::limits::load_breakers);
  while (rows.step()) {
    Breaker& breaker = breakers_[std::string(rows.text(0))];
    breaker.name = rows.text(0);
    auto settings = parse_breaker_settings(rows.text(1));
    if (!settings) throw damaged(settings.error().message);
    breaker.settings = *settings;
    breaker.meter = BreakerMeter::parse(rows.text(2));
  }
}

// Runs after the leases are loaded: a copied store may lack the ends of probes.
void SqlStore::settle_probes() {
  for (auto& [name, breaker] : breakers_) {
    const std::vector<BreakerMeter::Probe> probes = breaker.meter.probes();
    for (const BreakerMeter::Probe& probe : probes) {
      const auto lease = leases_.find(probe.id);
      if (lease != leases_.end() && lease->second.token == probe.token) continue;
      breaker.meter.end(breaker.settings, probe, now_.wall, BreakerMeter::End::neither, now_.wall);
    }
  }
}

void SqlStore::publish_breakers() {
  if (republish_) published_breakers_.clear();
  const auto publish = [this](const Breaker& breaker) MS_REQUIRES(published_mutex_) {
    PublishedBreaker& out = published_breakers_[breaker.name];
    out = {.settings = breaker.settings, .meter = breaker.meter};
    for (const QueueState* queue : breaker.queues) out.queues.push_back(queue->name);
    std::sort(out.queues.begin(), out.queues.end());
  };
  for (const std::string& name : std::exchange(removed_breakers_, {}))
    published_breakers_.erase(name);
  if (republish_) {
    for (const auto& [name, breaker] : breakers_) publish(breaker);
  }
  for (Breaker* breaker : std::exchange(touched_breakers_, {})) {
    breaker->touched = false;
    publish(*breaker);
  }
}

Result<std::vector<BreakerInfo>> SqlStore::breakers(WallTime now) const {
  MutexLock lock(published_mutex_);
  std::vector<BreakerInfo> out;
  for (const auto& [name, breaker] : published_breakers_) {
    BreakerInfo& info = out.emplace_back();
    info.name = name;
    info.settings = breaker.settings;
    info.queues = breaker.queues;
    breaker.meter.describe(breaker.settings, now, info);
  }
  return out;
}

}  // namespace mainspring::sql
