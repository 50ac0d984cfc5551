// Paced redrives as JSON: the order, in a request and in the args of the job that does it.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/dead.h"

namespace mainspring {

class JsonReader;

struct RedriveOrder {
  DeadFilter filter;
  RedrivePace pace;
};

// Errors: invalid_argument, with the field.
Result<void> check_filter(const DeadFilter& filter);
// A field of a filter; "" is refused, as a missing field means everything.
bool read_filter_word(JsonReader& in, std::string& into);
// Errors: invalid_argument, with the field.
Result<void> validate(const RedriveOrder& order);
// {"queue"?, "kind"?, "tag"?, "fingerprint"?, "rate"?, "canary"?, "limit"?}; "" is {}. Validated.
Result<RedriveOrder> decode_redrive_order(std::string_view json);
// Without default values.
void encode_redrive_order(const RedriveOrder& order, std::string& out);

// Converts "50/s", "100/m", "10/h" to the time between two jobs; "" is none. Errors:
// invalid_argument.
Result<Duration> parse_rate(std::string_view text);

// The job that does it. One for the same filter at a time.
NewJob redrive_job(const RedriveOrder& order);

}  // namespace mainspring
