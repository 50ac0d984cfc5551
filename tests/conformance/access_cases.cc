// Tokens and the audit, as every store keeps them.
#include "api/audit_images.h"
#include "conformance/bench.h"
#include "store/ended_sessions.h"

namespace mainspring::conformance {
namespace {

TokenRecord token(const std::string& name, const std::string& text) {
  TokenRecord t;
  t.name = name;
  t.digest = sha256(text);
  t.scopes = *Scopes::parse("enqueue=photos read");
  t.created_by = "ops";
  return t;
}
CreateToken create(const std::string& name, const std::string& text) {
  return {token(name, text)};
}

Audit audit(std::string object, std::string action = "change") {
  Audit a{.who = "ops",
          .from = "192.0.2.7",
          .action = std::move(action),
          .object = "",
          .before = "",
          .after = ""};
  a.object = std::move(object);
  return a;
}

std::vector<AuditRecord> records(const Bench& bench) {
  const auto page = bench.store->audit({}, AuditOrder::oldest_first, kMaxAuditPage, 0);
  REQUIRE(page.has_value());
  CHECK_FALSE(page->next.has_value());
  return page->records;
}

// Checks the chain from its base to its end, from the records alone.
void check_chain(const Bench& bench) {
  const AuditState state = bench.store->audit_state();
  AuditMark at = state.base;
  const auto wrong = follow_chain(at, records(bench));
  CHECK_MESSAGE(!wrong, wrong.value_or(""));
  CHECK(at == state.head);
  CHECK(state.records == state.head.seq - state.base.seq);
}

TEST_SUITE_BEGIN("access");

TEST_CASE("a created token is usable at once, and after a restart") {
  Bench bench;
  CHECK(bench.store->tokens()->empty());
  const std::int64_t version = bench.store->tokens_version();
  CreateToken op = create("ci", "secret");
  op.token.rate = 9;
  op.token.expires_at = bench.wall() + hours(1);
  bench.one<Done>(op);
  CHECK(bench.store->tokens_version() != version);
  const auto check = [&] {
    const auto tokens = bench.store->tokens();
    REQUIRE(tokens->size() == 1);
    const TokenRecord& kept = tokens->at("ci");
    CHECK(kept.digest == sha256("secret"));
    CHECK(kept.scopes == op.token.scopes);
    CHECK(kept.rate == 9);
    CHECK(kept.expires_at == op.token.expires_at);
    CHECK(kept.created_by == "ops");
    CHECK_FALSE(kept.revoked_at.has_value());
    CHECK(kept.usable(bench.wall()));
  };
  check();
  bench.reopen();
  check();
  bench.advance(hours(1));
  CHECK_FALSE(bench.store->tokens()->at("ci").usable(bench.wall()));
}

TEST_CASE("a revoked token stays revoked after a restart") {
  Bench bench;
  bench.one<Done>(create("ci", "secret"));
  const std::int64_t version = bench.store->tokens_version();
  const auto before = bench.store->tokens();
  bench.advance(seconds(5));
  bench.one<Done>(RevokeToken{"ci"});
  CHECK(bench.store->tokens_version() != version);
  CHECK(before->at("ci").usable(bench.wall()));  // a snapshot does not change
  CHECK(bench.store->tokens()->at("ci").revoked_at == bench.wall());
  const WallTime revoked = bench.wall();
  bench.advance(seconds(5));
  bench.one<Done>(RevokeToken{"ci"});  // again: nothing changes
  bench.reopen();
  CHECK(bench.store->tokens()->at("ci").revoked_at == revoked);
  CHECK_FALSE(bench.store->tokens()->at("ci").usable(bench.wall()));
  CHECK(bench.refused(RevokeToken{"unknown"}) == ErrorCode::not_found);
}

TEST_CASE("a usable token blocks its name, an expired or revoked one does not") {
  Bench bench;
  bench.one<Done>(create("ci", "one"));
  CHECK(bench.refused(create("ci", "two")) == ErrorCode::conflict);
  bench.one<Done>(RevokeToken{"ci"});
  bench.one<Done>(create("ci", "two"));
  CHECK(bench.store->tokens()->at("ci").digest == sha256("two"));
  CreateToken brief = create("brief", "three");
  brief.token.expires_at = bench.wall() + seconds(1);
  bench.one<Done>(brief);
  bench.advance(seconds(1));
  bench.one<Done>(create("brief", "four"));
  CHECK(bench.store->tokens()->at("brief").usable(bench.wall()));
  bench.reopen();
  CHECK(bench.store->tokens()->size() == 2);
  CHECK(bench.store->tokens()->at("ci").digest == sha256("two"));
}

TEST_CASE("the secret of a token cannot be used again, under any name") {
  Bench bench;
  bench.one<Done>(create("ci", "one"));
  CHECK(bench.refused(create("other", "one")) == ErrorCode::conflict);
  bench.one<Done>(RevokeToken{"ci"});
  CHECK(bench.refused(create("ci", "one")) == ErrorCode::conflict);
  CHECK_FALSE(bench.store->tokens()->at("ci").usable(bench.wall()));
}

TEST_CASE("a session that was signed out is revoked until it expires, also after a restart") {
  Bench bench;
  const auto session = [&](const std::string& text) {
    CreateToken op = create(std::string(kEndedSessionPrefix) + text, text);
    op.token.expires_at = bench.wall() + hours(12);
    return op;
  };
  bench.one<Done>(session("one"));
  bench.one<Done>(session("one"));  // again: nothing changes
  bench.one<Done>(create("ci", "secret"));
  bench.reopen();
  const auto ended = bench.store->tokens()->at(session("one").token.name);
  CHECK(ended.digest == sha256("one"));
  CHECK(ended.revoked_at == bench.wall());
  bench.advance(hours(12));
  bench.one<Done>(session("two"));  // removes the record of the expired session
  bench.reopen();
  CHECK(bench.store->tokens()->size() == 2);
  CHECK(bench.store->tokens()->contains(session("two").token.name));
  CHECK(bench.store->tokens()->contains("ci"));
}

TEST_CASE("beyond kMaxTokens a new token replaces the oldest unusable one, never a usable one") {
  Bench bench;
  std::vector<Operation> batch;
  for (std::size_t i = 0; i < kMaxTokens; ++i) {
    const std::string name = "t" + std::to_string(i);
    batch.emplace_back(create(name, name));
  }
  for (const OperationResult& result : bench.apply(std::move(batch)))
    REQUIRE(std::holds_alternative<Done>(result));
  CHECK(bench.refused(create("more", "more")) == ErrorCode::overloaded);
  bench.advance(seconds(1));
  bench.one<Done>(RevokeToken{"t7"});
  bench.one<Done>(create("more", "more"));
  CHECK(bench.store->tokens()->size() == kMaxTokens);
  CHECK_FALSE(bench.store->tokens()->contains("t7"));
  CHECK(bench.refused(create("again", "again")) == ErrorCode::overloaded);
}

TEST_CASE("no token and no other sign-out removes the record of a session before it expires") {
  Bench bench;
  const auto session = [&](const std::string& name, const std::string& token) {
    CreateToken op = create(std::string(kEndedSessionPrefix) + name, name);
    op.token.expires_at = bench.wall() + hours(12);
    op.token.created_by = token;
    return op;
  };
  const auto has = [&](const CreateToken& op) {
    return bench.store->tokens()->contains(op.token.name);
  };
  const CreateToken first = session("1", "7"), other = session("2", "8");
  bench.apply({first, other});
  bench.advance(seconds(1));
  std::vector<Operation> batch;
  for (std::size_t i = 0; i < kMaxTokens; ++i) {
    const std::string name = "t" + std::to_string(i);
    batch.emplace_back(create(name, name));
  }
  for (const OperationResult& result : bench.apply(std::move(batch)))
    REQUIRE(std::holds_alternative<Done>(result));
  bench.one<Done>(RevokeToken{"t7"});
  bench.one<Done>(create("more", "more"));
  CHECK(has(first));
  CHECK_FALSE(bench.store->tokens()->contains("t7"));
  // The record of all sessions of a token replaces theirs.
  CreateToken all = session("all:7", "7");
  bench.one<Done>(all);
  CHECK_FALSE(has(first));
  CHECK(has(other));
  bench.advance(seconds(1));
  bench.one<Done>(all);
  bench.reopen();
  CHECK(bench.store->tokens()->at(all.token.name).created_at == bench.wall());
  bench.advance(hours(12));
  bench.one<Done>(session("3", "9"));
  CHECK_FALSE(has(all));
  CHECK_FALSE(has(other));
}

TEST_CASE("a change and its audit record are one commit: actor, action, state before and after") {
  Bench bench;
  bench.enqueue(bench.job("photos"));
  bench.apply({PauseQueue{"photos", true}, audit("queue/photos", "pause_queue")});
  const auto all = records(bench);
  REQUIRE(all.size() == 1);
  CHECK(all[0].seq == 1);
  CHECK(all[0].at == bench.wall());
  CHECK(all[0].who == "ops");
  CHECK(all[0].from == "192.0.2.7");
  CHECK(all[0].action == "pause_queue");
  CHECK(all[0].object == "queue/photos");
  CHECK(all[0].before == queue_image(false, std::nullopt, std::nullopt));
  CHECK(all[0].after ==
        queue_image(true, std::nullopt, std::nullopt, {}, QueuePause{"", "", bench.wall(), {}}));
  check_chain(bench);
}

TEST_CASE("an operation without a change is recorded only on request") {
  Bench bench;
  bench.one<Done>(PauseQueue{"photos", true});
  const std::int64_t commits = bench.store->commits();
  bench.apply({PauseQueue{"photos", true}, audit("queue/photos")});
  CHECK(records(bench).empty());
  CHECK(bench.store->commits() == commits);
  Audit wanted = audit("queue/photos");
  wanted.always = true;
  bench.apply({PauseQueue{"photos", true}, wanted});
  REQUIRE(records(bench).size() == 1);
  CHECK(records(bench)[0].before == records(bench)[0].after);
}

TEST_CASE("a refused operation is not recorded, even on request") {
  Bench bench;
  Audit wanted = audit("job/77");
  wanted.always = true;
  const auto results = bench.apply({Cancel{77, "no"}, wanted});
  CHECK(std::holds_alternative<Error>(results[0]));
  CHECK(std::holds_alternative<Done>(results[1]));
  CHECK(records(bench).empty());
}

TEST_CASE("a claim is recorded if it gave a job, not if it was empty") {
  Bench bench;
  Audit wanted = audit("queue/q", "claim");
  wanted.always = true;
  const Claim claim{.worker = "w1", .queues = {"q"}, .kinds = {}};
  bench.apply({claim, wanted});
  CHECK(records(bench).empty());
  bench.enqueue();
  bench.apply({claim, wanted});
  CHECK(records(bench).size() == 1);
}

TEST_CASE("an audit record that follows no operation is refused") {
  Bench bench;
  CHECK(bench.refused(audit("queue/q")) == ErrorCode::invalid_argument);
  const auto results =
      bench.apply({PauseQueue{"q", true}, audit("queue/q"), audit("queue/q", "twice")});
  CHECK(std::holds_alternative<Done>(results[1]));
  CHECK(std::holds_alternative<Error>(results[2]));
  CHECK(records(bench).size() == 1);
}

TEST_CASE("each audit record of a batch starts at the state that the previous one left") {
  Bench bench;
  bench.apply({PauseQueue{"q", true}, audit("queue/q", "first"), PauseQueue{"q", false},
               audit("queue/q", "second"), SetRetention{"q", seconds(1), std::nullopt},
               audit("queue/q", "third")});
  const auto all = records(bench);
  REQUIRE(all.size() == 3);
  CHECK(all[0].before.empty());  // there was no such queue
  CHECK(all[0].after == all[1].before);
  CHECK(all[1].after == all[2].before);
  CHECK(all[2].after == queue_image(false, seconds(1), std::nullopt));
  check_chain(bench);
}

TEST_CASE("jobs, schedules and tokens have images of their own, and a token's has no digest") {
  Bench bench;
  const JobId id = bench.enqueue();
  const std::string available = job_image(bench.get(id));
  bench.apply({Cancel{id, "no"}, audit("job/" + std::to_string(id), "cancel_job")});
  bench.apply({create("ci", "secret"), audit("token/ci", "create_token")});
  bench.apply({RevokeToken{"ci"}, audit("token/ci", "revoke_token")});
  PutSchedule put;
  put.schedule.name = "s";
  put.schedule.every = minutes(1);
  put.schedule.job = bench.job();
  put.next = put.next_fire = bench.wall() + minutes(1);
  bench.apply({put, audit("schedule/s", "put_schedule")});
  bench.apply({PauseSchedule{"s", true, ""}, audit("schedule/s", "pause_schedule")});
  bench.apply({RemoveSchedule{"s"}, audit("schedule/s", "remove_schedule")});
  const auto all = records(bench);
  REQUIRE(all.size() == 6);
  CHECK(all[0].before == available);
  CHECK(all[0].after == job_image(bench.get(id)));
  CHECK(all[1].before.empty());
  TokenRecord ci = token("ci", "secret");
  CHECK(all[1].after == token_image(ci));
  ci.revoked_at = bench.wall();
  CHECK(all[2].after == token_image(ci));
  for (const AuditRecord& record : all)
    CHECK(record.after.find(to_hex(ci.digest)) == std::string::npos);
  CHECK(all[3].before.empty());
  CHECK(all[3].after == all[4].before);
  CHECK(all[4].after.find(R"("paused":true)") != std::string::npos);
  CHECK(all[5].after.empty());
  check_chain(bench);
}

TEST_CASE("a cancel request for a running job is recorded as a change") {
  Bench bench;
  const JobId id = bench.enqueue();
  bench.claim_one();
  const std::string before = job_image(bench.get(id));
  bench.apply({Cancel{id, "no"}, audit("job/" + std::to_string(id))});
  const auto all = records(bench);
  REQUIRE(all.size() == 1);
  CHECK(all[0].before == before);
  CHECK(all[0].after == job_image(bench.get(id)));
  CHECK(all[0].before.find(R"("state":"running")") != std::string::npos);
  CHECK(all[0].after.find(R"("cancel_requested":true)") != std::string::npos);
}

TEST_CASE("each edit of a job is recorded with what it changed, and without the args") {
  Bench bench;
  NewJob made = bench.job();
  made.args = R"({"card":"4111"})";
  made.tags = {"old"};
  made.delay = hours(1);
  const JobId id = bench.enqueue(made);
  const std::vector<EditJob> edits = {{.id = id, .priority = 1},
                                      {.id = id, .run_at = bench.wall() + hours(2)},
                                      {.id = id, .tags = std::vector<std::string>{"new"}}};
  std::vector<std::string> images = {job_image(bench.get(id))};
  for (const EditJob& edit : edits) {
    bench.apply({edit, audit("job/" + std::to_string(id), "edit_job")});
    images.push_back(job_image(bench.get(id)));
  }
  bench.apply({EditJob{.id = id, .priority = 2}, audit("job/" + std::to_string(id), "first"),
               EditJob{.id = id, .tags = std::vector<std::string>{}},
               audit("job/" + std::to_string(id), "second")});
  const auto all = records(bench);
  REQUIRE(all.size() == edits.size() + 2);
  for (std::size_t i = 0; i < edits.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i].before == images[i]);
    CHECK(all[i].after == images[i + 1]);
    CHECK(all[i].before != all[i].after);
  }
  CHECK(all[3].after == all[4].before);
  CHECK(all[4].after == job_image(bench.get(id)));
  CHECK(all[0].after.find(R"("priority":1)") != std::string::npos);
  CHECK(all[2].after.find(R"("tags":["new"])") != std::string::npos);
  for (const AuditRecord& record : all)
    CHECK((record.before + record.after).find("card") == std::string::npos);
  check_chain(bench);
}

