// Hooks: events reach their subscribers in order, once; outcomes are stored.
#include "host/hooks.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "base/mutex.h"
#include "host/files.h"
#include "host/folder_testing.h"
#include "outgoing/tiny_server.h"

using namespace mainspring;
using namespace mainspring::testing;
using namespace std::chrono_literals;

namespace {

class CountingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    MutexLock lock(mutex_);
    std::string line(message);
    for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, value);
    if (level == LogLevel::warn) warnings_.push_back(line);
  }
  std::vector<std::string> warnings() {
    MutexLock lock(mutex_);
    return warnings_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> warnings_ MS_GUARDED_BY(mutex_);
};

struct Fixture {
  TemporaryDirectory directory;
  ManualClock clock;
  SeededRandom random{7};
  CountingLog log;
  std::string file() const { return directory.path("hooks.json"); }
  std::unique_ptr<Hooks> open(Duration limit = 30s) {
    auto hooks = Hooks::open(file(), clock, random, log, {"127.0.0.0/8"}, limit);
    REQUIRE_MESSAGE(hooks, hooks.error().message);
    return std::move(*hooks);
  }
};

std::string body_of(const std::string& request) {
  return request.substr(request.find("\r\n\r\n") + 4);
}

}  // namespace

TEST_CASE("an event is posted to its subscribed hooks, in order") {
  Fixture f;
  TinyServer server, other;
  const auto hooks = f.open();
  const auto added = hooks->add(server.url("/done?x=1"), "TriggeredJobFinished", false);
  REQUIRE(added);
  CHECK(added->second);
  CHECK(added->first.id.size() == 32);
  REQUIRE(hooks->add(other.url(), "Other", false));
  for (int i = 0; i < 20; ++i)
    hooks->publish("TriggeredJobFinished", fmt::format("{{\"n\":{}}}", i));
  hooks->publish("Unsubscribed", "{}");
  hooks->drain();
  const auto requests = server.requests();
  REQUIRE(requests.size() == 20);
  CHECK(requests[0].find("POST /done?x=1 HTTP/1.1\r\n") == 0);
  CHECK(requests[0].find("Content-Type: application/json\r\n") != std::string::npos);
  CHECK(requests[0].find("Authorization") == std::string::npos);
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(body_of(requests[i]) == fmt::format("{{\"n\":{}}}", i));
  CHECK(other.requests().empty());
  const HookView hook = hooks->list().at(0);
  CHECK(hook.last_status == "200");
  CHECK(hook.last_reason == "OK");
  CHECK(hook.last_datetime == "2026-01-01T00:00:00Z");
  CHECK(hook.last_context == "{\"n\":19}");
  CHECK(hooks->list().at(1).last_status.empty());
}

