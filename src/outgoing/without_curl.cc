// The module of a build without libcurl: it sends nothing, and checks only the parts of a URL that
// need no parser.
#include "outgoing/outgoing_client.h"
#include "outgoing/url_check.h"

namespace mainspring {

void CheckedUrl::Free::operator()(Curl_URL*) const {}

Result<CheckedUrl> read_url(const std::string& text, Userinfo userinfo) {
  MS_TRY(check_url_text(text));
  const std::size_t begin = text.find("://");
  const std::string scheme = lower_name(text.substr(0, begin));
  const std::string_view authority =
      begin == std::string::npos ? std::string_view()
                                 : std::string_view(text).substr(
                                       begin + 3, text.find_first_of("/?#", begin + 3) - begin - 3);
  if ((scheme != "http" && scheme != "https") || authority.empty()) {
    return invalid("url", "url: must be http://… or https://… with a host");
  }
  if (userinfo == Userinfo::refused && authority.find('@') != std::string_view::npos) {
    return invalid("url", "url: must have no user and password");
  }
  CheckedUrl out;
  out.host = std::string(authority);
  return out;
}

struct OutgoingClient::Impl {};

OutgoingClient::OutgoingClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutgoingClient::~OutgoingClient() = default;

// Callbacks are the only outgoing requests of an engine.
Result<std::unique_ptr<OutgoingClient>> OutgoingClient::open(OutgoingOptions, Resolver&,
                                                             const Clock&) {
  return invalid("callback_slots",
                 "callback_slots: must be 0: this build of Mainspring cannot send requests. "
                 "Configure it with -DMAINSPRING_CALLBACKS=ON, which needs libcurl");
}

namespace {

Error no_client() {
  return Error{ErrorCode::internal, "outgoing: no client can be open in a build without libcurl"};
}

}  // namespace

Result<OutgoingResponse> OutgoingClient::post(const OutgoingRequest&) const {
  return no_client();
}

Result<OutgoingResponse> OutgoingClient::get(const OutgoingRequest&) const {
  return no_client();
}

Result<void> OutgoingClient::check(const std::string&, bool) const {
  return no_client();
}

}  // namespace mainspring