TEST_CASE("a changed timeout of a continuous timer is recorded") {
  Bench bench;
  PutSchedule put;
  put.schedule.name = "t";
  put.schedule.every = hours(1);
  put.schedule.continuous = Continuous{};
  put.schedule.job = bench.job();
  put.next = put.next_fire = bench.wall() + hours(1);
  bench.one<PutScheduleResult>(put);
  bench.apply({SetTimer{"t", minutes(5)}, audit("schedule/t", "set_timer")});
  bench.apply({SetTimer{"t", minutes(5)}, audit("schedule/t", "repeated")});
  bench.apply({SetTimer{"t", {}}, audit("schedule/t", "set_timer")});
  const auto all = records(bench);
  REQUIRE(all.size() == 2);
  CHECK(all[0].before.find("timeout_override") == std::string::npos);
  CHECK(all[0].after.find(R"("timeout_override":"5m")") != std::string::npos);
  CHECK(all[1].before == all[0].after);
  CHECK(all[1].after == all[0].before);
}

TEST_CASE("an operation outside of the store is recorded as the caller describes it") {
  Bench bench;
  Audit op = audit("folder/continuous/x", "deploy");
  op.alone = true;
  op.before = R"({"files":1})";
  op.after = R"({"files":2})";
  bench.apply({op});
  bench.apply({PauseQueue{"q", true}, op});
  const auto all = records(bench);
  REQUIRE(all.size() == 2);
  CHECK(all[1].before == op.before);
  CHECK(all[1].after == op.after);
  check_chain(bench);
}

