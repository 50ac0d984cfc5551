// TLS contexts of servers and clients.
//
// Sessions cannot be resumed, and there are no tickets: a stolen key does not decrypt earlier
// traffic, and a client's certificate is checked at each connection.
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cstring>

#include "base/mutant.h"
#include "tls/openssl_parts.h"
#include "tls/tls.h"

namespace mainspring {
namespace {

using tls::KeyPtr;
using tls::X509Ptr;

// For TLS 1.2; the defaults of 1.3 are kept.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr char kGroups[] = "X25519:P-256:P-384";
constexpr int kMaxChain = 8;
constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

Error problem_with(const std::string& file) {
  return invalid("", fmt::format("cannot use {}: {}", file, tls::take_problems()));
}

// HTTP/1.1 if the client offers it, else no protocol is selected.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kHttp11, sizeof kHttp11, offered, offered_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

Result<std::shared_ptr<SSL_CTX>> tls::make_context(const SSL_METHOD* method) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (context == nullptr) return problem_with("OpenSSL");
  SSL_CTX* const c = context.get();
  SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                             SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // Idle connections own no buffers; a write may be repeated from another address.
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_verify_depth(c, kMaxChain);
  SSL_CTX_set_security_level(c, 2);
  const bool good = SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1 &&
                    SSL_CTX_set_cipher_list(c, kCiphers) == 1 &&
                    SSL_CTX_set1_groups_list(c, kGroups) == 1;
  if (!good) return problem_with("OpenSSL");
  return context;
}

namespace {

// Errors name the file that is to blame.
Result<WallTime> use_pair(SSL_CTX* context, const std::string& certificate_file,
                          const std::string& key_file) {
  MS_TRY_ASSIGN(std::vector<X509Ptr> chain, tls::read_certificates(certificate_file));
  MS_TRY_ASSIGN(const KeyPtr key, tls::read_key(key_file));
  X509* const own = chain.front().get();
  if (X509_cmp_current_time(X509_get0_notAfter(own)) <= 0) {
    return invalid("", fmt::format("cannot use {}: it expired at {}", certificate_file,
                                   format_wall_time(tls::wall_time(X509_get0_notAfter(own)))));
  }
  if (X509_check_private_key(own, key.get()) != 1) {
    ERR_clear_error();
    return invalid("", fmt::format("cannot use {}: it is not the key of the certificate in {}",
                                   key_file, certificate_file));
  }
  if (SSL_CTX_use_certificate(context, own) != 1) return problem_with(certificate_file);
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return problem_with(certificate_file);
    }
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) return problem_with(key_file);
  return tls::wall_time(X509_get0_notAfter(own));
}

Result<void> trust(SSL_CTX* context, const std::string& ca_file) {
  MS_TRY_ASSIGN(const std::vector<X509Ptr> authorities, tls::read_certificates(ca_file));
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const X509Ptr& one : authorities) {
    if (X509_STORE_add_cert(store, one.get()) != 1) return problem_with(ca_file);
  }
  return {};
}

struct Made {
  std::shared_ptr<SSL_CTX> context;
  WallTime expires_at;
};

// For the log: OpenSSL's own error does not name the certificate.
int note_refusal(int good, X509_STORE_CTX* store) {
  if (good == 1) return good;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const text = static_cast<std::string*>(SSL_get_app_data(ssl));
  const X509* const own = X509_STORE_CTX_get0_cert(store);
  if (text == nullptr || own == nullptr) return good;
  *text = fmt::format("{}, valid until {}: {}", tls::name_text(X509_get_subject_name(own)),
                      format_wall_time(tls::wall_time(X509_get0_notAfter(own))),
                      X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
  return good;
}

Result<Made> make_server(const TlsServerOptions& options) {
  MS_TRY_ASSIGN(std::shared_ptr<SSL_CTX> context, tls::make_context(TLS_server_method()));
  MS_TRY_ASSIGN(const WallTime expires_at,
                use_pair(context.get(), options.certificate_file, options.key_file));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  if (!options.client_ca_file.empty()) {
    MS_TRY(trust(context.get(), options.client_ca_file));
    MS_TRY_ASSIGN(const std::vector<X509Ptr> asked, tls::read_certificates(options.client_ca_file));
    for (const X509Ptr& one : asked) SSL_CTX_add_client_CA(context.get(), one.get());
    const int always = options.client_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | always, note_refusal);
  }
  return Made{std::move(context), expires_at};
}

}  // namespace

