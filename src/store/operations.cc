// Operations and their results as values.
#include "store/operations.h"

#include <fmt/format.h>

namespace mainspring {

Error no_queue(std::string_view name) {
  return {
      ErrorCode::not_found,
      fmt::format("there is no queue \"{}\": check the name, or create it (create=true)", name)};
}

Operation::Operation() = default;
Operation::Operation(const Operation& other) = default;
Operation::Operation(Operation&& other) noexcept = default;
Operation& Operation::operator=(const Operation& other) = default;
Operation& Operation::operator=(Operation&& other) noexcept = default;
Operation::~Operation() = default;

OperationResult::OperationResult() = default;
OperationResult::OperationResult(const OperationResult& other) = default;
OperationResult::OperationResult(OperationResult&& other) noexcept = default;
OperationResult& OperationResult::operator=(const OperationResult& other) = default;
OperationResult& OperationResult::operator=(OperationResult&& other) noexcept = default;
OperationResult::~OperationResult() = default;

}  // namespace mainspring
