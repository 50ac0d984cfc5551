// TLS: contexts for servers and clients, and certificates of a private authority, with OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

struct TlsServerOptions {
  std::string certificate_file;  // PEM: the server's, then what leads to its authority
  std::string key_file;          // PEM; 0600 or stricter, else refused
  std::string client_ca_file;    // "" = clients need no certificate
  bool client_optional = false;  // one that is given must still be good
};
// TLS 1.2 and later, forward secrecy, no compression, no renegotiation; the server chooses.
// Errors: invalid_argument (names the file, and what is wrong: not there, key does not fit,
// expired, readable by others).
Result<std::shared_ptr<SSL_CTX>> make_server_context(const TlsServerOptions& options);

struct TlsClientOptions {
  std::string ca_file;           // "" = what the system trusts
  std::string certificate_file;  // "" = none
  std::string key_file;
};
// Verifies the chain; the code that connects sets the name that the certificate must have
// (expect_host()).
Result<std::shared_ptr<SSL_CTX>> make_client_context(const TlsClientOptions& options);
// The context of a client's new connections: files that were replaced are read again.
class TlsClient {
 public:
  // Errors: as make_client_context.
  static Result<std::unique_ptr<TlsClient>> open(TlsClientOptions options);
  // Looks at the files. While the new ones are invalid, as between the replacement of a certificate
  // and of its key, the last valid context.
  std::shared_ptr<SSL_CTX> context();
  WallTime expires_at() const;  // of the client's certificate; never = it has none
  // Why the present files are not used; "" = they are.
  std::string problem() const;

 private:
  explicit TlsClient(TlsClientOptions options) : options_(std::move(options)) {}
  Result<void> read() MS_REQUIRES(mutex_);
  std::vector<std::int64_t> look() const;  // identifies the content of the files

  const TlsClientOptions options_;
  mutable Mutex mutex_;
  std::vector<std::int64_t> read_ MS_GUARDED_BY(mutex_);
  std::shared_ptr<SSL_CTX> context_ MS_GUARDED_BY(mutex_);
  WallTime expires_at_ MS_GUARDED_BY(mutex_) = WallTime::never();
  std::string problem_ MS_GUARDED_BY(mutex_);
};
// Where the server's side of a handshake notes which certificate of the client it refused, and why;
// nullptr = nowhere. Must live as long as the handshake.
void note_refusal_in(SSL* ssl, std::string* text);
// For SNI and verification: a name or an address.
bool expect_host(SSL* ssl, const std::string& host);
// Reads and writes use that socket, and raise no SIGPIPE; the caller keeps owning it.
bool attach_socket(SSL* ssl, int fd);
// OpenSSL's messages about the last failure in this thread, as "this; that".
std::string tls_problem();

// The context of new connections; reload() replaces it, and existing connections keep theirs.
class TlsServer {
 public:
  static Result<std::unique_ptr<TlsServer>> open(TlsServerOptions options);
  std::shared_ptr<SSL_CTX> context() const;
  // On an error the old one stays.
  Result<void> reload();
  // Why the last reload() failed, "" = it did not. The context is older than the files then.
  std::string reload_problem() const;
  WallTime expires_at() const;  // of the server's certificate
  const TlsServerOptions& options() const { return options_; }

 private:
  explicit TlsServer(TlsServerOptions options) : options_(std::move(options)) {}
  const TlsServerOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<SSL_CTX> context_ MS_GUARDED_BY(mutex_);
  WallTime expires_at_ MS_GUARDED_BY(mutex_);
  std::string reload_problem_ MS_GUARDED_BY(mutex_);
};

// -- a private authority: ECDSA P-256, files in a directory with mode 0700, keys 0600

struct Authority {
  // Creates ca.pem and ca.key. Errors: conflict (they exist), io_error.
  static Result<void> create(const std::string& directory, const std::string& name, Duration valid,
                             WallTime now);
  // Creates NAME.pem and NAME.key, signed by that authority. Server certificates have `hosts`
  // (names and addresses) as alternative names, client certificates have none. Replaces existing
  // files by rename. Errors: not_found (no authority there), invalid_argument, io_error.
  static Result<void> issue(const std::string& directory, const std::string& name,
                            const std::vector<std::string>& hosts, bool client, Duration valid,
                            WallTime now);
};
struct CertificateInfo {
  std::string subject, issuer;
  std::vector<std::string> hosts;
  WallTime not_before, not_after;
};
Result<CertificateInfo> read_certificate(const std::string& file);

}  // namespace mainspring
