// References in JSON: {"$ref": "charge.id"} is replaced by a value that is known later.
//
// The first part of a reference names a value ("charge", "input", "item", "workflow"). The other
// parts select within it: members of objects, indices of arrays. "default" is used if the value
// does not exist: {"$ref": "charge.id", "default": null}.
//
// {"$ref": "pack", "by_reference": true} becomes {"$result": {"workflow": 7, "step": "pack"}}:
// where the results of a step can be read, however large they are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"
#include "mainspring/workflow.h"

namespace mainspring::workflow {

// Returns the named value as JSON; nullopt = it does not exist (yet).
using Names = std::function<std::optional<std::string>(std::string_view name)>;

enum class Missing { refuse, null };  // a missing value without a default

// `json` with its references replaced. Errors: invalid_argument (a missing value, or an invalid
// reference), too_large (over `limit` bytes).
Result<std::string> resolve(std::string_view json, const Names& names, Missing missing,
                            std::size_t limit);
// The value of one reference; nullopt = it does not exist.
std::optional<std::string> value_of(std::string_view reference, const Names& names);
// Calls `found` with the first part of each reference. Errors: invalid_argument with `field` (an
// invalid "$ref").
Result<void> for_each_reference(std::string_view field, std::string_view json,
                                const std::function<void(std::string_view name)>& found);
std::string_view name_of(std::string_view reference);  // its first part
// Whether `json`, or args, input or `each` of `step`, contains the whole value of `name`.
bool refers_to_all(std::string_view json, std::string_view name);
bool refers_to_all(const StepSpec& step, std::string_view name);

// False for null, false, 0, "", [] and {}.
bool is_something(std::string_view json);
bool same_value(std::string_view a, std::string_view b);  // numbers as doubles, ignoring blanks

}  // namespace mainspring::workflow
