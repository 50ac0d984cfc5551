// The fuzz targets: each takes bytes that an outsider may choose and must come back, whatever they
// are. What it returns from is an error or a sound result; broken promises abort (FUZZ_CHECK).
//
// The same functions are run by libFuzzer (./test fuzz) and, over the corpus, by fuzz_corpus_test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mainspring::fuzz {

void http_front(std::string_view bytes);       // request heads, chunked bodies, routes, paths
void json_operations(std::string_view bytes);  // bodies of requests and answers
void config(std::string_view bytes);           // the configuration file, sizes, counts
void times(std::string_view bytes);            // durations and points in time
void schedules(std::string_view bytes);        // cron expressions, schedules and their ticks
void names(std::string_view bytes);            // names, scopes, tokens, cursors, addresses, URLs
void job_settings(std::string_view bytes);     // settings.job, host.json
void workflow_rows(std::string_view bytes);    // the rows of a workflow in the store
void zip(std::string_view bytes);              // deployments
void store_file(std::string_view bytes);       // a database with bytes of it exchanged
void backup(std::string_view bytes);           // the same, copied and looked into from outside

struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
};
inline constexpr Target kTargets[] = {
    {"http_front", &http_front},
    {"json_operations", &json_operations},
    {"config", &config},
    {"times", &times},
    {"schedules", &schedules},
    {"names", &names},
    {"job_settings", &job_settings},
    {"workflow_rows", &workflow_rows},
    {"zip", &zip},
    {"store_file", &store_file},
    {"backup", &backup},
};

// Takes bytes off the front of an input to choose among things.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : rest_(bytes) {}
  unsigned byte() {
    if (rest_.empty()) return 0;
    const auto out = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return out;
  }
  std::size_t below(std::size_t limit) {
    const std::size_t out = byte() << 16 | byte() << 8 | byte();
    return out % limit;
  }
  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace mainspring::fuzz

#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
