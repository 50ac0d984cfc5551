// Queries the system's user database.
#include "env/accounts.h"

#include <errno.h>
#include <fmt/format.h>
#include <pwd.h>
#include <string.h>

#include <charconv>
#include <vector>

namespace mainspring {
namespace {

constexpr std::size_t kLongestEntry = 1 << 20;  // bytes

std::string text(const char* value) {
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Account> find_account(const std::string& user, const std::string& field) {
  uid_t number = 0;
  const char* const end = user.data() + user.size();
  const auto parsed = std::from_chars(user.data(), end, number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  int error = ERANGE;
  // The buffer must be large enough; its size is not known in advance.
  for (std::size_t size = 4096; error == ERANGE && size <= kLongestEntry; size *= 4) {
    std::vector<char> buffer(size);
    passwd entry{};
    passwd* found = nullptr;
    error = is_number ? getpwuid_r(number, &entry, buffer.data(), buffer.size(), &found)
                      : getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr) {
      return Account{text(entry.pw_name), text(entry.pw_dir), text(entry.pw_shell), entry.pw_uid,
                     entry.pw_gid};
    }
  }
  const std::string why = error == 0 ? "there is no such user" : strerror(error);
  return invalid(field, fmt::format("{} \"{}\": {}", field, user, why));
}

}  // namespace mainspring
