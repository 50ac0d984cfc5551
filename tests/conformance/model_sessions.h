// The sessions of the model store: whose turn it is, who holds them, what they remember.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "conformance/model_state.h"

namespace mainspring {

template <class T>
concept OperationOnSession = std::is_same_v<T, RenewSession> || std::is_same_v<T, ReleaseSession> ||
    std::is_same_v<T, PutSessionState> || std::is_same_v<T, ResumeSession>;

class ModelSessions {
 public:
  // `gained` collects the lines, queues among them, that may give a job now.
  ModelSessions(ModelDisk& disk, std::set<std::string>& gained) : disk_(disk), gained_(gained) {}

  void begin_batch(Now now) { now_ = now; }
  void begin_anew(Instant now);  // at open

  // -- jobs of sessions change
  // One that has not ended is to be in its present state: it has the turn, or gets it, or waits.
  void place(Record& record);
  void ended(const Record& record) { ended_.push_back(record.job.id); }
  void settle();
  // By the job with the turn.
  void put_state(const Record& record, const std::string& state);
  std::string state_of(const Job& job) const;

  struct Answer {
    OperationResult result;
    bool wrote = false;
  };
  Answer run(const AcceptSession& op);
  Answer run(const RenewSession& op);
  Answer run(const ReleaseSession& op);
  Answer run(const PutSessionState& op);
  Answer run(const ResumeSession& op);
  // A claim of a line that is no queue: the job that it starts, or nullptr, and what it accepted.
  static bool is_of_line(const Claim& op);
  bool may_claim(const Claim& op);  // not without the token of the session's holder
  Result<Record*> pick(const Claim& op, std::optional<SessionGrant>& accepted);
  bool rescue();  // ends holdings that are over
  bool prune(Duration retention);
  void queue_opened(const std::string& queue);

  Instant next_end() const;
  WallTime next_prune(Duration retention) const;
  bool has_available(const std::string& line) const;
  Result<SessionInfo> read(const SessionKey& session, Instant now) const;
  SessionPage list(const std::string& queue, const SessionKey& after, int limit, Instant now) const;

 private:
  using Entry = std::map<SessionKey, SessionRecord>::iterator;
  Entry find_or_make(const SessionKey& session);
  SessionRecord* held(const SessionKey& session, Token token);
  SessionGrant hold(Entry entry, const std::string& worker, Duration lease);
  void let_go(Entry entry);
  void pass_on(Entry entry);
  void offer(const SessionKey& session, const SessionRecord& s);
  void changed(Entry entry);
  void forget_if_empty(Entry entry);
  Record* turn_of(const SessionRecord& s) const;
  bool is_over(const Record& record) const;  // its time to start
  bool fits(const Record& record) const;     // into the limits of its queue
  std::int64_t jobs_of(const SessionKey& session) const;
  SessionInfo shown(const SessionKey& session, const SessionRecord& s, Instant now) const;

  ModelDisk& disk_;
  std::set<std::string>& gained_;
  Now now_{};
  std::vector<JobId> ended_;  // by the operation under way
};

}  // namespace mainspring
