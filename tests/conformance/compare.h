// Compares two stores and describes the differences.
#pragma once

#include <string>

#include "store/store.h"

namespace mainspring {

// Compares all that reads return: queues, every job, available jobs; "" = equal. Reads all jobs of
// `model` at once.
std::string differs(const Store& model, const Store& real);
// All jobs in this ready queue of the model have an expiry time.
bool only_expiring(const Store& model, const std::string& line);
// Compares sessions, and which of their ready queues have jobs.
std::string sessions_differ(const Store& model, const Store& real);
// Workflows and their steps.
std::string workflows_differ(const Store& model, const Store& real);
// Breakers, as of `now`.
std::string breakers_differ(const Store& model, const Store& real, WallTime now);
// Triggers and their ledgers.
std::string triggers_differ(const Store& model, const Store& real);
// Leases by name, and when each ends.
std::string leases_differ(const Store& model, const Store& real);
// A store may check for expiry and pruning earlier than needed, never later.
std::string agenda_differs(const Agenda& model, const Agenda& real);
// The answers to one batch.
std::string answers_differ(const std::vector<Operation>& batch,
                           const std::vector<OperationResult>& model,
                           const std::vector<OperationResult>& real);

}  // namespace mainspring
