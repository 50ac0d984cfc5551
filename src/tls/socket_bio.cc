// A BIO over a socket whose writes raise no SIGPIPE: that of OpenSSL calls write().
#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>

#include "tls/tls.h"

namespace mainspring {
namespace {

int fd_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_no_error(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK || problem == EINTR;
}

int read_socket(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd_of(bio), into, static_cast<std::size_t>(size), 0);
  if (got < 0 && is_no_error(errno)) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(fd_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && is_no_error(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

struct Method {
  Method() : method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket")) {
    BIO_meth_set_read(method, read_socket);
    BIO_meth_set_write(method, write_socket);
    BIO_meth_set_ctrl(method, control);
  }
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  ~Method() { BIO_meth_free(method); }
  BIO_METHOD* const method;
};

}  // namespace

bool attach_socket(SSL* ssl, int fd) {
  // Never freed: a connection may outlive what is destroyed at the end of the program.
  static const Method& socket_method = *new Method;
  BIO* const bio = BIO_new(socket_method.method);
  if (bio == nullptr) return false;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  return true;
}

}  // namespace mainspring
