// Where a blocking call of the broker waits. Private to the module.
#pragma once

#include <optional>

#include "broker/broker.h"

namespace mainspring {

// The answer may come on the caller's thread (it steps itself) or on another.
struct Broker::SyncCall {
  Mutex mutex;
  CondVar answered;
  std::optional<OperationResult> result MS_GUARDED_BY(mutex);

  Answer answer() {
    return [this](OperationResult value) {
      MutexLock lock(mutex);
      result = std::move(value);
      answered.notify_one();
    };
  }
  bool done() {
    MutexLock lock(mutex);
    return result.has_value();
  }
  // Once it is done.
  template <class T>
  Result<T> take() {
    MutexLock lock(mutex);
    if (auto* error = std::get_if<Error>(&*result)) return std::move(*error);
    return std::move(std::get<T>(*result));
  }
};

template <class T>
Result<T> Broker::call(Operation operation) {
  SyncCall sync;
  submit({std::move(operation), sync.answer(), std::nullopt}, Wake::none);
  wait_for(sync);
  return sync.take<T>();
}

}  // namespace mainspring
