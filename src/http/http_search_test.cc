// Searches, edits, deletes, clones and bulk operations over HTTP: responses and permissions.
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

JobId put(TestServer& s, NewJob job) {
  if (job.kind.empty()) job.kind = "k";
  const auto made = s.broker->enqueue({.jobs = {std::move(job)}});
  REQUIRE_MESSAGE(made, made.error().message);
  return made->jobs.at(0).id;
}

JobId ended(TestServer& s, const std::string& queue, Outcome outcome) {
  const JobId id = put(s, {.queue = queue});
  const auto claimed = s.broker->claim({.worker = "w", .queues = {queue}}, 1s, {});
  REQUIRE(claimed->jobs.size() == 1);
  REQUIRE(
      s.broker
          ->finish({.worker = "w", .results = {{id, claimed->jobs[0].token, std::move(outcome)}}})
          .has_value());
  return id;
}

std::string digits_after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + key.size();
  return text.substr(from, text.find_first_not_of("0123456789", from) - from);
}

// The ids of a page, in their order: "[3,1]".
std::string ids_in(const std::string& body) {
  std::string out = "[";
  for (std::size_t at = body.find("{\"id\":"); at != std::string::npos;
       at = body.find("{\"id\":", at + 1)) {
    const std::size_t end = body.find(',', at);
    out += (out.size() > 1 ? "," : "") + body.substr(at + 6, end - at - 6);
  }
  return out + "]";
}

}  // namespace

TEST_CASE(
    "a search finds jobs by states, ids, args, texts and errors, and shows how much it read") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "mail", .args = R"({"order":4711,"customer":{"no":"c 1"},"list":[1,"two"]})"});
  put(s, {.queue = "mail", .args = R"({"order":"4712"})", .tags = {"vip"}});
  ended(s, "films", Dead{"broken", "Connection refused by db7"});
  ended(s, "films", Complete{R"({"sent":"Invoice 99"})"});
  const auto found = [&](const std::string& query) {
    const Answer answer = peer.call("GET", "/v1/jobs?" + query);
    CAPTURE(answer.body);
    CHECK(answer.status == 200);
    return ids_in(answer.body);
  };
  CHECK(found("state=dead,completed") == "[4,3]");
  CHECK(found("ids=1,4,99") == "[4,1]");
  CHECK(found("q=args.order%3D4711") == "[1]");
  CHECK(found("q=args.order%3D4712") == "[2]");
  CHECK(found("q=args.customer.no%3D%22c+1%22") == "[1]");
  CHECK(found("q=args.list.1%3Dtwo") == "[1]");
  CHECK(found("q=-args.order%3D4711+queue:mail") == "[2]");
  CHECK(found("q=error:REFUSED") == "[3]");
  CHECK(found("q=%22connection+refused%22") == "[3]");
  CHECK(found("q=invoice") == "[4]");
  CHECK(found("q=tag:vip") == "[2]");
  CHECK(found("q=state:available&kind=k") == "[2,1]");
  CHECK(found("from=2000-01-01T00:00:00Z&to=2000-01-02T00:00:00Z") == "[]");
  CHECK(found("q=after:1h") == "[4,3,2,1]");
  const std::string body = peer.call("GET", "/v1/jobs?queue=mail&q=nothing").body;
  CHECK(body == R"({"jobs":[],"next_cursor":null,"examined":2,"of":2})");
}

namespace {

struct SearchedPages {
  std::vector<std::string> ids;
  std::int64_t examined = 0;
};
// All pages of two. A page without jobs counts only if there is no other.
SearchedPages all_pages(Peer& peer, const std::string& query) {
  SearchedPages out;
  std::string cursor;
  for (int pages = 0; pages < 100; ++pages) {
    const Answer answer = peer.call("GET", "/v1/jobs?limit=2&" + query + cursor);
    CAPTURE(answer.body);
    REQUIRE(answer.status == 200);
    const std::string ids = ids_in(answer.body);
    const bool last = answer.body.find("\"next_cursor\":null") != std::string::npos;
    if (ids != "[]" || (last && out.ids.empty())) out.ids.push_back(ids);
    out.examined += std::stoll(digits_after(answer.body, "\"examined\":"));
    if (last) return out;
    cursor = "&cursor=" + digits_after(answer.body, "\"next_cursor\":\"");
  }
  FAIL("the pages have no end");
  return out;
}

}  // namespace