TEST_CASE("hooks and their outcomes survive a restart, readable by their owner only") {
  Fixture f;
  TinyServer server({"HTTP/1.1 503 Not Now\r\nContent-Length: 0\r\n\r\n"});
  std::string id;
  {
    const auto hooks = f.open();
    id = hooks->add(server.url("/", "me:secret@"), "TriggeredJobFinished", true)->first.id;
    hooks->publish("TriggeredJobFinished", "{\"text\":\"\\u00fc \\\"q\\\"\"}");
    hooks->drain();
  }
  struct stat status {};
  REQUIRE(::stat(f.file().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto hooks = f.open();
  REQUIRE(hooks->list().size() == 1);
  const HookView hook = hooks->list()[0];
  CHECK(hook.id == id);
  CHECK(hook.url == server.url("/", "me:***@"));
  CHECK(read_text(f.file()).find("me:secret@") != std::string::npos);
  CHECK(hook.insecure_ssl);
  CHECK(hook.last_status == "503");
  CHECK(hook.last_reason == "Not Now");
  CHECK(hook.last_context == "{\"text\":\"\\u00fc \\\"q\\\"\"}");
  CHECK(server.requests().size() == 1);  // there are no retries
}

TEST_CASE("user and password of the URL are basic authentication, and stay out of the log") {
  Fixture f;
  TinyServer server({"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"});
  const auto hooks = f.open();
  REQUIRE(hooks->add(server.url("/", "me:secret@"), "E", false));
  hooks->publish("E", "{}");
  hooks->drain();
  CHECK(server.requests().at(0).find("Authorization: Basic bWU6c2VjcmV0\r\n") != std::string::npos);
  REQUIRE(f.log.warnings().size() == 1);
  CHECK(f.log.warnings()[0].find("secret") == std::string::npos);
}

TEST_CASE("a 410 answer removes the hook, for good") {
  Fixture f;
  TinyServer server({"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"});
  {
    const auto hooks = f.open();
    REQUIRE(hooks->add(server.url(), "E", false));
    hooks->publish("E", "{}");
    hooks->drain();
    CHECK(hooks->list().empty());
    hooks->publish("E", "{}");
    hooks->drain();
  }
  CHECK(f.open()->list().empty());
  CHECK(server.requests().size() == 1);
}

TEST_CASE("redirects are not followed") {
  Fixture f;
  TinyServer target;
  TinyServer server(
      {"HTTP/1.1 307 Over There\r\nLocation: " + target.url() + "\r\nContent-Length: 0\r\n\r\n"});
  const auto hooks = f.open();
  REQUIRE(hooks->add(server.url("/", "me:secret@"), "E", false));
  hooks->publish("E", "{}");
  hooks->drain();
  CHECK(hooks->list()[0].last_status == "307");
  CHECK(target.requests().empty());
}

TEST_CASE("a server that does not answer times out, and the next hook is posted to") {
  Fixture f;
  TinyServer silent({""}), server;
  const auto hooks = f.open(2s);
  REQUIRE(hooks->add(silent.url(), "E", false));
  REQUIRE(hooks->add(server.url(), "E", false));
  hooks->publish("E", "{}");
  hooks->drain();
  CHECK(hooks->list()[0].last_status == "error");
  CHECK(hooks->list()[0].last_reason.find("timed out") != std::string::npos);
  server.wait_for(1);  // it may have been posted and not read
  CHECK(server.requests().size() == 1);
}

TEST_CASE("a delivery to a closed port, an invalid response, and a response that is too long") {
  Fixture f;
  TinyServer strange({"SSH-2.0-x\r\n"});
  TinyServer endless(
      {"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + std::string(3'000'000, 'x')});
  std::string url;
  {
    TinyServer gone;  // after the others, which could get its port
    url = gone.url();
  }
  const auto hooks = f.open();
  REQUIRE(hooks->add(url, "E", false));
  REQUIRE(hooks->add(strange.url(), "E", false));
  REQUIRE(hooks->add(endless.url(), "E", false));
  hooks->publish("E", "{}");
  hooks->drain();
  CHECK(hooks->list()[0].last_status == "error");
  CHECK(hooks->list()[1].last_status == "error");
  CHECK(hooks->list()[2].last_status == "200");
  CHECK(f.log.warnings().size() == 2);
}

TEST_CASE("a url has one hook; adding it again returns it, or is refused for another event") {
  Fixture f;
  const auto hooks = f.open();
  const auto first = *hooks->add("http://127.0.0.1:9/a", "E", false);
  const auto again = *hooks->add("http://127.0.0.1:9/a", "E", false);
  CHECK(first.second);
  CHECK_FALSE(again.second);
  CHECK(again.first.id == first.first.id);
  CHECK(hooks->add("http://127.0.0.1:9/a", "F", false).error().code == ErrorCode::conflict);
  CHECK(hooks->list().size() == 1);
  CHECK(hooks->remove(first.first.id));
  CHECK(hooks->remove(first.first.id).error().code == ErrorCode::not_found);
  CHECK(hooks->add("http://127.0.0.1:9/a", "F", false));
}

TEST_CASE("urls other than http and https, and events without a name, are refused") {
  Fixture f;
  const auto hooks = f.open();
  for (const std::string& url :
       {std::string(), std::string("127.0.0.1/x"), std::string("file:///etc/passwd"),
        std::string("ftp://a/b"), std::string("gopher://a:70/x"), std::string("http://"),
        std::string("http://a b/"), std::string("http://a/\r\nX: y"), std::string("javascript:x"),
        "http://a/" + std::string(2048, 'x')}) {
    const auto added = hooks->add(url, "E", false);
    REQUIRE_MESSAGE(!added, url);
    CHECK(added.error().code == ErrorCode::invalid_argument);
    CHECK(added.error().field == "url");
  }
  CHECK(hooks->add("http://a/", "", false).error().field == "event");
  CHECK(hooks->add("http://a/", "a b", false).error().field == "event");
  CHECK(hooks->list().empty());
  CHECK(hooks->add("HTTPS://user:p%40ss@example.com/x?y=z", "E", false));
}

TEST_CASE("a hook to a private address is refused, with the setting that allows it") {
  Fixture f;
  TinyServer server;
  const auto closed = Hooks::open(f.file(), f.clock, f.random, f.log, {});
  REQUIRE(closed);
  for (const std::string& url :
       {server.url(), std::string("http://localhost/"), std::string("http://10.0.0.1/"),
        std::string("http://2130706433/"), std::string("http://169.254.169.254/latest"),
        std::string("http://[::1]/"), std::string("http://me:canary@127.0.0.1/"),
        std::string("http://example.com:8080/")}) {
    const auto refused = (*closed)->add(url, "E", false);
    REQUIRE_MESSAGE(!refused, url);
    CHECK(refused.error().field == "url");
    CHECK(refused.error().message.find("outgoing_allow") != std::string::npos);
    CHECK(refused.error().message.find("canary") == std::string::npos);
  }
  CHECK((*closed)->list().empty());
  CHECK(Hooks::open(f.file(), f.clock, f.random, f.log, {"127.0.0.1/8"}).error().field ==
        "outgoing_allow");
}

TEST_CASE("a hook that is no longer allowed gets no posts") {
  Fixture f;
  TinyServer server;
  REQUIRE(f.open()->add(server.url(), "E", false));
  const auto closed = Hooks::open(f.file(), f.clock, f.random, f.log, {});
  REQUIRE(closed);
  (*closed)->publish("E", "{}");
  (*closed)->drain();
  CHECK(server.requests().empty());
  CHECK((*closed)->list()[0].last_status == "error");
  CHECK((*closed)->list()[0].last_reason.find("outgoing_allow") != std::string::npos);
}

TEST_CASE("there are at most 100 hooks") {
  Fixture f;
  const auto hooks = f.open();
  for (std::size_t i = 0; i < Hooks::kMaxHooks; ++i) {
    REQUIRE(hooks->add(fmt::format("http://127.0.0.1:9/{}", i), "E", false));
  }
  CHECK(hooks->add("http://127.0.0.1:9/x", "E", false).error().code == ErrorCode::too_large);
}

TEST_CASE("events that cannot be delivered are dropped, the oldest first, with a warning") {
  Fixture f;
  auto server = std::make_unique<TinyServer>(std::deque<std::string>{""});
  const auto hooks = f.open();
  REQUIRE(hooks->add(server->url(), "E", false));
  hooks->publish("E", "{}");
  server->wait_for(1);  // it is being posted, so it does not wait
  for (std::size_t i = 0; i < Hooks::kMaxWaiting; ++i) hooks->publish("E", "{}");
  CHECK(f.log.warnings().empty());
  hooks->publish("E", "{}");
  CHECK(f.log.warnings().size() == 1);
  server.reset();  // ends the current post, for which hooks waits
}

TEST_CASE("a stop waits for the current post and drops the others") {
  Fixture f;
  TinyServer server({""});
  {
    const auto hooks = f.open(5s);  // after which the next event would be posted
    REQUIRE(hooks->add(server.url(), "E", false));
    for (int i = 0; i < 50; ++i) hooks->publish("E", fmt::format("{}", i));
    server.wait_for(1);
  }
  CHECK(server.requests().size() == 1);
  CHECK(f.open()->list()[0].last_context == "0");
}

TEST_CASE("a hooks.json that is damaged is an error and is not overwritten") {
  Fixture f;
  for (const char* text : {"", "{}", "[{\"id\":1}]", "[{\"id\":\"a\"}", "[] x"}) {
    f.directory.write("hooks.json", text);
    const auto hooks = Hooks::open(f.file(), f.clock, f.random, f.log, {"127.0.0.0/8"});
    REQUIRE_MESSAGE(!hooks, text);
    CHECK(hooks.error().code == ErrorCode::io_error);
    CHECK(read_text(f.file()) == text);
  }
}

TEST_CASE("a hook that cannot be saved does not exist") {
  Fixture f;
  auto hooks =
      Hooks::open(f.directory.path("none/hooks.json"), f.clock, f.random, f.log, {"127.0.0.0/8"});
  REQUIRE(hooks);
  CHECK((*hooks)->add("http://127.0.0.1:9/", "E", false).error().code == ErrorCode::io_error);
  CHECK((*hooks)->list().empty());
}

TEST_CASE("an untrusted certificate is refused unless the hook sets insecure_ssl") {
  Fixture f;
  // Prints its port, then answers each post. Ends at the end of its input.
  const std::string script = fmt::format(R"(cd '{}' && openssl req -x509 -newkey rsa:2048 -nodes \
-keyout key -out cert -days 2 -subj /CN=localhost 2>/dev/null && exec python3 -c '
import http.server, ssl, sys, threading, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert", "key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
')",
                                         f.directory.path());
  int input[2], output[2];
  REQUIRE(::pipe2(input, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(output, O_CLOEXEC) == 0);
  Fd keep_alive(input[1]), child_input(input[0]), told(output[0]), child_output(output[1]);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(child_input.get(), 0);
    ::dup2(child_output.get(), 1);
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  child_output.reset();
  char port[16] = {};
  REQUIRE(::read(told.get(), port, sizeof port - 1) > 0);
  const auto hooks = f.open();
  const std::string url = fmt::format("https://127.0.0.1:{}/", std::stoi(port));
  REQUIRE(hooks->add(url + "strict", "E", false));
  REQUIRE(hooks->add(url + "insecure", "E", true));
  hooks->publish("E", "{}");
  hooks->drain();
  CHECK(hooks->list()[0].last_status == "error");
  CHECK(hooks->list()[0].last_reason.find("certificate") != std::string::npos);
  CHECK(hooks->list()[1].last_status == "204");
  keep_alive.reset();
  int ended = 0;
  ::waitpid(child, &ended, 0);
}
