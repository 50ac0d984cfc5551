// OutgoingClient: HTTP requests to URLs that users chose, restricted to allowed targets.
//
//   URL ─▶ read once ─▶ host resolved once ─▶ every address checked ─▶ connection to one of those
//
// An address that is not public is refused (address_rules.h), unless the operator allows it; so are
// ports other than 80 and 443. Redirects are not followed, the environment's proxies and .netrc are
// not used, certificates are verified, answers are bounded in time and size. Decision record 21.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "mainspring/result.h"
#include "mainspring/time.h"
#include "outgoing/resolver.h"

namespace mainspring {

struct OutgoingOptions {
  // Ranges, addresses and names (AllowList) in addition to public addresses. They allow any port.
  std::vector<std::string> allow;
  std::vector<std::uint16_t> ports = {80, 443};  // allowed ports of public addresses
  std::size_t max_body_bytes = 1 << 20;          // of an answer; longer ones are cut
  Duration connect_limit =
      std::chrono::seconds(5);                      // looking up the name; and connecting, with TLS
  Duration total_limit = std::chrono::seconds(10);  // from the start to the end of the answer
};

enum class Certificates { verified, any };

struct OutgoingHeader {
  std::string name;
  std::string value;
};

struct OutgoingRequest {
  std::string url;  // http or https; user:password@ is basic authentication, if allowed
  std::vector<OutgoingHeader> headers;
  std::string_view body;  // of a post
  bool take_userinfo = false;
  Certificates certificates = Certificates::verified;
  std::stop_token stop = {};  // aborts the request within about a second
};

struct OutgoingResponse {
  int status = 0;      // 200 to 599; redirects too
  std::string reason;  // "OK"
  std::string body;
  std::string cut;  // why the body is incomplete: too long, too slow; "" = complete
  // Retry-After, of any answer that has it: seconds or a date. nullopt = none.
  std::optional<Duration> retry_after;
};

class OutgoingClient {
 public:
  static constexpr std::size_t kMaxHeaders = 64;
  static constexpr std::size_t kMaxHeaderBytes = 64 << 10;  // of a request; and of an answer
  static constexpr std::size_t kMaxReasonBytes = 200;

  // The resolver and the clock outlive it. Errors: invalid_argument (outgoing_allow), io_error.
  static Result<std::unique_ptr<OutgoingClient>> open(OutgoingOptions options, Resolver& resolver,
                                                      const Clock& clock);
  ~OutgoingClient();

  // Block for up to the total limit (including the look-up). Thread-safe; calls share nothing, not
  // even connections. Errors: invalid_argument, field url (why it is refused; the message mentions
  // outgoing_allow where it helps), or headers; unavailable (no server, no such name, an invalid
  // certificate, an invalid answer; aborted), timeout, overloaded.
  Result<OutgoingResponse> post(const OutgoingRequest& request) const;
  Result<OutgoingResponse> get(const OutgoingRequest& request) const;

  // Checks a URL without looking up its name. The same errors.
  Result<void> check(const std::string& url, bool take_userinfo) const;

 private:
  struct Impl;
  explicit OutgoingClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
