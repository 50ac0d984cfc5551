// TLS between processes that share a key: both sides prove it, and no certificate is involved.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "env/digest.h"
#include "mainspring/result.h"

namespace mainspring {

enum class KeySide { accepts, dials };
// TLS 1.3 with an external pre-shared key and an ephemeral key exchange (RFC 8446, 2.2). The
// handshake fails with a peer that does not have the key.
Result<std::shared_ptr<SSL_CTX>> make_key_context(const Digest& key, KeySide side);

}  // namespace mainspring
