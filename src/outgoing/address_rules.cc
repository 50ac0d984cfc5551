// The table of non-public ranges, and the allow-list.
#include "outgoing/address_rules.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace mainspring {
namespace {

enum class Own { no, yes };

struct Row {
  std::string_view range;
  std::string_view name;
  Own own = Own::no;
};

// The first row that contains an address applies: smaller ranges come before larger ones.
constexpr Row kRows[] = {
    {"0.0.0.0/8", "this network"},
    {"10.0.0.0/8", "private", Own::yes},
    {"100.100.100.200/32", "metadata"},
    {"100.64.0.0/10", "shared (carrier-grade NAT)", Own::yes},
    {"127.0.0.0/8", "loopback", Own::yes},
    {"168.63.129.16/32", "metadata"},
    {"169.254.169.254/32", "metadata"},
    {"169.254.0.0/16", "link-local"},
    {"172.16.0.0/12", "private", Own::yes},
    {"192.0.0.0/24", "protocol assignments"},
    {"192.0.2.0/24", "documentation"},
    {"192.88.99.0/24", "6to4 relay"},
    {"192.168.0.0/16", "private", Own::yes},
    {"198.18.0.0/15", "benchmarking"},
    {"198.51.100.0/24", "documentation"},
    {"203.0.113.0/24", "documentation"},
    {"224.0.0.0/4", "multicast"},
    {"255.255.255.255/32", "broadcast"},
    {"240.0.0.0/4", "reserved"},
    {"::/128", "unspecified"},
    {"::1/128", "loopback", Own::yes},
    {"::ffff:0:0/96", "v4-mapped"},
    {"::ffff:0:0:0/96", "v4-translated"},
    {"::/96", "v4-compatible"},
    {"64:ff9b::/96", "NAT64"},
    {"64:ff9b:1::/48", "NAT64"},
    {"100::/64", "discard"},
    {"2001::/32", "Teredo"},
    {"2001::/23", "protocol assignments"},
    {"2001:db8::/32", "documentation"},
    {"2002::/16", "6to4"},
    {"3fff::/20", "documentation"},
    {"fd00:ec2::254/128", "metadata"},
    {"fc00::/7", "unique local", Own::yes},
    {"fe80::/10", "link-local"},
    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
};
// The only public range of v6; any future range is refused.
constexpr std::string_view kGlobalUnicast = "2000::/3";

struct KnownRange {
  AddressRange range;
  const Row* row;
};

const std::vector<KnownRange>& known_ranges() {
  static const std::vector<KnownRange> all = [] {
    std::vector<KnownRange> list;
    for (const Row& row : kRows) list.push_back({parse_range(row.range).value(), &row});
    return list;
  }();
  return all;
}

bool is_label_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool looks_like_number(std::string_view label) {
  if (label.starts_with("0x") || label.starts_with("0X")) return true;
  return std::all_of(label.begin(), label.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<IpAddress> parse_address(std::string_view text) {
  if (text.size() >= INET6_ADDRSTRLEN) return std::nullopt;
  const std::string terminated(text);
  if (terminated.find('\0') != std::string::npos) return std::nullopt;
  IpAddress out;
  out.v6 = text.find(':') != std::string_view::npos;
  const int family = out.v6 ? AF_INET6 : AF_INET;
  if (::inet_pton(family, terminated.c_str(), out.bytes.data()) != 1) return std::nullopt;
  return out;
}

std::optional<IpAddress> address_of(const sockaddr& address) {
  IpAddress out;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    std::memcpy(out.bytes.data(), &v4.sin_addr, 4);
    return out;
  }
  if (address.sa_family != AF_INET6) return std::nullopt;
  out.v6 = true;
  std::memcpy(out.bytes.data(),
              reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in6, sin6_addr), 16);
  return out;
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

bool AddressRange::contains(const IpAddress& address) const {
  if (address.v6 != first.v6) return false;
  for (int bit = 0; bit < bits; bit += 8) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const int unused = std::max(0, 8 - (bits - bit));
    const auto mask = static_cast<std::uint8_t>(0xff << unused);
    if ((address.bytes[at] & mask) != (first.bytes[at] & mask)) return false;
  }
  return true;
}

std::optional<AddressRange> parse_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  AddressRange out{*address, address->v6 ? 128 : 32};
  if (slash == std::string_view::npos) return out;
  const std::string_view digits = text.substr(slash + 1);
  int bits = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || bits < 0 || bits > out.bits) return std::nullopt;
  out.bits = bits;
  // Bits after the prefix are a mistake: 10.1.2.3/8 does not mean what it looks like.
  IpAddress lowest = *address;
  for (int bit = bits; bit < (address->v6 ? 128 : 32); ++bit) {
    lowest.bytes[static_cast<std::size_t>(bit / 8)] &=
        static_cast<std::uint8_t>(~(0x80 >> (bit % 8)));
  }
  if (lowest != *address) return std::nullopt;
  return out;
}

std::optional<Forbidden> forbidden_range(const IpAddress& address) {
  for (const KnownRange& known : known_ranges()) {
    if (!known.range.contains(address)) continue;
    return Forbidden{known.row->name, known.row->range, known.row->own == Own::yes};
  }
  if (!address.v6) return std::nullopt;
  static const AddressRange global = parse_range(kGlobalUnicast).value();
  if (global.contains(address)) return std::nullopt;
  return Forbidden{"not global unicast", "outside of 2000::/3"};
}

Result<AllowList> AllowList::parse(const std::vector<std::string>& entries) {
  AllowList out;
  if (entries.size() > kMaxEntries) {
    return invalid("outgoing_allow",
                   fmt::format("outgoing_allow: has {} entries: must be at most {}", entries.size(),
                               kMaxEntries));
  }
  for (const std::string& entry : entries) {
    if (const auto range = parse_range(entry)) {
      out.ranges_.push_back(*range);
    } else if (is_host_name(entry)) {
      out.names_.push_back(lower_name(entry));
    } else {
      return invalid("outgoing_allow",
                     fmt::format("outgoing_allow \"{}\": must be a range such as 10.1.0.0/16 (no "
                                 "bits set after the prefix), an address, or a host name",
                                 entry.substr(0, 80)));
    }
  }
  return out;
}

bool AllowList::has_name(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), lower_name(name)) != names_.end();
}

bool AllowList::has_address(const IpAddress& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const AddressRange& range) { return range.contains(address); });
}

std::optional<Forbidden> AllowList::refuses(std::string_view name, const IpAddress& address) const {
  if (has_address(address)) return std::nullopt;
  auto forbidden = forbidden_range(address);
  if (forbidden && forbidden->own && has_name(name)) return std::nullopt;
  return forbidden;
}

bool is_host_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > 253) return false;
  for (;;) {
    const std::size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (label.empty() || label.size() > 63) return false;
    if (!std::all_of(label.begin(), label.end(), is_label_byte)) return false;
    if (dot == std::string_view::npos) return !looks_like_number(label);
    name.remove_prefix(dot + 1);
  }
}

std::string lower_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace mainspring
