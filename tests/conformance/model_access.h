// The tokens and the audit of the model store.
#pragma once

#include <span>
#include <utility>

#include "conformance/model_state.h"

namespace mainspring {

template <class T>
concept AccessOperation =
    std::is_same_v<T, CreateToken> || std::is_same_v<T, RevokeToken> || std::is_same_v<T, Audit>;

class ModelAccess {
 public:
  explicit ModelAccess(ModelDisk& disk) : disk_(disk) {}

  // Around every operation of a batch.
  void look_before(std::span<const Operation> batch, std::size_t at);
  void look_after(const Operation& operation, const OperationResult& result);

  OperationResult run(const CreateToken& op, Now now);
  OperationResult run(const RevokeToken& op, Now now);
  OperationResult run(const Audit& op, Now now);
  std::string image(const std::string& object) const;
  bool prune(int limit, Duration retention, Now now);
  bool take_wrote() { return std::exchange(wrote_, false); }

  std::int64_t tokens_version() const { return tokens_version_; }
  AuditPage page(const AuditFilter& filter, AuditOrder order, int limit, std::int64_t from) const;
  AuditState state() const;

 private:
  ModelDisk& disk_;
  bool wrote_ = false;
  std::int64_t tokens_version_ = 0;
  std::string before_;                    // the state before, of the object of the next Audit
  std::optional<OperationResult> about_;  // its answer
};

}  // namespace mainspring