TEST_CASE("a search by a searchable path reads the index and the jobs not yet indexed") {
  TestServer s;
  Peer peer(s);
  const auto enqueue = [&](const std::string& queue, int order) {
    return put(s, {.queue = queue, .args = "{\"order\":" + std::to_string(order) + "}"});
  };
  for (int i = 0; i < 40; ++i) enqueue("mail", i % 10);
  const std::string in_mail = "queue=mail&q=args.order%3D7",
                    by_term = "q=queue:mail+args.order%3D7";
  const SearchedPages before = all_pages(peer, in_mail);
  CHECK(before.examined >= 40);
  CHECK(peer.call("PUT", "/v1/queues/mail/limits", R"({"searchable":["order"]})").status == 200);
  for (int i = 0; i < 10; ++i) enqueue("mail", i);
  // The old jobs are not indexed yet: no step has run.
  const SearchedPages half = all_pages(peer, in_mail);
  CHECK(half.ids == std::vector<std::string>{"[48,38]", "[28,18]", "[8]"});
  for (bool more = true; more;) {
    std::atomic<bool> done = false;
    s.broker->submit(PruneJobs{.limit = 7}, [&](const OperationResult& result) {
      more = std::get<StepResult>(result).more;
      done = true;
    });
    wait_until([&] { return done.load(); });
  }
  const SearchedPages indexed = all_pages(peer, in_mail);
  CHECK(indexed.ids == half.ids);
  CHECK(indexed.examined <= 10);
  CHECK(all_pages(peer, by_term).ids == half.ids);
  CHECK(all_pages(peer, by_term).examined <= 10);
  // Other terms apply too, and terms without an index are checked by reading.
  CHECK(all_pages(peer, in_mail + "+id:8,48,3").ids == std::vector<std::string>{"[48,8]"});
  CHECK(all_pages(peer, in_mail + "&state=completed").ids == std::vector<std::string>{"[]"});
  CHECK(all_pages(peer, "queue=mail&q=-args.order%3D7").ids.size() >= 22);
  CHECK(all_pages(peer, "queue=mail&q=args.order%3Dnull").ids == std::vector<std::string>{"[]"});
  // Without a queue, every queue with jobs has to declare the path.
  CHECK(all_pages(peer, "q=args.order%3D7").examined <= 10);
  enqueue("films", 7);
  const SearchedPages both = all_pages(peer, "q=args.order%3D7");
  CHECK(both.ids == std::vector<std::string>{"[51,48]", "[38,28]", "[18,8]"});
  CHECK(both.examined >= 51);
  CHECK(peer.call("PUT", "/v1/queues/films/limits", R"({"searchable":["order","x"]})").status ==
        200);
  CHECK(all_pages(peer, "q=args.order%3D7").ids == both.ids);
}

TEST_CASE("searchable paths are refused with the path and the rule") {
  TestServer s;
  Peer peer(s);
  const auto refused = [&](const std::string& paths, int status = 400) {
    const Answer answer =
        peer.call("PUT", "/v1/queues/q/limits", "{\"searchable\":[" + paths + "]}");
    CHECK(answer.status == status);
    CHECK(answer.body.find("searchable") != std::string::npos);
    return answer.body;
  };
  for (const char* path :
       {"", ".", "a.", ".a", "a..b", "a b", "a=b", "-1", "01", "+1", "1234567890"})
    refused("\"" + std::string(path) + "\"");
  CHECK(refused(R"("a","b","a")").find("twice") != std::string::npos);
  refused(R"("1","2","3","4","5","6","7","8","9")", 413);
  refused("\"" + std::string(257, 'x') + "\"");
  refused("1");
  const Answer good =
      peer.call("PUT", "/v1/queues/q/limits", R"({"searchable":["items.0.sku","customer.id"]})");
  CHECK(good.status == 200);
  CHECK(good.body.find(R"("searchable":["items.0.sku","customer.id"])") != std::string::npos);
}

