// Child processes by fork, exec and pidfd.
#include "process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace blackbox {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  for (const auto& [name, value] : more) {
    std::erase_if(out, [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; });
    out.push_back(name + "=" + value);
  }
  return out;
}

// Between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* args, char* const* environment, int output,
                         const Command& command) {
  if (command.uid != 0 && geteuid() == 0 &&
      (setgroups(0, nullptr) != 0 || setresgid(command.uid, command.uid, command.uid) != 0 ||
       setresuid(command.uid, command.uid, command.uid) != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after setresuid, which clears it
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (command.max_memory_kb > 0) {
    const rlim_t bytes = static_cast<rlim_t>(command.max_memory_kb) * 1024;
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  execve(args[0], args, environment);
  _exit(127);
}

}  // namespace

std::int64_t now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000LL + t.tv_nsec / 1000;
}

void pause_for(std::int64_t microseconds) {
  const timespec t{microseconds / 1'000'000, (microseconds % 1'000'000) * 1000};
  ppoll(nullptr, 0, &t, nullptr);
}

Process::~Process() {
  kill();
}

bool Process::start(const Command& command) {
  kill();
  exit_code_ = -1;
  std::vector<std::string> environment = environment_with(command.environment);
  if (geteuid() == 0 && command.uid == 0) environment.push_back("MAINSPRING_JOBS_USER=root");
  const std::vector<char*> args = pointers(command.args);
  const std::vector<char*> env = pointers(environment);
  int output = -1;
  if (!command.output.empty()) {
    output = open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (output < 0) return false;
  }
  const pid_t pid = fork();
  if (pid == 0) become(args.data(), env.data(), output, command);
  if (output >= 0) close(output);
  if (pid < 0) return false;
  pid_ = pid;
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return true;
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

bool Process::wait(int milliseconds) {
  if (pid_ <= 0) return true;
  pollfd fd{pidfd_, POLLIN, 0};
  int status = 0;
  if (poll(&fd, 1, milliseconds) <= 0 && waitpid(pid_, &status, WNOHANG) != pid_) return false;
  if (fd.revents != 0 && waitpid(pid_, &status, 0) != pid_) return false;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  close(pidfd_);
  pid_ = 0;
  pidfd_ = -1;
  return true;
}

void Process::kill() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  wait(-1);
}

std::int64_t Process::rss_kb() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  while (status >> word) {
    if (word == "VmRSS:") {
      std::int64_t kb = 0;
      status >> kb;
      return kb;
    }
  }
  return 0;
}

Finished run(const std::vector<std::string>& args, int milliseconds,
             const std::vector<std::pair<std::string, std::string>>& environment) {
  char path[] = "/tmp/mainspring-run-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return {};
  close(fd);
  Process process;
  Finished finished;
  if (process.start({.args = args, .environment = environment, .output = path})) {
    if (!process.wait(milliseconds)) process.kill();
    finished.exit_code = process.exit_code();
    finished.output = read_file(path);
  }
  unlink(path);
  return finished;
}

std::uint16_t free_port() {
  static const std::uint16_t kFirst = 18000;
  static const std::uint16_t kCount = 12000;
  const auto start =
      static_cast<std::uint64_t>(now_us()) * 2654435761u + static_cast<unsigned>(getpid());
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirst + (start + i) % kCount);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      // Stays open. It does not listen, so a socket with this option can bind the port too.
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      return port;
    }
    close(fd);
  }
  return 0;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace blackbox
