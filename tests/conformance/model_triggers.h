// The triggers of the model store: rows in maps. All stores share the rules of their effects; the
// conformance cases test these rules.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/model_state.h"
#include "trigger/rules.h"

namespace mainspring {

template <class T>
concept TriggerOperation = std::is_same_v<T, PutTrigger> || std::is_same_v<T, RemoveTrigger> ||
    std::is_same_v<T, PauseTrigger> || std::is_same_v<T, FireTrigger>;

class ModelTriggers final : private TriggerRows {
 public:
  struct Make {
    std::function<OperationResult(const NewJob&)> enqueue;
    std::function<EnqueuedJob(const NewJob&)> add;  // without a check of the bounds
  };
  ModelTriggers(ModelDisk& disk, Make make) : disk_(disk), make_(std::move(make)) {}

  OperationResult run(const TriggerOperation auto& op, Now now) {
    return TriggerRules(*this, now.wall).run(op);
  }
  void note_end(const EndedJob& ended);
  // After the last operation of a batch.
  void fire_ends(Now now);
  bool take_wrote() { return std::exchange(wrote_, false); }
  Result<TriggerInfo> read(const std::string& name) const;
  Result<std::vector<TriggerInfo>> list(const std::string& after, int limit) const;
  Result<TriggerEventPage> events(const std::string& name, int limit, std::int64_t before) const;

 private:
  std::optional<TriggerRecord> load(const std::string& name) override;
  std::int64_t count() override { return std::ssize(disk_.triggers); }
  bool insert(const TriggerRecord& record) override;
  void save(const TriggerRecord& record) override;
  void save_state(const std::string& name, const std::string& state) override;
  void remove(const std::string& name) override;
  std::optional<TriggerEvent> find_event(const std::string& name,
                                         const std::string& event) override;
  void add_event(const std::string& name, const TriggerEvent& event) override;
  std::optional<WallTime> forget(const std::string& name, std::int64_t seq) override;
  OperationResult enqueue(const NewJob& job) override { return make_.enqueue(job); }
  std::vector<EnqueuedJob> make(const std::vector<NewJob>& jobs) override;
  Result<std::string> resolve(std::string_view json, const Names& names) override;

  ModelDisk& disk_;
  std::vector<TriggerWatch> watches() const;

  Make make_;
  std::vector<EndedJob> ends_;
  bool wrote_ = false;
};

}  // namespace mainspring
