// The event stream over real sockets: its contents, its permissions and how it resumes.
#include <atomic>

#include "api/json.h"
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

// A client of the stream.
struct Listener {
  Listener(TestServer& server, std::string_view query = "", std::string_view headers = "")
      : peer(server) {
    peer.send(Peer::request("GET", "/v1/events" + std::string(query), "", headers));
    head = peer.receive();
  }
  // The next block other than a keep-alive; "" = the stream ended cleanly, "cut" = it did not.
  std::string block() {
    for (;;) {
      const std::size_t end = text.find("\n\n");
      if (end != std::string::npos) {
        std::string out = text.substr(0, end);
        text.erase(0, end + 2);
        const std::size_t id = out.find("id: ");
        if (id != std::string::npos) last_id = out.substr(id + 4, out.find('\n', id) - id - 4);
        if (out.find("event: ") != std::string::npos || out == ": too slow") return out;
        continue;
      }
      const std::string chunk = peer.chunk();
      if (chunk.empty() || chunk == "cut") return chunk;
      text += chunk;
    }
  }
  // "enqueued 1 photos/resize"
  std::string next() {
    const std::string got = block();
    const std::size_t at = got.find("data: ");
    if (at == std::string::npos) return got;
    data = got.substr(at + 6);
    std::string type, queue, kind, reason, object;
    std::int64_t job = 0;
    JsonReader in(data, JsonReader::Unknown::skip);
    const bool good = in.members([&](std::string_view name) {
      if (name == "type") return in.string(type);
      if (name == "job") return in.integer(job, 1, INT64_MAX);
      if (name == "queue") return in.null() || in.string(queue);
      if (name == "kind") return in.null() || in.string(kind);
      if (name == "object") return in.string(object);
      return name == "reason" ? in.string(reason) : in.skip();
    });
    CHECK_MESSAGE(good, data);
    if (!object.empty()) return type + " " + object;
    if (job != 0) type += " " + std::to_string(job);
    if (!queue.empty()) type += " " + queue + "/" + kind;
    return reason.empty() ? type : type + " " + reason;
  }

  Peer peer;
  Answer head;
  std::string text, data, last_id;
};

// Another node reports that a queue was resumed, as its event of this number.
void node_says(TestServer& s, std::uint64_t number, const std::string& queue) {
  Events::Said said{.process = "feedn2", .from = number - 1, .to = number};
  Event event{.type = EventType::queue_resumed, .number = number};
  event.facts = std::make_shared<JobFacts>(JobFacts{.queue = queue});
  said.events.push_back(std::move(event));
  s.broker->events().take_said(2, std::move(said), s.clock.now());
  s.broker->events().tell();
}

void apply(TestServer& s, Operation operation) {
  std::atomic<int> done = 0;
  s.broker->submit(std::move(operation), [&](OperationResult result) {
    done = std::holds_alternative<Error>(result) ? 2 : 1;
  });
  wait_until([&] { return done != 0; });
  REQUIRE(done == 1);
}
JobId events_enqueue(TestServer& s, NewJob job) {
  return s.broker->enqueue({.jobs = {std::move(job)}})->jobs.at(0).id;
}
const NewJob kPhoto{.queue = "photos", .kind = "resize", .tags = {"a", "b"}};
const NewJob kFilm{.queue = "films", .kind = "cut"};

std::int64_t metric(TestServer& s, const std::string& name) {
  const std::string text = s.registry.render();
  const std::size_t at = text.find("\n" + name + " ");
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + name.size() + 2));
}

}  // namespace

