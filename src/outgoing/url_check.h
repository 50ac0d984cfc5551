// The URL of an outgoing request, parsed once: the checked host is the one that is connected to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "mainspring/result.h"
#include "outgoing/address_rules.h"

struct Curl_URL;  // libcurl's CURLU

namespace mainspring {

inline constexpr std::size_t kMaxUrlBytes = 2048;

// Whether a URL may have a user name before '@'.
enum class Userinfo { refused, taken };

struct CheckedUrl {
  struct Free {
    void operator()(Curl_URL* handle) const;
  };
  std::unique_ptr<Curl_URL, Free> url;  // without its userinfo; null in a build without libcurl
  std::string host;                     // a name, or an address without brackets
  std::uint16_t port = 0;
  std::optional<IpAddress> address;  // if the host is one
  Secret user;                       // decoded; empty = none
  Secret password;
};

// The rules that need no parser: length and bytes. Errors: as read_url().
Result<void> check_url_text(const std::string& text);

// Errors: invalid_argument, field url, with the broken rule. No message shows the URL, which may
// contain a password. Without libcurl (outgoing/without_curl.cc) only text and scheme are checked,
// and only `host` is set: the process that sends a request parses its URL again.
Result<CheckedUrl> read_url(const std::string& text, Userinfo userinfo);

}  // namespace mainspring
