// The guarantees for roles: when they are started, restarted, frozen and stopped.
#include "roles/role_host.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "base/mutex.h"

using namespace mainspring;
using namespace mainspring::roles;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// Far longer than any step of these tests.
constexpr Duration kLimit = 60s;

struct TempDir {
  TempDir() {
    std::string name = (fs::temp_directory_path() / "ms_roles.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TempDir() { fs::remove_all(path); }
  std::string path;
};

// A clock that moves only when a test moves it, from any thread.
class TestClock final : public Clock {
 public:
  Now now() const override { return {Instant::from_us(us_.load()), WallTime::from_us(us_.load())}; }
  void advance(Duration d) { us_ += d.count(); }

 private:
  std::atomic<std::int64_t> us_{1'000'000'000};
};

// What happened, in order; tests wait for entries.
class Events {
 public:
  void add(const std::string& event) {
    MutexLock lock(mutex_);
    list_.push_back(event);
    changed_.notify_all();
  }
  // Waits until `event` has happened `times` times.
  bool wait(const std::string& event, std::ptrdiff_t times = 1) {
    const Instant end = SystemClock().now().instant + kLimit;
    MutexLock lock(mutex_);
    while (std::count(list_.begin(), list_.end(), event) < times) {
      const Instant now = SystemClock().now().instant;
      if (now >= end) return false;
      changed_.wait_for(mutex_, end - now);
    }
    return true;
  }
  std::ptrdiff_t count(const std::string& event) {
    MutexLock lock(mutex_);
    return std::count(list_.begin(), list_.end(), event);
  }
  std::vector<std::string> list() {
    MutexLock lock(mutex_);
    return list_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> list_ MS_GUARDED_BY(mutex_);
};

// Log lines as events: "warn the role ended; it is started again role=a why=run returned in=1s".
class EventLog final : public Log {
 public:
  explicit EventLog(Events& events) : events_(events) {}
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    static constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
    std::string text = fmt::format("{} {}", kLevels[static_cast<int>(level)], message);
    for (const auto& [name, value] : fields) text += fmt::format(" {}={}", name, value);
    events_.add(text);
  }

 private:
  Events& events_;
};

// A gate that a role waits at until the test opens it, once or for good.
class Turnstile {
 public:
  void pass() {
    MutexLock lock(mutex_);
    while (!open_ && tickets_ == 0) changed_.wait(mutex_);
    if (!open_) --tickets_;
  }
  void let_one() {
    MutexLock lock(mutex_);
    ++tickets_;
    changed_.notify_all();
  }
  void open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int tickets_ MS_GUARDED_BY(mutex_) = 0;
  bool open_ MS_GUARDED_BY(mutex_) = false;
};

// A role made of functions that records its calls.
struct TestRole final : Role {
  TestRole(std::string its_name, Events& its_events)
      : name_(std::move(its_name)), events(its_events) {}
  std::string_view name() const override { return name_; }
  bool on_start(RoleContext& its_context) override {
    context = &its_context;
    events.add(name_ + " on_start");
    return !starting || starting(its_context);
  }
  void run(std::stop_token stop) override {
    events.add(name_ + " run");
    if (running) {
      running(stop);
    } else {
      wait_for_stop(stop);
    }
    events.add(name_ + " run ends");
  }
  void on_stop() override {
    events.add(name_ + " on_stop");
    if (stopping) stopping();
  }
  std::string name_;
  Events& events;
  RoleContext* context = nullptr;
  std::function<bool(RoleContext&)> starting;
  std::function<void(const std::stop_token&)> running;
  std::function<void()> stopping;
};

void never_late(const std::vector<std::string>&) {
  FAIL_CHECK("the stop was in time");
}

// Everything that a RoleHost needs, in order of construction.
struct World {
  Events events;
  EventLog log{events};
  TestClock clock;
  Registry registry;
  std::unique_ptr<RoleHost> host;
  void make(std::vector<Role*> roles, RoleOptions options = {}, Engine* engine = nullptr) {
    host = std::make_unique<RoleHost>(std::move(roles), std::move(options), engine, clock, log,
                                      registry);
  }
  void advance(Duration d) {
    clock.advance(d);
    host->wake();
  }
  RoleView view(std::size_t i) { return host->view().at(i); }
};

struct Mail {
  static constexpr std::string_view kind = "mail";
  int number = 0;
};
BOOST_DESCRIBE_STRUCT(Mail, (), (number))

}  // namespace

TEST_CASE("no job is claimed and nothing is ready before on_start of each role returns true") {
  TempDir dir;
  World world;
  auto engine = Engine::open(dir.path + "/jobs");
  REQUIRE(engine);
  TestRole mailer("mailer", world.events), slow("slow", world.events);
  mailer.starting = [](RoleContext& context) {
    context.engine().on<Mail>([](const Mail&) {});
    return true;
  };
  Turnstile gate;
  int attempts = 0;
  slow.starting = [&](RoleContext&) {
    gate.pass();
    return ++attempts == 2;
  };
  world.make({&mailer, &slow}, {}, &*engine);
  CHECK_FALSE(world.host->ready());
  auto job = engine->enqueue(Mail{1});
  REQUIRE(job);
  REQUIRE(world.host->start());
  REQUIRE(world.events.wait("mailer run"));
  CHECK_FALSE(world.host->ready());
  CHECK(engine->stats().claims == 0);
  gate.let_one();  // answers false
  REQUIRE(
      world.events.wait("warn the role ended; it is started again role=slow why=on_start "
                        "returned false in=1s"));
  CHECK_FALSE(world.host->ready());
  CHECK(engine->stats().claims == 0);
  // A claim would have enough time.
  CHECK(engine->wait(job->id, 300ms)->state == JobState::available);
  CHECK(engine->stats().claims == 0);
  world.advance(1s);
  gate.let_one();
  REQUIRE(world.events.wait("info all roles are ready; handlers take jobs"));
  auto done = engine->wait(job->id, kLimit);
  REQUIRE(done);
  CHECK(done->state == JobState::completed);
  REQUIRE(world.events.wait("slow run"));
  CHECK(world.host->ready());
  CHECK(world.events.count("mailer on_start") == 1);
  world.host->stop(never_late);
  CHECK_FALSE(world.host->ready());
}

TEST_CASE("a role that throws or returns is restarted alone, and the others keep running") {
  World world;
  TestRole good("good", world.events), bad("bad", world.events);
  Turnstile tick, fail;
  good.running = [&](const std::stop_token& stop) {
    const std::stop_callback told(stop, [&] { tick.open(); });
    while (!stop.stop_requested()) {
      tick.pass();
      world.events.add("tick");
    }
  };
  int runs = 0;
  bad.running = [&](const std::stop_token& stop) {
    const std::stop_callback told(stop, [&] { fail.open(); });
    fail.pass();
    if (stop.stop_requested()) return;
    if (++runs == 2) return;
    if (runs == 3) throw 42;
    throw std::runtime_error("the line is dead");
  };
  world.make({&good, &bad});
  REQUIRE(world.host->start());
  const std::string again = "warn the role ended; it is started again role=bad why=";
  const std::vector<std::string> whys = {
      "run threw: the line is dead in=1s", "run returned in=2s",
      "run threw an exception that is not a std::exception in=4s",
      "run threw: the line is dead in=8s"};
  for (std::size_t i = 0; i < whys.size(); ++i) {
    const auto times = static_cast<std::ptrdiff_t>(i) + 1;
    REQUIRE(world.events.wait("bad run", times));
    fail.let_one();
    REQUIRE_MESSAGE(world.events.wait(again + whys[i]), whys[i]);
    CHECK(world.view(1).state == RoleState::pausing);
    CHECK_FALSE(world.host->ready());
    tick.let_one();
    REQUIRE(world.events.wait("tick", times));
    world.advance(Duration(1s) * (1 << i));
  }
  REQUIRE(world.events.wait("bad run", 5));
  CHECK(world.events.count("bad on_start") == 5);
  CHECK(world.events.count("good on_start") == 1);
  CHECK(world.events.count("good run ends") == 0);
  CHECK(world.view(0).failures == 0);
  CHECK(world.view(1).failures == 4);
  CHECK(world.view(1).last_failure == "run threw: the line is dead");
  world.host->stop(never_late);
  CHECK(world.view(1).failures == 4);
}

TEST_CASE("pauses grow to the maximum and reset after a healthy run") {
  World world;
  TestRole role("a", world.events);
  Turnstile end;
  role.running = [&](const std::stop_token& stop) {
    const std::stop_callback told(stop, [&] { end.open(); });
    end.pass();
  };
  RoleOptions options;
  options.first_pause = 10s;
  options.longest_pause = 25s;
  options.healthy = 5min;
  world.make({&role}, options);
  REQUIRE(world.host->start());
  std::ptrdiff_t runs = 0;
  const auto fail = [&](Duration after, const std::string& pause, std::ptrdiff_t times) {
    REQUIRE(world.events.wait("a run", ++runs));
    world.advance(after);
    end.let_one();
    REQUIRE(
        world.events.wait("warn the role ended; it is started again role=a why=run returned "
                          "in=" +
                              pause,
                          times));
    world.advance(25s);
  };
  fail(0s, "10s", 1);
  fail(0s, "20s", 1);
  fail(0s, "25s", 1);
  fail(4min, "25s", 2);
  fail(5min, "10s", 2);
  fail(0s, "20s", 2);
  world.host->stop(never_late);
}

TEST_CASE("a frozen role sleeps after its run until it is thawed") {
  World world;
  TestRole role("mailer", world.events), other("other", world.events);
  Turnstile end;
  role.running = [&](const std::stop_token& stop) {
    const std::stop_callback told(stop, [&] { end.open(); });
    end.pass();
    if (!stop.stop_requested()) throw std::runtime_error("crash");
  };
  world.make({&role, &other});
  REQUIRE(world.host->start());
  REQUIRE(world.events.wait("mailer run"));
  REQUIRE(world.events.wait("other run"));
  Settings freeze;
  freeze.file.freeze = {"mailer"};
  REQUIRE(world.host->configure(freeze));
  CHECK(world.view(0).state == RoleState::running);  // it is not interrupted
  end.let_one();
  REQUIRE(world.events.wait("warn the role is frozen: it sleeps until it is thawed role=mailer"));
  CHECK(world.view(0).state == RoleState::frozen);
  CHECK(world.host->ready());  // the host no longer waits for it
  world.advance(24h);
  CHECK(world.events.count("mailer on_start") == 1);
  Settings bad;
  bad.file.freeze = {"mialer"};
  CHECK(world.host->configure(bad).error().message == "freeze \"mialer\": there is no such role");
  CHECK(world.view(0).state == RoleState::frozen);
  REQUIRE(world.host->configure({}));
  REQUIRE(world.events.wait("mailer run", 2));
  CHECK(world.events.count("other on_start") == 1);

  // It need not wait for the end of a pause.
  end.let_one();
  REQUIRE(
      world.events.wait("warn the role ended; it is started again role=mailer why=run threw: "
                        "crash in=1s"));
  REQUIRE(world.host->configure(freeze));
  REQUIRE(
      world.events.wait("warn the role is frozen: it sleeps until it is thawed role=mailer", 2));
  world.host->stop(never_late);  // while it sleeps
  CHECK(world.view(0).state == RoleState::stopped);
  CHECK(world.events.count("mailer on_start") == 2);
}

TEST_CASE("a role that is frozen from the beginning delays no other role") {
  TempDir dir;
  World world;
  auto engine = Engine::open(dir.path + "/jobs");
  REQUIRE(engine);
  TestRole asleep("asleep", world.events), mailer("mailer", world.events);
  mailer.starting = [](RoleContext& context) {
    context.engine().on<Mail>([](const Mail&) {});
    return true;
  };
  asleep.starting = mailer.starting;
  world.make({&asleep, &mailer}, {}, &*engine);
  Settings freeze;
  freeze.freeze_flags = {"asleep"};
  REQUIRE(world.host->configure(freeze));
  REQUIRE(world.host->start());
  REQUIRE(world.events.wait("info all roles are ready; handlers take jobs"));
  REQUIRE(world.events.wait("mailer run"));
  CHECK(world.host->ready());
  CHECK(world.events.count("asleep on_start") == 0);
  REQUIRE(world.host->configure({}));
  REQUIRE(world.events.wait("asleep run"));
  CHECK(
      world.events.wait("warn the engine started before this role was ready: its handlers "
                        "run no jobs until the program restarts "
                        "role=asleep"));
  world.host->stop(never_late);
}

TEST_CASE("at a stop run returns first, then on_stop is called from the last role to the first") {
  World world;
  TestRole a("a", world.events), b("b", world.events), c("c", world.events);
  TestRole never("never", world.events);
  never.starting = [](RoleContext&) { return false; };
  world.make({&a, &b, &c, &never});
  REQUIRE(world.host->start());
  for (const char* name : {"a run", "b run", "c run", "never on_start"}) {
    REQUIRE(world.events.wait(name));
  }
  b.stopping = [] { throw std::runtime_error("broken"); };
  world.host->stop(never_late);
  world.host->stop(never_late);
  std::vector<std::string> list = world.events.list();
  list.erase(list.begin(), std::find(list.begin(), list.end(), "c on_stop"));
  CHECK(list == std::vector<std::string>{
                    "c on_stop", "b on_stop",
                    "error a role did not stop cleanly role=b why=on_stop threw: broken",
                    "a on_stop"});
  for (const char* name : {"a run ends", "b run ends", "c run ends"}) {
    CHECK(world.events.count(name) == 1);
  }
  for (const RoleView& view : world.host->view()) CHECK(view.state == RoleState::stopped);
}

TEST_CASE("a run that does not return prevents neither on_stop nor the end") {
  World world;
  TestRole deaf("deaf", world.events), good("good", world.events);
  Turnstile released;
  deaf.running = [&](const std::stop_token& stop) {
    const std::stop_callback told(stop, [&] { world.events.add("told"); });
    released.pass();
  };
  RoleOptions options;
  options.stop_limit = 100s;
  world.make({&deaf, &good}, options);
  REQUIRE(world.host->start());
  REQUIRE(world.events.wait("deaf run"));
  REQUIRE(world.events.wait("good run"));
  std::thread stopping([&] {
    world.host->stop([&](const std::vector<std::string>& late) {
      // The thread of the other role may still need a moment to end.
      world.events.add(fmt::format("late: {}", late.at(0)));
      released.open();
    });
    world.events.add("stopped");
  });
  REQUIRE(world.events.wait("told"));
  REQUIRE(world.events.wait("good run ends"));
  world.advance(79s);
  CHECK(world.events.count("good on_stop") == 0);
  world.advance(1s);
  CHECK(world.events.wait("deaf on_stop"));
  CHECK(world.events.count("good on_stop") == 1);
  CHECK(world.events.count("deaf run ends") == 0);
  world.advance(19s);
  CHECK(world.events.count("late: deaf") == 0);
  world.advance(1s);
  CHECK(world.events.wait("late: deaf"));
  CHECK(world.events.wait("stopped"));
  stopping.join();
}

TEST_CASE("startup tasks run in order before the first on_start, and a failed one ends the start") {
  World world;
  TestRole role("a", world.events);
  RoleOptions options;
  const auto task = [&](const std::string& name, Result<void> result = {}) {
    return StartupTask{name, [&world, name, result] {
                         world.events.add(name);
                         return result;
                       }};
  };
  options.startup_tasks = {task("one"), task("two")};
  SUBCASE("all succeed") {
    world.make({&role}, options);
    REQUIRE(world.host->start());
    REQUIRE(world.events.wait("a run"));
    const std::vector<std::string> list = world.events.list();
    CHECK(std::vector<std::string>(list.begin(), list.begin() + 3) ==
          std::vector<std::string>{"one", "two", "a on_start"});
    CHECK(world.host->start().error().code == ErrorCode::conflict);
  }
  SUBCASE("one fails") {
    options.startup_tasks.push_back(task("three", Error{ErrorCode::not_found, "no table"}));
    options.startup_tasks.push_back(task("four"));
    world.make({&role}, options);
    CHECK(world.host->start().error().message == "startup task \"three\": no table");
    CHECK(world.events.list() == std::vector<std::string>{"one", "two", "three"});
  }
  SUBCASE("one throws") {
    options.startup_tasks.push_back(
        {"three", []() -> Result<void> { throw std::runtime_error("oh"); }});
    world.make({&role}, options);
    CHECK(world.host->start().error().message == "startup task \"three\": it threw: oh");
  }
  world.host->stop(never_late);
}

TEST_CASE("a stop waits for foreground tasks and not for background ones") {
  World world;
  TestRole role("a", world.events);
  Turnstile foreground;
  auto background = std::make_shared<Turnstile>();
  auto ended = std::make_shared<Events>();
  RoleOptions options;
  options.startup_tasks = {{"back",
                            [background, ended]() -> Result<void> {
                              background->pass();
                              ended->add("back");
                              return Error{ErrorCode::internal, "this is not reported"};
                            },
                            StartupTask::Kind::background},
                           {"front",
                            [&]() -> Result<void> {
                              foreground.pass();
                              world.events.add("front ends");
                              return Error{ErrorCode::io_error, "disk"};
                            },
                            StartupTask::Kind::foreground}};
  world.make({&role}, options);
  REQUIRE(world.host->start());
  REQUIRE(world.events.wait("a run"));
  std::thread stopping([&] {
    world.host->stop(never_late);
    world.events.add("stopped");
  });
  REQUIRE(world.events.wait("a run ends"));
  CHECK(world.events.count("a on_stop") == 0);
  CHECK(world.events.count("stopped") == 0);
  foreground.open();
  REQUIRE(world.events.wait("stopped"));
  stopping.join();
  CHECK(world.events.count("error a startup task failed task=front why=disk") == 1);
  background->open();
  REQUIRE(ended->wait("back"));
}

TEST_CASE("roles get values and an engine if there is one, and export metrics") {
  World world;
  TestRole role("mail.er", world.events);
  role.starting = [](RoleContext& context) {
    if (context.config("use", "") == "engine") context.engine();
    context.set_metric("sent", 1);
    context.set_metric("sent", 2.5);
    context.log("warn", "hello");
    return true;
  };
  world.make({&role});
  Settings settings;
  settings.flags = {{"use", "engine"}};
  REQUIRE(world.host->configure(settings));
  REQUIRE(world.host->start());
  REQUIRE(
      world.events.wait("warn the role ended; it is started again role=mail.er why=on_start "
                        "threw: this program has no engine: start it with --engine DIR or "
                        "--engine http://HOST:PORT in=1s"));
  CHECK(world.registry.render().find("mainspring_role_failures{role=\"mail.er\"} 1\n") !=
        std::string::npos);
  REQUIRE(world.host->configure({}));
  world.advance(1s);
  REQUIRE(world.events.wait("mail.er run"));
  CHECK(world.events.count("warn hello role=mail.er") == 1);
  for (std::size_t i = 0; i < RoleHost::kMaxMetrics + 10; ++i) {
    role.context->set_metric(fmt::format("m{}", i), 1);
  }
  const std::string page = world.registry.render();
  CHECK(page.find("mainspring_role_value{role=\"mail.er\",name=\"sent\"} 2.5\n") !=
        std::string::npos);
  CHECK(page.find("mainspring_role_running{role=\"mail.er\"} 1\n") != std::string::npos);
  CHECK(page.find("mainspring_role_starts{role=\"mail.er\"} 2\n") != std::string::npos);
  CHECK(page.find("name=\"m209\"") == std::string::npos);
  CHECK(world.events.count("warn a role sets more metrics than are kept role=mail.er limit=200") ==
        1);
  CHECK(role.context->config("none", "fallback") == "fallback");
  CHECK_FALSE(role.context->stop_token().stop_requested());
  world.host->stop(never_late);
  CHECK(role.context->stop_token().stop_requested());
}

TEST_CASE("roles without a valid unique name, and invalid options, are refused") {
  const auto message = [](std::vector<std::string> names, RoleOptions options = {}) {
    World world;
    std::vector<std::unique_ptr<TestRole>> roles;
    std::vector<Role*> list;
    for (const std::string& name : names) {
      roles.push_back(std::make_unique<TestRole>(name, world.events));
      list.push_back(roles.back().get());
    }
    world.make(list, std::move(options));
    const auto started = world.host->start();
    REQUIRE_FALSE(started);
    CHECK(started.error().code == ErrorCode::invalid_argument);
    CHECK(world.events.list().empty());
    return started.error().message;
  };
  CHECK(message({}) == "roles: there must be at least one");
  CHECK(message({"a", "b", "a"}) == "role \"a\": two roles have this name");
  CHECK(message({"a b"}).find("role \"a b\": must be") == 0);
  RoleOptions options;
  options.longest_pause = 10ms;
  CHECK(message({"a"}, options) == "longest_pause 10ms: must be at least 1s");
  options = {};
  options.stop_limit = Duration(0);
  options.startup_tasks = {{"", {}}};
  CHECK(options.validate().size() == 3);
  CHECK(message({"a"}, options) == "stop_limit 0s: must be at least 1ms");
  CHECK(to_string(RoleState::pausing) == "pausing");
}

TEST_CASE("a wait for a stop ends at the stop or at its time limit") {
  std::stop_source source;
  CHECK_FALSE(wait_for_stop(source.get_token(), 1ms));
  CHECK_FALSE(wait_for_stop(source.get_token(), 0s));
  CHECK_FALSE(wait_for_stop({}, 1ms));
  std::thread stopping([&] { source.request_stop(); });
  CHECK(wait_for_stop(source.get_token()));
  CHECK(wait_for_stop(source.get_token(), kLimit));
  stopping.join();
}
