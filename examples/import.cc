// A whole program: a long import that fails in the middle and resumes.
//
// Each page that is done is kept as a checkpoint. The first attempt ends with an exception at page
// 4; the second one finds the checkpoint and begins there. A page is written to the destination
// under the job's fencing token, so that a worker that was thought dead cannot write over a newer
// one.
//
//   import DIRECTORY    the job store goes there
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "mainspring/engine.h"

using namespace std::chrono_literals;

struct Import {
  static constexpr std::string_view kind = "import";
  std::string source;
  int pages = 0;
};
BOOST_DESCRIBE_STRUCT(Import, (), (source, pages))

struct Position {
  int pages_done = 0;
  std::int64_t rows = 0;
};
BOOST_DESCRIBE_STRUCT(Position, (), (pages_done, rows))

// An external system that stores rows and refuses late writers by their token.
class Destination {
 public:
  void write(int page, mainspring::Token token) {
    std::lock_guard lock(mutex_);
    if (token < newest_) throw std::runtime_error("an older attempt may not write");
    newest_ = token;
    ++writes_[page];
  }
  int most_writes_of_a_page() const {
    int most = 0;
    for (const auto& [page, writes] : writes_) most = std::max(most, writes);
    return most;
  }

 private:
  std::mutex mutex_;
  mainspring::Token newest_ = 0;
  std::map<int, int> writes_;
};

int main(int argc, char** argv) {
  auto engine = mainspring::Engine::open(argc > 1 ? argv[1] : "import-example");
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().message);
    return 1;
  }

  Destination destination;
  mainspring::HandlerOptions options;
  options.retry.first_delay = 10ms;
  engine->on<Import>(
      [&](const Import& job, mainspring::Context& context) -> mainspring::Result<Position> {
        Position at;
        if (!context.job().checkpoint.empty()) {
          MS_TRY_ASSIGN(at, mainspring::from_json<Position>(context.job().checkpoint));
        }
        fmt::print("attempt {} of {} begins at page {}\n", context.job().attempt, job.source,
                   at.pages_done + 1);
        while (at.pages_done < job.pages && !context.stop_requested()) {
          if (at.pages_done == 3 && context.job().attempt == 1) {
            throw std::runtime_error("the connection broke");
          }
          destination.write(++at.pages_done, context.job().token);
          at.rows += 100;
          context.progress(static_cast<double>(at.pages_done) / job.pages,
                           fmt::format("{} of {} pages", at.pages_done, job.pages));
          MS_TRY(context.checkpoint(mainspring::to_json(at)));
        }
        return at;
      },
      options);
  // Unique: while this import is not over, another one for the same source is the same job.
  mainspring::EnqueueOptions how;
  how.unique = mainspring::Unique{.key = "customers"};
  const auto first = engine->enqueue(Import{.source = "customers", .pages = 6}, how);
  const auto again = engine->enqueue(Import{.source = "customers", .pages = 6}, how);
  if (!first || !again) {
    fmt::print(stderr, "{}\n", (first ? again : first).error().message);
    return 1;
  }
  fmt::print("enqueued as job {}, {}; asked again: job {}{}\n", first->id, to_string(first->state),
             again->id, again->duplicate ? ", the same" : "");

  if (auto started = engine->start(); !started) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }

  const auto job = engine->wait(first->id, 1min);
  const auto result = job ? mainspring::Engine::result<Position>(*job) : job.error();
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    return 1;
  }
  fmt::print("{} after {} attempts: {} pages, {} rows\n", to_string(job->state), job->attempt,
             result->pages_done, result->rows);
  fmt::print("the first attempt failed: {}\n", job->errors.at(0).message);
  fmt::print("each page was written {} time\n", destination.most_writes_of_a_page());
}