TEST_CASE("a stream shows the events of jobs in order, with their fields") {
  TestServer s;
  Listener listener(s);
  CHECK(listener.head.status == 200);
  CHECK(listener.head.headers.at("Content-Type") == "text/event-stream");
  Peer peer(s);
  CHECK(
      peer.call("POST", "/v1/jobs", R"({"queue":"photos","kind":"resize","tags":["a"]})").status ==
      201);
  const auto claimed = s.broker->claim({.worker = "w", .queues = {"photos"}}, 1s, {});
  const ClaimedJob job = claimed->jobs.at(0);
  const Renewal renewal{.id = job.id, .token = job.token, .progress = Progress{0.5, "half"}};
  REQUIRE(s.broker->renew({.worker = "w", .leases = {renewal}}).has_value());
  REQUIRE(s.broker->finish({.worker = "w", .results = {{job.id, job.token, Dead{"bad", "long"}}}})
              .has_value());
  CHECK(peer.call("POST", "/v1/queues/photos/pause").status == 200);
  CHECK(listener.next() == "enqueued 1 photos/resize");
  CHECK(listener.next() == "started 1 photos/resize");
  CHECK(
      has(listener.data, R"("job":1,"queue":"photos","kind":"resize","tags":["a"],"attempt":1})"));
  CHECK(has(listener.data, R"({"id":")" + listener.last_id + R"(","type":"started","at":"20)"));
  CHECK(listener.next() == "progress 1 photos/resize");
  CHECK(has(listener.data, R"("progress":{"value":0.5,"text":"half"})"));
  CHECK(listener.next() == "dead 1 photos/resize bad");
  CHECK_FALSE(has(listener.data, "long"));
  CHECK(listener.next() == "queue_paused photos/");
}

TEST_CASE("a stream shows only the events that match its filter") {
  TestServer s;
  Listener queue(s, "?queue=films"), kinds(s, "?kind=cut,resize&kind=x"), type(s, "?type=started"),
      job(s, "?job=2"), tag(s, "?tag=z,b"), none(s, "?queue=films&tag=a");
  events_enqueue(s, kPhoto);
  events_enqueue(s, kFilm);
  REQUIRE(s.broker->claim({.worker = "w", .queues = {"films"}}, 1s, {}).has_value());
  apply(s, PauseQueue{.queue = "films"});
  NewJob last = kPhoto;
  last.queue = "films";
  events_enqueue(s, last);
  CHECK(queue.next() == "enqueued 2 films/cut");
  CHECK(queue.next() == "started 2 films/cut");
  CHECK(queue.next() == "queue_paused films/");
  CHECK(kinds.next() == "enqueued 1 photos/resize");
  CHECK(kinds.next() == "enqueued 2 films/cut");
  CHECK(kinds.next() == "started 2 films/cut");
  CHECK(kinds.next() == "enqueued 3 films/resize");  // a queue has no kind
  CHECK(type.next() == "started 2 films/cut");
  CHECK(job.next() == "enqueued 2 films/cut");
  CHECK(tag.next() == "enqueued 1 photos/resize");
  CHECK(tag.next() == "enqueued 3 films/resize");
  CHECK(none.next() == "enqueued 3 films/resize");
}

// Of the first job of a claim's answer.
std::string token_in(const std::string& body) {
  const std::size_t begin = body.find("\"token\":") + 8;
  REQUIRE(body.find("\"token\":") != std::string::npos);
  return body.substr(begin, body.find(',', begin) - begin);
}

TEST_CASE("an operator takes a running job from its worker") {
  TestServer s;
  Listener photos(s, "?queue=photos");
  Peer peer(s);
  events_enqueue(s, kPhoto);
  CHECK(peer.call("POST", "/v1/jobs/1/take-back").status == 409);
  const std::string_view claim = R"({"worker":"w","queues":["photos"]})";
  const std::string first = peer.call("POST", "/v1/claim", claim).body;
  CHECK(has(first, R"("attempt":1,)"));
  CHECK(peer.call("POST", "/v1/jobs/1/take-back").body == R"({"id":1,"state":"available"})");
  CHECK(has(peer.call("POST", "/v1/finish",
                      R"({"worker":"w","results":[{"id":1,"token":)" + token_in(first) +
                          R"(,"outcome":"complete"}]})")
                .body,
            "stale"));
  const std::string second = peer.call("POST", "/v1/claim", claim).body;
  CHECK(has(second, R"("attempt":1,)"));
  CHECK(token_in(second) != token_in(first));
  CHECK(photos.next() == "enqueued 1 photos/resize");
  CHECK(photos.next() == "started 1 photos/resize");
  CHECK(photos.next() == "retrying 1 photos/resize");
  CHECK(photos.next() == "started 1 photos/resize");
}

TEST_CASE("a stream shows events of quarantine and breakers; jobs in quarantine can be listed") {
  TestServer s;
  Listener photos(s, "?queue=photos"), breakers(s, "?type=breaker_opened,breaker_closed");
  Peer peer(s);
  CHECK(peer.call("PUT", "/v1/queues/photos/limits", R"({"quarantine_after":1})").status == 200);
  events_enqueue(s, kPhoto);
  events_enqueue(s, kFilm);
  const Answer claimed =
      peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["photos"],"lease":"2s"})");
  CHECK(claimed.status == 200);
  CHECK(has(peer.call("POST", "/v1/renew",
                      R"({"worker":"w","lease":"1s","leases":[{"id":1,"token":)" +
                          token_in(claimed.body) + "}]}")
                .body,
            R"("id":1)"));
  CHECK(photos.next() == "changed queue/photos");
  CHECK(photos.next() == "enqueued 1 photos/resize");
  CHECK(photos.next() == "started 1 photos/resize");
  CHECK(photos.next() == "retrying 1 photos/resize");
  CHECK(photos.next() == "quarantined 1 photos/resize");
  CHECK(has(photos.data, R"("tags":["a","b"],"attempt":1})"));
  const std::string list = peer.call("GET", "/v1/jobs?quarantined=true").body;
  CHECK(has(list, R"({"jobs":[{"id":1,)"));
  CHECK_FALSE(has(list, R"("id":2,)"));
  CHECK(peer.call("GET", "/v1/jobs?quarantined=true&queue=films").body ==
        R"({"jobs":[],"next_cursor":null,"examined":0,"of":1})");
  check_refusals(
      peer, {{"GET", "/v1/jobs?quarantined=false", "", 400, "invalid_argument", "quarantined"}});
  CHECK(peer.call("POST", "/v1/jobs/1/retry").status == 200);
  CHECK(photos.next() == "retrying 1 photos/resize");
  CHECK(photos.next() == "quarantine_left 1 photos/resize");
  CHECK(has(peer.call("GET", "/v1/jobs?quarantined=true").body, R"({"jobs":[],)"));

  CHECK(peer.call("PUT", "/v1/breakers/geo", "{}").status == 200);
  CHECK(peer.call("POST", "/v1/breakers/geo/open", R"({"for":"1h"})").status == 200);
  CHECK(peer.call("POST", "/v1/breakers/geo/close").status == 200);
  CHECK(breakers.next() == "breaker_opened");
  CHECK(has(breakers.data, R"("breaker":"geo","until":"20)"));
  CHECK(breakers.next() == "breaker_closed");
  CHECK(has(breakers.data, R"("breaker":"geo"})"));
  events_enqueue(s, kPhoto);
  CHECK(photos.next() == "enqueued 3 photos/resize");
}