TEST_CASE("a search for the jobs of a workflow or a schedule finds them by name") {
  TestServer s;
  Peer peer(s);
  const std::string started =
      peer.call("POST", "/v1/workflows",
                R"({"name":"w","steps":[{"name":"s","job":{"queue":"q","kind":"k",)"
                R"("correlation_id":"own"}}]})")
          .body;
  CHECK(has(started, R"("id":1)"));
  peer.call("PUT", "/v1/schedules/nightly",
            R"({"every":"1h","job":{"queue":"q","kind":"k"},"paused":true})");
  CHECK(peer.call("POST", "/v1/schedules/nightly/trigger").status == 201);
  put(s, {.queue = "q"});
  CHECK(ids_in(peer.call("GET", "/v1/jobs?q=workflow:1").body) == "[1]");
  CHECK(ids_in(peer.call("GET", "/v1/jobs?q=schedule:nightly").body) == "[2]");
  CHECK(ids_in(peer.call("GET", "/v1/jobs?q=-schedule:nightly+-workflow:1").body) == "[3]");
  CHECK(ids_in(peer.call("GET", "/v1/jobs?q=workflow:99").body) == "[]");
}

TEST_CASE("a search stops at its work bound and continues where it stopped") {
  TestServer s;
  Peer peer(s);
  const std::string large = R"({"x":")" + std::string(700'000, 'y') + R"("})";
  for (int i = 0; i < 30; ++i) put(s, {.queue = "q", .args = large});
  put(s, {.queue = "q", .args = R"({"x":"y"})"});
  std::string cursor;
  std::string all;
  int pages = 0;
  std::int64_t examined = 0;
  do {
    const std::string body =
        peer.call("GET", "/v1/jobs?q=args.x%3Dy&limit=10&cursor=" + cursor).body;
    all += ids_in(body);
    examined += std::stoll(digits_after(body, R"("examined":)"));
    cursor = has(body, R"("next_cursor":null)") ? "" : digits_after(body, R"("next_cursor":")");
    ++pages;
    REQUIRE(pages < 40);
  } while (!cursor.empty());
  CHECK(has(all, "[31]"));
  CHECK(pages > 1);
  CHECK(examined >= 31);
}

TEST_CASE("an invalid search is refused with the field and the valid values") {
  TestServer s;
  Peer peer(s);
  check_refusals(peer, {{"GET", "/v1/jobs?state=ready", "", 400, "invalid_argument", "state"},
                        {"GET", "/v1/jobs?state=dead,", "", 400, "invalid_argument", "state"},
                        {"GET", "/v1/jobs?ids=1,x", "", 400, "invalid_argument", "ids"},
                        {"GET", "/v1/jobs?from=soon", "", 400, "invalid_argument", "from"},
                        {"GET", "/v1/jobs?q=colour:red", "", 400, "invalid_argument", "q"}});
  const std::string body = peer.call("GET", "/v1/jobs?q=colour:red").body;
  CHECK(has(body, "colour:"));
  CHECK(has(body, "limit_key:"));
}

TEST_CASE("a caller who may not read payloads may not search them; the error names the term") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "mail", .args = R"({"order":4711})"});
  const std::string reader = scoped_token(s, "read", "reader");
  const std::string mail = scoped_token(s, "read read:payload=mail", "mail");
  for (const char* query : {"q=args.order%3D4711", "q=error:x", "q=free", "q=-free+kind:k"}) {
    CAPTURE(query);
    const Answer answer = peer.call("GET", std::string("/v1/jobs?") + query, "", reader);
    CHECK(answer.status == 403);
    CHECK(has(answer.body, R"("field":"q")"));
    CHECK(peer.call("GET", std::string("/v1/jobs?") + query, "", mail).status == 403);
  }
  CHECK(has(peer.call("GET", "/v1/jobs?q=args.order%3D4711", "", reader).body, "args.order=4711"));
  CHECK(peer.call("GET", "/v1/jobs?q=kind:k+wait%3E1h", "", reader).status == 200);
  CHECK(ids_in(peer.call("GET", "/v1/jobs?queue=mail&q=args.order%3D4711", "", mail).body) ==
        "[1]");
  CHECK(ids_in(peer.call("GET", "/v1/jobs?q=queue:mail+args.order%3D4711", "", mail).body) ==
        "[1]");
}

