// Runs the handler actions of a conformance case and keeps notes of them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "values.h"

namespace conformance {

// The runs of one worker's handlers.
class Runs {
 public:
  struct Run {
    mainspring::JobId id = 0;
    std::string kind;
    int attempt = 0;
    std::vector<std::string> notes;  // JSON
    std::string ended;               // "returned", "raised", "" = it runs
    std::string stop_reason;
  };
  std::size_t begin(const mainspring::ClaimedJob& job);
  void note(std::size_t run, std::string json);
  void end(std::size_t run, bool returned, mainspring::StopReason reason);
  std::string json() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Run> runs_;
};

// Handlers wait at a gate until it is opened, or until all are closed at the end of a case.
class Gates {
 public:
  void open(const std::string& gate);
  void close();
  // False: the handler received a stop request before the gate opened.
  bool wait(const std::string& gate, const std::stop_token& stop);
  // Until a stop, or the end of the time or of the case.
  void wait_stop(mainspring::Duration limit, const std::stop_token& stop);

 private:
  template <class Done>
  void wait_until(const std::stop_token& stop, mainspring::Duration limit, Done done);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> open_;
  bool closed_ = false;
};

// `actions` is the array of a case, kept by the handler. The others outlive it.
mainspring::Handler handler_of(const Json& actions, Runs& runs, Gates& gates,
                               mainspring::Engine& engine);

}  // namespace conformance
