// FolderWatcher: fires the triggers whose folders this node watches: those that name it, and, while
// it leads, those that name nobody.
//
//   triggers ──every kLook──▶ a thread for each folder: inotify, scans ─▶ FireTrigger
//
// When the leader changes, two nodes may watch one folder for a moment: the ledger lets each
// version of a file fire once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/trigger.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;

class FolderWatcher {
 public:
  static constexpr std::size_t kMaxFolders = 64;              // of one node; others are passed over
  static constexpr Duration kLook = std::chrono::seconds(2);  // for triggers that changed
  static constexpr Duration kScan = std::chrono::minutes(5);  // in case that an event was missed
  static constexpr Duration kCompare = std::chrono::seconds(2);  // is it the same directory?
  static constexpr Duration kRetry = std::chrono::seconds(5);  // after what went wrong

  struct Options {
    std::string host;             // of this node
    std::function<bool()> leads;  // does this node? From any thread
  };
  // All references outlive it.
  FolderWatcher(Broker& broker, const Clock& clock, Log& log, Registry& registry, Options options);
  ~FolderWatcher();  // stops
  FolderWatcher(const FolderWatcher&) = delete;
  FolderWatcher& operator=(const FolderWatcher&) = delete;

  // Once. The broker must run.
  void start();
  // May be called twice, before start too; waits. Before the broker stops.
  void stop();

 private:
  struct Watched;
  void run(std::stop_token stop);
  void look();
  bool is_ours(const TriggerInfo& info) const;

  Broker& broker_;
  const Clock& clock_;
  Log& log_;
  const Options options_;
  Counter& fired_total_;
  Mutex mutex_;
  CondVar stopping_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // of the thread
  bool too_many_ = false;
  std::jthread runner_;
};

}  // namespace mainspring