TEST_CASE("a job that is not running is edited, and the answer is the job") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "q", .args = "[1]"});
  const Answer answer = peer.call(
      "PATCH", "/v1/jobs/1",
      R"({"args":{"order":2},"priority":1,"tags":["a"],"run_at":"2100-01-01T00:00:00Z"})");
  CAPTURE(answer.body);
  CHECK(answer.status == 200);
  CHECK(has(answer.body, R"("args":{"order":2})"));
  CHECK(has(answer.body, R"("priority":1)"));
  CHECK(has(answer.body, R"("state":"scheduled")"));
  CHECK(has(answer.body, R"("tags":["a"])"));
  CHECK(peer.call("PATCH", "/v1/jobs/1", R"({"priority":2,"version":1})").status == 409);
  check_refusals(
      peer, {{"PATCH", "/v1/jobs/1", "{}", 400, "invalid_argument", ""},
             {"PATCH", "/v1/jobs/1", R"({"priority":10})", 400, "invalid_argument", "priority"},
             {"PATCH", "/v1/jobs/1", R"({"queue":"x"})", 400, "invalid_argument", "queue"},
             {"PATCH", "/v1/jobs/1", R"({"tags":[""]})", 400, "invalid_argument", "tags"},
             {"PATCH", "/v1/jobs/2", R"({"priority":1})", 404, "not_found", ""}});
  ended(s, "films", Complete{});
  CHECK(peer.call("PATCH", "/v1/jobs/2", R"({"priority":1})").status == 409);
  CHECK(has(peer.call("GET", "/v1/audit?action=edit_job").body, R"("object":"job/1")"));
}

TEST_CASE("the audit shows each edit of a job, but not its args") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "q", .args = R"({"card":"4111"})"});
  const auto edit = [&](const char* body) {
    CHECK(peer.call("PATCH", "/v1/jobs/1", body).status == 200);
    const std::string newest = peer.call("GET", "/v1/audit?object=job%2F1&limit=1").body;
    CAPTURE(newest);
    CHECK(has(newest, R"("action":"edit_job")"));
    CHECK_FALSE(has(newest, "card"));
    return newest;
  };
  edit(R"({"args":{"card":"4222"}})");
  const std::string priority = edit(R"({"priority":1})");
  CHECK(has(priority, R"("priority":5)"));
  CHECK(has(priority, R"("priority":1)"));
  CHECK(has(edit(R"({"tags":["vip"]})"), R"("tags":["vip"])"));
  CHECK(has(edit(R"({"run_at":"2100-01-01T00:00:00Z"})"), "2100-01-01"));
  edit(R"({"args":{"card":"4222"}})");  // equal args
  const std::string all = peer.call("GET", "/v1/audit?action=edit_job").body;
  std::size_t count = 0;
  for (std::size_t at = all.find("edit_job"); at != std::string::npos;
       at = all.find("edit_job", at + 1))
    ++count;
  CHECK(count == 5);
}

TEST_CASE("a job that has ended is deleted, and one that has not is not") {
  TestServer s;
  Peer peer(s);
  ended(s, "q", Complete{});
  put(s, {.queue = "q"});
  const Answer answer = peer.call("DELETE", "/v1/jobs/1");
  CHECK(answer.status == 204);
  CHECK(answer.body.empty());
  CHECK(peer.call("GET", "/v1/jobs/1").status == 410);
  CHECK(peer.call("DELETE", "/v1/jobs/1").status == 410);
  CHECK(peer.call("DELETE", "/v1/jobs/2").status == 409);
  CHECK(has(peer.call("GET", "/v1/audit?action=delete_job").body, R"("object":"job/1")"));
}

