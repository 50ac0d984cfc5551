// Matches requests to the table of routes.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "http/parser.h"
#include "http/path.h"
#include "http/routes.h"

namespace mainspring::http {
namespace {

bool fits(std::string_view pattern, const Path& path) {
  std::size_t i = 0;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const std::string_view segment = pattern.substr(0, pattern.find('/'));
    if (segment.ends_with("*}")) return i < path.count;
    if (i == path.count) return false;
    if (segment.starts_with('{')) {
      if (path.segments[i].empty()) return false;
    } else if (segment != path.segments[i]) {
      return false;
    }
    ++i;
    pattern.remove_prefix(segment.size());
  }
  return i == path.count && !path.longer;
}

// Takes the parameters of a matching path.
void take_params(std::string_view pattern, Path& path, Request& request) {
  bool first = true;
  for (std::size_t i = 0; !pattern.empty(); ++i) {
    pattern.remove_prefix(1);
    const std::string_view segment = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(segment.size());
    if (!segment.starts_with('{')) continue;
    std::string value = segment.ends_with("*}") ? std::string(path.rests[i])  // keeps its '/'
                                                : std::move(path.segments[i]);
    if (first) {
      request.param = std::move(value);
    } else {
      request.more_params.push_back(std::move(value));
    }
    first = false;
  }
}

// An error in a query is an invalid_argument with the parameter as its field.
Result<void> read_query(std::string_view text, const Route& route, Request& request) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), Plus::space);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1),
        Plus::space);
    if (!name || !value) return invalid("", "the query: a % must be followed by two hex digits");
    const auto known = std::find_if(route.query.begin(), route.query.end(),
                                    [&](const QueryParameter& p) { return p.name == *name; });
    if (known == route.query.end() && route.any_query) continue;
    if (known == route.query.end()) {
      std::vector<std::string_view> names;
      for (const QueryParameter& p : route.query) names.push_back(p.name);
      return invalid(
          *name, fmt::format("query parameter \"{}\": {}", cut_text(*name, 64),
                             names.empty() ? "this path has no query parameters"
                                           : fmt::format("known are {}", fmt::join(names, ", "))));
    }
    for (const auto& earlier : request.query) {
      if (earlier.first == *name && !known->repeated)
        return invalid(*name, fmt::format("{}: given twice", *name));
    }
    request.query.emplace_back(std::move(*name), std::move(*value));
  }
  return {};
}

Reply unknown_path(std::string_view path) {
  return error_reply({ErrorCode::not_found,
                      fmt::format("there is no {}; see /openapi.json", cut_text(path, 200))});
}

}  // namespace

Reply error_reply(const Error& error) {
  Reply reply{.status = info(error.code).http_status};
  encode_error(error, reply.body);
  const bool later = reply.status == 429 || reply.status == 503 || reply.status == 507;
  if (later || error.retry_after_ms > 0) {
    reply.retry_after_s = std::max(1, (error.retry_after_ms + 999) / 1000);
  }
  if (error.code == ErrorCode::unauthenticated) add_header(reply, "WWW-Authenticate", "Bearer");
  return reply;
}

void add_header(Reply& reply, std::string_view name, std::string_view value) {
  reply.headers.append(name).append(": ");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    reply.headers += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  reply.headers += "\r\n";
}

std::string_view header_value(const HeaderFields& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (iequals(key, name)) return value;
  }
  return {};
}

namespace {

// Returns true if the path is in the table or invalid: then `out` has the route or an error.
bool match_in(std::span<const Route> table, std::string_view method, std::string_view target,
              Match& out) {
  const std::string_view raw_path = target.substr(0, target.find('?'));
  auto path = read_path(raw_path);
  if (!path) {
    out.error = error_reply(path.error());
    return true;
  }
  const std::string_view wanted = out.head_only ? "GET" : method;
  std::string allow;
  for (const Route& route : table) {
    if (!fits(route.pattern, *path)) continue;
    if (route.method != wanted && route.method != "*") {
      allow += fmt::format("{}{}", allow.empty() ? "" : ", ", route.method);
      if (route.method == "GET") allow += ", HEAD";
      continue;
    }
    take_params(route.pattern, *path, out.request);
    if (route.method == "*") out.request.method = method;
    const std::string_view query =
        target.size() > raw_path.size() ? target.substr(raw_path.size() + 1) : std::string_view();
    if (route.any_query) out.request.raw_query = query;
    auto read = route.method == "*" ? Result<void>() : read_query(query, route, out.request);
    if (read) {
      out.route = &route;
    } else {
      out.error = error_reply(read.error());
    }
    return true;
  }
  if (allow.empty()) return false;
  out.error = error_reply(
      {ErrorCode::method_not_allowed,
       fmt::format("{} {}: must be {}", cut_text(method, 32), cut_text(raw_path, 200), allow)});
  out.error.allow = std::move(allow);
  return true;
}

}  // namespace

Match match(std::string_view method, std::string_view target, const MoreRoutes& more) {
  Match out;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;  // a whole URL: its host was checked with the head
    const std::size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    break;
  }
  out.head_only = method == "HEAD";
  if (match_in(routes(), method, target, out)) return out;
  if (!more.routes.empty() && match_in(more.routes, method, more.canonical(target), out)) {
    return out;
  }
  out.error = unknown_path(target.substr(0, target.find('?')));
  return out;
}

}  // namespace mainspring::http
