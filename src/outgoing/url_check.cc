// Parses URLs strictly, with libcurl's own parser, so that the check and the request agree.
#include "outgoing/url_check.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <charconv>

namespace mainspring {
namespace {

// Wiped before it is freed: it may be a password.
std::optional<std::string> part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (::curl_url_get(url, which, &text, flags) != CURLUE_OK) return std::nullopt;
  std::string out(text);
  explicit_bzero(text, out.size());
  ::curl_free(text);
  return out;
}

Error bad_url(std::string_view rule) {
  return invalid("url", fmt::format("url: {}", rule));
}

Result<std::uint16_t> port_of(CURLU* url) {
  const std::string text = part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT).value_or("");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size() && port != 0) return port;
  return bad_url("the port must be 1 to 65535");
}

Result<void> read_host(CheckedUrl& out) {
  std::string host = part(out.url.get(), CURLUPART_HOST).value_or("");
  if (host.starts_with('[') && host.ends_with(']')) {
    out.host = host.substr(1, host.size() - 2);
    out.address = parse_address(out.host);
    const bool has_zone = part(out.url.get(), CURLUPART_ZONEID).has_value();
    if (!out.address || !out.address->v6 || has_zone) {
      return bad_url("the address in brackets must be one of IPv6, without a zone");
    }
    return {};
  }
  // Some programs read "127.0.0.1." as an address, others as a name.
  out.address = parse_address(host);
  if (!out.address && !is_host_name(host)) {
    return bad_url(
        "the host must be a name (letters, digits, '-', '_', '.'), an address such as 192.0.2.1, "
        "or one in brackets");
  }
  out.host = out.address ? to_string(*out.address) : lower_name(host);
  if (::curl_url_set(out.url.get(), CURLUPART_HOST, out.host.c_str(), 0) == CURLUE_OK) return {};
  return bad_url("the host is invalid");
}

}  // namespace

void CheckedUrl::Free::operator()(Curl_URL* handle) const {
  ::curl_url_cleanup(handle);
}

Result<CheckedUrl> read_url(const std::string& text, Userinfo userinfo) {
  MS_TRY(check_url_text(text));
  CheckedUrl out;
  out.url.reset(::curl_url());
  if (!out.url) return Error{ErrorCode::io_error, "out of memory"};
  CURLU* const url = out.url.get();
  if (::curl_url_set(url, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return bad_url("must be http://… or https://… with a host");
  }
  const std::string scheme = part(url, CURLUPART_SCHEME).value_or("");
  if (scheme != "http" && scheme != "https") return bad_url("must be http://… or https://…");
  // libcurl accepts one slash and three; other parsers read another host there.
  const std::string_view rest = std::string_view(text).substr(scheme.size());
  if (!rest.starts_with("://") || rest.starts_with(":///")) {
    return bad_url("must be http://… or https://… with a host");
  }
  const std::string_view authority = rest.substr(3, rest.find_first_of("/?#", 3) - 3);
  const auto at = authority.rfind('@');
  const bool has_userinfo = at != std::string_view::npos;
  if (authority.find('%', has_userinfo ? at : 0) != std::string_view::npos) {
    return bad_url("the host must have no %-escapes");
  }
  if (has_userinfo && (userinfo == Userinfo::refused || authority.find('@') != at)) {
    return bad_url(userinfo == Userinfo::refused
                       ? "must have no user and password"
                       : "an '@' in the user or the password must be written %40");
  }
  if (has_userinfo) {
    const auto user = part(url, CURLUPART_USER, CURLU_URLDECODE);
    const auto password = part(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
    if (!user && !password) return bad_url("the user and password are invalid");
    out.user = Secret(user.value_or(""));
    out.password = Secret(password.value_or(""));
    for (const CURLUPart which : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS}) {
      ::curl_url_set(url, which, nullptr, 0);
    }
  }
  ::curl_url_set(url, CURLUPART_FRAGMENT, nullptr, 0);
  MS_TRY(read_host(out));
  MS_TRY_ASSIGN(out.port, port_of(url));
  return out;
}

}  // namespace mainspring
