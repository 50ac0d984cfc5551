// References in JSON: {"$ref": "charge.id"} stands for a value that is known later.
//
// The first part of a reference names a value ("charge", "input", "item", "workflow"), the others
// go into it: members of objects, indices of arrays. "default" is taken where nothing is there:
// {"$ref": "charge.id", "default": null}.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring::workflow {

// The value that a name stands for, JSON; nullopt = there is none (yet).
using Names = std::function<std::optional<std::string>(std::string_view name)>;

enum class Missing { refuse, null };  // what a reference to nothing is, without a default

// `json` with its references replaced. Errors: invalid_argument (a reference to nothing, or one
// that is not one), too_large (over `limit` bytes).
Result<std::string> resolve(std::string_view json, const Names& names, Missing missing,
                            std::size_t limit);
// The value of one reference; nullopt = nothing is there.
std::optional<std::string> value_of(std::string_view reference, const Names& names);
// Calls `found` with the name that each reference begins with. Errors: invalid_argument with
// `field` (a "$ref" that is no reference).
Result<void> for_each_reference(std::string_view field, std::string_view json,
                                const std::function<void(std::string_view name)>& found);
std::string_view name_of(std::string_view reference);  // its first part

// Neither null, false, 0, "", [] nor {}.
bool is_something(std::string_view json);
bool same_value(std::string_view a, std::string_view b);  // numbers as doubles, without blanks

}  // namespace mainspring::workflow