Result<std::shared_ptr<SSL_CTX>> make_server_context(const TlsServerOptions& options) {
  MS_TRY_ASSIGN(Made made, make_server(options));
  return std::move(made.context);
}

namespace {

Result<Made> make_client(const TlsClientOptions& options) {
  MS_TRY_ASSIGN(std::shared_ptr<SSL_CTX> context, tls::make_context(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (options.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context.get()) != 1) {
      return problem_with("what the system trusts");
    }
  } else {
    MS_TRY(trust(context.get(), options.ca_file));
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return invalid("", "a certificate of the client and its key: both must be given, or none");
  }
  Made made{std::move(context), WallTime::never()};
  if (!options.certificate_file.empty()) {
    MS_TRY_ASSIGN(made.expires_at,
                  use_pair(made.context.get(), options.certificate_file, options.key_file));
  }
  return made;
}

}  // namespace

Result<std::shared_ptr<SSL_CTX>> make_client_context(const TlsClientOptions& options) {
  MS_TRY_ASSIGN(Made made, make_client(options));
  return std::move(made.context);
}

Result<std::unique_ptr<TlsClient>> TlsClient::open(TlsClientOptions options) {
  std::unique_ptr<TlsClient> client(new TlsClient(std::move(options)));
  MutexLock lock(client->mutex_);
  MS_TRY(client->read());
  return client;
}

std::vector<std::int64_t> TlsClient::look() const {
  std::vector<std::int64_t> out;
  for (const std::string* file :
       {&options_.ca_file, &options_.certificate_file, &options_.key_file}) {
    struct stat status {};
    if (file->empty() || ::stat(file->c_str(), &status) != 0) status = {};
    for (const std::int64_t part :
         {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
          static_cast<std::int64_t>(status.st_size), std::int64_t{status.st_ctim.tv_sec},
          std::int64_t{status.st_ctim.tv_nsec}}) {
      out.push_back(part);
    }
  }
  return out;
}

Result<void> TlsClient::read() {
  read_ = look();  // before the files: a change meanwhile is seen later
  auto made = make_client(options_);
  problem_ = made ? "" : made.error().message;
  if (!made) return std::move(made.error());
  context_ = std::move(made->context);
  expires_at_ = made->expires_at;
  return {};
}

std::shared_ptr<SSL_CTX> TlsClient::context() {
  MutexLock lock(mutex_);
  if (look() != read_ && !MS_MUTANT(client_certificate_read_once)) (void)read();
  return context_;
}

WallTime TlsClient::expires_at() const {
  MutexLock lock(mutex_);
  return expires_at_;
}

std::string TlsClient::problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

void note_refusal_in(SSL* ssl, std::string* text) {
  SSL_set_app_data(ssl, text);
}

bool expect_host(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (host.empty()) return false;
  if (tls::is_address(host)) return X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1;
  return X509_VERIFY_PARAM_set1_host(rules, host.data(), host.size()) == 1 &&
         SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

std::string tls_problem() {
  return tls::take_problems();
}

Result<std::unique_ptr<TlsServer>> TlsServer::open(TlsServerOptions options) {
  std::unique_ptr<TlsServer> server(new TlsServer(std::move(options)));
  MS_TRY(server->reload());
  return server;
}

std::shared_ptr<SSL_CTX> TlsServer::context() const {
  MutexLock lock(mutex_);
  return context_;
}

Result<void> TlsServer::reload() {
  auto made = make_server(options_);
  MutexLock lock(mutex_);
  reload_problem_ = made ? "" : made.error().message;
  if (!made) return made.error();
  context_ = std::move(made->context);
  expires_at_ = made->expires_at;
  return {};
}

std::string TlsServer::reload_problem() const {
  MutexLock lock(mutex_);
  return reload_problem_;
}

WallTime TlsServer::expires_at() const {
  MutexLock lock(mutex_);
  return expires_at_;
}

}  // namespace mainspring
