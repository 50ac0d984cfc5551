// One libcurl handle per request, with fixed addresses that are checked again when it connects.
#include "outgoing/outgoing_client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "outgoing/url_check.h"

namespace mainspring {
namespace {

struct FreeCurl {
  void operator()(CURL* curl) const { ::curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeCurl>;

bool append(List& list, const std::string& line) {
  curl_slist* const longer = ::curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return false;
  (void)list.release();
  list.reset(longer);
  return true;
}

Error out_of_memory() {
  return Error{ErrorCode::io_error, "out of memory"};
}

Error refused(const CheckedUrl& url, const Forbidden& why) {
  const std::string target = url.address ? "is" : fmt::format("\"{}\" leads to", url.host);
  return invalid("url", fmt::format("url: its host {} an address that outgoing requests may not "
                                    "reach: {} ({}); the setting outgoing_allow can allow it",
                                    target, why.name, why.range));
}

// State shared with libcurl's callbacks of one request.
struct Exchange {
  std::vector<IpAddress> checked;
  std::size_t max_body_bytes = 0;
  std::size_t header_bytes = 0;
  OutgoingResponse response;
  bool gate_refused = false;
};

// The last check: whatever libcurl derives from URL, names and caches, a connection to an unchecked
// address is not opened.
curl_socket_t open_socket(void* into, curlsocktype, curl_sockaddr* to) {
  auto& exchange = *static_cast<Exchange*>(into);
  const auto address = address_of(to->addr);
  const auto& checked = exchange.checked;
  if (!address || std::find(checked.begin(), checked.end(), *address) == checked.end()) {
    exchange.gate_refused = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

// Called by libcurl about once a second, and more often while bytes move.
int give_up(void* into, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(into)->stop_requested() ? 1 : 0;
}

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* into) {
  auto& exchange = *static_cast<Exchange*>(into);
  std::string& body = exchange.response.body;
  const std::size_t room = exchange.max_body_bytes - body.size();
  body.append(data, std::min(room, size * count));
  if (size * count <= room) return size * count;
  exchange.response.cut = fmt::format("longer than {} bytes", exchange.max_body_bytes);
  return 0;
}

// "HTTP/1.1 200 OK" -> "OK"; the last status line counts, for example after a 100.
std::size_t take_header(char* data, std::size_t size, std::size_t count, void* into) {
  auto& exchange = *static_cast<Exchange*>(into);
  std::string_view line(data, size * count);
  exchange.header_bytes += line.size();
  if (exchange.header_bytes > OutgoingClient::kMaxHeaderBytes) return 0;
  if (line.starts_with("HTTP/")) {
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t code = std::min(line.find(' '), line.size());
    const std::size_t reason = line.find(' ', code + 1);
    exchange.response.reason = reason == std::string_view::npos
                                   ? ""
                                   : line.substr(reason + 1, OutgoingClient::kMaxReasonBytes);
  }
  return size * count;
}

bool is_header_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
                              std::string_view::npos;
}

// "Expect:" removes that header: libcurl would wait for servers that do not support it.
Result<List> header_list(const OutgoingRequest& request) {
  List list;
  if (!append(list, "Expect:")) return out_of_memory();
  std::size_t bytes = 0;
  if (request.headers.size() > OutgoingClient::kMaxHeaders) {
    return invalid("headers",
                   fmt::format("headers: must be at most {}", OutgoingClient::kMaxHeaders));
  }
  for (const OutgoingHeader& header : request.headers) {
    bytes += header.name.size() + header.value.size() + 4;
    const bool plain = std::all_of(header.value.begin(), header.value.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    });
    if (!is_header_name(header.name) || !plain || bytes > OutgoingClient::kMaxHeaderBytes) {
      return invalid("headers", fmt::format("headers: a name has letters, digits and '-', a value "
                                            "no control characters, all together {} bytes",
                                            OutgoingClient::kMaxHeaderBytes));
    }
    // libcurl sends a header without a value only if it ends with ';'.
    const std::string line =
        header.value.empty() ? header.name + ";" : fmt::format("{}: {}", header.name, header.value);
    if (!append(list, line)) return out_of_memory();
  }
  return list;
}

// "example.com:443:192.0.2.1,[2001:db8::1]"
std::string pinned(const CheckedUrl& url, const std::vector<IpAddress>& addresses) {
  std::string line = fmt::format("{}:{}:", url.host, url.port);
  for (const IpAddress& address : addresses) {
    if (!line.ends_with(':')) line += ',';
    line += address.v6 ? fmt::format("[{}]", to_string(address)) : to_string(address);
  }
  return line;
}

long to_ms(Duration limit) {
  return static_cast<long>(std::max<std::int64_t>(limit.count() / 1000, 1));
}

void set_body(CURL* c, const OutgoingRequest& request) {
  ::curl_easy_setopt(c, CURLOPT_POST, 1L);
  ::curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  ::curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
}

void set_rules(CURL* c, const OutgoingRequest& request, Exchange& exchange) {
  ::curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
  ::curl_easy_setopt(c, CURLOPT_PROXY, "");  // ignore the environment's proxy
  ::curl_easy_setopt(c, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  ::curl_easy_setopt(c, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
  ::curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);  // no alarm() in a multi-threaded program
  ::curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
  ::curl_easy_setopt(c, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  ::curl_easy_setopt(c, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  ::curl_easy_setopt(c, CURLOPT_USERAGENT, "mainspring");
  const bool verified = request.certificates == Certificates::verified;
  ::curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, verified ? 1L : 0L);
  ::curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, verified ? 2L : 0L);
  ::curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  ::curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, &exchange);
  ::curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &take_body);
  ::curl_easy_setopt(c, CURLOPT_WRITEDATA, &exchange);
  ::curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, &take_header);
  ::curl_easy_setopt(c, CURLOPT_HEADERDATA, &exchange);
  if (!request.stop.stop_possible()) return;
  ::curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  ::curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, &give_up);
  ::curl_easy_setopt(c, CURLOPT_XFERINFODATA, &request.stop);
}

