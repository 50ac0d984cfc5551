// Why a job does not run, with its place in the line: as the store and the broker say now.
#pragma once

#include "broker/broker.h"
#include "broker/why.h"

namespace mainspring {

// `job` as the store has it now, but for what may not be told. Errors: those of the reads.
Result<Why> explain(const Job& job, const Store& store, Broker& broker, const Clock& clock);

}  // namespace mainspring
