// Fuzz targets: short texts: configuration, times, names, URLs, settings of job folders.
#include "api/shapes.h"
#include "broker/event_marks.h"
#include "cli/options.h"
#include "host/settings.h"
#include "mainspring/job.h"
#include "model/access.h"
#include "model/token_text.h"
#include "outgoing/url_check.h"
#include "targets.h"

namespace mainspring::fuzz {

void config(std::string_view bytes) {
  (void)cli::parse_config("fuzz.toml", bytes);
  cli::Layers layers;
  layers.file = "fuzz.toml";
  layers.file_text = bytes;
  (void)cli::layer(layers);
  (void)cli::parse_count(bytes);
  if (const auto size = cli::parse_bytes(bytes)) {
    FUZZ_CHECK(*size >= 0);
    FUZZ_CHECK(cli::parse_bytes(cli::format_bytes(*size)) == *size);
  }
}

void times(std::string_view bytes) {
  if (const auto duration = parse_duration(bytes)) {
    const auto again = parse_duration(format_duration(*duration));
    FUZZ_CHECK(again && *again == *duration);
  }
  if (const auto time = parse_wall_time(bytes)) {
    const auto again = parse_wall_time(format_wall_time(*time));
    FUZZ_CHECK(again && again->ms() == time->ms());
  }
}

void names(std::string_view bytes) {
  (void)check_name("name", bytes);
  if (const auto scopes = Scopes::parse(bytes)) {
    const auto again = Scopes::parse(scopes->text());
    FUZZ_CHECK(again && *again == *scopes && again->covers(*scopes));
  }
  (void)digest_of_token(bytes);
  if (const auto id = decode_cursor(bytes); id && !bytes.empty()) {
    const auto again = decode_cursor(encode_cursor(*id));
    FUZZ_CHECK(again && *again == *id);
  }
  if (const auto marks = EventMarks::parse(bytes)) {
    FUZZ_CHECK(!marks->all().empty());
    FUZZ_CHECK(EventMarks::parse(marks->text()) == marks);
  }
  if (const auto address = parse_address(bytes)) {
    FUZZ_CHECK(parse_address(to_string(*address)) == address);
  }
  (void)AllowList::parse({std::string(bytes)});
  const auto url = read_url(std::string(bytes), Userinfo::taken);
  if (!url) {
    FUZZ_CHECK(!url.error().message.empty());
    return;
  }
  FUZZ_CHECK(url->port != 0);
  FUZZ_CHECK(url->address ? parse_address(url->host) == url->address : is_host_name(url->host));
}

void job_settings(std::string_view bytes) {
  const auto settings = parse_job_settings(bytes);
  FUZZ_CHECK(settings.value.max_attempts >= 1);
  FUZZ_CHECK(!settings.value.timeout || *settings.value.timeout > Duration(0));
  const auto host = parse_host_file(bytes);
  for (const auto& [name, pool] : host.value.pools) FUZZ_CHECK(pool.concurrency >= 1);
  const std::optional<std::string> object = settings_object(bytes);
  if (!object) return;
  const std::size_t begin = object->find_first_not_of(" \t\r\n");
  FUZZ_CHECK(begin != std::string::npos && (*object)[begin] == '{');
}

}  // namespace mainspring::fuzz
