// Reads one line, writes one line.
#include "worker/step_channel.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/socket.h>

#include "api/json.h"
#include "env/processes.h"

namespace mainspring {

Result<StepChannel> StepChannel::open() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{.code = is_shortage(errno) ? ErrorCode::overloaded : ErrorCode::io_error,
                 .message = fmt::format("creating the channel of steps: {}", strerror(errno))};
  }
  return StepChannel(Fd(ends[0]), Fd(ends[1]));
}

Result<void> StepChannel::answer(StepSaid& said, Context& context) {
  std::string line;
  JsonWriter w(line);
  w.begin_object().key("ask").string(said.ask).key("name").string(said.name);
  Result<std::optional<std::string>> result = std::optional<std::string>();
  if (said.result) {
    const Result<void> kept = context.remember(said.name, *said.result);
    result = kept ? Result<std::optional<std::string>>(std::move(said.result)) : kept.error();
  } else {
    result = context.recall(said.name);
  }
  if (result) {
    w.key("found").boolean(result->has_value());
    if (*result) w.key("result").raw(**result);
  } else {
    w.key("error").string(result.error().message).key("code").string(result.error().name());
  }
  w.end_object();
  return write(std::move(line));
}

Result<void> StepChannel::refuse(const Error& error) {
  std::string line;
  JsonWriter w(line);
  w.begin_object().key("ask").string("").key("name").string("");
  w.key("error").string(error.message).key("code").string(error.name()).end_object();
  return write(std::move(line));
}

Result<void> StepChannel::write(std::string line) {
  line += '\n';
  // Do not block on a program that does not read; the socket buffer holds far more than one line.
  const ssize_t n = send(ours_.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(line.size())) return {};
  if (n >= 0) shutdown(ours_.get(), SHUT_WR);  // half a line: the program must not wait for more
  return Error{.code = ErrorCode::io_error,
               .message = "answers about steps are not read from descriptor 4"};
}

}  // namespace mainspring
