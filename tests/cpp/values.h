// JSON of the conformance protocol to and from values of the public C++ library. The protocol:
// clients/conformance/README.md.
#pragma once

#include <rapidjson/document.h>

#include <string>
#include <string_view>

#include "mainspring/engine.h"

namespace conformance {

using Json = rapidjson::Value;
using Document = rapidjson::Document;

// A document with {"$int": "…"} and {"$text": "x", "times": n} replaced by their values.
Document parse_request(std::string_view text);

// The JSON text of a value; "" where there is none.
std::string text_of(const Json& value);
std::string member_text(const Json& object, const char* name);

// Members of an object; the fallback where the member is missing or null.
std::string string_of(const Json& object, const char* name, std::string_view fallback = "");
int int_of(const Json& object, const char* name, int fallback);
mainspring::Duration duration_of(const Json& object, const char* name,
                                 mainspring::Duration fallback);
std::vector<std::string> strings_of(const Json& object, const char* name);

// Writes one JSON object. In payloads integers beyond 2^53 become {"$int": "…"}.
class Object {
 public:
  Object& string(std::string_view name, std::string_view value);
  Object& number(std::string_view name, std::int64_t value);
  Object& boolean(std::string_view name, bool value);
  // JSON text; "" = null.
  Object& payload(std::string_view name, std::string_view json);
  // JSON text of the protocol itself.
  Object& raw(std::string_view name, std::string_view json);
  std::string text() const { return out_ + "}"; }

 private:
  void name(std::string_view name);
  std::string out_ = "{";
};
std::string json_text(std::string_view text);
std::string array_of(const std::vector<std::string>& elements);

mainspring::NewJob new_job(const Json& job);
mainspring::LeaseFence fence_of(const Json& job);
mainspring::Schedule schedule_of(const Json& schedule, const std::string& name);
mainspring::WorkflowSpec workflow_of(const Json& workflow);
mainspring::QueueLimits limits_of(const Json& limits);

std::string error_json(const mainspring::Error& error);
std::string job_json(const mainspring::Job& job);
std::string claimed_json(const mainspring::ClaimedJob& job);
std::string enqueued_json(const mainspring::Enqueued& job);
std::string event_json(const mainspring::EngineEvent& event);
std::string schedule_json(const mainspring::ScheduleInfo& info);

}  // namespace conformance
