// SqlTriggerRows: the interface that the trigger rules need, on SQLite.
#pragma once

#include "sql_store/more_statements.h"
#include "trigger/rules.h"

namespace mainspring::sql {

class SqlStore;

class SqlTriggerRows final : public TriggerRows {
 public:
  explicit SqlTriggerRows(SqlStore& store) : store_(store) {}
  std::optional<TriggerRecord> load(const std::string& name) override;
  std::int64_t count() override;
  bool insert(const TriggerRecord& record) override;
  void save(const TriggerRecord& record) override;
  void save_state(const std::string& name, const std::string& state) override;
  void remove(const std::string& name) override;
  std::optional<TriggerEvent> find_event(const std::string& name,
                                         const std::string& event) override;
  void add_event(const std::string& name, const TriggerEvent& event) override;
  std::optional<WallTime> forget(const std::string& name, std::int64_t seq) override;
  OperationResult enqueue(const NewJob& job) override;
  std::vector<EnqueuedJob> make(const std::vector<NewJob>& jobs) override;
  Result<std::string> resolve(std::string_view json, const Names& names) override;

 private:
  TriggerStatements& sql();
  SqlStore& store_;
};

}  // namespace mainspring::sql
