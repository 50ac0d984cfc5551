// The OpenAPI 3.1 document, generated from the table of routes and the schemas.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "http/parser.h"
#include "http/routes.h"

namespace mainspring {

namespace http {
namespace {

// Errors that any route may return.
constexpr ErrorCode kCommonErrors[] = {ErrorCode::invalid_argument, ErrorCode::unauthenticated,
                                       ErrorCode::forbidden,        ErrorCode::request_timeout,
                                       ErrorCode::overloaded,       ErrorCode::headers_too_large,
                                       ErrorCode::internal,         ErrorCode::unavailable};

std::string reference(std::string_view schema) {
  return fmt::format(R"({{"$ref":"#/components/schemas/{}"}})", schema);
}

void write_parameter(JsonWriter& w, std::string_view in, std::string_view name, bool required,
                     std::string_view schema, std::string_view description) {
  w.begin_object().key("name").string(name).key("in").string(in);
  w.key("required").boolean(required).key("description").string(description);
  w.key("schema").raw(schema).end_object();
}

void write_parameters(JsonWriter& w, const Route& route) {
  w.key("parameters").begin_array();
  if (route.pattern.find("{id}") != std::string_view::npos) {
    const bool workflow = route.pattern.starts_with("/v1/workflows");
    write_parameter(w, "path", "id", true, R"({"type":"integer","format":"int64","minimum":1})",
                    workflow ? "The workflow's id." : "The job's id.");
  }
  if (route.pattern.find("{type}") != std::string_view::npos) {
    write_parameter(w, "path", "type", true, R"({"enum":["continuous","triggered","queue"]})",
                    "The type of the job folder.");
  }
  if (route.pattern.find("{run}") != std::string_view::npos) {
    write_parameter(w, "path", "run", true, R"({"type":"string","pattern":"^[0-9]{1,32}$"})",
                    "The run's id.");
  }
  if (route.pattern.find("{type}/{name}") != std::string_view::npos) {
    write_parameter(w, "path", "name", true,
                    R"({"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"})",
                    "The job folder's name.");
  } else if (route.pattern.find("{name}") != std::string_view::npos) {
    const std::string_view of = route.pattern.starts_with("/v1/leases")      ? "lease"
                                : route.pattern.starts_with("/v1/schedules") ? "schedule"
                                : route.pattern.starts_with("/v1/tokens")    ? "token"
                                : route.pattern.starts_with("/ui/")          ? "file"
                                                                             : "queue";
    write_parameter(w, "path", "name", true, reference("Name"),
                    fmt::format("The {}'s name; a / in it is written as %2F.", of));
  }
  if (route.pattern.find("{key}") != std::string_view::npos) {
    write_parameter(w, "path", "key", true, R"({"type":"string"})",
                    "The session's key; a / in it is written as %2F.");
  }
  for (const QueryParameter& parameter : route.query) {
    write_parameter(w, "query", parameter.name, false, parameter.schema, parameter.description);
  }
  if (route.last_event_id) {
    write_parameter(w, "header", "Last-Event-ID", false, R"({"type":"string"})",
                    "Like after; takes precedence.");
  }
  if (route.idempotency_key) {
    write_parameter(w, "header", "Idempotency-Key", false,
                    fmt::format(R"({{"type":"string","maxLength":{}}})", kMaxKeyBytes),
                    "The same key with the same body enqueues once in 24 hours; with another body "
                    "it is a conflict.");
  }
  w.end_array();
}

void write_content(JsonWriter& w, std::string_view schema, std::string_view type = kJson,
                   std::string_view text_type = "text/plain") {
  w.key("content").begin_object();
  if (schema.empty()) {
    w.key(text_type).begin_object().key("schema").raw(R"({"type":"string"})");
  } else {
    w.key(type).begin_object().key("schema").raw(reference(schema));
  }
  w.end_object().end_object();
}

// Errors with the same status are one response: its description lists their codes.
void write_errors(JsonWriter& w, const Route& route) {
  std::vector<ErrorCode> codes(std::begin(kCommonErrors), std::end(kCommonErrors));
  codes.insert(codes.end(), route.errors.begin(), route.errors.end());
  std::vector<int> written;
  for (const ErrorCode first : codes) {
    const int status = info(first).http_status;
    if (std::find(written.begin(), written.end(), status) != written.end()) continue;
    written.push_back(status);
    std::string description;
    for (const ErrorCode code : codes) {
      if (info(code).http_status != status) continue;
      description += fmt::format("{}{}: {}", description.empty() ? "" : "; ", info(code).name,
                                 info(code).summary);
    }
    w.key(fmt::to_string(status)).begin_object().key("description").string(description);
    write_content(w, "Error");
    w.end_object();
  }
}

// {} = no token: a server without tokens requires none.
void write_security(JsonWriter& w, const Route& route) {
  const bool open = route.access.on == On::open || route.own_secret;
  w.key("security").raw(open ? "[]" : R"([{"token":[]},{"session":[]},{}])");
}

void write_security_schemes(JsonWriter& w) {
  w.key("securitySchemes").begin_object();
  w.key("token").begin_object().key("type").string("http").key("scheme").string("bearer");
  w.key("description").string("An access token, if the server requires one.");
  w.end_object();
  w.key("session").begin_object().key("type").string("apiKey").key("in").string("cookie");
  w.key("name").string(kSessionCookie);
  w.key("description").string("The dashboard's session, from POST /v1/session.");
  w.end_object().end_object();
}

void write_operation(JsonWriter& w, const Route& route) {
  std::string method(route.method);
  for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
  w.key(method).begin_object().key("operationId").string(route.id);
  w.key("summary").string(route.summary);
  write_parameters(w, route);
  write_security(w, route);
  if (!route.request_schema.empty()) {
    w.key("requestBody").begin_object();
    w.key("required").boolean(route.body == BodyRule::required || route.body == BodyRule::bytes);
    write_content(w, route.request_schema, route.request_type);
    w.end_object();
  }
  w.key("responses").begin_object();
  for (const Success& success : route.successes) {
    w.key(fmt::to_string(success.status)).begin_object();
    w.key("description").string(success.description);
    write_content(w, success.schema, kJson, success.text_type);
    w.end_object();
  }
  write_errors(w, route);
  w.end_object().end_object();
}

void write_paths(JsonWriter& w) {
  w.key("paths").begin_object();
  std::vector<std::string_view> written;
  for (const Route& first : routes()) {
    if (std::find(written.begin(), written.end(), first.pattern) != written.end()) continue;
    written.push_back(first.pattern);
    w.key(first.pattern).begin_object();
    for (const Route& route : routes()) {
      if (route.pattern == first.pattern) write_operation(w, route);
    }
    w.end_object();
  }
  w.end_object();
}

}  // namespace
}  // namespace http

std::string HttpServer::openapi(std::string_view version) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("openapi").string("3.1.0").key("info").begin_object();
  w.key("title").string("Mainspring").key("version").string(version).key("description");
  w.string(
      "Durable background jobs. Durations are strings with a unit (250ms, 30s, 15m, 24h, 7d), "
      "instants RFC 3339 in UTC. Unknown fields are refused. Fields are added, never changed.");
  w.end_object();
  w.key("servers").begin_array().begin_object().key("url").string("/").key("description");
  w.string("The server that the document comes from.").end_object().end_array();
  http::write_paths(w);
  w.key("components").begin_object();
  http::write_security_schemes(w);
  w.key("schemas").begin_object();
  for (const http::Schema& schema : http::schemas()) w.key(schema.name).raw(schema.json);
  w.end_object().end_object().end_object();
  return out;
}

}  // namespace mainspring
