// Shared by the shapes of a worker's calls.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/shapes.h"

namespace mainspring {

// The id and the token of a renewal or a result with a bad member.
std::optional<JobOutcome> only_ids(std::string_view text);
// Completes the field of an error in a part of a request that was read apart.
void put_below(std::string place, Error& error);

inline bool check_worker(JsonReader& in, const std::string& worker) {
  if (worker.empty()) return in.missing("worker");
  auto ok = check_name("worker", worker);
  return ok ? true : in.fail(ok.error().code, ok.error().message, in.path("worker"));
}

inline bool read_claim_lease(JsonReader& in, Duration& lease) {
  if (!in.duration(lease)) return false;
  return (lease >= kMinLease && lease <= kMaxLease) ||
         in.fail_value(fmt::format("must be {} to {}", format_duration(kMinLease),
                                   format_duration(kMaxLease)));
}

inline Error over_limit(const JsonReader& in, std::string_view what, std::size_t bytes,
                        std::size_t limit) {
  return Error{.code = ErrorCode::too_large,
               .message = fmt::format("{} has {} bytes: must be at most {}", what, bytes, limit),
               .field = in.path()};
}

struct WirePart {
  std::string code;
  Error error;
};
inline constexpr JsonField<WirePart> kPartError[] = {
    {"code", &as_string<&WirePart::code>},
    {"message", [](JsonReader& in, WirePart& p) { return in.string(p.error.message); }},
    {"field", [](JsonReader& in, WirePart& p) { return in.string(p.error.field); }},
};
// Parts are refused for their size alone.
inline bool read_part_error(JsonReader& in, Error& error) {
  WirePart part;
  if (!in.object(kPartError, part)) return false;
  error = std::move(part.error);
  error.code = ErrorCode::too_large;
  return true;
}
inline void write_part_error(JsonWriter& w, const Error& error) {
  w.key("error").begin_object().key("code").string(error.name());
  w.key("message").string(error.message).key("field").string(error.field).end_object();
}

// Of the schemas of renew; empty = it is another one.
std::vector<std::string_view> renew_request_fields(std::string_view schema);

}  // namespace mainspring
