// JSON schemas for operators: settings, the store. Of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kOperateSchemas[] = {
    {"Settings", R"({"type":"object","required":["settings"],"properties":{
      "settings":{"type":"array","items":{"type":"object",
        "required":["name","value","default","source"],"properties":{
        "name":{"type":"string","example":"retention_dead"},
        "value":{"type":"string","example":"90d",
          "description":"Effective value. Passwords are shown as ***."},
        "default":{"type":"string","example":"30d"},
        "source":{"enum":["default","file","credential","environment","flag"]},
        "where":{"type":"string","example":"file /etc/mainspring/config.toml"},
        "secret":{"const":true,"description":"Part of the value is hidden."}}}}}})"},
    {"StoreState", R"({"type":"object",
      "required":["kind","bytes","jobs","live","finished","schema"],"properties":{
      "kind":{"enum":["sqlite","postgresql"]},
      "bytes":{"type":"integer","format":"int64",
        "description":"Size of tables and indexes, including free pages."},
      "wal_bytes":{"type":"integer","format":"int64","description":"Size of the write-ahead log."},
      "free_bytes":{"type":"integer","format":"int64",
        "description":"Free pages, reused before the file grows."},
      "disk_free_bytes":{"type":"integer","format":"int64"},
      "jobs":{"type":"integer","format":"int64","description":"Live and finished jobs."},
      "live":{"type":"integer","format":"int64"},
      "finished":{"type":"integer","format":"int64",
        "description":"Completed, cancelled and dead jobs."},
      "schema":{"type":"integer","format":"int64","description":"Version of the schema."},
      "path":{"type":"string","description":"Data directory. Only for callers with admin."}}})"},
};

}  // namespace mainspring::http
