// The table of routes: matching, and that /openapi.json agrees with the table and the decoders.
#include "http/routes.h"

#include <doctest/doctest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "http/webjobs_routes.h"

using namespace mainspring;
using namespace mainspring::http;

namespace {

std::string_view id_of(const Match& found) {
  return found.route == nullptr ? std::string_view() : found.route->id;
}

rapidjson::Document document() {
  rapidjson::Document parsed;
  const std::string text = HttpServer::openapi("1.2.3");
  parsed.Parse(text.data(), text.size());
  REQUIRE_FALSE(parsed.HasParseError());
  return parsed;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

TEST_CASE("requests find their route") {
  CHECK(id_of(match("POST", "/v1/jobs")) == "enqueue");
  CHECK(id_of(match("GET", "/v1/jobs")) == "list_jobs");
  CHECK(id_of(match("GET", "/v1/jobs/42?wait=1s")) == "get_job");
  CHECK(match("GET", "/v1/jobs/42").request.param == "42");
  CHECK(id_of(match("POST", "/v1/jobs/42/cancel")) == "cancel_job");
  CHECK(id_of(match("GET", "http://localhost:8080/v1/queues")) == "list_queues");
  CHECK(match("HEAD", "/healthz").head_only);
  const Match query = match("GET", "/v1/jobs?queue=a%2Fb&tag=x+y&&limit=7");
  REQUIRE(query.route != nullptr);
  CHECK(query.request.query == std::vector<std::pair<std::string, std::string>>{
                                   {"queue", "a/b"}, {"tag", "x y"}, {"limit", "7"}});
}

TEST_CASE("a path is split before it is decoded, and decoded once") {
  CHECK(match("POST", "/v1/queues/a%2Fb/pause").request.param == "a/b");
  CHECK(match("GET", "/v1/queues/a%252Fb").request.param == "a%2Fb");
  CHECK(id_of(match("GET", "/v1/queues/a/b")).empty());
  CHECK(id_of(match("GET", "/v1%2Fqueues")).empty());
  CHECK(id_of(match("GET", "/%76%31/queues")) == "list_queues");
}

TEST_CASE("an unknown path is 404, another method of a known path is 405 with Allow") {
  for (std::string_view target : {"/v1", "/v1/", "/v2/jobs", "/v1/jobs/", "/v1/jobs/1/2/3/4",
                                  "/v1/queues//pause", "//v1/jobs"}) {
    CAPTURE(target);
    CHECK(match("GET", target).error.status == 404);
  }
  for (std::string_view target :
       {"/%zz", "*", "", "v1/jobs", "/v1/../healthz", "/v1/jobs/%2e%2E"}) {
    CAPTURE(target);
    CHECK(match("GET", target).error.status == 400);
  }
  const Match wrong = match("DELETE", "/v1/jobs");
  CHECK(wrong.error.status == 405);
  CHECK(wrong.error.allow == "POST, GET, HEAD");
  CHECK(match("POST", "/v1/jobs/1").error.allow == "GET, HEAD, PATCH, DELETE");
}

TEST_CASE("a query is validated against the route's parameters") {
  CHECK(match("GET", "/v1/jobs?colour=red").error.status == 400);
  CHECK(match("GET", "/v1/jobs?queue=a&queue=b").error.status == 400);
  CHECK(match("GET", "/v1/queues?x=1").error.status == 400);
  CHECK(match("GET", "/v1/jobs?queue=%zz").error.status == 400);
}

TEST_CASE("every route is in the OpenAPI document, and nothing else") {
  const auto doc = document();
  CHECK(std::string(doc["openapi"].GetString()) == "3.1.0");
  std::size_t operations = 0;
  for (const auto& path : doc["paths"].GetObject()) operations += path.value.MemberCount();
  CHECK(operations == routes().size());
  std::set<std::string> ids;
  for (const Route& route : routes()) {
    CAPTURE(route.id);
    CHECK(ids.insert(std::string(route.id)).second);
    const auto path = doc["paths"].FindMember(std::string(route.pattern).c_str());
    REQUIRE(path != doc["paths"].MemberEnd());
    const auto method = path->value.FindMember(lower(route.method).c_str());
    REQUIRE(method != path->value.MemberEnd());
    const auto& operation = method->value;
    CHECK(operation["operationId"].GetString() == route.id);
    CHECK(operation["summary"].GetStringLength() > 0);
    std::set<std::string> parameters;
    for (const auto& parameter : operation["parameters"].GetArray())
      parameters.insert(parameter["name"].GetString());
    for (const QueryParameter& parameter : route.query)
      CHECK(parameters.contains(std::string(parameter.name)));
    CHECK(parameters.contains("Idempotency-Key") == route.idempotency_key);
    for (std::size_t open = route.pattern.find('{'); open != std::string_view::npos;
         open = route.pattern.find('{', open + 1)) {
      const std::size_t end = route.pattern.find('}', open);
      CHECK(parameters.contains(std::string(route.pattern.substr(open + 1, end - open - 1))));
    }
    const bool asks = route.access.on != On::open && !route.own_secret;
    REQUIRE(operation["security"].IsArray());
    CHECK(operation["security"].Empty() != asks);
    for (const auto& way : operation["security"].GetArray()) {
      for (const auto& scheme : way.GetObject())
        CHECK(doc["components"]["securitySchemes"].HasMember(scheme.name));
    }
    CHECK(operation.HasMember("requestBody") == !route.request_schema.empty());
    CHECK((route.body == BodyRule::none) == route.request_schema.empty());
    REQUIRE_FALSE(route.successes.empty());
    for (const Success& success : route.successes)
      CHECK(operation["responses"].HasMember(std::to_string(success.status).c_str()));
    for (const ErrorCode code : route.errors)
      CHECK(operation["responses"].HasMember(std::to_string(info(code).http_status).c_str()));
  }
}

TEST_CASE("every reference in the OpenAPI document resolves, every schema is used") {
  const auto doc = document();
  const auto& schemas = doc["components"]["schemas"];
  std::set<std::string> used;
  const std::function<void(const rapidjson::Value&)> walk = [&](const rapidjson::Value& value) {
    if (value.IsObject()) {
      for (const auto& member : value.GetObject()) {
        if (std::string_view(member.name.GetString()) == "$ref") {
          const std::string target = member.value.GetString();
          const std::string name = target.substr(target.rfind('/') + 1);
          CHECK_MESSAGE(schemas.HasMember(name.c_str()), name);
          used.insert(name);
        }
        walk(member.value);
      }
    } else if (value.IsArray()) {
      for (const auto& element : value.GetArray()) walk(element);
    }
  };
  walk(doc);
  for (const auto& schema : schemas.GetObject()) {
    CHECK_MESSAGE(used.contains(schema.name.GetString()), schema.name.GetString());
  }
}

TEST_CASE("the schemas of requests have exactly the fields that the decoders take") {
  const auto doc = document();
  int compared = 0;
  for (const auto& schema : doc["components"]["schemas"].GetObject()) {
    const std::string name = schema.name.GetString();
    const auto fields = request_fields(name);
    if (fields.empty()) continue;
    ++compared;
    CAPTURE(name);
    CHECK_FALSE(schema.value["additionalProperties"].GetBool());
    std::set<std::string> documented, decoded;
    for (const auto& property : schema.value["properties"].GetObject())
      documented.insert(property.name.GetString());
    for (const std::string_view field : fields) decoded.insert(std::string(field));
    CHECK(documented == decoded);
  }
  CHECK(compared == 56);
}

namespace {

std::string of(const Route& route) {
  const bool lease = route.pattern.starts_with("/v1/leases");
  const bool folder = route.pattern.starts_with("/v1/host") || route.pattern.starts_with("/api");
  switch (route.access.on) {
    case On::open:
      return "| | nothing is needed |";
    case On::signed_in:
      return "| | any token |";
    case On::all:
      return "all |";
    case On::queue:
      return "queue |";
    case On::lease:
      return "lease |";
    case On::folder:
      return "folder |";
    case On::plan:
      if (route.pattern.starts_with("/v1/workers/")) return "all queues of the worker |";
      return lease ? "those shown |" : folder ? "folders shown |" : "jobs |";
  }
  return "";
}

std::string row_of(const Route& route) {
  const Access& access = route.access;
  std::string out = "| `" + std::string(route.method == "*" ? "any" : route.method) + " " +
                    std::string(route.pattern) + "` ";
  if (access.on == On::open || access.on == On::signed_in) return out + of(route);
  out += "| `" + std::string(to_string(access.verb)) + "`";
  if (access.other != access.verb) out += " or `" + std::string(to_string(access.other)) + "`";
  return out + " | " + of(route);
}

}  // namespace

TEST_CASE("the reference of scopes matches the tables") {
  std::ifstream file(MAINSPRING_SOURCE_DIR "/docs/reference/scopes.md");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto check = [&](const std::string& line) {
    CHECK_MESSAGE(text.find(line + "\n") != std::string::npos, line);
  };
  for (int i = 0; i < kVerbs; ++i) {
    const auto verb = static_cast<Verb>(i);
    check("| `" + std::string(to_string(verb)) + "` | " + std::string(meaning(verb)) + " |");
  }
  for (const Route& route : routes()) check(row_of(route));
  for (const Route& route : webjobs_routes().routes) check(row_of(route));
}