TEST_CASE("an invalid filter of a stream is refused with its field") {
  TestServer s;
  Peer peer(s);
  std::string many = "/v1/events?job=1";
  for (int i = 0; i < 100; ++i) many += ",1";
  check_refusals(peer,
                 {{"GET", "/v1/events?type=began", "", 400, "invalid_argument", "type"},
                  {"GET", "/v1/events?type=", "", 400, "invalid_argument", "type"},
                  {"GET", "/v1/events?queue=a,,b", "", 400, "invalid_argument", "queue"},
                  {"GET", "/v1/events?kind=%20", "", 400, "invalid_argument", "kind"},
                  {"GET", "/v1/events?job=0", "", 400, "invalid_argument", "job"},
                  {"GET", many, "", 400, "invalid_argument", "job"},
                  {"GET", "/v1/events?after=17", "", 400, "invalid_argument", "after"},
                  {"GET", "/v1/events?after=a-b", "", 400, "invalid_argument", "after"},
                  {"GET", "/v1/events?after=a-1&after=a-2", "", 400, "invalid_argument", "after"},
                  {"GET", "/v1/events?state=dead", "", 400, "invalid_argument", "state"}});
  const Answer answer = peer.call("GET", "/v1/events?type=began");
  CHECK(message_of(answer) ==
        "type \"began\": must be one of enqueued, started, completed, retrying, snoozed, "
        "deferred, dead, cancelled, progress, queue_paused, queue_resumed, quarantined, "
        "quarantine_left, breaker_opened, breaker_half_open, breaker_closed, changed, gap");
  CHECK(field_of(peer.call("GET", "/v1/events", "", "Last-Event-ID: x\r\n")) == "Last-Event-ID");
}

TEST_CASE("a client that returns with its last id gets the events after it, and no others") {
  TestServer s;
  Listener stays(s);
  std::string first;
  {
    Listener gone(s);
    events_enqueue(s, kPhoto);
    CHECK(gone.next() == "enqueued 1 photos/resize");
    first = gone.last_id;
  }
  events_enqueue(s, kFilm);
  Listener back(s, "", "Last-Event-ID: " + first + "\r\n");
  CHECK(back.next() == "enqueued 2 films/cut");
  Listener by_query(s, "?after=" + first);
  CHECK(by_query.next() == "enqueued 2 films/cut");
  // As a browser reconnects: the URL is still the first one.
  Listener both(s, "?after=" + first, "Last-Event-ID: " + by_query.last_id + "\r\n");
  events_enqueue(s, kPhoto);
  CHECK(both.next() == "enqueued 3 photos/resize");
}

