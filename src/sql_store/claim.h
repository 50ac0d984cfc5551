// The streams of available jobs that a claim merges; the first job over all streams comes next.
//
// A queue and kind is one stream, ordered by priority, run_at and id. With ageing, each priority of
// it is a stream of its own: within a priority the order by time is also the order by aged
// priority, so merging at most ten streams gives the order over all. A queue with fair keys is one
// stream; its first job is the first job of the key with the lowest virtual start time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sql_store/store_impl.h"

namespace mainspring::sql {

// The position of a job among jobs of other streams: with its priority as aged by now.
ReadyKey place_now(const QueueState& queue, const ReadyKey& at, WallTime now);

// The first job of each limit key of a queue, by kind and priority. Jobs without a key count as one
// key.
class FairFronts {
 public:
  struct Front {
    LimitKey* key;  // nullptr = jobs without one
    std::int32_t kind;
    ReadyQueue* line;  // the ready queue of the kind
    ReadyKey at;
    ReadyKey place;      // place of `at` with ageing
    std::int64_t start;  // virtual start time of the key
  };
  using Keyed = std::unordered_map<JobId, LimitKey*>;

  FairFronts(QueueState& queue, const Keyed& keyed, WallTime now)
      : queue_(queue), keyed_(keyed), now_(now) {}
  void add_free(std::int32_t kind, ReadyQueue& line);
  void add_key(LimitKey& key, LimitKey::Which which, LimitKey::Line& line);

  QueueState& queue() { return queue_; }
  // The job of the next key; nullptr = none is left. Valid until pass().
  Front* first();
  // Moves past the job of `front`, which was claimed or skipped; a claimed job advances its key.
  void pass(Front& front);
  // Skips all further jobs of the key of `front`.
  void drop_key(const Front& front);

 private:
  bool advance_free(Front& front, ReadyQueue::iterator from) const;
  bool advance_key(Front& front) const;

  QueueState& queue_;
  const Keyed& keyed_;
  const WallTime now_;
  std::vector<Front> fronts_;
};

struct ClaimStream {
  QueueState* queue;
  std::int32_t kind;
  ReadyQueue* line;
  ReadyQueue::iterator at;
  int priority;        // only this priority of the ready queue; -1 = all
  FairFronts* fronts;  // for a queue with fair keys, instead of a ready queue; else nullptr
  ReadyKey place;      // of its first job
};

struct ClaimWalk {
  const Claim& op;
  Grant& grant;
  std::vector<ClaimedJob>& jobs;
  std::vector<ClaimStream> heap{};  // its top is the stream with the first job
  std::vector<std::unique_ptr<FairFronts>> fair{};
  std::map<QueueState*, std::vector<std::string>> taken{};  // limit keys
  int slots = 0;                                            // used by the claimed jobs, of op.max
  std::size_t bytes = 0;                                    // of these jobs, up to kPageBytes
  std::set<const QueueState*> waiting{};  // whose first job waits for capacity: see costs.cc
  std::set<const LimitKey*> waiting_keys{};
};

}  // namespace mainspring::sql
