// enqueue() by SQL, in the caller's transaction: with the same effect as by a node, or none.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <latch>
#include <set>
#include <thread>

#include "postgres/sql_place.h"

namespace mainspring {
namespace {

using pg_testing::database_time;
using pg_testing::Listener;
using pg_testing::must;
using pg_testing::PgConnection;
using pg_testing::Place;
using pg_testing::the_cluster;
using pg_testing::the_database;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

NewJob new_job(const std::string& queue = "default") {
  NewJob job;
  job.queue = queue;
  job.kind = "send";
  return job;
}

// -- refused calls --------------------------------------------------------------------------------

struct Refused {
  std::string arguments;
  std::string message;
  std::optional<NewJob> job = std::nullopt;  // the same for a node, which gives the same error
};

void check_refused(const std::vector<Refused>& cases) {
  Place place;
  const auto before = place.sql("SELECT last_value, is_called FROM ms.job_ids");
  for (const Refused& one : cases) {
    CAPTURE(one.arguments);
    const auto got = place.try_sql("SELECT ms.enqueue(" + one.arguments + ")");
    REQUIRE_FALSE(got.has_value());
    const std::string expected = "22023 ERROR:  " + one.message;
    CHECK(got.error().message.substr(0, expected.size()) == expected);
    if (!one.job) continue;
    const auto valid = validate(*one.job);
    REQUIRE_FALSE(valid.has_value());
    CHECK(valid.error().message == one.message);
  }
  CHECK(place.sql("SELECT last_value, is_called FROM ms.job_ids") == before);
  CHECK(place.sql("SELECT count(*) FROM ms.queues").at(0).at(0) == "0");
}

template <class Change>
NewJob with(Change change) {
  NewJob job = new_job();
  change(job);
  return job;
}

TEST_CASE("SQL is refused what a node refuses, in the same words") {
  constexpr std::string_view kRule =
      ": must be 1 to 128 letters, digits or . _ : / -, beginning with a letter or a digit";
  const auto queue = [&](const std::string& name) {
    return Refused{.arguments = fmt::format("'{}', 'send'", name),
                   .message = fmt::format("queue \"{}\"{}", name.substr(0, 64), kRule),
                   .job = new_job(name)};
  };
  check_refused(
      {queue(""),
       queue("a b"),
       queue("-a"),
       queue(".a"),
       queue(std::string(129, 'q')),
       queue("ü"),
       queue("a\n"),
       {"'q', '?'", fmt::format("kind \"?\"{}", kRule), with([](NewJob& j) { j.kind = "?"; })},
       {.arguments = "'mainspring.callbacks', 'callback'",
        .message = "queue \"mainspring.callbacks\": must not begin with mainspring., which is the "
                   "engine's",
        .job = new_job("mainspring.callbacks")},
       {"'host', 'triggered/report'", "queue \"host\": only a job host adds runs of job folders"},
       {"'q', 'k', reply_to => 'mainspring.x'",
        "reply_to \"mainspring.x\": must not begin with mainspring., which is the engine's",
        with([](NewJob& j) { j.reply_to = "mainspring.x"; })},
       {"'q', 'k', reply_to => 'x y'", fmt::format("reply_to \"x y\"{}", kRule),
        with([](NewJob& j) { j.reply_to = "x y"; })},
       {"'q', 'k', to_json(repeat('x', 1048575))",
        "args has 1048577 bytes: must be at most 1048576",
        with([](NewJob& j) { j.args = std::string(1048577, '1'); })},
       {"'q', 'k', headers => jsonb_build_object('k', repeat('x', 16384))",
        "headers has 16393 bytes: must be at most 16384",
        with([](NewJob& j) { j.headers = std::string(16393, ' '); })},
       {"'q', 'k', correlation_id => repeat('ü', 257)",
        "correlation_id has 514 bytes: must be at most 512",
        with([](NewJob& j) { j.correlation_id = std::string(514, 'c'); })},
       {"'q', 'k', unique_key => repeat('k', 513)",
        "unique_key has 513 bytes: must be at most 512"},
       {"'q', 'k', priority => 10", "priority 10: must be 0 to 9",
        with([](NewJob& j) { j.priority = 10; })},
       {"'q', 'k', priority => -1", "priority -1: must be 0 to 9",
        with([](NewJob& j) { j.priority = -1; })},
       {"'q', 'k', max_attempts => 0", "max_attempts 0: must be 1 to 1000",
        with([](NewJob& j) { j.max_attempts = 0; })},
       {"'q', 'k', max_attempts => 1001", "max_attempts 1001: must be 1 to 1000",
        with([](NewJob& j) { j.max_attempts = 1001; })},
       {"'q', 'k', tags => array_fill('t'::text, '{17}')",
        "tags has 17 entries: must be at most 16", with([](NewJob& j) { j.tags.assign(17, "t"); })},
       {"'q', 'k', tags => ARRAY['a', '']", "tag \"\": must be 1 to 64 bytes of text",
        with([](NewJob& j) {
          j.tags = {"a", ""};
        })},
       {"'q', 'k', tags => ARRAY[repeat('t', 65)]",
        "tag \"" + std::string(65, 't') + "\": must be 1 to 64 bytes of text",
        with([](NewJob& j) { j.tags = {std::string(65, 't')}; })},
       {"'q', 'k', tags => ARRAY[E'a\\x1fb']",
        "tag \"a\x1f"
        "b\": must be 1 to 64 bytes of text",
        with([](NewJob& j) {
          j.tags = {
              "a\x1f"
              "b"};
        })}});
}

TEST_CASE(
    "SQL is refused keys of sessions and of limits that a node refuses, and dead without expiry") {
  constexpr std::string_view kRule =
      ": must be 1 to 512 bytes without control characters and backslashes, and not . or ..";
  std::vector<Refused> cases = {
      {"'q', 'k', on_expiry => 'dead'", "on_expiry: is for jobs that expire, and needs expires_in",
       with([](NewJob& j) { j.on_expiry = OnExpiry::dead; })},
      {"'q', 'k', limit_key => 'k', session => 's'",
       "limit_key: must not be given together with session, whose jobs run one at a time",
       with([](NewJob& j) { j.limit_key = "k", j.session = "s"; })}};
  for (const std::string key : {"a\nb", "a\\b", ".", "..", "\x7f"}) {
    const std::string value = fmt::format("$k${}$k$", key);
    cases.push_back({"'q', 'k', limit_key => " + value,
                     fmt::format("limit_key \"{}\"{}", key, kRule),
                     with([&](NewJob& j) { j.limit_key = key; })});
    cases.push_back({"'q', 'k', session => " + value, fmt::format("session \"{}\"{}", key, kRule),
                     with([&](NewJob& j) { j.session = key; })});
  }
  check_refused(cases);
}

TEST_CASE("SQL is refused what the API's reader refuses, by field, value and rule") {
  check_refused({
      {"NULL, 'send'", "queue \"\": must be 1 to 128 letters"},
      {"'q', NULL", "kind \"\": must be 1 to 128 letters"},
      {"'q', 'k', ''", "args \"\": must be a JSON value"},
      {"'q', 'k', '{\"a\":'", "args \"{\"a\":\": must be a JSON value"},
      {"'q', 'k', 7", "args of type integer: must be text, json or jsonb"},
      {"'q', 'k', E'{\"a\": \"\\\\ud800\"}'",
       "args \"{\"a\": \"\\ud800\"}\": must be a JSON value"},
      {"'q', 'k', repeat('[', 65) || repeat(']', 65)",
       fmt::format("args \"{}\": must have at most 64 levels", std::string(64, '['))},
      {"'q', 'k', repeat('{\"[\":', 65) || '1' || repeat('}', 65)", "args \"{\"[\":{\"[\":"},
      {"'q', 'k', '{\"a\":[0,1e400]}'",
       "args.a[1] 1e400: must be within 1.8e308, the range of a double"},
      {"'q', 'k', '{\"a\":[0,1e400]}'::jsonb", "args.a[1] 1000000"},
      {"'q', 'k', '{\"a\":-1e999999}'", "args.a -1e999999: must be within 1.8e308"},
      {"'q', 'k', '1.7976931348623159e308'", "args 1.7976931348623159e308: must be within"},
      {"'q', 'k', '{\"a\":NaN}'", "args \"{\"a\":NaN}\": must be a JSON value"},
      {"'q', 'k', '{\"a\":{\"b\":1,\"c\":2,\"b\":3}}'", "args.a.b: given twice"},
      {"'q', 'k', '[{\"a\":1,\"\\u0061\":{}}]'::json", "args[0].a: given twice"},
      {"'q', 'k', headers => '[]'", "headers []: must be an object whose values are strings"},
      {"'q', 'k', headers => '{\"a\": [\"b\"]}'",
       "headers {\"a\": [\"b\"]}: must be an object whose values are strings"},
      {"'q', 'k', delay => '-1 s'", "delay \"-00:00:01\": must not be negative"},
      {"'q', 'k', delay => '101 years'", "delay \"101 years\": must be at most 36500 days"},
      {"'q', 'k', delay => '178000000 years'", "delay \"178000000 years\": must be at most"},
      {"'q', 'k', delay => '1 s', run_at => now()", "delay \"00:00:01\" and run_at \""},
      {"'q', 'k', run_at => 'infinity'", "run_at \"infinity\": must be in the years 1970 to 9999"},
      {"'q', 'k', run_at => '-infinity'", "run_at \"-infinity\": must be in the years"},
      {"'q', 'k', run_at => '1969-12-31 23:59:59Z'", "run_at \"1969-12-31 23:59:59+00\": must be"},
      {"'q', 'k', timeout => '0 s'", "timeout \"00:00:00\": must be more than 0"},
      {"'q', 'k', expires_in => '-1 s'", "expires_in \"-00:00:01\": must be more than 0"},
      {"'q', 'k', tags => ARRAY['a', NULL]", "tag \"\": must be 1 to 64 bytes of text"},
      {"'q', 'k', unique_key => ''", "unique_key \"\": must not be empty"},
      {"'q', 'k', unique_for => '1 h'", "unique_key \"\": must not be empty"},
      {"'q', 'k', unique_key => 'k', unique_for => '-1 s'",
       "unique_for \"-00:00:01\": must not be"},
      {"'q', 'k', unique_key => 'k', unique_for => '366 days'",
       "unique_for \"366 days\": must be at most 365 days"},
      {"'q', 'k', unique_key => 'k', on_conflict => 'drop'",
       "on_conflict \"drop\": must be \"keep\", \"replace\" or \"postpone\""},
      {"'q', 'k', expires_in => '1 h', on_expiry => 'retry'",
       "on_expiry \"retry\": must be \"cancel\" or \"dead\""},
  });
}

// -- accepted calls -------------------------------------------------------------------------------

TEST_CASE("a job from SQL is the job that a node would have made") {
  struct Same {
    std::string arguments;
    NewJob job;
  };
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  const std::vector<Same> cases = {
      {"'q', 'k'", {}},
      {"'q', 'k', '{\"b\":1,  \"a\":[1e3]}'", {.args = "{\"b\":1,  \"a\":[1e3]}"}},
      {"'q', 'k', ' [1]\n'", {.args = "[1]"}},
      {"'q', 'k', '{\"b\":1,  \"a\":2}'::json", {.args = "{\"b\":1,  \"a\":2}"}},
      {"'q', 'k', '{\"b\":1.7976931348623157e308,\"a\":{\"b\":\"1e400\",\"c\":1e-9999}}'",
       {.args = "{\"b\":1.7976931348623157e308,\"a\":{\"b\":\"1e400\",\"c\":1e-9999}}"}},
      {"'q', 'k', '[{\"a\\u0000\":\":\"},{\"a\\u0000\":1}]'",
       {.args = "[{\"a\\u0000\":\":\"},{\"a\\u0000\":1}]"}},
      {"'q', 'k', jsonb_build_object('a', '\xE2\x82\xAC')", {.args = "{\"a\": \"\xE2\x82\xAC\"}"}},
      {"'q', 'k', '" + deep + "'", {.args = deep}},
      {"'q', 'k', NULL, priority => NULL, max_attempts => NULL, tags => NULL", {}},
      {"'q', 'k', priority => 0, max_attempts => 1", {.priority = 0, .max_attempts = 1}},
      {"'q', 'k', timeout => '90 s'", {.timeout = seconds(90)}},
      {"'q', 'k', timeout => NULL", {.timeout = kForever}},
      {"'q', 'k', run_at => '2001-02-03 04:05:06.789012+01'",
       {.run_at = *parse_wall_time("2001-02-03T03:05:06.789012Z")}},
      {"'q', 'k', run_at => '9999-12-31 23:59:59Z'",
       {.run_at = *parse_wall_time("9999-12-31T23:59:59Z")}},
      {"'q', 'k', tags => ARRAY['a', 'b c', E'\\x01z', repeat('t', 64)]",
       {.tags = {"a", "b c", "\x01z", std::string(64, 't')}}},
      {"'q', 'k', headers => '{\"traceparent\": \"x\"}', correlation_id => E'\\x01c', reply_to => "
       "'r'",
       {.headers = "{\"traceparent\": \"x\"}",
        .correlation_id = "\x01"
                          "c",
        .reply_to = "r"}},
      {"'q', 'k', correlation_id => '', reply_to => ''", {}},
      {"'q', 'k', unique_key => E'\\x01k'", {.unique = Unique{.key = "\x01k"}}},
      {"'q', 'k', expires_in => '1 h', on_expiry => 'dead'",
       {.expires_in = hours(1), .on_expiry = OnExpiry::dead}},
      {"'q', 'k', expires_in => '1 h', on_expiry => NULL", {.expires_in = hours(1)}},
      {"'q', 'k', limit_key => E'acme/\\u00e9'", {.limit_key = "acme/\xC3\xA9"}},
      {"'q', 'k', limit_key => ''", {}},
  };
  Place place;
  for (const Same& one : cases) {
    CAPTURE(one.arguments);
    NewJob job = one.job;
    job.queue = "q", job.kind = "k";
    const Job sql = must(place.store->get(place.enqueue(one.arguments)));
    if (job.unique) job.queue = "other";
    const Job node = must(place.store->get(place.enqueue(job)));
    CHECK(sql.queue == "q");
    CHECK(sql.kind == node.kind);
    CHECK(sql.state == node.state);
    CHECK(sql.args == node.args);
    CHECK(sql.priority == node.priority);
    if (job.run_at) CHECK(sql.run_at == node.run_at);
    CHECK(sql.max_attempts == node.max_attempts);
    CHECK(sql.token == node.token);
    CHECK(sql.version == node.version);
    CHECK(sql.unique_key == node.unique_key);
    CHECK(sql.headers == node.headers);
    CHECK(sql.tags == node.tags);
    CHECK(sql.correlation_id == node.correlation_id);
    CHECK(sql.reply_to == node.reply_to);
    CHECK(sql.timeout == node.timeout);
    CHECK(sql.on_expiry == node.on_expiry);
    CHECK(sql.limit_key == node.limit_key);
  }
  place.check_invariants();
}

TEST_CASE("delay and expiry count from the database's time") {
  Place place;
  const WallTime before = database_time();
  const Job job = must(
      place.store->get(place.enqueue("'q', 'k', delay => '90 min', expires_in => '1 day 2 h'")));
  const WallTime after = database_time();
  CHECK(job.state == JobState::scheduled);
  CHECK(job.run_at >= before + minutes(90));
  CHECK(job.run_at <= after + minutes(90));
  REQUIRE(job.expires_at);
  CHECK(*job.expires_at >= before + hours(26));
  CHECK(*job.expires_at <= after + hours(26));
  // A node moves it when it is due, and expires it.
  must(place.store->refresh(place.clock.now()));
  CHECK(place.store->agenda().next_due == job.run_at);
  CHECK(place.store->agenda().next_expiry == *job.expires_at);
  place.clock.advance(hours(2));
  CHECK(place.apply<StepResult>(MoveDue{}).changed == 1);
  place.clock.advance(hours(30));
  CHECK(place.apply<StepResult>(ExpireJobs{}).changed == 1);
  CHECK(must(place.store->get(job.id)).reason == "expired");
  place.check_invariants();
}

// -- with the caller's transaction ----------------------------------------------------------------

TEST_CASE("a job is committed with the caller's rows, or neither is") {
  Place place;
  place.sql("CREATE TABLE ms.orders (id int PRIMARY KEY)");
  place.sql("BEGIN; INSERT INTO ms.orders VALUES (1); SELECT ms.enqueue('mail', 'send'); ROLLBACK");
  for (const char* table : {"jobs", "ready", "job_counts", "queues", "kinds", "orders"})
    CHECK(place.sql(fmt::format("SELECT count(*) FROM ms.{}", table)).at(0).at(0) == "0");
  place.store->heard({.queues = {"mail"}});
  CHECK(place.claim("mail").empty());

  place.sql("BEGIN; INSERT INTO ms.orders VALUES (1)");
  const JobId id = place.enqueue("'mail', 'send', '{\"order\":1}'");
  place.store->heard({.queues = {"mail"}});
  CHECK(place.claim("mail").empty());
  place.sql("COMMIT");
  place.store->heard({.queues = {"mail"}});
  CHECK(place.store->has_available("mail"));
  const auto claimed = place.claim("mail");
  REQUIRE(claimed.size() == 1);
  CHECK(claimed[0].id == id);
  CHECK(claimed[0].args == "{\"order\":1}");
  place.check_invariants();
}

TEST_CASE("a savepoint that was rolled back leaves no jobs") {
  Place place;
  place.sql("BEGIN; SAVEPOINT s; SELECT ms.enqueue('q', 'k', unique_key => 'a'); ROLLBACK TO s");
  const JobId kept = place.enqueue("'q', 'k', unique_key => 'a'");
  place.sql("COMMIT");
  CHECK(must(place.store->get(kept)).unique_key == "a");
  CHECK(place.sql("SELECT count(*) FROM ms.jobs").at(0).at(0) == "1");
  place.check_invariants();
}

TEST_CASE(
    "a node that heard nothing finds the job when it looks, also in a queue that is new to it") {
  Place place;
  const auto other = place.open();
  for (const char* queue : {"new", "known"}) {
    CAPTURE(queue);
    place.clock.advance(seconds(10));
    must(other->refresh(place.clock.now()));
    CHECK_FALSE(other->has_available(queue));
    place.enqueue(fmt::format("'{}', 'k', wake => false", queue));
    CHECK_FALSE(other->has_available(queue));
    place.clock.advance(seconds(5));
    const ChangeHints heard = must(other->refresh(place.clock.now()));
    CHECK((heard.catalog || heard.queues == std::vector<std::string>{queue}));
    CHECK(other->has_available(queue));
  }
  place.enqueue("'known', 'k', delay => '7 s', wake => false");
  place.clock.advance(seconds(5));
  const ChangeHints heard = must(other->refresh(place.clock.now()));
  CHECK(heard.next_due != WallTime::never());
}

TEST_CASE("a job of a long transaction does not wait for all jobs enqueued meanwhile") {
  Place place;
  NewJob filler = new_job("q");
  std::vector<NewJob> many(50, filler);
  const JobId late = place.enqueue("'q', 'send', delay => '0 s', run_at => NULL");
  place.claim("q");
  CHECK(late == 1);
  place.apply<EnqueueResult>(Enqueue{.jobs = many});
  place.clock.advance(minutes(1));
  place.apply<EnqueueResult>(Enqueue{.jobs = many});
  CHECK(place.claim("q", 60).size() == 60);  // the read position of the ready queue is after these
  const JobId old = place.enqueue("'q', 'send', run_at => now() - interval '1 h'");
  const SystemClock clock;
  const Instant limit = clock.now().instant + pg_testing::kHearLimit;
  for (bool found = false; !found && clock.now().instant < limit;) {
    place.apply<EnqueueResult>(Enqueue{.jobs = {filler, filler}});  // many ready jobs
    for (const ClaimedJob& job : place.claim("q")) found = found || job.id == old;
  }
  CHECK(must(place.store->get(old)).state == JobState::running);
}

// -- wake-ups -------------------------------------------------------------------------------------

TEST_CASE("listening nodes receive the commit, and nothing else") {
  Place place;
  Listener node(place.options);
  place.sql("BEGIN; SELECT ms.enqueue('undone', 'k'); ROLLBACK");
  place.enqueue("'silent', 'k', wake => false");
  place.enqueue("'far', 'k', delay => '1 h'");  // nodes check by themselves before it is due
  place.sql("BEGIN");
  place.enqueue("'heard', 'k'");
  place.enqueue("'heard', 'k'");
  place.sql("COMMIT");
  CHECK(node.hears("heard"));
  CHECK(node.queues == std::set<std::string>{"heard"});
  CHECK(node.due.empty());
  const Job soon = must(place.store->get(place.enqueue("'soon', 'k', delay => '3 s'")));
  CHECK(node.wait([&] { return node.due.contains(soon.run_at); }));
}

// -- unique keys ----------------------------------------------------------------------------------

TEST_CASE("a unique key has one job, enqueued by SQL or by a node") {
  Place place;
  NewJob job = new_job("q");
  job.unique = Unique{.key = "k"};
  const JobId first = place.enqueue("'q', 'send', unique_key => 'k'");
  CHECK(place.enqueue("'q', 'send', unique_key => 'k'") == first);
  CHECK(place.enqueue(job) == first);
  CHECK(place.enqueue("'other', 'send', unique_key => 'k'") != first);
  place.store->heard({.queues = {"q"}});
  const auto claimed = place.claim("q");
  REQUIRE(claimed.size() == 1);
  CHECK(place.enqueue("'q', 'send', unique_key => 'k', on_conflict => 'replace'") == first);
  CHECK(must(place.store->get(first)).state == JobState::running);
  Finish finish{.worker = "w", .results = {}};
  finish.results.push_back({first, claimed[0].token, Complete{}});
  place.apply<FinishResult>(finish);
  const JobId second = place.enqueue("'q', 'send', unique_key => 'k', unique_for => '1 h'");
  CHECK(second > first);
  CHECK(place.enqueue(job) == second);
  place.check_invariants();
}

TEST_CASE("saved step results are removed by changed args and by a completion by SQL") {
  Place place;
  const auto keep_one = [&] {
    const ClaimedJob job = place.claim("q").at(0);
    Renew renew{.worker = "w", .leases = {{.id = job.id, .token = job.token}}};
    renew.leases[0].memos = {{"pay", "1"}};
    renew.leases[0].checkpoint = "[1]";
    place.apply<RenewResult>(renew);
    CHECK(must(place.store->memos(job.id, "", 10)).memos.size() == 1);
    return job;
  };
  NewJob job = new_job("q");
  job.unique = Unique{.key = "k"};
  const JobId id = place.enqueue(job);
  Finish finish{.worker = "w", .results = {}};
  finish.results.push_back({id, keep_one().token, Retry{"e", std::chrono::hours(1)}});
  place.apply<FinishResult>(finish);
  CHECK(place.enqueue("'q', 'send', '[2]', unique_key => 'k', on_conflict => 'replace'") == id);
  CHECK(must(place.store->memos(id, "", 10)).memos.empty());
  place.check_invariants();
  place.store->heard({.queues = {"q"}});
  const ClaimedJob again = keep_one();
  CHECK_FALSE(again.has_memos);
  CHECK(again.checkpoint.empty());
  CHECK(again.attempt == 1);
  place.sql(fmt::format("SELECT ms.complete({}, {})", again.id, again.token));
  CHECK(must(place.store->memos(id, "", 10)).memos.empty());
  place.check_invariants();
}

TEST_CASE("a unique key with a window holds after its job has ended") {
  Place place;
  const JobId first = place.enqueue("'q', 'send', unique_key => 'k', unique_for => '1 h'");
  const Operation cancel = Cancel{.id = first, .reason = ""};
  must(place.store->apply({&cancel, 1}, place.clock.now()));
  CHECK(must(place.store->get(first)).state == JobState::cancelled);
  CHECK(place.enqueue("'q', 'send', unique_key => 'k'") == first);
  place.sql("UPDATE ms.uniques SET until = until - 3600000000");
  CHECK(place.enqueue("'q', 'send', unique_key => 'k'") > first);
  place.check_invariants();
}

TEST_CASE("a window holds for SQL too when its job has been pruned, enqueued by SQL or a node") {
  Place place;
  place.apply<Done>(SetRetention{.queue = "q", .completed = Duration(0), .dead = {}});
  const auto end = [&](JobId id) {
    place.apply<CancelResult>(Cancel{.id = id, .reason = ""});
    CHECK(place.apply<StepResult>(PruneJobs{}).changed == 1);
    CHECK(place.store->get(id).error().code == ErrorCode::expired);
    place.check_invariants();
  };
  const JobId first = place.enqueue("'q', 'send', unique_key => 'k', unique_for => '1 h'");
  end(first);
  NewJob job = new_job("q");
  job.unique = Unique{.key = "k", .window = hours(1)};
  for (const char* policy : {"keep", "replace", "postpone"}) {
    CHECK(place.enqueue(
              fmt::format("'q', 'send', unique_key => 'k', on_conflict => '{}'", policy)) == first);
  }
  CHECK(place.enqueue("'q', 'send', unique_key => 'k', session => 's'") == first);
  CHECK(place.enqueue(job) == first);
  place.sql("UPDATE ms.uniques SET until = until - 3600000000");
  const JobId second = place.enqueue("'q', 'send', unique_key => 'k'");
  CHECK(second > first);
  CHECK(place.sql("SELECT count(*) FROM ms.uniques WHERE ended IS NOT NULL").at(0).at(0) == "0");
  place.check_invariants();
  end(second);  // without a window no row is left
  CHECK(place.sql("SELECT count(*) FROM ms.uniques").at(0).at(0) == "0");
  const JobId third = place.enqueue(job);
  end(third);
  CHECK(place.enqueue("'q', 'send', unique_key => 'k'") == third);
}

TEST_CASE("replace and postpone change the job with the key, in every ready queue that has it") {
  const std::vector<std::string> times = {
      "delay => '0 s'", "delay => '1 h', limit_key => 'acme'",
      "delay => '1 h', expires_in => '2 h', limit_key => 'globex'",
      "priority => 2, expires_in => '3 h', on_expiry => 'dead'"};
  for (const char* policy : {"replace", "postpone"}) {
    for (const std::string& before : times) {
      for (const std::string& after : times) {
        CAPTURE(policy);
        CAPTURE(before);
        CAPTURE(after);
        Place place;
        const JobId id = place.enqueue("'q', 'a', '[1]', unique_key => 'k', " + before);
        const Job old = must(place.store->get(id));
        CHECK(place.enqueue(fmt::format("'q', 'b', '[2]', tags => '{{t}}', max_attempts => 3, "
                                        "unique_key => 'k', on_conflict => '{}', {}",
                                        policy, after)) == id);
        const Job now = must(place.store->get(id));
        const bool replaced = std::string_view(policy) == "replace";
        CHECK(now.version == 2);
        CHECK(now.kind == (replaced ? "b" : "a"));
        CHECK(now.args == (replaced ? "[2]" : "[1]"));
        CHECK(now.max_attempts == (replaced ? 3 : 20));
        CHECK(now.tags.size() == (replaced ? 1 : 0));
        CHECK(now.state ==
              (after.find("delay => '1") == 0 ? JobState::scheduled : JobState::available));
        CHECK(now.run_at > old.run_at - hours(2));
        const bool expires = after.find("expires_in") != std::string::npos;
        if (!replaced && !expires && old.expires_at)
          CHECK(now.expires_at == now.run_at + (*old.expires_at - old.run_at));
        if (expires) CHECK(now.expires_at > now.run_at);
        const std::string& expiry = replaced || expires ? after : before;
        const std::string& from = replaced ? after : before;
        const bool keyed = from.find("limit_key") != std::string::npos;
        CHECK(now.limit_key == (!keyed ? "" : from.find("acme") != from.npos ? "acme" : "globex"));
        CHECK((now.on_expiry == OnExpiry::dead) == (expiry.find("on_expiry") != std::string::npos));
        place.check_invariants();
      }
    }
  }
}

TEST_CASE("of callers that enqueue one key at the same time, one makes the job") {
  Place place;
  constexpr int kCallers = 6, kKeys = 30;
  std::latch ready(kCallers);
  Mutex mutex;
  std::map<int, std::set<std::string>> ids;
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        PgConnection connection = Place::connect();
        ready.arrive_and_wait();
        for (int key = 0; key < kKeys; ++key) {
          // Also with new queues and kinds.
          const auto rows = must(connection.sql(place.named(
              fmt::format("SELECT ms.enqueue('q{}', 'k{}', unique_key => 'u{}', "
                          "on_conflict => '{}')",
                          key % 7, key % 5, key, caller % 2 == 0 ? "keep" : "replace"))));
          MutexLock lock(mutex);
          ids[key].insert(rows.at(0).at(0));
        }
      });
    }
  }
  CHECK(ids.size() == kKeys);
  for (const auto& [key, one] : ids) CHECK(one.size() == 1);
  CHECK(place.sql("SELECT count(*) FROM ms.jobs").at(0).at(0) == std::to_string(kKeys));
  place.check_invariants();
}

