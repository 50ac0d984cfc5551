// Fuzz target: bodies of requests and answers; what was understood says the same when written and
// read again.
#include "api/access_shapes.h"
#include "api/bulk_shapes.h"
#include "api/job_edit_shapes.h"
#include "api/job_match.h"
#include "api/lease_shapes.h"
#include "api/schedule_shapes.h"
#include "api/shapes.h"
#include "targets.h"

namespace mainspring::fuzz {
namespace {

// Of requests; answers are only read. Writing is a fixed point: read, written, read and written
// again gives the same text.
template <class Decode, class Encode>
void round_trip(std::string_view body, Decode decode, Encode encode) {
  const auto first = decode(body);
  if (!first) return;
  std::string text;
  encode(*first, text);
  const auto second = decode(std::string_view(text));
  FUZZ_CHECK(second);
  std::string again;
  encode(*second, again);
  FUZZ_CHECK(text == again);
}

constexpr WallTime kNow = WallTime::from_ms(1'767'225'600'000);

using Shape = void (*)(std::string_view body);
constexpr Shape kShapes[] = {
    [](std::string_view b) {
      round_trip(b, &decode_enqueue_request, [](const EnqueueRequest& r, std::string& out) {
        encode_enqueue_request(r.operation, out);
      });
    },
    [](std::string_view b) { round_trip(b, &decode_claim_request, &encode_claim_request); },
    [](std::string_view b) {
      round_trip(b, &decode_finish_request, [](const FinishRequest& r, std::string& out) {
        encode_finish_request(r.operation, r.claim ? &*r.claim : nullptr, out);
      });
    },
    [](std::string_view b) {
      round_trip(b, &decode_renew_request,
                 [](const RenewRequest& r, std::string& out) { encode_renew_request(r, out); });
    },
    [](std::string_view b) { (void)decode_enqueue_response(b); },
    [](std::string_view b) { (void)decode_claim_response(b); },
    [](std::string_view b) { (void)decode_finish_response(b); },
    [](std::string_view b) { (void)decode_renew_response(b); },
    [](std::string_view b) { (void)decode_job(b); },
    [](std::string_view b) { (void)decode_job_page(b); },
    [](std::string_view b) {
      round_trip(
          b, [](std::string_view body) { return decode_cancel_request(1, body); },
          &encode_cancel_request);
    },
    [](std::string_view b) { (void)decode_retention_request("q", b); },
    [](std::string_view b) { round_trip(b, &decode_redrive_request, &encode_redrive_request); },
    [](std::string_view b) { round_trip(b, &decode_bulk_request, &encode_bulk_request); },
    [](std::string_view b) {
      round_trip(
          b, [](std::string_view body) { return decode_edit_request(1, body); },
          &encode_edit_request);
      (void)decode_clone_request(1, b), (void)decode_bulk_progress(b), (void)decode_bulk_args(b);
    },
    [](std::string_view b) {  // a query, and args that it looks into
      const auto query = parse_job_query(b, WallTime());
      Job job;
      job.args = b;
      if (query) (void)matches_payload(*query, job);
    },
    [](std::string_view b) { (void)decode_queues(b), (void)decode_workers(b); },
    [](std::string_view b) { (void)decode_verify(b); },
    [](std::string_view b) {
      round_trip(
          b, [](std::string_view body) { return decode_acquire_request("l", body); },
          [](const AcquireRequest& r, std::string& out) {
            encode_acquire_request(r.operation, r.wait, out);
          });
    },
    [](std::string_view b) {
      round_trip(
          b, [](std::string_view body) { return decode_renew_lease_request("l", body); },
          &encode_renew_lease_request);
    },
    [](std::string_view b) {
      round_trip(
          b, [](std::string_view body) { return decode_release_request("l", body); },
          &encode_release_request);
    },
    [](std::string_view b) { (void)decode_lease(b); },
    [](std::string_view b) { round_trip(b, &decode_preview_request, &encode_preview_request); },
    [](std::string_view b) { round_trip(b, &decode_backfill_request, &encode_backfill_request); },
    [](std::string_view b) { (void)decode_put_schedule_request("s", b); },
    [](std::string_view b) { (void)decode_schedules(b), (void)decode_schedule_info(b); },
    [](std::string_view b) { (void)decode_ledger(b); },
    [](std::string_view b) {
      (void)decode_timer_request("s", b), (void)decode_pause_request("s", b);
    },
    [](std::string_view b) { (void)decode_create_token(b, kNow); },
    [](std::string_view b) { (void)decode_token_list(b), (void)decode_created_token(b); },
    [](std::string_view b) { (void)decode_audit_page(b); },
    [](std::string_view b) { (void)decode_audit_state(b); },
};

}  // namespace

void json_operations(std::string_view bytes) {
  Choices choices(bytes);
  // From 'A' on, so that corpus files can be written by hand.
  const std::size_t shape = (choices.byte() + 256 - 'A') % 256 % std::size(kShapes);
  kShapes[shape](choices.rest());
}

}  // namespace mainspring::fuzz
