// Searches, edits, clones and bulk operations as JSON, and search terms in payloads.
#include "api/search_shapes.h"

#include <doctest/doctest.h>

#include "api/bulk_shapes.h"
#include "api/job_edit_shapes.h"
#include "api/job_match.h"
#include "api/json.h"
#include "model/callback.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

bool is_found(std::string_view text, const Job& job) {
  const auto query = parse_job_query(text, WallTime());
  REQUIRE_MESSAGE(query, query.error().message);
  return matches_payload(*query, job);
}

std::string field_of_bulk(std::string_view body) {
  const auto request = decode_bulk_request(body);
  REQUIRE_FALSE(request);
  return request.error().field;
}

}  // namespace

TEST_CASE("a path in args finds scalars, numbers by their value, through objects and arrays") {
  Job job;
  job.args = R"({"order":4711,"pi":3.10,"name":"a \"b\"","on":true,"none":null,)"
             R"("items":[{"sku":"x"},{"sku":"y","n":[7]}],"o":{"order":1},"empty":""})";
  for (const char* text : {"args.order=4711", "args.order=4711.0", "args.pi=3.10", "args.pi=3.1",
                           R"(args.name="a \"b\"")", "args.on=true", "args.none=null",
                           "args.items.1.sku=y", "args.items.1.n.0=7", "args.o.order=1",
                           "args.empty=", "args.order=4711 args.on=true -args.order=1"}) {
    CAPTURE(text);
    CHECK(is_found(text, job));
  }
  for (const char* text : {"args.order=471", "args.pi=3.11", "args.items=x", "args.items.sku=x",
                           "args.o=1", "args.missing=", "args.items.2.sku=y", "args.order.x=4711",
                           "args.order=4711 args.on=false", "-args.on=true"}) {
    CAPTURE(text);
    CHECK_FALSE(is_found(text, job));
  }
  for (const char* args : {"[]", "7", "\"text\"", "{}", R"({"a.b":1})"}) {
    job.args = args;
    CHECK_FALSE(is_found("args.order=4711", job));
  }
  job.args = R"([{"order":4711}])";
  CHECK(is_found("args.0.order=4711", job));
}

TEST_CASE("deep and odd args are searched without harm") {
  Job job;
  job.args = std::string(400, '[') + std::string(400, ']');
  CHECK_FALSE(is_found("args.0.0.0=1", job));
  job.args = R"({"order":"\u00fc","b":"\ud83d\ude00"})";
  CHECK(is_found("args.order=\xc3\xbc", job));
  CHECK(is_found("args.b=\xf0\x9f\x98\x80", job));
}

TEST_CASE("texts are found in args, result and errors, and error: in errors alone") {
  Job job;
  job.args = R"({"x":"Alpha"})";
  job.result = R"({"y":"Beta"})";
  job.reason = "max_attempts";
  job.description = "Gamma ray";
  job.errors = {{.attempt = 1, .message = "Connection refused"}};
  for (const char* text : {"alpha", "BETA", "gamma", "\"connection REFUSED\"", "error:refused",
                           "error:max_att", "-delta", "alpha beta -error:alpha"}) {
    CAPTURE(text);
    CHECK(is_found(text, job));
  }
  for (const char* text : {"delta", "error:alpha", "-alpha", "alpha delta"}) {
    CAPTURE(text);
    CHECK_FALSE(is_found(text, job));
  }
  CHECK(searched_bytes(job) == job.args.size() + job.result.size() + job.description.size() + 18);
}

TEST_CASE("a search becomes a filter, and the filter the same parameters") {
  const WallTime now = *parse_wall_time("2026-11-26T12:00:00Z");
  const JobSearch search{.kind = "k",
                         .states = {JobState::dead, JobState::completed},
                         .from = now - 1h,
                         .ids = {3, 9, 3},
                         .q = "queue:mail after:30m x"};
  const auto filter = job_filter_of(search, now);
  REQUIRE_MESSAGE(filter, filter.error().message);
  CHECK(filter->queue == "mail");
  CHECK(filter->kind == "k");
  CHECK(filter->from == now - 30min);
  CHECK(filter->ids == std::vector<JobId>{9, 3});
  CHECK(filter->wants(JobState::dead));
  CHECK_FALSE(filter->wants(JobState::running));
  CHECK(search_parameters(*filter) ==
        "&state=completed,dead&from=2026-11-26T11%3A30%3A00Z&ids=9,3&q=queue%3Amail%20after%3A30m"
        "%20x");
  CHECK(job_filter_of({.states = {JobState::dead}}, now)->state == JobState::dead);
  CHECK(job_filter_of({.q = "state:dead"}, now)->state == JobState::dead);
  CHECK(job_filter_of({.queue = " "}, now).error().field == "queue");
  CHECK(job_filter_of({.tag = std::string(65, 't')}, now).error().field == "tag");
  CHECK(job_filter_of({.q = "x:y"}, now).error().field == "q");
  CHECK(parse_states("dead,ready").error().field == "state");
  CHECK(parse_search_ids("1,-2").error().field == "ids");
  CHECK(search_parameters({}).empty());
}

