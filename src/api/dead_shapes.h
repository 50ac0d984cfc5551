// The groups of the dead letter as JSON. See shapes.h for the contract of encode_… and decode_….
#pragma once

#include <string>
#include <string_view>

#include "mainspring/dead.h"

namespace mainspring {

// {"groups": [{"fingerprint", "kind", "reason", "count", "first": {"id", "at"}, "last": {"id",
// "at"}, "message", "masked"?}], "jobs", "cut"}; the message is null where it is masked.
void encode_dead_groups(const DeadGroups& groups, std::string& out);
Result<DeadGroups> decode_dead_groups(std::string_view body);

}  // namespace mainspring
