// Sets the variables of ProgramAccess.
#include "worker/program_access.h"

#include <fmt/format.h>

namespace mainspring {

bool is_away(const Error& error) {
  switch (error.code) {
    case ErrorCode::unavailable:
    case ErrorCode::timeout:
    case ErrorCode::overloaded:
    case ErrorCode::unauthenticated:  // the server is being migrated, or the token replaced
      return true;
    default:
      return false;
  }
}

Result<void> ProgramAccess::add(std::vector<std::string>& environment, const std::string& queue,
                                const std::string& folder, Duration limit) const {
  const std::string address = server ? server() : "";
  if (!address.empty()) environment.push_back(fmt::format("MAINSPRING_SERVER={}", address));
  if (!address.empty() && !ca_file.empty()) {
    environment.push_back(fmt::format("MAINSPRING_CA_FILE={}", ca_file));
  }
  if (!token) return {};
  MS_TRY_ASSIGN(const Secret text, token(queue, folder, limit));
  if (!text.empty()) {
    environment.push_back(fmt::format("MAINSPRING_JOB_TOKEN={}", text.reveal()));
  }
  return {};
}

}  // namespace mainspring
