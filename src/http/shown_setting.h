// A setting of the program as GET /v1/settings shows it.
#pragma once

#include <string>

namespace mainspring {

struct ShownSetting {
  std::string name;
  std::string value;          // in effect; secrets as ***
  std::string default_value;  // the same
  std::string source;         // "default", "file", "credential", "environment" or "flag"
  std::string where;          // "file /etc/mainspring/config.toml"; "" = a default
  bool secret = false;        // the value has a secret, which is not shown
};

}  // namespace mainspring