TEST_CASE("a stream resumes at the position of another node with events received from that node") {
  TestServer s;
  Listener listener(s);
  const JobId job = events_enqueue(s, kPhoto);
  CHECK(listener.next() == "enqueued 1 photos/resize");
  const std::string own = listener.last_id;
  node_says(s, 5, "films");
  CHECK(listener.next() == "queue_resumed films/");
  CHECK(listener.data.find(R"("id":")" + listener.last_id + "\"") != std::string::npos);
  CHECK(listener.last_id == own + ",feedn2-5");
  node_says(s, 6, "photos");
  CHECK(listener.next() == "queue_resumed photos/");
  apply(s, Cancel{.id = job});
  CHECK(listener.next() == "cancelled 1 photos/resize");
  // Events that the client had there, in another order than here, are not sent again.
  Listener moved(s, "?after=feedn2-6," + own);
  CHECK(moved.next() == "cancelled 1 photos/resize");
  Listener behind(s, "?after=" + own + ",feedn2-5");
  CHECK(behind.next() == "queue_resumed photos/");
  CHECK(behind.next() == "cancelled 1 photos/resize");
  // Events that the client had there, and that have not arrived here yet.
  Listener ahead(s,
                 "?after=" + listener.last_id.substr(0, listener.last_id.find(',')) + ",feedn2-8");
  node_says(s, 7, "late");
  node_says(s, 8, "late");
  node_says(s, 9, "new");
  CHECK(ahead.next() == "queue_resumed new/");
  // A node that reports less than before: events are missing.
  node_says(s, 20, "far");
  CHECK(ahead.next() == "gap node");
  CHECK(ahead.next() == "queue_resumed far/");
}

TEST_CASE("a client that is cut off before its first event resumes at its start") {
  TestServer s;
  std::string began;
  {
    Listener listener(s);
    const std::string head = listener.peer.chunk();
    REQUIRE(head.starts_with("retry: 1000\nid: "));
    began = head.substr(16, head.size() - 18);
  }
  events_enqueue(s, kPhoto);
  Listener back(s, "?after=" + began);
  CHECK(back.next() == "enqueued 1 photos/resize");
}

TEST_CASE("missing events start with a gap: after a restart, and when they are too old") {
  BrokerOptions options;
  options.events.buffer = 2;
  TestServer s({}, options);
  Listener stays(s);
  events_enqueue(s, kPhoto);
  CHECK(stays.next() == "enqueued 1 photos/resize");
  const std::string old = stays.last_id;
  for (int i = 0; i < 3; ++i) {
    events_enqueue(s, kFilm);
    CHECK(stays.next() == "enqueued " + std::to_string(i + 2) + " films/cut");
  }
  Listener late(s, "?after=" + old);
  CHECK(late.next() == "gap forgotten");
  const std::string gap_id = late.last_id;
  CHECK(late.next() == "enqueued 3 films/cut");  // the remaining events
  CHECK(late.next() == "enqueued 4 films/cut");
  // From before a restart, so the number is invalid. A gap that was reported is not reported again.
  const std::string number = old.substr(old.rfind('-'));
  Listener restarted(s, "?after=5ca1ab1e" + number);
  CHECK(restarted.next() == "gap restart");
  CHECK(restarted.next() == "enqueued 3 films/cut");
  Listener again(s, "?after=" + gap_id);
  CHECK(again.next() == "enqueued 3 films/cut");
  Listener ahead(s, "?type=started&after=" + old.substr(0, old.rfind('-')) + "-1000");
  CHECK(ahead.next() == "gap forgotten");  // whatever it asks for
  CHECK(metric(s, "mainspring_events_dropped_total") == 1);
}

