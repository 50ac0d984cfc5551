// The first signal requests a stop, the second one a fast stop.
#include "env/signals.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>

using namespace mainspring;

namespace {
void wait_for(std::stop_token token) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, token, [] { return false; });
}
}  // namespace

TEST_CASE("the first signal requests a stop, the second one a fast stop") {
  StopSignals signals;
  CHECK(signals.first() == 0);
  kill(getpid(), SIGTERM);
  signals.wait();
  CHECK(signals.first() == SIGTERM);
  const std::string why = signals.why();
  CHECK(why.starts_with("SIGTERM from process " + std::to_string(getpid()) + " ("));
  CHECK(why.ends_with(" of user " + std::to_string(getuid())));
  CHECK_FALSE(signals.hurry().stop_requested());
  kill(getpid(), SIGINT);
  wait_for(signals.hurry());
  CHECK(signals.first() == SIGTERM);
  CHECK(signals.why() == why);
}

TEST_CASE("after a stop from elsewhere, a signal requests a fast stop") {
  StopSignals signals;
  const std::stop_token hurry = signals.hurry();
  signals.request();
  signals.wait();
  CHECK(signals.first() == 0);
  kill(getpid(), SIGINT);
  wait_for(hurry);
}

TEST_CASE("the second signal ends a program that hangs before it checks for a stop") {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    StopSignals signals;
    (void)!write(ready[1], "r", 1);
    signals.wait();
    (void)!write(ready[1], "s", 1);
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  kill(child, SIGTERM);
  REQUIRE(read(ready[0], &byte, 1) == 1);
  kill(child, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("SIGHUP calls its callback and stops nothing") {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  StopSignals signals([&] {
    std::lock_guard lock(mutex);
    ++calls;
    changed.notify_all();
  });
  for (int i = 1; i <= 2; ++i) {
    kill(getpid(), SIGHUP);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return calls == i; });
  }
  CHECK(signals.first() == 0);
  CHECK_FALSE(signals.stop().stop_requested());
}

TEST_CASE("SIGHUP without a callback requests a stop; another one does not hurry it") {
  StopSignals signals;
  const std::stop_token hurry = signals.hurry();
  kill(getpid(), SIGHUP);
  signals.wait();
  CHECK(signals.first() == SIGHUP);
  CHECK(signals.why().starts_with("SIGHUP from process "));
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGTERM);  // read after the second SIGHUP: the lower number comes first
  wait_for(hurry);
  CHECK(signals.first() == SIGHUP);
}

TEST_CASE("SIGHUP stays ignored in a program that nohup started") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    StopSignals signals;
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGTERM);
    signals.wait();
    CHECK(signals.first() == SIGTERM);
  }
  (void)std::signal(SIGHUP, before);
}
