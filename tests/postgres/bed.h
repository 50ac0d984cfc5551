// Bed: one PostgreSQL store on a server that a test may break, with a proxy between them if wanted.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "postgres/cluster.h"
#include "postgres/places.h"
#include "postgres/tcp_proxy.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {

struct BedOptions {
  ClusterOptions cluster;
  bool proxy = false;  // the store's connections go through it
  Duration statement_timeout = std::chrono::milliseconds(700);
  Duration patience = std::chrono::milliseconds(300);
};

class Bed {
 public:
  explicit Bed(BedOptions options = {});

  std::unique_ptr<PgCluster> cluster;
  std::string database;
  std::unique_ptr<TcpProxy> proxy;  // nullptr = none
  PostgresOptions options;
  SystemClock clock;
  std::unique_ptr<SharedStore> store;

  // Of a call while the server cannot be reached: a round trip without an answer, a connection
  // without one and some patience, and as long again to learn what became of a commit.
  Duration longest_call() const;

  std::unique_ptr<SharedStore> open_another();
  Result<OperationResult> apply(Operation operation);
  // The same on a thread of its own.
  std::future<Result<OperationResult>> begin(Operation operation);
  // The answer, which must come in time, however long the server needs to come back.
  static Result<OperationResult> end(std::future<Result<OperationResult>>& call);

  Result<JobId> enqueue(int number);  // a job with the args [number]
  std::future<Result<OperationResult>> begin_enqueue(int number);
  ClaimedJob claim();  // must give one
  FinishStatus complete(const ClaimedJob& job);
  // The apply() must be refused as `unavailable`, in time.
  void must_be_unavailable(Operation operation);
  // Until it is not refused as `unavailable` any more: the store finds the server by itself.
  void must_come_back();
  // The args of all jobs there are, in order.
  std::vector<int> numbers() const;
  // What enqueue() was told. Unknown ones may be there or not, but at most once.
  struct Told {
    std::vector<int> done, unknown;
    int refused = 0;
    template <class T>
    void note(int number, const Result<T>& result) {
      if (result) {
        done.push_back(number);
      } else if (result.error().code == ErrorCode::timeout) {
        unknown.push_back(number);
      } else {
        ++refused;
      }
    }
  };
  // What was acknowledged is there once, what was refused is not.
  void must_match(const Told& told) const;
  void must_be_sound() const;
  // Waits for a backend that commits: by COMMIT, or behind the last statement of a batch that needs
  // none. `stage` is what the server says behind it, such as " waiting"; 0 = there was none.
  int await_commit(const std::string& stage) const;

 private:
  NullLog log_;
};

}  // namespace mainspring::pg_testing
