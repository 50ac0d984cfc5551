// Facts that the workers of this process report with each claim.
#pragma once

#include <memory>

#include "store/operations.h"

namespace mainspring {

// `version` and `language` as in WorkerOptions.
std::shared_ptr<WorkerFacts> process_facts(std::string version, std::string language, int slots);

}  // namespace mainspring
