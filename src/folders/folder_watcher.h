// FolderWatcher: fires the triggers whose folders this node watches: those that name this node,
// and, while it is the leader, those that name no node.
//
//   triggers ──every kLook──▶ a thread for each folder: inotify, scans ─▶ FireTrigger
//
// Triggers are read only after a commit or a change of the leader, so an idle node reads nothing.
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
  static constexpr std::size_t kMaxFolders = 64;                 // of one node; others are ignored
  static constexpr Duration kLook = std::chrono::seconds(2);     // for triggers that changed
  static constexpr Duration kScan = std::chrono::minutes(5);     // in case an event was missed
  static constexpr Duration kCompare = std::chrono::seconds(2);  // checks for a replaced directory
  static constexpr Duration kRetry = std::chrono::seconds(5);    // after an error

  struct Options {
    std::string host;             // of this node
    std::function<bool()> leads;  // whether this node is the leader; called from any thread
    // The commits of the store since it was opened; empty = other processes change the store too,
    // so that the triggers are read every time.
    std::function<std::int64_t()> commits = {};
    Duration look = kLook;
  };
  // All references outlive it.
  FolderWatcher(Broker& broker, const Clock& clock, Log& log, Registry& registry, Options options);
  ~FolderWatcher();  // stops
  FolderWatcher(const FolderWatcher&) = delete;
  FolderWatcher& operator=(const FolderWatcher&) = delete;

  // May be called once. The broker must run.
  void start();
  // Blocks. May be called twice, and before start. Call before the broker stops.
  void stop();

 private:
  struct Watched;
  void run(std::stop_token stop);
  // Returns whether the triggers could be read.
  bool look();
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
