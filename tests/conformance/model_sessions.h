// The sessions of the model store: their heads, holders and states.
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
  // `gained` collects the ready queues that may give a job now.
  ModelSessions(ModelDisk& disk, std::set<std::string>& gained) : disk_(disk), gained_(gained) {}

  void begin_batch(Now now) { now_ = now; }
  void start_over(Instant now);  // at open

  // -- jobs of sessions change
  // Places a live job in its session: it is the head, becomes the head, or waits.
  void place(Record& record);
  void ended(const Record& record) { ended_.push_back(record.job.id); }
  void settle();
  // By the session's head.
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
  // A claim of a session or an accept queue: the job that it starts, or nullptr, and the grant.
  static bool is_of_queue(const Claim& op);
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
  void end_hold(Entry entry);
  void pass_on(Entry entry);
  void offer(const SessionKey& session, const SessionRecord& s);
  void changed(Entry entry);
  void forget_if_empty(Entry entry);
  Record* head_of(const SessionRecord& s) const;
  bool is_over(const Record& record) const;  // its expiry
  bool fits(const Record& record) const;     // into the limits of its queue
  std::int64_t jobs_of(const SessionKey& session) const;
  SessionInfo shown(const SessionKey& session, const SessionRecord& s, Instant now) const;

  ModelDisk& disk_;
  std::set<std::string>& gained_;
  Now now_{};
  std::vector<JobId> ended_;  // by the operation under way
};

}  // namespace mainspring
