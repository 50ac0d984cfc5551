// Links: the connections over which a node relays HTTP requests to the leader.
//
//   follower ──▶ kLinkGreeting                        on the port of the HTTP server
//            ◀─▶ TLS 1.3 with the key of the cluster  both sides prove the key; no certificates
//            ──▶ caller line, HTTP request            one exchange at a time
//            ◀── frames of the answer                 the last one ends the exchange
//
// The request and the answer are passed on byte for byte. The caller line is outside the HTTP
// message, so a client cannot forge it with a header. Frames mark the end of the answer, so the
// follower does not parse it. Alternative: a header for the caller and an HTTP client; it needs
// rules against forged headers, and changes hop-by-hop headers and framing on the way.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "mainspring/result.h"

namespace mainspring {

inline constexpr std::string_view kLinkGreeting = "MSLINK1\n";

// The TLS contexts of both sides.
class LinkKeys {
 public:
  // `key`: 64 hex digits, the same on all nodes. Errors: invalid_argument.
  static Result<std::unique_ptr<LinkKeys>> open(const Secret& key);
  const std::shared_ptr<SSL_CTX>& accepting() const { return accepting_; }
  const std::shared_ptr<SSL_CTX>& dialing() const { return dialing_; }

 private:
  std::shared_ptr<SSL_CTX> accepting_, dialing_;
};

// The caller of a relayed request, as the follower sees it.
struct CallerLine {
  std::int64_t term = 0;    // of the leader that is meant; another node refuses the request
  bool ping = false;        // no request follows; the leader answers with an empty frame
  bool local = false;       // loopback or a unix socket of the follower
  bool secure = false;      // over TLS
  std::string peer;         // "192.0.2.7", "unix uid=1000"
  std::string certificate;  // the name in the client's certificate, "" = none
};
inline constexpr std::size_t kMaxCallerLine = 1024;
// With the newline at the end.
std::string encode_caller(const CallerLine& line);
// `text` without the newline. nullopt: not the output of encode_caller().
std::optional<CallerLine> decode_caller(std::string_view text);

struct Frame {
  std::uint32_t bytes = 0;     // of the answer, which follow
  bool ends = false;           // the exchange ends after them
  bool closes_client = false;  // the client's connection closes then
  bool closes_link = false;    // the leader closes the link then
  bool refused = false;        // the node does not lead this term: nothing was done
};
inline constexpr std::size_t kFrameBytes = 5;
std::string encode_frame(const Frame& frame);
Frame decode_frame(std::string_view bytes);  // of kFrameBytes

}  // namespace mainspring
