// Operations and answers as one line of text: for failure reports, traces and comparisons.
#pragma once

#include <string>

#include "store/store.h"

namespace mainspring {

std::string describe(const Operation& operation);
// All parts of an answer that two correct stores must agree on; of errors only the code.
std::string describe(const OperationResult& result);
// Without the version and texts that stores may choose (rescue messages).
std::string describe(const Job& job);
std::string describe(const QueueStats& stats);
std::string describe(const LeaseInfo& lease);
std::string describe(const SessionInfo& info);
std::string describe(const ScheduleInfo& schedule);
std::string describe(const LedgerRow& row);
std::string describe(const TokenRecord& token);
std::string describe(const AuditRecord& record);

}  // namespace mainspring
