// Limits of a program, made ready before the fork: names are resolved and files opened here, so
// that the child needs system calls only.
#pragma once

#include <vector>

#include "env/fd.h"
#include "env/keeper.h"
#include "env/processes.h"
#include "mainspring/result.h"

namespace mainspring {

class PreparedLimits {
 public:
  // Errors: invalid_argument (out of range, unknown user), forbidden and io_error (a control
  // group's file cannot be opened).
  static Result<PreparedLimits> make(const ProcessLimits& limits);

  // Valid while this object lives and is not moved.
  keeper::Limits plan() const;
  // Converts a failed step to an error. `record` is one of the failure reports of become_program.
  Error error(const ProcessLimits& limits, const keeper::Record& record) const;

 private:
  Result<void> open_groups(const ProcessLimits& limits);
  void add_resource_limits(const ProcessLimits& limits);
  Result<void> find_user(const std::string& user);

  std::vector<Fd> group_files_;
  std::vector<int> group_fds_;
  std::vector<keeper::ResourceLimit> resources_;
  std::vector<gid_t> groups_;
  keeper::Limits plan_;
};

// The error code for the errno of a failed system call.
ErrorCode code_of(int number);

}  // namespace mainspring
