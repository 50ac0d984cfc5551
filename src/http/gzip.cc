// Compresses answers with zlib.
#include "http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace mainspring::http {

namespace {

// Removes the part before the separator, without spaces around it.
std::string_view take_part(std::string_view& rest, char separator) {
  constexpr std::string_view kSpaces = " \t";
  std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  part.remove_prefix(std::min(part.size(), part.find_first_not_of(kSpaces)));
  return part.substr(0, part.find_last_not_of(kSpaces) + 1);
}

// Zero, as 0 or 0.000, or not a number.
bool is_refused(std::string_view parameters) {
  while (!parameters.empty()) {
    std::string_view value = take_part(parameters, ';');
    if (!iequals(take_part(value, '='), "q")) continue;
    return value.find_first_not_of("0123456789.") != std::string_view::npos ||
           value.find_first_of("123456789") == std::string_view::npos;
  }
  return false;
}

}  // namespace

// Source: RFC 9110, 12.5.3. gzip is not sent for "*" alone.
bool accepts_gzip(const HeaderFields& headers) {
  std::string_view rest = header_value(headers, "accept-encoding");
  while (!rest.empty()) {
    std::string_view parameters = take_part(rest, ',');
    const std::string_view coding = take_part(parameters, ';');
    if (iequals(coding, "gzip") || iequals(coding, "x-gzip")) return !is_refused(parameters);
  }
  return false;
}

void compress(Reply& reply) {
  constexpr int kGzip = 16;  // a gzip header instead of zlib's
  z_stream stream{};
  const int begun = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip,
                                 MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY);
  MS_ASSERT(begun == Z_OK, "fails only without memory");
  std::string packed(deflateBound(&stream, reply.body.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(reply.body.data());
  stream.avail_in = static_cast<uInt>(reply.body.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int ended = deflate(&stream, Z_FINISH);
  MS_ASSERT(ended == Z_STREAM_END, "the output has room for the bound");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  reply.body = std::move(packed);
  add_header(reply, "Content-Encoding", "gzip");
}

}  // namespace mainspring::http
