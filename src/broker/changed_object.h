// The object that an operation changed, for events: changes that no event of a job or queue shows.
#pragma once

#include <optional>
#include <string>

#include "store/operations.h"
#include "store/store.h"

namespace mainspring {

struct ChangedObject {
  std::string object;      // as AuditRecord::object: "schedule/nightly", "lock/report"
  std::string queue = {};  // it belongs to; "" = none, or not known
  JobId job = 0;           // 0 = not about a job
  WorkflowId workflow = 0;  // 0 = not about a workflow
};

// nullopt: nothing changed, or another event shows it.
std::optional<ChangedObject> changed_object(const Operation& operation,
                                            const OperationResult& result);

// nullopt for the engine's own locks, which clients do not see.
std::optional<ChangedObject> changed_lock(const std::string& name);

}  // namespace mainspring