TEST_CASE("a clone is a new job with the changes, and names the original") {
  TestServer s;
  Peer peer(s);
  NewJob job{.queue = "q", .args = R"({"order":1})", .priority = 3, .tags = {"t"}};
  job.headers = R"({"h":"v"})";
  job.unique = Unique{.key = "k"};
  put(s, job);
  CHECK(peer.call("POST", "/v1/jobs/1/clone").body == R"({"id":2,"state":"available"})");
  std::string body = peer.call("GET", "/v1/jobs/2").body;
  CHECK(has(body, R"("args":{"order":1})"));
  CHECK(has(body, R"("priority":3)"));
  CHECK(has(body, R"("headers":{"h":"v","cloned_from":"1"})"));
  CHECK_FALSE(has(body, "unique_key"));
  CHECK(peer.call("POST", "/v1/jobs/2/clone", R"({"args":[2],"queue":"r","priority":0})").status ==
        201);
  body = peer.call("GET", "/v1/jobs/3").body;
  CHECK(has(body, R"("queue":"r")"));
  CHECK(has(body, R"("args":[2])"));
  CHECK(has(body, R"("headers":{"h":"v","cloned_from":"2"})"));
  check_refusals(peer, {{"POST", "/v1/jobs/1/clone", R"({"priority":10})", 400, "invalid_argument",
                         "priority"},
                        {"POST", "/v1/jobs/1/clone", R"({"queue":"mainspring.redrives"})", 400,
                         "invalid_argument", "queue"},
                        {"POST", "/v1/jobs/99/clone", "", 404, "not_found", ""}});
}

TEST_CASE("a caller who may not read a payload cannot clone it into another queue") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "mail", .args = R"({"secret":1})"});
  const std::string thief = scoped_token(s, "read=mail enqueue=own work=own", "thief");
  CHECK(peer.call("POST", "/v1/jobs/1/clone", R"({"queue":"own"})", thief).status == 403);
  // Headers and the data of follow-ups are payload too.
  CHECK(peer.call("POST", "/v1/jobs/1/clone", R"({"queue":"own","args":{}})", thief).status == 403);
  CHECK(peer.call("POST", "/v1/jobs/1/clone", "", thief).status == 403);
  const std::string owner =
      scoped_token(s, "read=mail read:payload=mail read:payload=own enqueue=own", "owner");
  CHECK(peer.call("POST", "/v1/jobs/1/clone", R"({"queue":"own"})", owner).status == 201);
  CHECK(peer.call("POST", "/v1/jobs/1/clone", R"({"queue":"mail"})", owner).status == 403);
}

TEST_CASE("a dry run of a bulk operation counts and changes nothing") {
  TestServer s;
  Peer peer(s);
  for (int i = 0; i < 3; ++i) put(s, {.queue = "q"});
  ended(s, "films", Complete{});
  const auto dry = [&](const std::string& order) {
    return peer.call("POST", "/v1/bulk", "{" + order + R"(,"dry_run":true})").body;
  };
  CHECK(dry(R"("action":"cancel","filter":{"queue":"q"})") ==
        R"({"matched":3,"exact":true,"sample":[3,2,1]})");
  CHECK(dry(R"("action":"delete","filter":{"q":"after:1h"})") ==
        R"({"matched":1,"exact":true,"sample":[4]})");
  CHECK(dry(R"("action":"reprioritise","priority":1,"filter":{"ids":[1,2]})") ==
        R"({"matched":2,"exact":true,"sample":[2,1]})");
  CHECK(has(peer.call("GET", "/v1/bulk").body, R"({"bulks":[]})"));
}