TEST_CASE("a clone keeps the definition of a job and drops its unique key and callback") {
  Job job{.id = 7, .queue = "q", .kind = "k", .args = "[1]", .priority = 2, .max_attempts = 2000};
  job.unique_key = "u";
  job.expires_at = WallTime();
  job.headers = R"({"h":"\"v\"","cloned_from":"3"})";
  job.session = "s";
  job.limit_key.clear();
  job.follow_ups = {{.queue = "next", .kind = "k"},
                    {.queue = "mainspring.callbacks", .kind = "callback"}};
  const auto made = clone_of(job, {.id = 7, .priority = 0});
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->args == "[1]");
  CHECK(made->priority == 0);
  CHECK(made->max_attempts == kMaxMaxAttempts);
  CHECK(made->headers == R"({"h":"\"v\"","cloned_from":"7"})");
  CHECK(made->session == "s");
  CHECK_FALSE(made->unique);
  CHECK_FALSE(made->expires_in);
  REQUIRE(made->follow_ups.size() == 1);
  CHECK(made->follow_ups[0].queue == "next");
  job.queue = "mainspring.redrives";
  CHECK(clone_of(job, {.id = 7}).error().field == "queue");
  CHECK(decode_clone_request(7, "")->id == 7);
  CHECK(decode_clone_request(7, R"({"kind":"x"})").error().field == "kind");
}

TEST_CASE("an edit decodes to what was encoded") {
  EditJob edit{.id = 4, .args = R"({"a":1})", .priority = 3, .run_at = WallTime()};
  edit.tags = {"a", "b"};
  edit.version = 9;
  std::string text;
  encode_edit_request(edit, text);
  const auto back = decode_edit_request(4, text);
  REQUIRE_MESSAGE(back, back.error().message);
  CHECK(back->args == edit.args);
  CHECK(back->priority == 3);
  CHECK(back->run_at == edit.run_at);
  CHECK(back->tags == edit.tags);
  CHECK(back->version == 9);
  CHECK(decode_edit_request(4, "{}").error().code == ErrorCode::invalid_argument);
  CHECK(decode_edit_request(4, R"({"priority":null})").error().code == ErrorCode::invalid_argument);
  CHECK(decode_edit_request(4, R"({"priority":-1})").error().field == "priority");
}

TEST_CASE("a bulk operation has the same JSON in its request, its job and its status") {
  const BulkOrder order{
      .action = BulkAction::remove,
      .filter = {.queue = "q", .states = {JobState::dead}, .ids = {1, 2}, .q = "a \"b\""},
      .reason = "old",
      .rate = "5/m",
      .canary = 3};
  std::string text;
  encode_bulk_request({.order = order, .dry_run = true}, text);
  const auto request = decode_bulk_request(text);
  REQUIRE_MESSAGE(request, request.error().message);
  CHECK(request->dry_run);
  CHECK(request->order.filter.q == order.filter.q);
  Job job;
  const NewJob made = bulk_job({.order = order, .by = "anna", .at = WallTime()});
  job.id = 12, job.queue = made.queue, job.kind = made.kind, job.args = made.args;
  job.state = JobState::waiting;
  job.checkpoint = encode_bulk_progress(
      {.matched = 9, .before = 4, .changed = 3, .skipped = 1, .canary_over = true});
  const auto info = bulk_info_of(job);
  REQUIRE_MESSAGE(info, info.error().message);
  CHECK(info->state == BulkState::waiting);
  CHECK(info->by == "anna");
  CHECK(info->matched == 9);
  CHECK(info->changed == 3);
  CHECK(info->order.canary == 3);
  text.clear();
  encode_bulk_list({*info}, text);
  const auto list = decode_bulk_list(text);
  REQUIRE_MESSAGE(list, list.error().message);
  CHECK(list->at(0).order.action == BulkAction::remove);
  CHECK(list->at(0).order.filter.ids == order.filter.ids);
  const auto progress = decode_bulk_progress(job.checkpoint);
  CHECK(progress->before == 4);
  CHECK(progress->canary_over);
  job.kind = "redrive";
  CHECK(bulk_info_of(job).error().code == ErrorCode::not_found);
}

TEST_CASE("a bulk operation changes jobs in the states for its action only") {
  const auto states = [](BulkAction action, JobSearch search) {
    return bulk_filter_of({.action = action, .filter = std::move(search)}, WallTime())->states;
  };
  using enum JobState;
  CHECK(states(BulkAction::remove, {.queue = "q"}) ==
        (states_of(completed) | states_of(cancelled) | states_of(dead)));
  CHECK(states(BulkAction::cancel, {.states = {running, completed}}) == states_of(running));
  CHECK(states(BulkAction::retry, {.q = "state:dead,available"}) == states_of(dead));
  CHECK(field_of_bulk(R"({"action":"delete","filter":{"q":"state:running"}})") == "filter.state");
  CHECK(field_of_bulk(R"({"action":"cancel","filter":{}})") == "filter");
  CHECK(field_of_bulk(R"({"action":"reprioritise","filter":{"queue":"q"}})") == "priority");
  CHECK(field_of_bulk(R"({"action":"x","filter":{"queue":"q"}})") == "action");
  CHECK(field_of_bulk(R"({"action":"cancel","filter":{"queue":"q"},"canary":-1})") == "canary");
}