// Longer times are not plausible.
constexpr curl_off_t kMaxRetryAfterSeconds = 365 * 24 * 3600;

// If the status arrived before the answer became too long or too slow, it counts.
Result<OutgoingResponse> outcome_of(CURL* c, CURLcode done, const char* problem,
                                    Exchange& exchange) {
  long status = 0;
  ::curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  const std::string why = problem[0] != '\0' ? problem : ::curl_easy_strerror(done);
  if (exchange.gate_refused) {
    return invalid("url", "url: its host led to an address that was not checked");
  }
  if (done == CURLE_ABORTED_BY_CALLBACK) return Error{ErrorCode::unavailable, "given up"};
  if (done == CURLE_OK || status >= 200) {
    exchange.response.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    ::curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0) {
      exchange.response.retry_after =
          std::chrono::seconds(std::min(seconds, kMaxRetryAfterSeconds));
    }
    if (done != CURLE_OK && exchange.response.cut.empty()) exchange.response.cut = why;
    return std::move(exchange.response);
  }
  if (done == CURLE_OUT_OF_MEMORY) return out_of_memory();
  return Error{done == CURLE_OPERATION_TIMEDOUT ? ErrorCode::timeout : ErrorCode::unavailable, why};
}

enum class Method { get, post };

}  // namespace

struct OutgoingClient::Impl {
  OutgoingOptions options;
  AllowList allow;
  Resolver& resolver;
  const Clock& clock;

  Result<CheckedUrl> read(const std::string& text, bool take_userinfo) const;
  Result<std::vector<IpAddress>> addresses_of(const CheckedUrl& url) const;
  Result<OutgoingResponse> perform(const OutgoingRequest& request, Method method) const;
};

// All checks before the name is looked up.
Result<CheckedUrl> OutgoingClient::Impl::read(const std::string& text, bool take_userinfo) const {
  MS_TRY_ASSIGN(CheckedUrl url,
                read_url(text, take_userinfo ? Userinfo::taken : Userinfo::refused));
  if (url.address) {
    if (const auto why = allow.refuses("", *url.address)) return refused(url, *why);
  } else if (const std::string& host = url.host;
             (host == "localhost" || host.ends_with(".localhost")) && !allow.has_name(host)) {
    // It resolves to loopback everywhere: refuse it now, not at the first request.
    const IpAddress loopback = parse_address("127.0.0.1").value();
    if (const auto why = allow.refuses("", loopback)) return refused(url, *why);
  }
  const bool free_ports = url.address ? allow.has_address(*url.address) : allow.has_name(url.host);
  const auto& ports = options.ports;
  if (free_ports || std::find(ports.begin(), ports.end(), url.port) != ports.end()) return url;
  // If all addresses of a name are allowed, any port is too: known only after the look-up.
  if (!url.address && allow.has_ranges()) return url;
  return invalid("url", fmt::format("url: port {}: must be {}, unless the setting outgoing_allow "
                                    "has the host",
                                    url.port, fmt::join(ports, " or ")));
}

