// Compresses answers with zlib.
#include "http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace mainspring::http {

bool accepts_gzip(const HeaderFields& headers) {
  std::string_view rest = header_value(headers, "accept-encoding");
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const bool refused = one.find("q=0") != std::string_view::npos &&
                         one.find_first_of("123456789", one.find("q=0")) == std::string_view::npos;
    if (one.find("gzip") != std::string_view::npos) return !refused;
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