TEST_CASE("a client that does not keep up is cut off, delays nothing and learns of the gap") {
  BrokerOptions options;
  options.events.buffer = 1000;
  TestServer s({}, options);
  Listener slow(s);
  Peer other(s);
  NewJob large = kPhoto;
  large.tags.assign(16, std::string(64, 'x'));
  Enqueue many;
  many.jobs.assign(500, large);
  for (int i = 0; i < 40; ++i) {  // 24 MiB: more than sockets hold
    REQUIRE(s.broker->enqueue(many).has_value());
    CHECK(other.call("GET", "/v1/version").status == 200);
  }
  int told = 0;
  std::string block = slow.block();
  for (; block.find("event: enqueued") != std::string::npos; block = slow.block()) ++told;
  CHECK(told < 20'000);
  CHECK(block == ": too slow");
  CHECK(slow.block().empty());  // a clean end
  CHECK(metric(s, "mainspring_events_dropped_total") > 0);
  Listener back(s, "", "Last-Event-ID: " + slow.last_id + "\r\n");
  CHECK(back.next() == "gap forgotten");
  CHECK(back.next().starts_with("enqueued "));
}

TEST_CASE("a hundred streams need no threads, each gets every event, and their number is limited") {
  HttpOptions options;
  options.max_event_streams = 100;
  TestServer s(options);
  const int before = threads_of_process();
  std::vector<std::unique_ptr<Listener>> listeners;
  for (int i = 0; i < 100; ++i) {
    listeners.push_back(std::make_unique<Listener>(s));
    CHECK(listeners.back()->head.status == 200);
  }
  CHECK(metric(s, "mainspring_event_streams") == 100);
  const Answer over = Peer(s).call("GET", "/v1/events");
  CHECK(over.status == 429);
  CHECK(code_of(over) == "overloaded");
  CHECK(over.headers.contains("Retry-After"));
  for (int i = 0; i < 10; ++i) events_enqueue(s, kPhoto);
  for (auto& listener : listeners) {
    for (int i = 0; i < 10; ++i) {
      CHECK(listener->next() == "enqueued " + std::to_string(i + 1) + " photos/resize");
    }
  }
  CHECK(threads_of_process() <= before);  // an ended thread may have been counted
  listeners.clear();
  wait_until([&] { return metric(s, "mainspring_event_streams") == 0; });
}

TEST_CASE("a stream shows the queues that its token may read, and texts only with the right") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  const std::string photos = scoped_token(s, "read=photos", "photos");
  Listener some(s, "", photos), all(s, "", scoped_token(s, "read read:payload", "all")),
      asked(s, "?queue=films,photos", photos);
  CHECK(Peer(s).call("GET", "/v1/events").status == 401);
  CHECK(Peer(s).call("GET", "/v1/events", "", scoped_token(s, "work", "w")).status == 403);
  events_enqueue(s, kFilm);
  apply(s, PauseQueue{.queue = "films"});
  apply(s, PutBreaker{.name = "geo"});
  apply(s, OpenBreaker{.name = "geo", .open_for = 1h});
  events_enqueue(s, kPhoto);
  const ClaimedJob job = s.broker->claim({.worker = "w", .queues = {"photos"}}, 1s, {})->jobs.at(0);
  const Renewal renewal{.id = job.id, .token = job.token, .progress = Progress{0.5, "half"}};
  REQUIRE(s.broker->renew({.worker = "w", .leases = {renewal}}).has_value());
  CHECK(all.next() == "enqueued 1 films/cut");
  CHECK(all.next() == "queue_paused films/");
  CHECK(all.next() == "changed breaker/geo");
  CHECK(all.next() == "breaker_opened");
  for (Listener* one : {&some, &asked, &all}) {
    CHECK(one->next() == "enqueued 2 photos/resize");
    CHECK(one->next() == "started 2 photos/resize");
    CHECK(one->next() == "progress 2 photos/resize");
  }
  // Numbers of the ids count the events of all queues. Sealed ones tell nothing, and resume too.
  CHECK(all.last_id.find_first_of(",-") != std::string::npos);
  CHECK(some.last_id.starts_with('s'));
  CHECK(some.last_id.find_first_not_of("s0123456789abcdef") == std::string::npos);
  CHECK(some.last_id != asked.last_id);
  Listener back(s, "", photos + "Last-Event-ID: " + some.last_id + "\r\n");
  events_enqueue(s, kFilm);
  events_enqueue(s, kPhoto);
  CHECK(back.next() == "enqueued 4 photos/resize");
  std::string forged = some.last_id;
  forged[20] = forged[20] == '0' ? '1' : '0';
  CHECK(Peer(s).call("GET", "/v1/events?after=" + forged, "", photos).status == 400);
  CHECK(has(all.data, R"("text":"half")"));
  CHECK(has(some.data, R"("progress":{"value":0.5,"text":null})"));
}

