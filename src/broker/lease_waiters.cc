// Waiting acquires, indexed by lease, by deadline and by the next try.
#include "broker/lease_waiters.h"

namespace mainspring {

void LeaseWaiters::park(LeaseWaiter waiter, Place place, Instant retry) {
  const std::string name = waiter.request.name;
  Line& line = names_[name].line;
  const std::uint64_t id = waiter.id;
  deadlines_.emplace(waiter.deadline, id);
  places_[id] = line.insert(place == Place::first ? line.begin() : line.end(), std::move(waiter));
  retry_at(name, retry);
}

LeaseWaiter LeaseWaiters::remove(std::map<std::string, Name>::iterator name, Line::iterator place) {
  LeaseWaiter waiter = std::move(*place);
  deadlines_.erase({waiter.deadline, waiter.id});
  places_.erase(waiter.id);
  name->second.line.erase(place);
  if (name->second.line.empty()) {
    retries_.erase({name->second.retry_at, name->first});
    names_.erase(name);
  }
  return waiter;
}

std::optional<LeaseWaiter> LeaseWaiters::take_first(const std::string& lease) {
  const auto name = names_.find(lease);
  if (name == names_.end()) return std::nullopt;
  return remove(name, name->second.line.begin());
}

std::optional<LeaseWaiter> LeaseWaiters::take(std::uint64_t id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return std::nullopt;
  return remove(names_.find(place->second->request.name), place->second);
}

std::vector<LeaseWaiter> LeaseWaiters::take_expired(Instant now) {
  std::vector<LeaseWaiter> out;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    out.push_back(*take(deadlines_.begin()->second));
  return out;
}

std::vector<std::string> LeaseWaiters::due(Instant now) const {
  std::vector<std::string> out;
  for (auto it = retries_.begin(); it != retries_.end() && it->first <= now; ++it)
    out.push_back(it->second);
  return out;
}

void LeaseWaiters::retry_at(const std::string& lease, Instant at) {
  const auto name = names_.find(lease);
  if (name == names_.end()) return;
  retries_.erase({name->second.retry_at, lease});
  name->second.retry_at = at;
  retries_.emplace(at, lease);
}

Instant LeaseWaiters::next() const {
  Instant next = Instant::never();
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (!retries_.empty()) next = std::min(next, retries_.begin()->first);
  return next;
}

// The names of the engine's own leases are adjacent in the order of names.
bool LeaseWaiters::has_callers() const {
  return !names_.empty() && !(names_.begin()->first.starts_with(kReservedLeases) &&
                              names_.rbegin()->first.starts_with(kReservedLeases));
}

std::vector<std::uint64_t> LeaseWaiters::ids() const {
  std::vector<std::uint64_t> out;
  out.reserve(places_.size());
  for (const auto& [id, place] : places_) out.push_back(id);
  return out;
}

}  // namespace mainspring
