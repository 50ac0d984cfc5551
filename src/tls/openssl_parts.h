// Owners of OpenSSL's objects, its errors as text, and files in PEM; for this module only.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::tls {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* thing) const {
    free(thing);
  }
};
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;

inline constexpr std::size_t kMaxPemBytes = 1 << 20;

// A context with the rules of every connection: versions, ciphers, no tickets.
Result<std::shared_ptr<SSL_CTX>> make_context(const SSL_METHOD* method);

// The errors of this thread, which are forgotten, as "this; that".
std::string take_problems();

// Whether others than the owner may read a file.
enum class Readers { anybody, owner };
// Errors: invalid_argument, which names the file: not there, too large, readable by others.
Result<std::string> read_pem(const std::string& file, Readers readers);

// All certificates of a file, the first one first. Errors: invalid_argument.
Result<std::vector<X509Ptr>> read_certificates(const std::string& file);
// Errors: invalid_argument (also if it has a passphrase).
Result<KeyPtr> read_key(const std::string& file);

WallTime wall_time(const ASN1_TIME* time);
// "CN=worker,O=shop".
std::string name_text(const X509_NAME* name);
// Is it an address (of either family)?
bool is_address(const std::string& host);

}  // namespace mainspring::tls
