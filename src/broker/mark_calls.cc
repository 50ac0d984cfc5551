// The broker's calls about marks and saved views, and the marks of new worker versions.
#include <fmt/format.h>

#include "broker/broker.h"
#include "broker/sync_call.h"

namespace mainspring {

Result<Mark> Broker::add_mark(AddMark request) {
  MS_TRY(check_mark_text(request.text));
  return call<Mark>(std::move(request));
}

Instant Broker::next_version_mark() const {
  const bool waits = held_.empty() && !claims_stopped_ && !failed_;
  return waits ? version_marks_.next() : Instant::never();
}

void Broker::add_version_mark(Batch& batch, Now now) {
  if (next_version_mark() > now.instant) return;
  auto mark = version_marks_.take(now.instant);
  if (!mark) return;
  Pending pending{.operation = *mark, .answer = {}};
  pending.answer = [this, mark = std::move(*mark)](const OperationResult& result) {
    if (!std::holds_alternative<Error>(result)) return;
    MutexLock lock(mutex_);
    version_marks_.retry(mark, clock_.now().instant);
  };
  batch.add(std::move(pending));
}

Result<MarkPage> Broker::marks(const MarkFilter& filter) {
  MS_TRY(check_mark_filter(filter));
  return store_.marks(filter);
}

Result<void> Broker::remove_mark(std::int64_t id) {
  MS_TRY(call<Done>(RemoveMark{.id = id}));
  return {};
}

Result<SavedView> Broker::put_view(PutView request) {
  MS_TRY(validate(request.view));
  return call<SavedView>(std::move(request));
}

Result<std::vector<SavedView>> Broker::views() {
  return store_.views();
}

Result<void> Broker::remove_view(const std::string& name) {
  MS_TRY(call<Done>(RemoveView{.name = name}));
  return {};
}

}  // namespace mainspring