// -- permissions ----------------------------------------------------------------------------------

TEST_CASE("a role that was granted enqueue can do that, and nothing else") {
  Place place;
  place.enqueue("'q', 'k'");
  const std::string role = "app_" + place.options.schema;
  must(the_cluster().sql(fmt::format("CREATE ROLE {} LOGIN", role)));
  const std::string grants = "GRANT USAGE ON SCHEMA " + place.options.schema + " TO " + role;
  place.sql(grants);
  PgConnection app = Place::connect(role);
  const auto may = [&](const std::string& text) { return app.sql(place.named(text)).has_value(); };
  CHECK_FALSE(may("SELECT ms.enqueue('q', 'k')"));
  place.sql("GRANT EXECUTE ON FUNCTION ms.enqueue TO " + role);
  CHECK(may("SELECT ms.enqueue('q', 'k', unique_key => 'u', tags => '{a}', delay => '1 s')"));
  CHECK(may("SELECT ms.enqueue('new', 'new')"));
  for (const char* text :
       {"SELECT * FROM ms.jobs", "SELECT * FROM ms.job", "DELETE FROM ms.ready",
        "INSERT INTO ms.queues (name) VALUES ('x')", "SELECT nextval('ms.job_ids')",
        "SELECT ms.queue_of('x')", "SELECT ms.count_job(1, 1, NULL, 2)", "SELECT * FROM ms.secrets",
        "SELECT ms.kind_of('x')", "CREATE TABLE ms.mine (a int)",
        "CREATE FUNCTION ms.now_us() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"}) {
    CAPTURE(text);
    CHECK_FALSE(may(text));
  }
  place.check_invariants();
}