TEST_CASE("the audit chain continues after a restart") {
  Bench bench;
  bench.apply({PauseQueue{"q", true}, audit("queue/q")});
  const AuditMark head = bench.store->audit_state().head;
  CHECK(head.seq == 1);
  bench.reopen();
  CHECK(bench.store->audit_state().head == head);
  bench.apply({PauseQueue{"q", false}, audit("queue/q")});
  CHECK(bench.store->audit_state().head.seq == 2);
  check_chain(bench);
}

TEST_CASE("records are read in pages, in either order, by actor, action and object") {
  Bench bench;
  for (int i = 0; i < 7; ++i) {
    Audit op = audit(i % 2 == 0 ? "folder/a" : "folder/b", i < 3 ? "deploy" : "remove");
    op.who = i == 6 ? "other" : "ops";
    op.alone = true;
    bench.apply({op});
  }
  const auto seqs = [&](const AuditFilter& filter, AuditOrder order) {
    std::vector<std::int64_t> all;
    std::int64_t from = 0;
    for (int page = 0; page < 10; ++page) {
      const auto got = bench.store->audit(filter, order, 2, from);
      REQUIRE(got.has_value());
      CHECK(got->records.size() <= 2);
      for (const AuditRecord& record : got->records) all.push_back(record.seq);
      if (!got->next) return all;
      from = *got->next;
    }
    FAIL("the pages do not end");
    return all;
  };
  using Seqs = std::vector<std::int64_t>;
  CHECK(seqs({}, AuditOrder::oldest_first) == Seqs{1, 2, 3, 4, 5, 6, 7});
  CHECK(seqs({}, AuditOrder::newest_first) == Seqs{7, 6, 5, 4, 3, 2, 1});
  CHECK(seqs({.who = "other", .action = "", .object = ""}, AuditOrder::oldest_first) == Seqs{7});
  CHECK(seqs({.who = "", .action = "deploy", .object = ""}, AuditOrder::newest_first) ==
        Seqs{3, 2, 1});
  CHECK(seqs({.who = "", .action = "remove", .object = "folder/b"}, AuditOrder::oldest_first) ==
        Seqs{4, 6});
  CHECK(seqs({.who = "unknown", .action = "", .object = ""}, AuditOrder::oldest_first).empty());
}

