// The broker's calls about marks and saved views, and the marks of new worker versions.
#include <fmt/format.h>

#include "broker/broker.h"
#include "broker/sync_call.h"

namespace mainspring {

Result<Mark> Broker::add_mark(AddMark request) {
  MS_TRY(check_mark_text(request.text));
  return call<Mark>(std::move(request));
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
