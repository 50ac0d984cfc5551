// ProgramAccess: how the program of a job connects to the server.
//
//   MAINSPRING_SERVER      the server's address
//   MAINSPRING_CA_FILE     the CA of its certificate, if set
//   MAINSPRING_JOB_TOKEN   a short-lived token for the job's queue, if the server requires tokens
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
  std::string ca_file;                  // "" = the system's CAs
  // Returns a token for `queue`, and for runs of `folder` if that is not "", valid for at least
  // `limit` if possible. nullptr = no token is required. Errors: those of the server.
  std::function<Result<Secret>(const std::string& queue, const std::string& folder, Duration limit)>
      token;

  // Adds the variables. Errors: those of `token`; the other variables are added in any case.
  Result<void> add(std::vector<std::string>& environment, const std::string& queue,
                   const std::string& folder, Duration limit) const;
};

// The server does not answer now: retry.
bool is_away(const Error& error);

}  // namespace mainspring
