// Outgoing requests: no forbidden address is reached, by any spelling or trick.
#include "outgoing/outgoing_client.h"

#include <cstdlib>
#include <map>

#include "base/secret.h"
#include "outgoing/tiny_server.h"

using namespace mainspring;
using namespace mainspring::testing;
using namespace std::chrono_literals;

namespace {

// Answers in order; the last one repeats.
class ScriptedResolver final : public Resolver {
 public:
  using Answer = std::vector<std::string>;
  explicit ScriptedResolver(std::vector<Answer> answers = {}) : answers_(std::move(answers)) {}
  Result<std::vector<IpAddress>> resolve(const std::string& host, Duration) override {
    MutexLock lock(mutex_);
    asked_.push_back(host);
    if (answers_.empty()) return Error{ErrorCode::unavailable, host + " has no address"};
    std::vector<IpAddress> out;
    for (const auto& text : answers_[std::min(asked_.size(), answers_.size()) - 1]) {
      out.push_back(parse_address(text).value());
    }
    return out;
  }
  std::vector<std::string> asked() {
    MutexLock lock(mutex_);
    return asked_;
  }

 private:
  Mutex mutex_;
  std::vector<Answer> answers_ MS_GUARDED_BY(mutex_);
  std::vector<std::string> asked_ MS_GUARDED_BY(mutex_);
};

struct Fixture {
  SystemClock clock;
  ScriptedResolver resolver;
  std::unique_ptr<OutgoingClient> open(OutgoingOptions options) {
    auto client = OutgoingClient::open(std::move(options), resolver, clock);
    REQUIRE_MESSAGE(client, client.error().message);
    return std::move(*client);
  }
};

OutgoingOptions allowing(std::vector<std::string> allow) {
  OutgoingOptions options;
  options.allow = std::move(allow);
  options.connect_limit = options.total_limit = 30s;
  return options;
}

std::string body_of(const std::string& request) {
  return request.substr(request.find("\r\n\r\n") + 4);
}

constexpr const char* kSpellings[] = {
    // loopback
    "http://127.0.0.1/",
    "http://127.0.0.1:80/",
    "https://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://0x7F.0x0.0x0.0x1/",
    "http://00000177.1/",
    "http://127.0.0.1./",
    "http://127.0.0.1../",
    "http://127.1./",
    "http://0x7f000001./",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://LocalHost./",
    "http://a.localhost/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://localhos%74/",
    "http://127.0.0.1%00.example.com/",
    "http://127.0.0.1%20/",
    "http://4294967297/",
    "http://127.0.0.1\\@example.com/",
    "http://example.com\\@127.0.0.1/",
    // digits and dots that other parsers convert to ASCII
    "http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/",
    "http://127\343\200\2020.0.1/",
    "http://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1/",
    "http://loc\xe2\x93\x90lhost/",
    // "this network", which reaches this machine
    "http://0/",
    "http://0.0.0.0/",
    "http://0x0/",
    "http://00/",
    "http://0.1/",
    "http://[::]/",
    // version 6, and version 4 in it
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000::0001]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::FFFF:7F00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[::127.0.0.1]/",
    "http://[::7f00:1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:FF9B::7f00:1]/",
    "http://[64:ff9b:1::10.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:A00:1::1]/",
    "http://[2001:0:53aa:64c:0:0:80ff:fffe]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[fec0::1]/",
    "http://[FC00::1]/",
    "http://[fd12:3456::1]/",
    "http://[ff02::1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[::1%2525lo]/",
    "http://[::1].example.com/",
    "http://[127.0.0.1]/",
    // private, shared, link-local, metadata
    "http://10.0.0.1/",
    "http://10.1/",
    "http://167772161/",
    "http://012.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://0xc0a80001/",
    "http://192.168.257/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://168.63.129.16/",
    "http://100.100.100.200/",
    // multicast, broadcast, documentation, benchmarking, reserved
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://255.255.255.255/",
    "http://4294967295/",
    "http://240.0.0.1/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://198.18.0.1/",
    "http://[2001:db8::1]/",
    // userinfo that looks like a host
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://a@example.com@127.0.0.1/",
    "http://example.com:80\\@127.0.0.1/",
};

}  // namespace

