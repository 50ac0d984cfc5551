// What a claim walks along: streams of available jobs, the first of all of them first.
//
// A queue and kind is one stream, in the order of priority, run_at and id. With ageing each
// priority of it is a stream of its own: within a priority the line is in order of time, and so is
// what the priorities count as by now; the merge of at most ten streams is the order over all. A
// queue with fair keys is one stream, whose first job is that of the key whose turn it is.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {

// Where a job stands among those of other streams: its priority as it counts now.
ReadyKey place_now(const QueueState& queue, const ReadyKey& at, WallTime now);

// The first jobs of each key of a queue, by kind and priority; those without a key are one too.
class FairFronts {
 public:
  struct Front {
    LimitKey* key;  // nullptr = jobs without one
    std::int32_t kind;
    ReadyLine* line;  // of the queue
    ReadyKey at;
    ReadyKey place;      // of `at`, now
    std::int64_t start;  // of the key's turn
  };
  using Keyed = std::unordered_map<JobId, LimitKey*>;

  FairFronts(QueueState& queue, const Keyed& keyed, WallTime now)
      : queue_(queue), keyed_(keyed), now_(now) {}
  void add_free(std::int32_t kind, ReadyLine& line);
  void add_key(LimitKey& key, LimitKey::Which which, LimitKey::Line& line);

  QueueState& queue() { return queue_; }
  // Whose turn it is; nullptr = none is left. Valid until pass().
  Front* first();
  // Behind the job of `front`, which was taken, or could not be; the key has had its turn or not.
  void pass(Front& front);
  // None of the key of `front` any more.
  void drop_key(const Front& front);

 private:
  bool advance_free(Front& front, ReadyLine::iterator from) const;
  bool advance_key(Front& front) const;

  QueueState& queue_;
  const Keyed& keyed_;
  const WallTime now_;
  std::vector<Front> fronts_;
};

struct ClaimStream {
  QueueState* queue;
  std::int32_t kind;
  ReadyLine* line;
  ReadyLine::iterator at;
  int priority;        // of the line only this one; -1 = all
  FairFronts* fronts;  // of a queue with fair keys, instead of a line; else nullptr
  ReadyKey place;      // of its first job
};

struct ClaimWalk {
  const Claim& op;
  Grant& grant;
  std::vector<ClaimedJob>& jobs;
  std::vector<ClaimStream> heap{};  // its top is the stream of the first job
  std::vector<std::unique_ptr<FairFronts>> fair{};
  std::map<QueueState*, std::vector<std::string>> taken{};  // limit keys
  int slots = 0;                                            // that the jobs given take, of op.max
  std::size_t bytes = 0;                                    // of these jobs, up to kPageBytes
  std::set<const QueueState*> waiting{};  // for room for their first job: see costs.cc
  std::set<const LimitKey*> waiting_keys{};
};

}  // namespace mainspring::sqlite
