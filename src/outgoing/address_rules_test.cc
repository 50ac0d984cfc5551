// Addresses: those that are not public are refused, by range, including its edges.
#include "outgoing/address_rules.h"

#include <doctest/doctest.h>

using namespace mainspring;

namespace {

std::string why(const char* address) {
  const auto parsed = parse_address(address);
  REQUIRE_MESSAGE(parsed, address);
  const auto forbidden = forbidden_range(*parsed);
  return forbidden ? std::string(forbidden->name) : "public";
}

constexpr std::pair<const char*, const char*> kCases[] = {
    {"0.0.0.0", "this network"},
    {"0.255.255.255", "this network"},
    {"1.0.0.0", "public"},
    {"9.255.255.255", "public"},
    {"10.0.0.0", "private"},
    {"10.255.255.255", "private"},
    {"11.0.0.0", "public"},
    {"100.63.255.255", "public"},
    {"100.64.0.0", "shared (carrier-grade NAT)"},
    {"100.100.100.200", "metadata"},
    {"100.127.255.255", "shared (carrier-grade NAT)"},
    {"100.128.0.0", "public"},
    {"126.255.255.255", "public"},
    {"127.0.0.1", "loopback"},
    {"127.255.255.255", "loopback"},
    {"128.0.0.0", "public"},
    {"168.63.129.16", "metadata"},
    {"169.253.255.255", "public"},
    {"169.254.0.0", "link-local"},
    {"169.254.169.254", "metadata"},
    {"169.255.0.0", "public"},
    {"172.15.255.255", "public"},
    {"172.16.0.0", "private"},
    {"172.31.255.255", "private"},
    {"172.32.0.0", "public"},
    {"192.0.0.192", "protocol assignments"},
    {"192.0.2.1", "documentation"},
    {"192.88.99.1", "6to4 relay"},
    {"192.167.255.255", "public"},
    {"192.168.1.1", "private"},
    {"192.169.0.0", "public"},
    {"198.17.255.255", "public"},
    {"198.18.0.0", "benchmarking"},
    {"198.19.255.255", "benchmarking"},
    {"198.51.100.7", "documentation"},
    {"203.0.113.7", "documentation"},
    {"223.255.255.255", "public"},
    {"224.0.0.1", "multicast"},
    {"240.0.0.1", "reserved"},
    {"255.255.255.255", "broadcast"},
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::7f00:1", "v4-compatible"},
    {"::127.0.0.1", "v4-compatible"},
    {"::ffff:127.0.0.1", "v4-mapped"},
    {"::ffff:8.8.8.8", "v4-mapped"},
    {"::ffff:0:127.0.0.1", "v4-translated"},
    {"64:ff9b::7f00:1", "NAT64"},
    {"64:ff9b:1::a00:1", "NAT64"},
    {"64:ff9b:2::1", "not global unicast"},
    {"100::1", "discard"},
    {"1fff::1", "not global unicast"},
    {"2000::1", "public"},
    {"2001::1", "Teredo"},
    {"2001:1ff::1", "protocol assignments"},
    {"2001:200::1", "public"},
    {"2001:db8::1", "documentation"},
    {"2002:7f00:1::", "6to4"},
    {"2606:4700::1111", "public"},
    {"3fff:fff::1", "documentation"},
    {"3fff:1000::1", "public"},
    {"4000::1", "not global unicast"},
    {"fc00::1", "unique local"},
    {"fd00:ec2::254", "metadata"},
    {"fdff::1", "unique local"},
    {"fe80::1", "link-local"},
    {"febf::1", "link-local"},
    {"fec0::1", "site-local"},
    {"ff02::1", "multicast"},
};

}  // namespace

TEST_CASE("addresses that are not public are detected by their range, including its edges") {
  for (const auto& row : kCases) CHECK_MESSAGE(why(row.first) == row.second, row.first);
}

TEST_CASE("only the canonical text form is an address") {
  for (const char* text : {"", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "127.0.0.1.",
                           "127.0.0.01", "127.0.0.256", "[::1]", "fe80::1%lo", "::1 ", "1::2::3"}) {
    CHECK_MESSAGE(!parse_address(text), text);
  }
}

TEST_CASE("an allow-list has ranges, addresses and names; invalid entries are reported") {
  const auto allow = AllowList::parse({"10.1.0.0/16", "::1", "Hooks.Corp."});
  REQUIRE(allow);
  CHECK(allow->has_address(*parse_address("10.1.255.1")));
  CHECK_FALSE(allow->has_address(*parse_address("10.2.0.1")));
  CHECK(allow->has_address(*parse_address("::1")));
  CHECK_FALSE(allow->has_address(*parse_address("0.0.0.1")));  // of the other address family
  CHECK(allow->has_name("hooks.corp"));
  CHECK(allow->has_name("HOOKS.CORP."));
  CHECK_FALSE(allow->has_name("x.hooks.corp"));
  for (const char* entry : {"", "10.1.2.3/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "*.corp",
                            "10.0.0", "http://a/", "::/129", "a b", "127.0.0.1/0", "0x7f.1"}) {
    const auto bad = AllowList::parse({entry});
    REQUIRE_MESSAGE(!bad, entry);
    CHECK(bad.error().field == "outgoing_allow");
  }
}

TEST_CASE("an allowed name may resolve to private addresses, never to metadata addresses") {
  const auto allow = AllowList::parse({"hooks.corp"});
  REQUIRE(allow);
  for (const char* own : {"10.0.0.1", "127.0.0.1", "192.168.1.1", "fd12::1", "::1", "8.8.8.8"}) {
    CHECK_MESSAGE(!allow->refuses("hooks.corp", *parse_address(own)), own);
  }
  for (const char* never : {"169.254.169.254", "169.254.1.1", "fd00:ec2::254", "::ffff:10.0.0.1",
                            "0.0.0.0", "255.255.255.255", "224.0.0.1", "100.100.100.200"}) {
    CHECK_MESSAGE(allow->refuses("hooks.corp", *parse_address(never)), never);
  }
  CHECK(allow->refuses("other.corp", *parse_address("10.0.0.1")));
}