TEST_CASE("a stream shows changes of objects only to tokens that may see them") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  Listener photos(s, "", scoped_token(s, "read=photos lease=photo-*", "photos")),
      all(s, "", scoped_token(s, "read", "all")),
      admin(s, "", scoped_token(s, "admin read", "admin"));
  apply(s, SetQueueLimits{.queue = "films", .limits = {.concurrency = 1}});
  apply(s, SetQueueLimits{.queue = "photos", .limits = {.concurrency = 1}});
  apply(s, RevokeToken{"all"});
  apply(s, PutBreaker{.name = "geo"});
  apply(s, AcquireLease{.name = "photo-index", .holder = "h"});
  apply(s, AcquireLease{.name = "film-index", .holder = "h"});
  apply(s, SetRetention{.queue = "photos", .completed = 1h});
  for (const char* line :
       {"changed queue/photos", "changed lock/photo-index", "changed queue/photos"})
    CHECK(photos.next() == line);
  CHECK(all.next() == "changed queue/films");
  for (const char* line : {"changed queue/films", "changed queue/photos", "changed token/all",
                           "changed breaker/geo", "changed queue/photos"})
    CHECK(admin.next() == line);
}

TEST_CASE("a stream shows requests for workflows, and a clone only as a new job") {
  TestServer s;
  Peer peer(s);
  Listener listener(s);
  REQUIRE(peer.call("POST", "/v1/workflows",
                    R"({"name":"w","steps":[{"name":"paid","signal":"paid"}]})")
              .status == 201);
  CHECK(listener.next() == "changed workflow/1");
  for (const char* request : {"pause", "resume", "signal"}) {
    const bool signals = std::string_view(request) == "signal";  // then the workflow is completed
    const Answer answer = peer.call("POST", std::string("/v1/workflows/1/") + request,
                                    signals ? R"({"name":"paid"})" : "");
    CHECK_MESSAGE(answer.status == 200, answer.body);
    CHECK(listener.next() == "changed workflow/1");
  }
  events_enqueue(s, kPhoto);
  CHECK(listener.next() == "enqueued 1 photos/resize");
  CHECK(peer.call("POST", "/v1/jobs/1/clone").status == 201);
  CHECK(listener.next() == "enqueued 2 photos/resize");
  events_enqueue(s, kFilm);
  CHECK(listener.next() == "enqueued 3 films/cut");
}

TEST_CASE("a stream ends when its token is revoked, and shows no more events") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  const std::string header = scoped_token(s, "read", "mine");
  Listener listener(s, "", header), idle(s, "", header);
  events_enqueue(s, kPhoto);
  CHECK(listener.next() == "enqueued 1 photos/resize");
  apply(s, RevokeToken{"mine"});
  events_enqueue(s, kPhoto);
  CHECK(listener.next() == "cut");
  CHECK(idle.next() == "enqueued 1 photos/resize");
  CHECK(idle.next() == "cut");
}

TEST_CASE("a server stop ends its event streams cleanly") {
  auto s = std::make_unique<TestServer>();
  Listener listener(*s), waiting(*s);
  events_enqueue(*s, kPhoto);
  CHECK(listener.next() == "enqueued 1 photos/resize");
  s->server->stop(20s);
  CHECK(listener.next().empty());
  CHECK(listener.peer.ended());
  CHECK(waiting.next() == "enqueued 1 photos/resize");
  CHECK(waiting.next().empty());
}

TEST_CASE("an idle stream sends keep-alives with its position") {
  HttpOptions options;
  options.event_heartbeat = 20ms;
  TestServer s(options);
  Listener listener(s, "?queue=none");
  const std::string head = listener.peer.chunk();
  const std::string beat = listener.peer.chunk();
  CHECK(beat.starts_with(": \nid: "));
  events_enqueue(s, kPhoto);
  std::string later = listener.peer.chunk();
  wait_until([&] { return (later = listener.peer.chunk()) != beat; });
  CHECK(later.ends_with("-1\n\n"));
  Listener back(s, "?after=" + later.substr(7, later.size() - 9));
  events_enqueue(s, kPhoto);
  CHECK(back.next() == "enqueued 2 photos/resize");
}

TEST_CASE("without a stream no events are built") {
  TestServer s;
  events_enqueue(s, kPhoto);
  REQUIRE(s.broker->claim({.worker = "w", .queues = {"photos"}}, 1s, {}).has_value());
  CHECK(metric(s, "mainspring_events_total") == 0);
  CHECK(Peer(s).call("HEAD", "/v1/events").status == 200);
}
