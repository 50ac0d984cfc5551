// Adds the key of a step to headers, and removes it.
#include "api/step_key.h"

#include <fmt/format.h>

#include "api/json.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

bool may_have_one(const std::string& headers) {
  return headers.find(kStepKeyHeader) != std::string::npos;
}

// Calls `member(name, value)`, a slice of JSON, for each; false: it is not an object.
template <class F>
bool for_each_header(const std::string& headers, F&& member) {
  JsonReader in(headers, JsonReader::Unknown::skip);
  return in.members([&](std::string_view name) {
    const std::string kept(name);
    std::string value;
    if (!in.raw(value, JsonReader::Null::take)) return false;
    member(kept, value);
    return true;
  }) && in.end();
}

void drop_from(NewJob& job) {
  if (may_have_one(job.headers)) job.headers = without_step_key(std::move(job.headers));
}

}  // namespace

std::string without_step_key(std::string headers) {
  if (!may_have_one(headers) || MS_MUTANT(step_key_copied)) return headers;
  std::string out;
  bool found = false;
  const bool read = for_each_header(headers, [&](const std::string& name, std::string_view value) {
    if (name == kStepKeyHeader) {
      found = true;
      return;
    }
    out += out.empty() ? '{' : ',';
    append_json_string(out, name);
    out += ':';
    out += value;
  });
  if (!read || !found) return headers;
  return out.empty() ? out : out + '}';
}

std::string with_step_key(std::string headers, std::string_view key) {
  headers = without_step_key(std::move(headers));
  const std::string own = fmt::format(R"("{}":"{}")", kStepKeyHeader, key);
  const std::size_t open = headers.find('{');
  if (open == std::string::npos) return "{" + own + "}";
  const std::size_t first = headers.find_first_not_of(" \t\r\n", open + 1);
  const bool others = first != std::string::npos && headers[first] != '}';
  return headers.substr(0, open + 1) + own + (others ? "," : "") + headers.substr(open + 1);
}

std::string step_key_of(const std::string& headers) {
  if (!may_have_one(headers)) return "";
  std::string key;
  const bool read = for_each_header(headers, [&](const std::string& name, std::string_view value) {
    if (name == kStepKeyHeader) (void)JsonReader(value, JsonReader::Unknown::skip).string(key);
  });
  return read ? key : "";
}

void drop_step_keys(Operation& operation) {
  if (auto* enqueue = std::get_if<Enqueue>(&operation)) {
    for (NewJob& job : enqueue->jobs) drop_from(job);
  } else if (auto* finish = std::get_if<Finish>(&operation)) {
    for (JobOutcome& result : finish->results) {
      if (auto* complete = std::get_if<Complete>(&result.outcome)) {
        for (NewJob& job : complete->next) drop_from(job);
      }
    }
  }
}

}  // namespace mainspring
