// Errors, assertions and mutants: the small bodies of the base headers.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/assert.h"
#include "base/mutant.h"
#include "mainspring/result.h"

namespace mainspring {
namespace {

constexpr ErrorInfo kErrors[] = {
#define MS_ERROR(code, http, exit, retry, summary) \
  {ErrorCode::code, #code, http, exit, Retryable::retry, summary},
#include "mainspring/errors.def"
#undef MS_ERROR
};

}  // namespace

const ErrorInfo& info(ErrorCode code) {
  return kErrors[static_cast<std::size_t>(code)];
}

const ErrorInfo* find_error(std::string_view name) {
  for (const ErrorInfo& row : kErrors) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Error invalid(std::string field, std::string message) {
  return Error{.code = ErrorCode::invalid_argument,
               .message = std::move(message),
               .field = std::move(field)};
}

void assertion_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(
      stderr,
      "mainspring: invariant violated at %s:%d: %s (%s). Stopping before wrong data is written.\n",
      file, line, expression, why);
  std::abort();
}

#if defined(MAINSPRING_MUTANTS)
namespace {
// The mutant of the environment, and the one that a test has set in addition.
const std::string& mutant_of_environment() {
  static const std::string name = [] {
    const char* value = std::getenv("MS_MUTANT");
    return std::string(value == nullptr ? "" : value);
  }();
  return name;
}
std::string& mutant_of_test() {
  static std::string name;
  return name;
}
}  // namespace
bool mutant_active(std::string_view name) {
  const std::string& outer = mutant_of_environment();
  const std::string& inner = mutant_of_test();
  return (!outer.empty() && outer == name) || (!inner.empty() && inner == name);
}
void set_mutant(std::string_view name) {
  mutant_of_test() = name;
}
#endif

}  // namespace mainspring
