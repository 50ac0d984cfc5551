// Edits and clones of jobs, as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/job_edits.h"

namespace mainspring {

// {"args"?, "priority"?, "run_at"?, "tags"?, "version"?}; null is the same as not given. Validated.
// Errors: invalid_argument, too_large, with the field.
Result<EditJob> decode_edit_request(JobId id, std::string_view body);
void encode_edit_request(const EditJob& edit, std::string& out);

// {"args"?, "queue"?, "priority"?, "run_at"?}; "" is {}.
Result<CloneJob> decode_clone_request(JobId id, std::string_view body);
void encode_clone_request(const CloneJob& clone, std::string& out);
// Without the callback. Errors: those of validate().
Result<NewJob> clone_of(const Job& job, const CloneJob& clone);

std::vector<std::string_view> job_edit_request_fields(std::string_view schema);

}  // namespace mainspring
