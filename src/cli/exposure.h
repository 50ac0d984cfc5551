// Exposure: where a server listens, and whether it may with what it has.
#pragma once

#include <cstdint>
#include <string>

#include "cli/options.h"

namespace mainspring::cli {

// --listen, taken apart.
struct ListenOn {
  std::string host;  // without brackets; "" of a unix socket
  std::uint16_t port = 0;
  std::string unix_path;
  // Do only processes of this machine get there?
  bool local() const;
};
// HOST:PORT, [V6]:PORT or unix:PATH. Errors: invalid_argument.
Result<ListenOn> parse_listen(const std::string& listen);

// May this server start? What others can reach must have TLS and at least one token that can be
// used; there is no way around it. Also that the settings of TLS fit together. Errors:
// invalid_argument; the message has the commands that make what is missing.
Result<void> check_exposure(const Options& options, bool has_token);

bool has_tls(const Options& options);

}  // namespace mainspring::cli
