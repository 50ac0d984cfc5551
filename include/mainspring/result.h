// Result<T>: a value, or an Error whose code says what the caller can do.
//
// Functions that can fail return Result; exceptions never leave a module. MS_TRY returns early:
//
//   MS_TRY(check(queue));                          // Result<void>
//   MS_TRY_ASSIGN(auto job, store.get(id));        // Result<Job>
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace mainspring {

enum class ErrorCode {
#define MS_ERROR(code, http, exit, retry, summary) code,
#include "mainspring/errors.def"
#undef MS_ERROR
};

enum class Retryable { no, yes, unknown };

// One row of errors.def.
struct ErrorInfo {
  ErrorCode code;
  std::string_view name;
  int http_status;
  int exit_code;
  Retryable retryable;
  std::string_view summary;
};

const ErrorInfo& info(ErrorCode code);
// The row whose name is `name`, or nullptr.
const ErrorInfo* find_error(std::string_view name);

// `message` is for an administrator: what was tried, on what, and why it failed.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string field =
      {};  // the input field that broke a rule, for example jobs[3].priority; "" if none
  int retry_after_ms = 0;  // for overloaded and unavailable: when to try again; 0 = no advice

  std::string_view name() const { return info(code).name; }
};

Error invalid(std::string field, std::string message);

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

}  // namespace mainspring

#define MS_TRY_NAME2(a, b) a##b
#define MS_TRY_NAME(a, b) MS_TRY_NAME2(a, b)
#define MS_TRY(expression)                                                            \
  do {                                                                                \
    auto ms_try_result = (expression);                                                \
    if (!ms_try_result) return ::mainspring::Error(std::move(ms_try_result.error())); \
  } while (false)
#define MS_TRY_ASSIGN_IMPL(name, declaration, expression)         \
  auto name = (expression);                                       \
  if (!name) return ::mainspring::Error(std::move(name.error())); \
  declaration = std::move(*name)
#define MS_TRY_ASSIGN(declaration, expression) \
  MS_TRY_ASSIGN_IMPL(MS_TRY_NAME(ms_try_, __LINE__), declaration, expression)
