// The index of running jobs matches the snapshot of its reader, whatever the writer does later.
#include "sql_store/running_jobs.h"

#include <doctest/doctest.h>

#include <memory>

namespace mainspring::sql {
namespace {

class IndexBench {
 public:
  void claim(JobId id, Token token, std::int64_t queue = 1) {
    started.push_back({id, token, queue, 1, grant});
  }
  void end(JobId id, Token token) { ended.emplace_back(id, token); }
  void commit() {
    jobs.add(started);
    jobs.remove(ended);
    started.clear(), ended.clear();
  }
  RunningJobs jobs;
  std::shared_ptr<const RunningGrant> grant =
      std::make_shared<RunningGrant>(RunningGrant{"w", WallTime()});
  std::vector<RunningJob> started;
  std::vector<std::pair<JobId, Token>> ended;
};

Token lease_of(const RunningJobs::View& view, JobId id, Token row, Token next) {
  return view.find(id, row, next).token;
}

}  // namespace

TEST_CASE("a view knows the leases of its snapshot that ended since") {
  IndexBench b;
  b.claim(7, 1);
  b.commit();
  const RunningJobs::View before(b.jobs);
  b.end(7, 1);
  b.commit();
  const RunningJobs::View after(b.jobs);
  CHECK(lease_of(before, 7, 0, 2) == 1);
  CHECK(lease_of(after, 7, 1, 2) == 0);
}

TEST_CASE("a view skips leases that its snapshot does not have yet") {
  IndexBench b;
  b.claim(7, 1);
  b.commit();
  const RunningJobs::View view(b.jobs);
  b.end(7, 1);
  b.claim(7, 2);
  b.claim(8, 3);
  b.commit();
  CHECK(lease_of(view, 7, 0, 2) == 1);
  CHECK(lease_of(view, 8, 0, 2) == 0);
  CHECK(lease_of(view, 7, 1, 4) == 2);
}

TEST_CASE("a lease is in the index before the commit that starts it returns") {
  IndexBench b;
  b.claim(7, 1);
  const RunningJobs::View view(b.jobs);
  b.jobs.add(b.started);
  CHECK(lease_of(view, 7, 0, 2) == 1);
}

TEST_CASE("the index lists jobs newest first, by queue, and reads a limited number") {
  IndexBench b;
  for (JobId id = 1; id <= 100; ++id) b.claim(id, id, id % 10);
  b.commit();
  const RunningJobs::View view(b.jobs);
  std::vector<JobId> out;
  std::size_t most = 1000;
  JobId next = view.below(101, 0, 0, 3, most, out);
  CHECK(out == std::vector<JobId>{100, 99, 98});
  CHECK(next == 98);
  out.clear();
  CHECK(view.below(101, 5, 0, 100, most, out) == 0);
  CHECK(out.size() == 10);
  out.clear();
  most = 20;
  next = view.below(101, 5, 0, 100, most, out);
  CHECK(next == 81);
  CHECK(out == std::vector<JobId>{95, 85});
  b.end(95, 95);
  b.commit();
  out.clear(), most = 1000;
  CHECK(view.below(101, 5, 0, 2, most, out) > 0);
  CHECK(out == std::vector<JobId>{95, 85});  // the snapshot still has it
}

TEST_CASE("after a failed commit the index equals the store") {
  IndexBench b;
  b.claim(7, 1);
  b.commit();
  b.end(7, 1);
  b.claim(7, 2);
  b.jobs.add(b.started);  // and the commit fails
  b.jobs.replace({{7, 1, 1, 1, b.grant}});
  const RunningJobs::View view(b.jobs);
  CHECK(lease_of(view, 7, 0, 2) == 1);
}

}  // namespace mainspring::sql
