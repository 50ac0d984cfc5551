// Compressed answers, for clients that accept them.
#pragma once

#include <string_view>

#include "http/parser.h"
#include "http/plans.h"

namespace mainspring::http {

// The client's Accept-Encoding names gzip and does not refuse it.
bool accepts_gzip(const HeaderFields& headers);

// Compresses the body and adds the headers that say so.
void compress(Reply& reply);

}  // namespace mainspring::http
