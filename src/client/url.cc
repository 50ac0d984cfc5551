// Parses URLs of servers.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/secret.h"
#include "client/connection.h"

namespace mainspring {
namespace {

constexpr std::string_view kForms = "http://HOST:PORT, https://HOST:PORT or unix:PATH";
constexpr std::size_t kMaxUrls = 16;

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

Result<HttpUrl> parse_unix(std::string_view path) {
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty() || path.size() > kMost || path.find('\0') != std::string_view::npos) {
    return invalid("url", fmt::format("url \"unix:{}\": the path must have 1 to {} bytes",
                                      path.substr(0, 200), kMost));
  }
  HttpUrl out;
  out.unix_path = path;
  out.authority = "localhost";
  return out;
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view url) {
  const auto bad = [&](std::string_view rule) {
    return invalid("url",
                   fmt::format("url \"{}\": {}", without_password(url).substr(0, 200), rule));
  };
  if (url.starts_with("unix:")) return parse_unix(url.substr(5));
  HttpUrl out;
  out.tls = url.starts_with("https://");
  if (!out.tls && !url.starts_with("http://")) return bad(fmt::format("must be {}", kForms));
  std::string_view rest = url.substr(out.tls ? 8 : 7);
  if (std::any_of(rest.begin(), rest.end(), [](char c) { return c <= ' ' || c >= 0x7f; }) ||
      rest.find_first_of("?#@") != std::string_view::npos) {
    return bad(fmt::format("must be {}, without user or query", kForms));
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  out.prefix = rest.substr(std::min(rest.find('/'), rest.size()));
  rest.remove_suffix(out.prefix.size());
  out.authority = rest;
  std::string_view after = rest;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("the [ of an IPv6 address is not closed");
    out.host = rest.substr(1, close - 1);
    after = rest.substr(close + 1);
    if (!after.empty() && after[0] != ':') return bad("must have a : after the ]");
  } else {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    out.host = rest.substr(0, colon);
    after = rest.substr(colon);
  }
  out.port = after.empty() ? (out.tls ? "443" : "80") : std::string(after.substr(1));
  if (out.host.empty()) return bad("must have a host");
  if (!is_port(out.port)) return bad("the port must be 1 to 65535");
  return out;
}

Result<std::vector<HttpUrl>> parse_http_urls(std::string_view urls) {
  std::vector<HttpUrl> out;
  for (std::string_view rest = urls;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    auto url = parse_http_url(rest.substr(0, comma));
    if (!url && !out.empty() && !out.back().unix_path.empty()) {
      url.error().message += "; commas separate URLs, so the path of a unix: URL must not have one";
    }
    MS_TRY(url);
    out.push_back(std::move(*url));
    if (comma == rest.size()) return out;
    if (out.size() == kMaxUrls) {
      return invalid("url", fmt::format("url: must be a list of at most {} URLs", kMaxUrls));
    }
    rest.remove_prefix(comma + 1);
  }
}

bool HttpUrl::local() const {
  if (!unix_path.empty() || host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace mainspring
