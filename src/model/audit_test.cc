// The chain of audit records detects alterations.
#include "model/audit.h"

#include <doctest/doctest.h>

#include <functional>

using namespace mainspring;

namespace {

std::vector<AuditRecord> chain(int count) {
  std::vector<AuditRecord> records;
  AuditMark mark;
  for (int i = 1; i <= count; ++i) {
    AuditRecord record{.seq = i,
                       .at = WallTime::from_us(1'000'000 + i),
                       .who = "ci",
                       .from = "192.0.2.7",
                       .action = "pause_queue",
                       .object = "queue/photos",
                       .before = "{\"paused\":false}",
                       .after = "{\"paused\":true}"};
    record.hash = chain_hash(mark.hash, record);
    mark = {record.seq, record.hash};
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

TEST_CASE("unmodified records verify from the beginning and from any mark") {
  const auto records = chain(5);
  AuditMark mark;
  CHECK(follow_chain(mark, records) == std::nullopt);
  CHECK(mark == AuditMark{5, records[4].hash});
  AuditMark third{3, records[2].hash};
  CHECK(follow_chain(third, {records[3], records[4]}) == std::nullopt);
}

TEST_CASE("a record that was altered in any field fails verification") {
  const std::function<void(AuditRecord&)> changes[] = {
      [](AuditRecord& r) { r.at = WallTime::from_us(1); }, [](AuditRecord& r) { r.who = "me"; },
      [](AuditRecord& r) { r.from = ""; }, [](AuditRecord& r) { r.action += "x"; },
      [](AuditRecord& r) { r.object = "queue/photo"; }, [](AuditRecord& r) { r.before = ""; },
      [](AuditRecord& r) { r.after += " "; }, [](AuditRecord& r) { r.hash[31] ^= 1; },
      // The same sequence of bytes, split elsewhere.
      [](AuditRecord& r) { r.who = "c", r.from = "i192.0.2.7"; }};
  for (const auto& change : changes) {
    auto records = chain(5);
    change(records[2]);
    AuditMark mark;
    const auto problem = follow_chain(mark, records);
    REQUIRE(problem);
    CHECK(problem->find("audit record 3") != std::string::npos);
    CHECK(mark.seq == 2);
  }
}

TEST_CASE("a record that was removed, added or moved fails verification") {
  auto removed = chain(5), added = chain(5), moved = chain(5);
  removed.erase(removed.begin() + 1);
  added.insert(added.begin() + 2, added[1]);
  std::swap(moved[2], moved[3]);
  for (const auto& records : {removed, added, moved}) {
    AuditMark mark;
    CHECK(follow_chain(mark, records));
  }
}

TEST_CASE("a digest matches the standard, and decodes from hex") {
  CHECK(to_hex(sha256("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, test case 2.
  CHECK(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(digest_from_hex(to_hex(sha256("x"))) == sha256("x"));
  CHECK(digest_from_hex("AB") == std::nullopt);
  CHECK(equal_in_constant_time(sha256("a"), sha256("a")));
  CHECK_FALSE(equal_in_constant_time(sha256("a"), sha256("b")));
}
