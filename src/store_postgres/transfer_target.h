// PostgresTarget: writes a copy of another store into a schema. transfer_target.cc writes jobs,
// transfer_catalog.cc the small data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "store_postgres/transfer_rows.h"

namespace mainspring::pg {

class PostgresTarget final : public TransferTarget {
 public:
  PostgresTarget(const PostgresOptions& options, const std::string& place);
  ~PostgresTarget() override;

  TransferPlace place() const override { return place_; }
  Result<std::optional<TransferPlace>> unfinished() override;
  Result<void> begin(const TransferPlace& source, WallTime now) override;
  Result<TransferBlocks> copied(TransferSection section) override;
  Result<void> note(TransferSection section, std::int64_t block, TransferBlock is) override;
  Result<std::vector<JobStamp>> stamps(std::int64_t block) override;
  Result<void> write_jobs(std::span<const TransferJob> jobs, Now now) override;
  Result<void> remove_jobs(std::span<const JobStamp> jobs) override;
  Result<void> write_finished(std::int64_t block, std::span<const TransferFinished> rows) override;
  Result<void> write_keys(std::int64_t block, std::span<const TransferKey> rows) override;
  Result<void> write_windows(std::int64_t block, std::span<const TransferWindow> rows) override;
  Result<void> write_history(std::int64_t block, std::span<const TransferHistory> rows) override;
  Result<void> write_workflows(std::int64_t block, std::span<const TransferWorkflow> rows) override;
  Result<void> append_workflow_rows(std::span<const TransferWorkflowRow> rows) override;
  Result<void> write_catalog(const TransferCatalog& is, const TransferCatalog* before,
                             Now now) override;
  Result<std::map<std::int64_t, std::int64_t>> ledgers() override;
  Result<void> append_ledger(std::span<const TransferTick> rows) override;
  Result<std::int64_t> last_audit() override;
  Result<void> append_audit(std::span<const AuditRecord> rows) override;
  Result<VerifyReport> verify() override;
  Result<void> seal(const TransferNumbers& numbers) override;
  Result<void> complete(WallTime now) override;

 private:
  struct Statements;
  // One transaction; it fails if a later copy has taken over.
  Result<void> writing(const std::function<void()>& write);
  void tell(const Statement& statement, const Params& params);  // without waiting
  void settle();
  void unnote(TransferSection section, std::int64_t block);
  void check_empty();  // throws Error
  std::int64_t id_of(const Statement& statement, std::map<std::string, std::int64_t>& known,
                     const std::string& name);  // creates a missing one
  void remove(const Ints& ids);
  void insert(std::span<const TransferJob> jobs, Now now);
  void insert_rows(std::span<const TransferJob> jobs, Now now);
  void insert_extras(std::span<const TransferJob> jobs);
  void insert_dead(std::span<const TransferJob> jobs);
  void insert_lines(std::span<const TransferJob> jobs, Now now);
  void write_queues(const TransferCatalog& is, const TransferCatalog* before, Now now);
  void write_key_meters(std::int64_t queue, const TransferQueue& q, WallTime now);
  void write_breakers(const TransferCatalog& is, const TransferCatalog* before);
  void write_marks(const TransferCatalog& is, const TransferCatalog* before);
  void write_schedules(const TransferCatalog& is, const TransferCatalog* before);
  void write_links(const TransferCatalog& is, const TransferCatalog* before);
  void write_access(const TransferCatalog& is, const TransferCatalog* before, Now now);
  void write_triggers(const TransferCatalog& is, const TransferCatalog* before);
  void write_sessions(const TransferCatalog& is, const TransferCatalog* before, Now now);
  void write_numbers(const TransferNumbers& numbers);
  std::int64_t lease_time(Now now) const;

  const PostgresOptions options_;
  const SystemClock clock_;
  Connection connection_;
  const std::string schema_;
  std::unique_ptr<const Statements> sql_;
  TransferPlace place_;
  std::string run_;  // identifies this process among copies into this store
  std::map<std::string, std::int64_t> queues_, kinds_;
  std::int64_t last_finished_ = 0;  // the greatest seq in finished
  bool analysed_ = false;
};

}  // namespace mainspring::pg
