// ProgramAccess: how a program that runs for a job reaches the server.
//
//   MAINSPRING_SERVER      the server's address
//   MAINSPRING_CA_FILE     who has signed its certificate, where that is set
//   MAINSPRING_JOB_TOKEN   a short-lived token for the job's queue, where the server wants tokens
//
// The token of the worker or host itself is never in a program's environment.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/secret.h"
#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

struct ProgramAccess {
  std::function<std::string()> server;  // nullptr = not known
  std::string ca_file;                  // "" = whom the system trusts
  // A token for `queue`, and for runs of `folder` where that is not "", which is good for `limit`
  // at least, as far as that is possible. nullptr = none is needed. Errors: those of the server.
  std::function<Result<Secret>(const std::string& queue, const std::string& folder, Duration limit)>
      token;

  // Adds the variables. Errors: those of `token`; the others are added then.
  Result<void> add(std::vector<std::string>& environment, const std::string& queue,
                   const std::string& folder, Duration limit) const;
};

// The server does not answer now: what needs it is to be tried again.
bool is_away(const Error& error);

}  // namespace mainspring
