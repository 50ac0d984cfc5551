// Why a job does not run, and its place in the ready queue, from the store and the broker.
#pragma once

#include "broker/broker.h"
#include "broker/why.h"

namespace mainspring {

// `job` as the store has it, without fields that the caller may not see. Errors: those of the
// reads.
Result<Why> explain(const Job& job, const Store& store, Broker& broker, const Clock& clock);

}  // namespace mainspring