Result<std::vector<IpAddress>> OutgoingClient::Impl::addresses_of(const CheckedUrl& url) const {
  if (url.address) return std::vector<IpAddress>{*url.address};
  MS_TRY_ASSIGN(auto addresses, resolver.resolve(url.host, options.connect_limit));
  if (addresses.empty() || addresses.size() > Resolver::kMaxAddresses) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{} has {} addresses: must be 1 to {}", url.host, addresses.size(),
                             Resolver::kMaxAddresses)};
  }
  // One bad address refuses all: otherwise the name's DNS server would choose the one that is used.
  bool all_allowed = true;
  for (const IpAddress& address : addresses) {
    if (const auto why = allow.refuses(url.host, address)) return refused(url, *why);
    all_allowed = all_allowed && allow.has_address(address);
  }
  const auto& ports = options.ports;
  const bool port_fits = std::find(ports.begin(), ports.end(), url.port) != ports.end();
  if (port_fits || all_allowed || allow.has_name(url.host)) return addresses;
  return invalid("url", fmt::format("url: port {}: must be {}, unless the setting outgoing_allow "
                                    "has the host",
                                    url.port, fmt::join(ports, " or ")));
}

Result<OutgoingResponse> OutgoingClient::Impl::perform(const OutgoingRequest& request,
                                                       Method method) const {
  const Instant begin = clock.now().instant;
  MS_TRY_ASSIGN(const CheckedUrl url, read(request.url, request.take_userinfo));
  MS_TRY_ASSIGN(const List headers, header_list(request));
  Exchange exchange;
  exchange.max_body_bytes = options.max_body_bytes;
  MS_TRY_ASSIGN(exchange.checked, addresses_of(url));
  const Duration left = options.total_limit - (clock.now().instant - begin);
  if (left <= Duration(0)) return Error{ErrorCode::timeout, "looking up the host timed out"};
  const std::unique_ptr<CURL, FreeCurl> curl(::curl_easy_init());
  List pin;
  if (!curl || (!url.address && !append(pin, pinned(url, exchange.checked)))) {
    return out_of_memory();
  }
  char problem[CURL_ERROR_SIZE] = {};
  CURL* const c = curl.get();
  set_rules(c, request, exchange);
  if (method == Method::post) set_body(c, request);
  ::curl_easy_setopt(c, CURLOPT_CURLU, url.url.get());
  ::curl_easy_setopt(c, CURLOPT_RESOLVE, pin.get());
  ::curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  ::curl_easy_setopt(c, CURLOPT_ERRORBUFFER, problem);
  ::curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, to_ms(std::min(left, options.connect_limit)));
  ::curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, to_ms(left));
  if (!url.user.empty() || !url.password.empty()) {
    ::curl_easy_setopt(c, CURLOPT_USERNAME, url.user.reveal().c_str());
    ::curl_easy_setopt(c, CURLOPT_PASSWORD, url.password.reveal().c_str());
  }
  const CURLcode done = ::curl_easy_perform(c);
  return outcome_of(c, done, problem, exchange);
}

OutgoingClient::OutgoingClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutgoingClient::~OutgoingClient() = default;

Result<std::unique_ptr<OutgoingClient>> OutgoingClient::open(OutgoingOptions options,
                                                             Resolver& resolver,
                                                             const Clock& clock) {
  // Once per program, before its threads use it; it is never cleaned up.
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) return Error{ErrorCode::io_error, "libcurl cannot be started"};
  MS_TRY_ASSIGN(AllowList allow, AllowList::parse(options.allow));
  auto impl = std::make_unique<Impl>(Impl{std::move(options), std::move(allow), resolver, clock});
  return std::unique_ptr<OutgoingClient>(new OutgoingClient(std::move(impl)));
}

Result<OutgoingResponse> OutgoingClient::post(const OutgoingRequest& request) const {
  return impl_->perform(request, Method::post);
}

Result<OutgoingResponse> OutgoingClient::get(const OutgoingRequest& request) const {
  return impl_->perform(request, Method::get);
}

Result<void> OutgoingClient::check(const std::string& url, bool take_userinfo) const {
  MS_TRY(impl_->read(url, take_userinfo));
  return {};
}

}  // namespace mainspring
