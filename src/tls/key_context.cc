// Contexts whose peers prove a shared key.
#include "tls/key_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>

#include <cstring>

#include "tls/openssl_parts.h"

namespace mainspring {
namespace {

constexpr unsigned char kIdentity[] = {'m', 'a', 'i', 'n', 's', 'p', 'r', 'i', 'n', 'g'};
constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

// The context owns its key.
void forget_key(void*, void* key, CRYPTO_EX_DATA*, int, long, void*) {
  if (key == nullptr) return;
  OPENSSL_cleanse(key, sizeof(Digest));
  delete static_cast<Digest*>(key);
}

int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, forget_key);
  return index;
}

const Digest& key_of(SSL* ssl) {
  return *static_cast<const Digest*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index()));
}

// nullptr without memory: the handshake fails.
SSL_SESSION* session_of(SSL* ssl) {
  const Digest& key = key_of(ssl);
  SSL_SESSION* const session = SSL_SESSION_new();
  const bool good = session != nullptr &&
                    SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (good) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int use_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_size,
            SSL_SESSION** session) {
  *identity = kIdentity;
  *identity_size = sizeof kIdentity;
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const bool ours = size == sizeof kIdentity && std::memcmp(identity, kIdentity, size) == 0;
  *session = ours ? session_of(ssl) : nullptr;
  return 1;
}

}  // namespace

Result<std::shared_ptr<SSL_CTX>> make_key_context(const Digest& key, KeySide side) {
  const bool accepts = side == KeySide::accepts;
  MS_TRY_ASSIGN(std::shared_ptr<SSL_CTX> context,
                tls::make_context(accepts ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* const c = context.get();
  SSL_CTX_set_ex_data(c, key_index(), new Digest(key));
  // The server has no certificate, and the client trusts no authority: only the key completes a
  // handshake.
  if (accepts) {
    SSL_CTX_set_psk_find_session_callback(c, find_key);
  } else {
    SSL_CTX_set_psk_use_session_callback(c, use_key);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);
  }
  if (SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") != 1) {
    return invalid("", "cannot use TLS 1.3: " + tls::take_problems());
  }
  return context;
}

}  // namespace mainspring
