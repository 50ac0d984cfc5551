// Which addresses an outgoing request may reach: the public Internet, and an allow-list.
//
// A server that sends requests to URLs of its users could be aimed at targets that only it can
// reach: its own loopback, its network, the metadata service of its cloud. So an address is refused
// unless it is known to be public. Source: the special-purpose registries of IANA (RFC 6890), RFC
// 6052, RFC 8215.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"

namespace mainspring {

struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // of a v4 address the first 4
  bool operator==(const IpAddress&) const = default;
};
// The usual text only: four decimal numbers, or RFC 4291 without a zone.
std::optional<IpAddress> parse_address(std::string_view text);
std::optional<IpAddress> address_of(const sockaddr& address);  // nullopt: neither v4 nor v6
std::string to_string(const IpAddress& address);

// Addresses with the same first `bits`.
struct AddressRange {
  IpAddress first;
  int bits = 0;
  bool contains(const IpAddress& address) const;
};
std::optional<AddressRange> parse_range(std::string_view text);  // "10.0.0.0/8", or one address

// Why an address is not public: "loopback", "private", "link-local", …
struct Forbidden {
  std::string_view name;
  std::string_view range;  // "127.0.0.0/8"
  bool own = false;        // used by an operator's own machines: loopback, private, shared
};
// nullopt: public. Ranges that tunnel or translate to v4 are always refused.
std::optional<Forbidden> forbidden_range(const IpAddress& address);

// Additional targets that an operator allows: ranges ("10.1.0.0/16", "::1"), names ("hooks.corp").
class AllowList {
 public:
  static constexpr std::size_t kMaxEntries = 1000;
  // Errors: invalid_argument (field outgoing_allow; the entry and the rule).
  static Result<AllowList> parse(const std::vector<std::string>& entries);
  bool has_name(std::string_view name) const;  // of any case, with or without a dot at its end
  bool has_address(const IpAddress& address) const;
  bool has_ranges() const { return !ranges_.empty(); }
  // Why a request to the address under this name is refused; nullopt: it is allowed. An allowed
  // name may resolve to public addresses and to an operator's own machines, never to link-local,
  // metadata and similar addresses: the name's DNS server could point there. Those need their range
  // here.
  std::optional<Forbidden> refuses(std::string_view name, const IpAddress& address) const;

 private:
  std::vector<AddressRange> ranges_;
  std::vector<std::string> names_;  // lower case, without a dot at the end
};

// Letters, digits, '-', '_' and dots, at most 253 bytes, in labels of 1 to 63. The last label is
// not a number, so that the name cannot be taken for an address.
bool is_host_name(std::string_view name);
std::string lower_name(std::string_view name);  // lower case, without a dot at its end

}  // namespace mainspring