TEST_CASE("a forbidden address is refused in any spelling, before a connection") {
  Fixture f;
  const auto client = f.open({});
  int refused = 0;
  for (const char* url : kSpellings) {
    for (const bool userinfo : {false, true}) {
      OutgoingRequest request;
      request.url = url;
      request.take_userinfo = userinfo;
      const auto answer = client->get(request);
      REQUIRE_MESSAGE(!answer, url);
      CHECK_MESSAGE(answer.error().code == ErrorCode::invalid_argument, url);
      CHECK_MESSAGE(answer.error().field == "url", url);
      CHECK_FALSE(client->check(url, userinfo));
    }
    ++refused;
  }
  CHECK(refused >= 100);
  // None of them was resolved as a name.
  CHECK(f.resolver.asked().empty());
}

TEST_CASE("only http and https, only their default ports, no user unless requested") {
  Fixture f;
  const auto client = f.open({});
  for (const char* url : {"",
                          "ftp://example.com/",
                          "file:///etc/passwd",
                          "gopher://example.com:70/x",
                          "http://",
                          "http:///x",
                          "dict://example.com/",
                          "example.com",
                          "//example.com/",
                          "http:/example.com",
                          "http:example.com",
                          "javascript:x",
                          "http://example.com:22/",
                          "http://example.com:0/",
                          "http://example.com:65536/",
                          "http://example.com:8080/",
                          "https://example.com:6379/",
                          "http://user:secret@example.com/",
                          "http://@example.com/",
                          "http://a b/",
                          "http://a/\r\nX: y",
                          "http://exa_mple..com/",
                          "http://example.com:/:80",
                          "http://-/:x@y"}) {
    const auto bad = client->check(url, false);
    if (!bad) CHECK(bad.error().message.find("secret") == std::string::npos);
    if (std::string_view(url) == "http://example.com:/:80" ||
        std::string_view(url) == "http://-/:x@y")
      continue;  // these URLs have the default port and must be parsed correctly
    CHECK_MESSAGE(!bad, std::string(url));
  }
  CHECK(client->check("http://example.com/", false));
  CHECK(client->check("HTTPS://Example.COM:443/a?b=c#d", false));
  CHECK(client->check("http://8.8.8.8/", false));
  CHECK(client->check("http://[2606:4700::1111]/", false));
  CHECK(client->check("http://user:p%40ss@example.com/", true));
  const auto port = client->check("http://example.com:8080/", false);
  CHECK(port.error().message.find("outgoing_allow") != std::string::npos);
  const auto loopback = client->check("http://127.0.0.1:8080/", false);
  CHECK(loopback.error().message.find("outgoing_allow") != std::string::npos);
  CHECK(loopback.error().message.find("loopback") != std::string::npos);
}

TEST_CASE("a name is looked up once, and a later different answer changes nothing") {
  TinyServer good({}, "127.0.0.2");
  TinyServer victim({}, "127.0.0.1", good.port());
  Fixture f;
  ScriptedResolver flipping({{"127.0.0.2"}, {"127.0.0.1"}});
  const auto client = OutgoingClient::open(allowing({"127.0.0.2/32"}), flipping, f.clock).value();
  OutgoingRequest request;
  request.url = fmt::format("http://flips.example:{}/", good.port());
  const auto answer = client->get(request);
  REQUIRE_MESSAGE(answer, answer.error().message);
  CHECK(answer->status == 200);
  CHECK(good.requests().size() == 1);
  CHECK(good.requests()[0].find(fmt::format("Host: flips.example:{}\r\n", good.port())) !=
        std::string::npos);
  CHECK(flipping.asked() == std::vector<std::string>{"flips.example"});
  // The next request resolves again, and is refused.
  const auto second = client->get(request);
  REQUIRE(!second);
  CHECK(second.error().code == ErrorCode::invalid_argument);
  CHECK(second.error().message.find("loopback") != std::string::npos);
  CHECK(victim.requests().empty());
}

