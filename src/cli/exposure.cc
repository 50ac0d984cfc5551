// Checks whether a server may start with its settings, and explains how to fix them.
#include "cli/exposure.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include "cli/shared_store.h"

namespace mainspring::cli {
namespace {

bool given(const std::string& setting) {
  return setting != "none";
}

Result<void> check_tls_settings(const Options& options) {
  if (given(options.tls_cert) != given(options.tls_key)) {
    return invalid("tls_cert",
                   "--tls-cert and --tls-key: both must be given, or none; `mainspring "
                   "tls init` makes both");
  }
  if (given(options.tls_client_ca) && !has_tls(options)) {
    return invalid("tls_client_ca", "--tls-client-ca: needs --tls-cert and --tls-key");
  }
  return {};
}

}  // namespace

bool has_tls(const Options& options) {
  return given(options.tls_cert);
}

bool ListenOn::local() const {
  if (!unix_path.empty() || host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<ListenOn> parse_listen(const std::string& listen) {
  const auto bad = [&](std::string_view rule) {
    return invalid("listen", fmt::format("--listen \"{}\": {}", listen, rule));
  };
  ListenOn out;
  if (listen.starts_with("unix:")) {
    out.unix_path = listen.substr(5);
    if (out.unix_path.empty()) return bad("must have a path, for example unix:/run/mainspring");
    if (out.unix_path.find(',') != std::string::npos)
      return bad("the path must not have a comma, which separates URLs in --server");
    return out;
  }
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return bad("must be HOST:PORT or unix:PATH, for example 127.0.0.1:8080");
  }
  out.host = listen.substr(0, colon);
  if (out.host.starts_with('[') && out.host.ends_with(']')) {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  const auto port = parse_count(listen.substr(colon + 1));
  if (!port || *port > 65'535) return bad("the port must be a number from 0 to 65535");
  out.port = static_cast<std::uint16_t>(*port);
  return out;
}

Result<void> check_exposure(const Options& options, bool has_token) {
  MS_TRY(check_tls_settings(options));
  MS_TRY_ASSIGN(const ListenOn listen, parse_listen(options.listen));
  if (!listen.unix_path.empty() && has_tls(options)) {
    return invalid(
        "listen",
        fmt::format(
            "--listen \"{}\": a unix socket has no TLS, because its traffic stays on the machine",
            options.listen));
  }
  if (listen.local() || (has_tls(options) && has_token)) return {};
  std::string missing;
  if (!has_tls(options)) {
    missing += fmt::format(
        "\n  no TLS:    mainspring tls init --dir tls --host {}\n"
        "             then serve with --tls-cert tls/server.pem --tls-key tls/server.key",
        listen.host.empty() || listen.host == "0.0.0.0" || listen.host == "::" ? "NAME"
                                                                               : listen.host);
  }
  if (!has_token) {
    missing += has_shared_store(options)
                   ? "\n  no token:  mainspring token create admin --scope all, with a server "
                     "of the same store that listens on a loopback address"
                   : fmt::format(
                         "\n  no token:  mainspring token create admin --scope all "
                         "--data {}",
                         options.data);
  }
  return invalid("listen", fmt::format("--listen \"{}\": remote access requires TLS and a token. "
                                       "Use a loopback address (127.0.0.1, ::1, localhost) or "
                                       "unix:PATH, or add:{}",
                                       options.listen, missing));
}

}  // namespace mainspring::cli
