// The routes of a test server, below /v1/test. Other servers do not have them. They are not in
// /openapi.json; see docs/reference/test_server.md.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

MoreRoutes test_routes();
bool is_test_route(const Route& route);

}  // namespace mainspring::http
