// Breakers as JSON. The stores keep the same text of their settings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/breaker_operations.h"

namespace mainspring {

// {"failures", "within", "open_for", "max_open_for", "probes"}
std::string breaker_settings_text(const BreakerSettings& settings);
// Errors: invalid_argument.
Result<BreakerSettings> parse_breaker_settings(std::string_view text);

// The settings; missing ones get their defaults.
Result<PutBreaker> decode_put_breaker_request(std::string name, std::string_view body);
void encode_put_breaker_request(const PutBreaker& request, std::string& out);
// {"for"}; missing, or no body: the open_for of the settings.
Result<OpenBreaker> decode_open_breaker_request(std::string name, std::string_view body);
void encode_open_breaker_request(const OpenBreaker& request, std::string& out);

// {"name", "settings", "state", "open_until", "failures", "room", "probes", "opened", "queues"}
void encode_breaker(const BreakerInfo& info, std::string& out);
Result<BreakerInfo> decode_breaker(std::string_view body);
void encode_breakers(std::span<const BreakerInfo> breakers, std::string& out);
Result<std::vector<BreakerInfo>> decode_breakers(std::string_view body);
void encode_breaker_removed(std::string_view name, std::string& out);

}  // namespace mainspring
