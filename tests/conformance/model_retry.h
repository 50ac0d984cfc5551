// Which jobs of the model store an operator may retry.
#pragma once

#include "conformance/model_keys.h"
#include "conformance/model_state.h"

namespace mainspring {

inline std::optional<Error> may_retry(const ModelDisk& disk, const Record& r) {
  const auto conflict = [](std::string why) {
    return Error{.code = ErrorCode::conflict, .message = std::move(why)};
  };
  if (r.job.state == JobState::running || r.job.state == JobState::completed)
    return conflict("it runs or is done");
  if (r.job.state == JobState::waiting && !r.job.session.empty())
    return conflict("it waits for its session");
  if (r.step && !r.job.deferred && !r.job.quarantined) return conflict("it is of a workflow");
  if (!live(r) && key_taken(disk, r)) return conflict("another job has its unique key now");
  return std::nullopt;
}

}  // namespace mainspring
