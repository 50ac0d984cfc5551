// WorkerCommands: what operators asked workers to do, in memory.
//
// Best effort. A restart of the server forgets commands, and other nodes learn of them by a hint
// (ChangeHints::commands). A command belongs to a process: a claim that reports another host or pid
// under the same name ends it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "mainspring/workers.h"

namespace mainspring {

class WorkerCommands {
 public:
  static constexpr std::size_t kMaxCommands = 10'000;
  // A quiet worker that this node has not seen for longer is forgotten. One that stops is forgotten
  // with its other facts: its process is about to end.
  static constexpr Duration kQuietMemory = std::chrono::hours(24);

  bool empty() const { return commands_.empty(); }
  WorkerCommand of(const std::string& worker) const {
    if (commands_.empty()) return WorkerCommand::none;
    const auto found = commands_.find(worker);
    return found == commands_.end() ? WorkerCommand::none : found->second.command;
  }
  // Replaces the worker's command. False: there are kMaxCommands.
  bool set(const std::string& worker, WorkerCommand command,
           std::shared_ptr<const WorkerFacts> facts, Instant now);
  // A request of the worker arrived; `facts` are those of a claim, or null.
  void seen(const std::string& worker, const std::shared_ptr<const WorkerFacts>& facts,
            Instant now);
  // True for the second and later claims after a command: the worker had its chance to obey, so its
  // claims wait without jobs instead of being repeated in a loop.
  bool was_answered(const std::string& worker);
  void forget(Instant now, Duration worker_memory);

 private:
  struct Entry {
    WorkerCommand command = WorkerCommand::none;
    std::shared_ptr<const WorkerFacts> facts;  // of the process that it is for; null: not known
    Instant seen;
    bool answered = false;  // a claim was
  };
  std::unordered_map<std::string, Entry> commands_;
};

}  // namespace mainspring
