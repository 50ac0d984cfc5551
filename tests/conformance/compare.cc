// The comparisons, by text.
#include "conformance/compare.h"

#include <fmt/format.h>

#include "conformance/describe.h"

namespace mainspring {
namespace {

constexpr int kAll = 1'000'000;

}  // namespace

std::string leases_differ(const Store& model, const Store& real) {
  const auto mine = model.leases("", kAll, Instant());
  const auto theirs = real.leases("", kAll, Instant());
  if (!theirs) return "leases: " + theirs.error().message;
  if (mine->size() != theirs->size()) return "another number of leases";
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const std::string a = describe((*mine)[i]);
    const std::string b = describe((*theirs)[i]);
    if (a != b) return fmt::format("leases:\n  model: {}\n  store: {}", a, b);
    if (model.lease_free_at((*mine)[i].name) != real.lease_free_at((*mine)[i].name))
      return "lease_free_at of " + (*mine)[i].name;
  }
  return "";
}

std::string differs(const Store& model, const Store& real) {
  if (std::string why = leases_differ(model, real); !why.empty()) return why;
  const auto mine = model.queues();
  const auto theirs = real.queues();
  if (!theirs) return "queues: " + theirs.error().message;
  if (mine->size() != theirs->size()) return "another number of queues";
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const std::string a = describe((*mine)[i]);
    const std::string b = describe((*theirs)[i]);
    if (a != b) return fmt::format("queues:\n  model: {}\n  store: {}", a, b);
    const std::string& name = (*mine)[i].name;
    if (model.has_available(name) != real.has_available(name)) return "has_available of " + name;
  }
  const auto all = model.list({}, kAll, 0);
  for (const Job& j : all->jobs) {
    const auto a = model.get(j.id);
    const auto b = real.get(j.id);
    if (!b) return fmt::format("get {}: {}", j.id, b.error().message);
    if (describe(*a) != describe(*b))
      return fmt::format("get:\n  model: {}\n  store: {}", describe(*a), describe(*b));
  }
  return "";
}

std::string agenda_differs(const Agenda& model, const Agenda& real) {
  if (model.next_due != real.next_due)
    return fmt::format("agenda.next_due: model {}, store {}", model.next_due.us(),
                       real.next_due.us());
  if (model.next_lease_expiry != real.next_lease_expiry)
    return fmt::format("agenda.next_lease_expiry: model {}, store {}", model.next_lease_expiry.us(),
                       real.next_lease_expiry.us());
  if (model.next_expiry < real.next_expiry) return "agenda.next_expiry is too late";
  if (model.next_prune < real.next_prune) return "agenda.next_prune is too late";
  return "";
}

std::string answers_differ(const std::vector<Operation>& batch,
                           const std::vector<OperationResult>& model,
                           const std::vector<OperationResult>& real) {
  if (model.size() != real.size()) return "another number of answers";
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string a = describe(model[i]);
    const std::string b = describe(real[i]);
    if (a != b) return fmt::format("{}\n  model: {}\n  store: {}", describe(batch[i]), a, b);
  }
  return "";
}

}  // namespace mainspring
