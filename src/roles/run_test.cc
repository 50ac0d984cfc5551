// Whole programs of roles, each in its own process: signals, files, sockets, exit codes.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mainspring/role.h"
#include "roles/status_server.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr int kLimitMs = 60'000;  // far longer than any step of these tests

struct RunTempDir {
  RunTempDir() {
    std::string name = (fs::temp_directory_path() / "ms_run.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~RunTempDir() { fs::remove_all(path); }
  std::string path;
};

// Runs roles in a forked process. Tests can wait for lines of its output.
class Child {
 public:
  Child(std::function<std::vector<Role*>()> roles, std::vector<std::string> flags,
        RoleOptions options = {}) {
    int output[2];
    REQUIRE(pipe(output) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      dup2(output[1], 1);
      dup2(output[1], 2);
      close(output[0]);
      close(output[1]);
      flags.insert(flags.begin(), "program");
      std::vector<char*> argv;
      for (std::string& flag : flags) argv.push_back(flag.data());
      const std::vector<Role*> list = roles();
      const int code = run(std::span<Role* const>(list), static_cast<int>(argv.size()), argv.data(),
                           std::move(options));
      fflush(stdout);
      _exit(code);
    }
    close(output[1]);
    fd_ = output[0];
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) end();
    close(fd_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { REQUIRE(kill(pid_, number) == 0); }
  // Reads until a line contains `part` and returns that line; "" = there is none.
  std::string wait(const std::string& part) {
    for (std::string line; next(line);) {
      if (line.find(part) != std::string::npos) return line;
    }
    return "";
  }
  std::string rest() {
    std::string all;
    for (std::string line; next(line);) all += line + "\n";
    return all;
  }
  // Its exit code; -1 = a signal ended it (ours, if it ran into the timeout).
  int end() {
    rest();
    if (timed_out_) kill(pid_, SIGKILL);
    int status = 0;
    const pid_t pid = std::exchange(pid_, -1);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  bool next(std::string& line) {
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
      }
      pollfd ready{fd_, POLLIN, 0};
      timed_out_ = poll(&ready, 1, kLimitMs) == 0;
      if (timed_out_) return false;
      char bytes[4096];
      const ssize_t got = read(fd_, bytes, sizeof bytes);
      if (got <= 0) return false;
      buffer_.append(bytes, static_cast<std::size_t>(got));
    }
  }
  pid_t pid_ = -1;
  int fd_ = -1;
  bool timed_out_ = false;
  std::string buffer_;
};

void say(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = write(1, text.data(), text.size());
}

// Runs until it is stopped.
struct Calm : Role {
  std::string_view name() const override { return "calm"; }
  bool on_start(RoleContext& context) override {
    context.set_metric("depth", 3);
    say("config " + context.config("color", "none"));
    return true;
  }
  void run(std::stop_token stop) override { wait_for_stop(stop); }
  void on_stop() override { say("calm on_stop"); }
};

// Ignores the stop.
struct Deaf : Role {
  std::string_view name() const override { return "deaf"; }
  void run(std::stop_token stop) override {
    say("deaf runs");
    wait_for_stop(stop);
    say("deaf got the stop");
    wait_for_stop({});
  }
};

// Crashes when a byte arrives through a pipe.
struct Crashing : Role {
  explicit Crashing(int its_fd) : fd(its_fd) {}
  std::string_view name() const override { return "crashing"; }
  void run(std::stop_token stop) override {
    say("crashing runs");
    int end[2];
    if (pipe(end) != 0) return;
    const std::stop_callback told(
        stop, [&] { [[maybe_unused]] const ssize_t written = write(end[1], "x", 1); });
    pollfd fds[] = {{fd, POLLIN, 0}, {end[0], POLLIN, 0}};
    poll(fds, 2, -1);
    if (stop.stop_requested()) return;
    char byte = 0;
    if (read(fd, &byte, 1) == 1) throw std::runtime_error("crash");
  }
  int fd;
};

std::string ask(const std::string& url, const std::string& request) {
  const std::size_t colon = url.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  close(fd);
  return answer;
}

std::string get(const std::string& url, const std::string& path) {
  return ask(url, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

std::string after(const std::string& line, const std::string& part) {
  const std::size_t at = line.find(part);
  return at == std::string::npos ? "" : line.substr(at + part.size());
}

}  // namespace

TEST_CASE("a program reports ready and its health, and stops cleanly at the first signal") {
  RunTempDir dir;
  Calm calm;
  Child child([&] { return std::vector<Role*>{&calm}; },
              {"--engine", dir.path + "/jobs", "--listen", "127.0.0.1:0", "--set", "color=blue"});
  const std::string url = after(child.wait("INFO listens"), "url=");
  REQUIRE_FALSE(url.empty());
  CHECK(child.wait("config") == "config blue");
  REQUIRE_FALSE(child.wait("the role is ready").empty());
  const std::string health = get(url, "/healthz?x=1");
  CHECK(health.find("HTTP/1.1 200 OK\r\n") == 0);
  CHECK(health.find(R"({"status":"ok","roles":[{"name":"calm","state":"running","freeze":false,)"
                    R"("starts":1,"failures":0,"last_failure":""}]})") != std::string::npos);
  CHECK(get(url, "/metrics").find("mainspring_role_value{role=\"calm\",name=\"depth\"} 3\n") !=
        std::string::npos);
  CHECK(get(url, "/").find("HTTP/1.1 404 ") == 0);
  child.signal(SIGTERM);
  CHECK(child.wait("calm on_stop") == "calm on_stop");
  CHECK_FALSE(child.wait("stopped").empty());
  CHECK(child.end() == 0);
}

TEST_CASE("readyz returns 503 until on_start has returned true") {
  int gate[2];
  REQUIRE(pipe(gate) == 0);
  struct Slow : Calm {
    explicit Slow(int its_fd) : fd(its_fd) {}
    bool on_start(RoleContext&) override {
      say("waits");
      char byte = 0;
      return read(fd, &byte, 1) == 1;
    }
    int fd;
  } slow(gate[0]);
  Child child([&] { return std::vector<Role*>{&slow}; }, {"--listen", "localhost:0"});
  const std::string url = after(child.wait("INFO listens"), "url=");
  REQUIRE_FALSE(child.wait("waits").empty());
  const std::string not_yet = get(url, "/readyz");
  CHECK(not_yet.find("HTTP/1.1 503 ") == 0);
  CHECK(not_yet.ends_with("\r\n\r\n{\"status\":\"not_ready\"}"));
  REQUIRE(write(gate[1], "x", 1) == 1);
  REQUIRE_FALSE(child.wait("the role is ready").empty());
  CHECK(get(url, "/readyz").ends_with("\r\n\r\n{\"status\":\"ready\"}"));
  child.signal(SIGINT);
  CHECK(child.end() == 0);
  close(gate[0]);
  close(gate[1]);
}

TEST_CASE("a stop that takes longer than its limit ends the process with 70") {
  Deaf deaf;
  RoleOptions options;
  options.stop_limit = 200ms;
  Child child([&] { return std::vector<Role*>{&deaf}; }, {}, options);
  REQUIRE_FALSE(child.wait("deaf runs").empty());
  child.signal(SIGTERM);
  REQUIRE_FALSE(child.wait("deaf got the stop").empty());
  CHECK_FALSE(
      child.wait("not stopped within the limit; ending at once limit=200ms late=deaf").empty());
  CHECK(child.end() == 70);
}

TEST_CASE("a second signal ends the program at once") {
  Deaf deaf;
  Child child([&] { return std::vector<Role*>{&deaf}; }, {});
  REQUIRE_FALSE(child.wait("deaf runs").empty());
  child.signal(SIGTERM);
  REQUIRE_FALSE(child.wait("deaf got the stop").empty());
  child.signal(SIGTERM);
  CHECK(child.end() == 130);
}

TEST_CASE("a crash-looping role is put to sleep by the file and SIGHUP, and woken the same way") {
  RunTempDir dir;
  const std::string file = dir.path + "/config.toml";
  const auto write_file = [&](const std::string& text) { std::ofstream(file) << text; };
  write_file("");
  int gate[2];
  REQUIRE(pipe(gate) == 0);
  Crashing crashing(gate[0]);
  Calm calm;
  RoleOptions options;
  options.first_pause = 1ms;
  Child child([&] { return std::vector<Role*>{&crashing, &calm}; }, {"--config", file}, options);
  for (int i = 0; i < 2; ++i) {
    REQUIRE_FALSE(child.wait("crashing runs").empty());
    REQUIRE(write(gate[1], "x", 1) == 1);
  }
  REQUIRE_FALSE(child.wait("crashing runs").empty());
  write_file("freeze = [\"crashing\"]\n[role]\ncolor = \"red\"\n");
  child.signal(SIGHUP);
  REQUIRE_FALSE(child.wait("INFO the configuration was read again").empty());
  REQUIRE(write(gate[1], "x", 1) == 1);
  REQUIRE_FALSE(child.wait("is frozen: it sleeps until it is thawed role=crashing").empty());
  for (const char* bad : {"freeze = 1\n", "freeze = [\"calmer\"]\n"}) {
    write_file(bad);
    child.signal(SIGHUP);
    REQUIRE_FALSE(child.wait("ERROR the new configuration is invalid").empty());
  }
  write_file("");
  child.signal(SIGHUP);
  REQUIRE_FALSE(child.wait("INFO the role is thawed role=crashing").empty());
  REQUIRE_FALSE(child.wait("crashing runs").empty());
  child.signal(SIGTERM);
  CHECK_FALSE(child.wait("stopped").empty());
  CHECK(child.end() == 0);
  close(gate[0]);
  close(gate[1]);
}

TEST_CASE("programs that cannot start report why and end with the right code") {
  RunTempDir dir;
  Calm calm;
  const auto ends = [&](std::vector<std::string> flags, int code, const std::string& part,
                        RoleOptions options = {}) {
    Child child([&] { return std::vector<Role*>{&calm}; }, std::move(flags), std::move(options));
    const std::string output = child.rest();
    CHECK_MESSAGE(output.find(part) != std::string::npos, output);
    CHECK(child.end() == code);
  };
  ends({"--what"}, 64, "program: \"--what\": there is no such flag; --help lists them");
  ends({"--freeze", "calmer"}, 64, "freeze \"calmer\": there is no such role");
  ends({"--config", dir.path + "/none.toml"}, 64, "none.toml: cannot be read");
  ends({"--listen", "here"}, 64, "--listen \"here\": must be HOST:PORT");
  ends({"--listen", "127.0.0.1:70000"}, 64, "the port must be a number from 0 to 65535");
  ends({"--engine", "ftp://x"}, 64, "ftp is not supported");
  ends({"--help"}, 0, "Usage: mailing [flags]\nSends mail.\n",
       {.program = "mailing", .description = "Sends mail."});
  RoleOptions failing;
  failing.startup_tasks.push_back(
      {"migrate", []() -> Result<void> { return invalid("table", "no such table"); }});
  ends({}, 70, "startup task \"migrate\": no such table", failing);
}

TEST_CASE("the status server refuses unknown requests and closes connections with long ones") {
  auto server = roles::StatusServer::start("127.0.0.1:0", [](const std::string& path) {
    return roles::StatusAnswer{200, path, "text/plain"};
  });
  REQUIRE(server);
  const std::string url = (*server)->url();
  CHECK(get(url, "/a?b").ends_with("\r\n\r\n/a"));
  CHECK(
      ask(url, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").find("HTTP/1.1 405 ") ==
      0);
  const std::string head = ask(url, "HEAD /abc HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(head.find("Content-Length: 4\r\n") != std::string::npos);
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(ask(url, "\x16\x03\x01 TLS hello\r\n\r\n").empty());
  CHECK(ask(url, "GET / HTTP/1.1\r\nX: " + std::string(roles::StatusServer::kMaxHeaderBytes, 'x'))
            .empty());
  CHECK(roles::StatusServer::start(after(url, "http://"), {}).error().code == ErrorCode::conflict);
}
