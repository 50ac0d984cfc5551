// Accounts: the system's record of a user.
#pragma once

#include <sys/types.h>

#include <string>

#include "mainspring/result.h"

namespace mainspring {

struct Account {
  std::string name, home, shell;
  uid_t uid = 0;
  gid_t gid = 0;
};

// By name or number. `field`: of the caller, for errors. Errors: invalid_argument (no such user, or
// why the lookup failed).
Result<Account> find_account(const std::string& user, const std::string& field);

}  // namespace mainspring
