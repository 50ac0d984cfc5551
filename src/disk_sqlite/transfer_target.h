// SqliteTarget: writes a copy of another store into a directory. transfer_target.cc writes jobs,
// transfer_catalog.cc the small data.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "disk_sqlite/guard.h"
#include "disk_sqlite/transfer_rows.h"

namespace mainspring::sqlite {

class SqliteTarget final : public TransferTarget {
 public:
  SqliteTarget(std::string directory, std::unique_ptr<FileGuard> guard);
  ~SqliteTarget() override;

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
  std::string holds();  // description of its contents; "" = empty
  void load();
  void unnote(TransferSection section, std::int64_t block);
  std::int64_t id_of(const char* table, std::string_view name);  // creates a missing one
  void add_live(JobId id, int delta);
  void write_live();
  void write_job(const TransferJob& job);
  void write_running(const TransferJob& job);
  void write_extras(const TransferJob& job);
  void remove_job(JobId id);
  void write_queues(const TransferCatalog& is, const TransferCatalog* before);
  void write_breakers(const TransferCatalog& is, const TransferCatalog* before);
  void write_marks(const TransferCatalog& is, const TransferCatalog* before);
  void write_schedules(const TransferCatalog& is, const TransferCatalog* before);
  void write_sessions(const TransferCatalog& is, const TransferCatalog* before);
  void write_access(const TransferCatalog& is, const TransferCatalog* before);
  void write_triggers(const TransferCatalog& is, const TransferCatalog* before);
  void write_audit_marks(const AuditState& audit);
  void write_numbers(const TransferNumbers& numbers);

  const std::string directory_;
  std::unique_ptr<FileGuard> guard_;
  Database db_;
  TransferPlace place_;
  std::unique_ptr<Statements> sql_;
  std::map<std::string, std::int64_t, std::less<>> queues_, kinds_;
  std::unordered_map<JobId, Token> running_;             // a grant for each
  std::unordered_map<std::int64_t, std::int64_t> live_;  // jobs by block of kBlockIds
  std::set<std::int64_t> touched_live_;                  // blocks to be written
};

}  // namespace mainspring::sqlite
