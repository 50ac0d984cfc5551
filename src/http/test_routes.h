// The routes of a test server, below /v1/test. No other server has them, and they are not in
// /openapi.json: docs/reference/test_server.md describes them.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

MoreRoutes test_routes();
bool is_test_route(const Route& route);

}  // namespace mainspring::http