TEST_CASE("a bulk operation is a job that is shown, stopped and recorded") {
  TestServer s;
  Peer peer(s);
  put(s, {.queue = "q"});
  const Answer started = peer.call("POST", "/v1/bulk",
                                   R"({"action":"cancel","filter":{"queue":"q","state":)"
                                   R"(["available"]},"reason":"old","rate":"5/s","canary":2})");
  CAPTURE(started.body);
  CHECK(started.status == 201);
  CHECK(has(started.body, R"({"id":2,"state":"queued","action":"cancel","filter":{"queue":"q",)"
                          R"("state":["available"]},"reason":"old","rate":"5/s","canary":2,)"
                          R"("matched":null,"changed":0,"skipped":0,"failed":0,"by":"local",)"));
  CHECK(peer.call("GET", "/v1/bulk/2").body == started.body);
  CHECK(peer.call("GET", "/v1/bulk").body == R"({"bulks":[)" + started.body + "]}");
  CHECK(peer.call("GET", "/v1/bulk/1").status == 404);
  CHECK(has(peer.call("GET", "/v1/bulk/999").body, "bulk operation 999: does not exist"));
  CHECK(peer.call("POST", "/v1/bulk/1/stop").status == 404);
  CHECK(peer.call("POST", "/v1/bulk/2/continue").status == 409);
  CHECK(has(peer.call("POST", "/v1/bulk/2/stop").body, R"("state":"stopped")"));
  const Answer ended = peer.call("POST", "/v1/bulk/2/stop");
  CHECK(ended.status == 409);
  CHECK(has(ended.body, "bulk operation 2 has ended: it is stopped"));
  CHECK(has(peer.call("GET", "/v1/jobs/1").body, R"("state":"available")"));
  const std::string audit = peer.call("GET", "/v1/audit?action=start_bulk").body;
  CHECK(has(audit, R"("reason":"old")"));
  CHECK(has(audit, R"("object":"job/2")"));
  CHECK(has(peer.call("GET", "/v1/audit?action=stop_bulk").body, R"("object":"job/2")"));
}

TEST_CASE("a bulk operation without a filter, or for states that it cannot change, is refused") {
  TestServer s;
  Peer peer(s);
  check_refusals(
      peer,
      {{"POST", "/v1/bulk", R"({"action":"cancel","filter":{}})", 400, "invalid_argument",
        "filter"},
       {"POST", "/v1/bulk", R"({"action":"cancel"})", 400, "invalid_argument", "filter"},
       {"POST", "/v1/bulk", R"({"action":"cancel","filter":{"q":" \n"}})", 400, "invalid_argument",
        "filter"},
       {"POST", "/v1/bulk", R"({"action":"reprioritise","filter":{"queue":"q"},"priority":null})",
        400, "invalid_argument", "priority"},
       {"POST", "/v1/bulk", R"({"filter":{"queue":"q"}})", 400, "invalid_argument", "action"},
       {"POST", "/v1/bulk", R"({"action":"pause","filter":{"queue":"q"}})", 400, "invalid_argument",
        "action"},
       {"POST", "/v1/bulk", R"({"action":"delete","filter":{"state":["running"]}})", 400,
        "invalid_argument", "filter.state"},
       {"POST", "/v1/bulk", R"({"action":"reprioritise","filter":{"queue":"q"}})", 400,
        "invalid_argument", "priority"},
       {"POST", "/v1/bulk", R"({"action":"cancel","filter":{"q":"x:"}})", 400, "invalid_argument",
        "q"},
       {"POST", "/v1/bulk", R"({"action":"cancel","filter":{"queue":"q"},"rate":"fast"})", 400,
        "invalid_argument", "rate"}});
}

TEST_CASE("a bulk operation requires the scope of its queue, and read:payload where it searches") {
  TestServer s;
  Peer peer(s);
  const std::string admin = scoped_token(s, "admin=q", "qadmin");
  const auto start = [&](const std::string& filter) {
    return peer.call("POST", "/v1/bulk", R"({"action":"cancel","filter":)" + filter + "}", admin)
        .status;
  };
  CHECK(start(R"({"queue":"q"})") == 201);
  CHECK(start(R"({"q":"queue:q"})") == 201);
  CHECK(start(R"({"queue":"r"})") == 403);
  CHECK(start(R"({"state":["available"]})") == 403);
  CHECK(start(R"({"q":"queue:q,r"})") == 403);
  CHECK(start(R"({"queue":"q","q":"args.order=1"})") == 403);
  const std::string other = scoped_token(s, "admin=r", "radmin");
  CHECK(peer.call("GET", "/v1/bulk/1", "", other).status == 404);
  CHECK(peer.call("GET", "/v1/bulk", "", other).body == R"({"bulks":[]})");
  CHECK(peer.call("GET", "/v1/bulk/1", "", admin).status == 200);
}
