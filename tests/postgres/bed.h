// Bed: one PostgreSQL store on a server that a test may break, with an optional proxy between them.
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
  // Longer than a busy machine needs for any call.
  Duration statement_timeout = std::chrono::seconds(20);
  Duration connect_timeout = std::chrono::seconds(10);
  // Without a server, calls are refused after this.
  Duration patience = std::chrono::milliseconds(300);
};

// For tests that wait until a call is given up. Other calls may still take some seconds.
inline BedOptions gives_up_soon(bool proxy) {
  BedOptions options;
  options.proxy = proxy;
  options.statement_timeout = std::chrono::seconds(3);
  options.connect_timeout = std::chrono::seconds(2);
  options.patience = std::chrono::seconds(1);
  return options;
}

class Bed {
 public:
  explicit Bed(BedOptions options = {});

  std::unique_ptr<PgCluster> cluster;
  std::string database;
  std::unique_ptr<TcpProxy> proxy;  // nullptr = none
  PostgresOptions options;
  SystemClock clock;
  std::unique_ptr<SharedStore> store;

  // The longest call while the server cannot be reached: a round trip and a connection attempt
  // without an answer, some patience, and the same again to learn the outcome of a commit. Plus the
  // time that a busy machine may add.
  Duration longest_call() const;

  std::unique_ptr<SharedStore> open_another();
  Result<OperationResult> apply(Operation operation);
  // The same on another thread.
  std::future<Result<OperationResult>> begin(Operation operation);
  // The answer, which must come in time, even if the server needs longer to come back.
  static Result<OperationResult> end(std::future<Result<OperationResult>>& call);

  Result<JobId> enqueue(int number);  // a job with the args [number]
  std::future<Result<OperationResult>> begin_enqueue(int number);
  ClaimedJob claim();  // requires one
  FinishStatus complete(const ClaimedJob& job);
  // The apply() must be refused as `unavailable`, in time.
  void must_be_unavailable(Operation operation);
  // Waits until calls are no longer refused as `unavailable`: the store reconnects by itself.
  void must_come_back();
  // The args of all jobs, in order.
  std::vector<int> numbers() const;
  // The answers to enqueue(). Jobs with an unknown outcome may exist, but at most once.
  struct Seen {
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
  // Acknowledged jobs exist once, refused ones do not.
  void must_match(const Seen& told) const;
  void must_be_sound() const;
  // Waits for a backend that commits: by COMMIT, or after the last statement of a batch without
  // one. `stage` is the suffix of its process title, such as " waiting"; 0 = there was none.
  int await_commit(const std::string& stage) const;

 private:
  NullLog log_;
};

}  // namespace mainspring::pg_testing
