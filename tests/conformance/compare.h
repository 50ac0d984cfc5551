// Two stores side by side: what differs between them, in words.
#pragma once

#include <string>

#include "store/store.h"

namespace mainspring {

// Everything that reads can tell: queues, every job, what is available; "" = equal. `model` is
// asked for all of its jobs at once.
std::string differs(const Store& model, const Store& real);
// No job that this line of the model has could be started for ever.
bool only_expiring(const Store& model, const std::string& line);
// Sessions, and which of their lines have something.
std::string sessions_differ(const Store& model, const Store& real);
// Workflows and their steps.
std::string workflows_differ(const Store& model, const Store& real);
// Breakers, as of `now`.
std::string breakers_differ(const Store& model, const Store& real, WallTime now);
// Triggers and their ledgers.
std::string triggers_differ(const Store& model, const Store& real);
// Leases by name, and when each ends.
std::string leases_differ(const Store& model, const Store& real);
// A store may look earlier than needed at what expires and what is pruned, never later.
std::string agenda_differs(const Agenda& model, const Agenda& real);
// The answers to one batch.
std::string answers_differ(const std::vector<Operation>& batch,
                           const std::vector<OperationResult>& model,
                           const std::vector<OperationResult>& real);

}  // namespace mainspring
