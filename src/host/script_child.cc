// A child of a pool: its pipe, its thread and its mail.
#include "host/script_child.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <system_error>

#include "base/assert.h"

namespace mainspring {

ScriptChild::~ScriptChild() {
  MS_ASSERT(!thread_.joinable(), "a child that was started has been waited for");
}

// Both ends stay open here: what nobody has read can be given to another child, and no write is
// answered by a signal.
Result<void> ScriptChild::start(Processes& processes, ProcessSpec spec,
                                std::function<void(const Result<ProcessEnd>&)> at_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::io_error, fmt::format("making a child's input: {}", strerror(errno))};
  }
  read_ = Fd(ends[0]);
  write_ = Fd(ends[1]);
  fcntl(write_.get(), F_SETFL, O_NONBLOCK);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) {
    return Error{ErrorCode::io_error, fmt::format("making an event: {}", strerror(errno))};
  }
  spec.input_fd = read_.get();
  spec.message_dropped = [this] {
    bool unasked = false;
    {
      MutexLock lock(shared_.mutex);
      if (busy) mail_.too_long = true;
      unasked = !busy;
    }
    speaks_up(unasked);
  };
  try {
    thread_ = std::thread([this, &processes, spec = std::move(spec), at_end = std::move(at_end)] {
      Result<ProcessEnd> end = processes.run(
          spec, [this](std::string_view line) { take_line(line); }, stop_.get_token());
      at_end(end);
      take_end(std::move(end));
    });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::io_error, fmt::format("starting a child's thread: {}", error.what())};
  }
  return {};
}

void ScriptChild::take_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  bool unasked = false;
  {
    MutexLock lock(shared_.mutex);
    while (busy && mail_.lines.size() >= kMaxInbox && !stop_.stop_requested()) {
      shared_.changed.wait(shared_.mutex);
    }
    unasked = !busy;
    if (busy && mail_.lines.size() < kMaxInbox) mail_.lines.emplace_back(line);
  }
  speaks_up(unasked);
}

// Without a job there is nothing to be said: whatever it means, it is out of step.
void ScriptChild::speaks_up(bool now) {
  if (now) {
    {
      MutexLock lock(shared_.mutex);
      spoke_up = retired = true;
    }
    stop_.request_stop();
  }
  shared_.changed.notify_all();
}

void ScriptChild::take_end(Result<ProcessEnd> end) {
  {
    MutexLock lock(shared_.mutex);
    mail_.end = std::move(end);
    ended = true;
  }
  wake();
  shared_.changed.notify_all();
}

void ScriptChild::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
}

bool ScriptChild::write_line(std::string_view line, const std::stop_token& token) {
  while (!line.empty()) {
    if (token.stop_requested()) return false;
    {
      MutexLock lock(shared_.mutex);
      if (ended) return false;
    }
    const ssize_t n = write(write_.get(), line.data(), line.size());
    if (n > 0) line.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno == EAGAIN) {
      pollfd fds[] = {{write_.get(), POLLOUT, 0}, {wake_.get(), POLLIN, 0}};
      poll(fds, 2, -1);
      std::uint64_t count = 0;
      if (fds[1].revents != 0) {
        [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof count);
      }
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

ScriptChild::Mail ScriptChild::wait(const std::stop_token& token) {
  Mail mail;
  {
    MutexLock lock(shared_.mutex);
    while (mail_.lines.empty() && !mail_.too_long && !mail_.end && !token.stop_requested()) {
      shared_.changed.wait(shared_.mutex);
    }
    mail.lines.swap(mail_.lines);
    mail.too_long = std::exchange(mail_.too_long, false);
    mail.end = mail_.end;
  }
  shared_.changed.notify_all();  // there is room again
  return mail;
}

bool ScriptChild::unread(std::size_t size) const {
  int waiting = 0;
  return ioctl(read_.get(), FIONREAD, &waiting) == 0 && static_cast<std::size_t>(waiting) >= size;
}

Result<ProcessEnd> ScriptChild::end_now() {
  stop_.request_stop();
  shared_.changed.notify_all();
  MutexLock lock(shared_.mutex);
  while (!ended) shared_.changed.wait(shared_.mutex);
  return *mail_.end;
}

void ScriptChild::close_input() {
  write_.reset();
}

}  // namespace mainspring
