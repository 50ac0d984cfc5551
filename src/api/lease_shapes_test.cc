// The shapes of named locks: literal bodies in and out, every refusal with its field.
#include "api/lease_shapes.h"

#include <doctest/doctest.h>

#include "api/json.h"
#include "api/shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

template <class T>
std::string field_of(const Result<T>& result) {
  return result ? "accepted" : result.error().field;
}

}  // namespace

TEST_CASE("an acquire request decodes as DESIGN specifies") {
  auto request =
      decode_acquire_request("report/eu", R"({"holder":"h-1","ttl":"15s","wait":"10s"})");
  REQUIRE(request);
  CHECK(request->operation.name == "report/eu");
  CHECK(request->operation.holder == "h-1");
  CHECK(request->operation.ttl == 15s);
  CHECK(request->wait == 10s);
  auto least = decode_acquire_request("a", R"({"holder":"h"})");
  REQUIRE(least);
  CHECK(least->operation.ttl == kDefaultNamedLease);
  CHECK(least->wait == 0s);
  std::string out;
  encode_acquire_request(request->operation, request->wait, out);
  CHECK(out == R"({"holder":"h-1","ttl":"15s","wait":"10s"})");
}

TEST_CASE("a grant has the token, the duration and the value of the previous holder") {
  std::string out;
  encode_lease_grant("report/eu", {.token = 7, .ttl = 1500us, .value = R"({"at": 1})"}, out);
  CHECK(out == R"({"name":"report/eu","token":7,"expires_in_ms":2,"value":{"at": 1}})");
  auto grant = decode_lease_grant(out);
  REQUIRE(grant);
  CHECK(grant->token == 7);
  CHECK(grant->ttl == 2ms);
  CHECK(grant->value == R"({"at": 1})");
  CHECK_FALSE(grant->held);
  out.clear();
  encode_lease_grant("a", {.token = 8, .ttl = 1s, .held = true}, out);
  CHECK(decode_lease_grant(out)->held);
  CHECK_FALSE(decode_lease_grant(R"({"expires_in_ms":1})"));
}

TEST_CASE("renewals and releases set a value, remove it, or keep it") {
  auto kept = decode_renew_lease_request("a", R"({"holder":"h","token":3})");
  REQUIRE(kept);
  CHECK_FALSE(kept->value);
  CHECK(kept->ttl == 0s);
  auto given =
      decode_renew_lease_request("a", R"({"holder":"h","token":3,"ttl":"5s","value":[1]})");
  REQUIRE(given);
  CHECK(given->value == "[1]");
  CHECK(given->ttl == 5s);
  auto removed = decode_release_request("a", R"({"holder":"h","token":3,"value":null})");
  REQUIRE(removed);
  CHECK(removed->value == "");
  std::string out;
  encode_renew_lease_request(*given, out);
  CHECK(out == R"({"holder":"h","token":3,"ttl":"5s","value":[1]})");
  out.clear();
  encode_release_request(*removed, out);
  CHECK(out == R"({"holder":"h","token":3,"value":null})");
}

TEST_CASE("an invalid lease request is refused with its field") {
  CHECK(field_of(decode_acquire_request("a", "{}")) == "holder");
  CHECK(field_of(decode_acquire_request("a", R"({"holder":""})")) == "holder");
  CHECK(field_of(decode_acquire_request("a", R"({"holder":"h","ttl":"soon"})")) == "ttl");
  CHECK(field_of(decode_acquire_request("a", R"({"holder":"h","wait":"61s"})")) == "wait");
  CHECK(field_of(decode_acquire_request("a", R"({"holder":"h","colour":1})")) == "colour");
  CHECK(field_of(decode_renew_lease_request("a", R"({"holder":"h"})")) == "token");
  CHECK(field_of(decode_renew_lease_request("a", R"({"holder":"h","token":0})")) == "token");
  CHECK(field_of(decode_release_request("a", R"({"token":1})")) == "holder");
}

TEST_CASE("a list of leases includes free ones and a cursor for the next page") {
  std::vector<LeaseInfo> leases = {
      {.name = "a",
       .holder = "h",
       .token = 4,
       .expires_in = 3s,
       .since = *parse_wall_time("2026-01-31T09:00:00Z")},
      {.name = "b", .token = 2, .value = "1"},
  };
  std::string out;
  encode_leases(leases, true, out);
  CHECK(out == R"({"leases":[{"name":"a","holder":"h","token":4,"expires_in_ms":3000,)"
               R"("since":"2026-01-31T09:00:00Z"},)"
               R"({"name":"b","holder":"","token":2,"expires_in_ms":0,"value":1}],"next":"b"})");
  auto back = decode_leases(out);
  REQUIRE(back);
  CHECK(back->next == "b");
  REQUIRE(back->items.size() == 2);
  CHECK(back->items[0].since == leases[0].since);
  CHECK(back->items[0].expires_in == 3s);
  CHECK(back->items[1].holder.empty());
  CHECK(back->items[1].value == "1");
  out.clear();
  encode_leases(leases, false, out);
  CHECK(out.ends_with(R"("next":null})"));
  CHECK_FALSE(decode_lease("{}"));
}

TEST_CASE("a job and a batch carry a fence") {
  auto single = decode_enqueue_request(R"({"kind":"k","fence":{"lease":"a/b","token":9}})");
  REQUIRE(single);
  CHECK(single->single);
  CHECK(single->operation.fence == Fence{"a/b", 9});
  for (std::string_view body : {R"({"jobs":[{"kind":"k"}],"fence":{"lease":"a/b","token":9}})",
                                R"({"fence":{"lease":"a/b","token":9},"jobs":[{"kind":"k"}]})"}) {
    CAPTURE(body);
    auto many = decode_enqueue_request(body);
    REQUIRE(many);
    CHECK_FALSE(many->single);
    CHECK(many->operation.fence == Fence{"a/b", 9});
  }
  auto first = decode_enqueue_request(R"({"fence":{"lease":"a","token":1},"kind":"k"})");
  REQUIRE(first);
  CHECK(first->single);
  CHECK(first->operation.fence == Fence{"a", 1});
  CHECK(decode_enqueue_request(R"({"kind":"k","fence":null})")->operation.fence == Fence{});
  CHECK(field_of(decode_enqueue_request(R"({"kind":"k","fence":{"token":1}})")) == "fence.lease");
  CHECK(field_of(decode_enqueue_request(R"({"kind":"k","fence":{"lease":"a b","token":1}})")) ==
        "fence.lease");
  CHECK(field_of(decode_enqueue_request(R"({"kind":"k","fence":{"lease":"a"}})")) == "fence.token");
  CHECK(field_of(decode_enqueue_request(
            R"({"jobs":[{"kind":"k","fence":{"lease":"a","token":1}}]})")) == "jobs[0].fence");

  Enqueue request{.jobs = {NewJob{.kind = "k"}}, .fence = {"a/b", 9}};
  for (int jobs = 1; jobs <= 2; ++jobs) {
    std::string out;
    encode_enqueue_request(request, out);
    CAPTURE(out);
    auto back = decode_enqueue_request(out);
    REQUIRE(back);
    CHECK(back->operation.fence == request.fence);
    CHECK(back->operation.jobs == request.jobs);
    request.jobs.push_back({.kind = "l"});
  }
}