TEST_CASE("one forbidden address among the answers refuses the name") {
  Fixture f;
  for (const ScriptedResolver::Answer& answer : {ScriptedResolver::Answer{"127.0.0.2", "127.0.0.1"},
                                                 {"127.0.0.2", "::1"},
                                                 {"127.0.0.2", "169.254.169.254"},
                                                 {"::ffff:127.0.0.2"},
                                                 {"10.0.0.1"},
                                                 {"fe80::1"}}) {
    ScriptedResolver resolver({answer});
    const auto client = OutgoingClient::open(allowing({"127.0.0.2"}), resolver, f.clock).value();
    OutgoingRequest request;
    request.url = "http://mixed.example/";
    const auto refused = client->get(request);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
  }
  ScriptedResolver many({ScriptedResolver::Answer(Resolver::kMaxAddresses + 1, "8.8.8.8")});
  const auto client = OutgoingClient::open({}, many, f.clock).value();
  OutgoingRequest request;
  request.url = "http://many.example/";
  CHECK(client->get(request).error().code == ErrorCode::unavailable);
}

TEST_CASE("an allowed name may use any port, and is pinned to the checked address") {
  TinyServer server;
  Fixture f;
  ScriptedResolver resolver({{"127.0.0.1"}});
  const auto client = OutgoingClient::open(allowing({"hooks.corp"}), resolver, f.clock).value();
  OutgoingRequest request;
  request.url = fmt::format("http://HOOKS.corp.:{}/x", server.port());
  const auto answer = client->get(request);
  REQUIRE_MESSAGE(answer, answer.error().message);
  CHECK(answer->status == 200);
  CHECK(resolver.asked() == std::vector<std::string>{"hooks.corp"});
}

TEST_CASE("a post has its headers, its body and its user; the answer comes back") {
  TinyServer server({"HTTP/1.1 201 Made It\r\nContent-Length: 3\r\n\r\nabc"});
  Fixture f;
  const auto client = f.open(allowing({"127.0.0.0/8"}));
  OutgoingRequest request;
  request.url = server.url("/p?q=1#fragment", "me:s%40cret@");
  request.take_userinfo = true;
  request.headers = {{"Content-Type", "application/json"}, {"X-Empty", ""}};
  request.body = "{}";
  const auto answer = client->post(request);
  REQUIRE_MESSAGE(answer, answer.error().message);
  CHECK(answer->status == 201);
  CHECK(answer->reason == "Made It");
  CHECK(answer->body == "abc");
  CHECK(answer->cut.empty());
  const std::string sent = server.requests().at(0);
  CHECK(sent.find("POST /p?q=1 HTTP/1.1\r\n") == 0);
  CHECK(sent.find("Content-Type: application/json\r\n") != std::string::npos);
  CHECK(sent.find("Authorization: Basic bWU6c0BjcmV0\r\n") != std::string::npos);
  CHECK(sent.find("Expect") == std::string::npos);
  CHECK(body_of(sent) == "{}");
  for (const OutgoingHeader& bad : {OutgoingHeader{"X", "a\r\nY: b"},
                                    {"X: Y", "a"},
                                    {"", "a"},
                                    {"X", std::string(70000, 'x')}}) {
    request.headers = {bad};
    CHECK(client->post(request).error().field == "headers");
  }
}

TEST_CASE("redirects are returned, not followed") {
  TinyServer target;
  Fixture f;
  for (const char* code : {"301", "302", "303", "307", "308"}) {
    TinyServer server({fmt::format("HTTP/1.1 {} Away\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
                                   code, target.url())});
    OutgoingRequest request;
    request.url = server.url();
    const auto answer = f.open(allowing({"127.0.0.0/8"}))->post(request);
    REQUIRE(answer);
    CHECK(fmt::to_string(answer->status) == code);
  }
  CHECK(target.requests().empty());
}

