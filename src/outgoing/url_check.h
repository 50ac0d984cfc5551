// The URL of an outgoing request, read once: what is checked is what is connected to.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "mainspring/result.h"
#include "outgoing/address_rules.h"

namespace mainspring {

inline constexpr std::size_t kMaxUrlBytes = 2048;

// Who may stand before the '@' of a URL.
enum class Userinfo { refused, taken };

struct CheckedUrl {
  struct Free {
    void operator()(CURLU* handle) const { ::curl_url_cleanup(handle); }
  };
  std::unique_ptr<CURLU, Free> url;  // without its userinfo
  std::string host;                  // a name, or an address without brackets
  std::uint16_t port = 0;
  std::optional<IpAddress> address;  // if the host is one
  Secret user;                       // decoded; empty = none
  Secret password;
};

// Errors: invalid_argument, field url: the rule that it breaks. No message shows the URL, which may
// hold a password.
Result<CheckedUrl> read_url(const std::string& text, Userinfo userinfo);

}  // namespace mainspring