TEST_CASE("objects that a caller created do not run with the owner's rights") {
  Place place;
  const std::string role = "evil_" + place.options.schema;
  must(the_cluster().sql(fmt::format("CREATE ROLE {} LOGIN", role)));
  must(the_cluster().sql(fmt::format("CREATE SCHEMA {0} AUTHORIZATION {0}", role), the_database()));
  place.sql(
      fmt::format("GRANT USAGE ON SCHEMA {0} TO {1}; GRANT EXECUTE ON FUNCTION {0}.enqueue TO {1}",
                  place.options.schema, role));
  PgConnection evil = Place::connect(role);
  must(evil.sql(fmt::format(
      "CREATE TABLE {0}.ran (who text); GRANT ALL ON {0}.ran TO PUBLIC; "
      "GRANT USAGE ON SCHEMA {0} TO PUBLIC; "
      "CREATE FUNCTION {0}.note(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO {0}.ran "
      "VALUES "
      "(current_user); SELECT what $$; "
      "CREATE TYPE {0}.word AS ENUM ('x'); "
      "CREATE FUNCTION {0}.words({0}.word) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE "
      "EXCEPTION 'ran'; END $$; "
      "CREATE CAST ({0}.word AS text) WITH FUNCTION {0}.words; "
      "CREATE FUNCTION {0}.format(text, text, text) RETURNS text LANGUAGE sql AS $$ SELECT "
      "{0}.note('1') $$; "
      "CREATE FUNCTION {0}.octet_length(text) RETURNS int LANGUAGE sql AS $$ SELECT "
      "length({0}.note('1')) $$; "
      "CREATE FUNCTION {0}.btrim(text, text) RETURNS text LANGUAGE sql AS $$ SELECT {0}.note('1') "
      "$$; "
      "SET search_path = {0}, pg_catalog",
      role)));
  const auto typed =
      evil.sql(place.named(fmt::format("SELECT ms.enqueue('q', 'k', 'x'::{}.word)", role)));
  REQUIRE_FALSE(typed.has_value());
  CHECK(typed.error().message.find("must be text, json or jsonb") != std::string::npos);
  must(evil.sql(place.named("SELECT ms.enqueue('q', 'k', correlation_id => 'c')")));
  CHECK(must(evil.sql(fmt::format("SELECT count(*) FROM {}.ran", role))).at(0).at(0) == "0");
}

}  // namespace
}  // namespace mainspring