TEST_CASE("a response that trickles, never starts or never ends is cut off") {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
  TinyServer drip({head + kDrip}), endless({head + kEndless}), silent({""});
  TinyServer slow_head({std::string("HTTP/1.1 200 OK\r\nX: \n") + kDrip});
  TinyServer long_head({std::string("HTTP/1.1 200 OK\r\n") + [] {
    std::string lines;
    for (int i = 0; i < 2000; ++i) lines += fmt::format("X-{}: {}\r\n", i, std::string(50, 'x'));
    return lines;
  }() + "\r\n"});
  Fixture f;
  OutgoingOptions options = allowing({"127.0.0.1"});
  const auto patient = f.open(options);
  options.total_limit = 150ms;
  const auto hasty = f.open(options);
  OutgoingRequest request;
  request.url = drip.url();
  auto answer = hasty->get(request);
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->cut.find("timed out") != std::string::npos);
  request.url = endless.url();
  answer = patient->get(request);
  REQUIRE(answer);
  CHECK(answer->body.size() == std::size_t{1} << 20);
  CHECK(answer->cut == "longer than 1048576 bytes");
  request.url = silent.url();
  CHECK(hasty->get(request).error().code == ErrorCode::timeout);
  request.url = slow_head.url();
  answer = hasty->get(request);
  if (answer) CHECK(!answer->cut.empty());
  request.url = long_head.url();
  answer = patient->get(request);
  if (answer) CHECK(!answer->cut.empty());
}

TEST_CASE("proxy variables of the environment are ignored") {
  TinyServer proxy, server;
  Fixture f;
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    ::setenv(name, proxy.url().c_str(), 1);
  }
  OutgoingRequest request;
  request.url = server.url();
  const auto answer = f.open(allowing({"127.0.0.0/8"}))->get(request);
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
  REQUIRE(answer);
  CHECK(server.requests().size() == 1);
  CHECK(proxy.requests().empty());
}

TEST_CASE("calls from several threads do not mix") {
  Fixture f;
  std::vector<std::unique_ptr<TinyServer>> servers;
  for (int i = 0; i < 8; ++i) {
    servers.push_back(std::make_unique<TinyServer>(
        std::deque<std::string>{fmt::format("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}", i)}));
  }
  const auto client = f.open(allowing({"127.0.0.0/8"}));
  std::vector<std::string> bodies(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      OutgoingRequest request;
      request.url = servers[i]->url();
      if (const auto answer = client->get(request)) bodies[i] = answer->body;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 8; ++i) CHECK(bodies[i] == fmt::to_string(i));
}

TEST_CASE("a URL that is shown has no password") {
  const std::pair<const char*, const char*> cases[] = {
      {"http://a/", "http://a/"},
      {"http://me:secret@a/x?y=b@c", "http://me:***@a/x?y=b@c"},
      {"http://secret@a/", "http://***@a/"},
      {"http://me:sec@ret@a/", "http://me:***@a/"},
      {"http://me:sec/ret@a/", "http://me:***@a/"},
      {"http://me:@a/", "http://me:***@a/"},
      {"me:secret@a", "me:***@a"},
      {"http://a/?me@b", "http://a/?me@b"},
      {"", ""},
  };
  for (const auto& row : cases) CHECK(without_password(row.first) == row.second);
}

TEST_CASE("the system's resolver finds localhost, and reports unknown names") {
  SystemResolver resolver;
  const auto found = resolver.resolve("localhost", 30s);
  REQUIRE_MESSAGE(found, found.error().message);
  for (const IpAddress& address : *found) CHECK(forbidden_range(address)->name == "loopback");
  CHECK_FALSE(resolver.resolve("name.invalid", 1ms));
}

TEST_CASE("the response includes the server's Retry-After") {
  Fixture f;
  TinyServer server({"HTTP/1.1 503 No\r\nRetry-After: 90\r\nContent-Length: 0\r\n\r\n",
                     "HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
                     "HTTP/1.1 503 No\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n"});
  const auto client = f.open(allowing({"127.0.0.1"}));
  OutgoingRequest request;
  request.url = server.url();
  CHECK(client->get(request)->retry_after == Duration(90s));
  CHECK_FALSE(client->get(request)->retry_after);
  CHECK(client->get(request)->retry_after <= Duration(24h * 365));
  CHECK_FALSE(client->get(request)->retry_after);
}

TEST_CASE("a request is aborted when its caller stops") {
  Fixture f;
  TinyServer server({""});
  const auto client = f.open(allowing({"127.0.0.1"}));
  std::stop_source stop;
  OutgoingRequest request;
  request.url = server.url();
  request.stop = stop.get_token();
  std::jthread stopper([&] {
    server.wait_for(1);
    stop.request_stop();
  });
  const auto answer = client->post(request);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message == "given up");
}
