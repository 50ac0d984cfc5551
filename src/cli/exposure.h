// Exposure: where a server listens, and whether its settings are safe for that address.
#pragma once

#include <cstdint>
#include <string>

#include "cli/options.h"

namespace mainspring::cli {

// The parts of --listen.
struct ListenOn {
  std::string host;  // without brackets; "" for a unix socket
  std::uint16_t port = 0;
  std::string unix_path;
  // True if only processes of this machine can connect.
  bool local() const;
};
// HOST:PORT, [V6]:PORT or unix:PATH. Errors: invalid_argument.
Result<ListenOn> parse_listen(const std::string& listen);

// Checks that the server may start. An address that others can reach requires TLS and at least one
// usable token, without exception. Also checks that the TLS settings are consistent. Errors:
// invalid_argument; the message has the commands that create what is missing.
Result<void> check_exposure(const Options& options, bool has_token);

bool has_tls(const Options& options);

}  // namespace mainspring::cli