TEST_CASE("records past their retention are pruned, oldest first, and the chain stays valid") {
  StoreOptions options;
  options.audit_retention = hours(2);
  Bench bench(options);
  const auto record = [&](bool paused) {
    bench.apply({PauseQueue{"q", paused}, audit("queue/q")});
  };
  record(true);
  const WallTime first = bench.wall();
  CHECK(bench.store->agenda().next_prune <= first + hours(2));
  bench.advance(hours(1));
  record(false);
  record(true);
  const AuditMark oldest{1, records(bench)[0].hash};
  bench.advance(hours(1) - seconds(1));
  bench.prune();
  CHECK(records(bench).size() == 3);
  bench.advance(seconds(1));
  bench.prune();
  CHECK(records(bench).size() == 2);
  CHECK(bench.store->audit_state().base == oldest);
  check_chain(bench);
  bench.reopen();
  check_chain(bench);
  bench.advance(hours(9));
  CHECK(bench.one<StepResult>(PruneJobs{.limit = 1, .fence = {}}).more);
  CHECK(records(bench).size() == 1);
  bench.prune();
  CHECK(records(bench).empty());
  record(false);
  CHECK(records(bench)[0].seq == 4);
  check_chain(bench);
}

TEST_SUITE_END();

}  // namespace
}  // namespace mainspring::conformance
