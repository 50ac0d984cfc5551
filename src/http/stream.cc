// Streams: replies that are sent piece by piece, or waited for.
//
//   read_piece ─▶ a piece ─▶ write it ─▶ taken by the socket ─▶ read_piece …
//        └─▶ nothing yet, a watch ─▶ it fires ─▶ read_piece
//
// A peer that does not read gets at most one piece. A stream that waits uses no thread and no
// buffer.
#include <fmt/format.h>

#include "http/connection.h"

namespace mainspring::http {

void Connection::do_stream(DoStream stream) {
  waited_ = true;
  stream_ = std::make_unique<Stream>();
  stream_->plan = std::make_shared<DoStream>(std::move(stream));
  const std::optional<Duration> wait = stream_->plan->wait;
  stream_->last = wait && (wait->count() == 0 || shard_.stopping());
  if (wait && !stream_->last) {
    stream_->timer = std::make_unique<boost::asio::steady_timer>(shard_.io());
    stream_->timer->expires_after(*wait);
    stream_->timer->async_wait(
        [self = shared_from_this(), ticket = ticket_](const boost::system::error_code& cancelled) {
          if (cancelled || self->ticket_ != ticket || self->stream_ == nullptr) return;
          self->stream_->last = true;
          self->on_stream_ready();
        });
  }
  if (!wait && stream_->plan->beat) arm_beat();
  arm_read();  // to notice a disconnect
  read_piece();
}

void Connection::arm_beat() {
  Stream& s = *stream_;
  if (s.timer == nullptr) s.timer = std::make_unique<boost::asio::steady_timer>(shard_.io());
  s.timer->expires_after(*s.plan->beat);
  s.timer->async_wait(
      [self = shared_from_this(), ticket = ticket_](const boost::system::error_code& cancelled) {
        if (cancelled || self->ticket_ != ticket || self->stream_ == nullptr) return;
        self->stream_->beat = true;
        self->arm_beat();
        self->on_stream_ready();
      });
}

void Connection::read_piece() {
  Stream& s = *stream_;
  s.reading = true;
  s.ready = s.retry = false;
  const bool last = s.last || std::exchange(s.beat, false);
  const bool taken =
      shard_.shared()
          .pool(s.plan->pool)
          .submit([box = shard_.mailbox(), ticket = ticket_, plan = s.plan, last, watch = s.watch] {
            StreamRead read{.pool = plan->pool};
            read.piece = plan->next(last);
            const StreamPiece& piece = read.piece;
            if (!piece.reply && piece.bytes.empty() && !piece.ended) {
              auto watching = plan->watch([box, ticket] {
                box->deliver_unexpected({ticket, StreamReady{}});
              });
              if (watching) {
                read.watch = std::move(*watching);
              } else {
                read.piece.reply = error_reply(watching.error());
              }
            }
            box->deliver_unexpected({ticket, std::move(read)});
          });
  s.watch.reset();  // the task owns it: ending it may block on a file
  if (taken) return;
  s.reading = false;
  s.retry = true;
  if (s.started) return;
  drop_stream();
  overloaded_reads();
}

void Connection::on_stream_ready() {
  if (stream_ == nullptr) return;
  stream_->ready = true;
  // If a piece is being written, the stream continues after it.
  if (state_ == State::busy && !stream_->reading && !stream_->retry) read_piece();
}

void Connection::on_piece(StreamRead read) {
  if (stream_ == nullptr) return;
  Stream& s = *stream_;
  s.reading = false;
  s.watch = std::move(read.watch);
  if (!welcome()) return end_unwelcome();
  StreamPiece& piece = read.piece;
  if (piece.reply) {
    // Headers are already sent; truncate the body so that the client detects the failure.
    if (s.started) return close();
    drop_stream();
    return reply(std::move(*piece.reply));
  }
  if (!piece.bytes.empty() || piece.ended) return write_piece(piece.bytes, piece.ended);
  if (!s.started && !s.plan->wait) return write_piece({}, false);  // send the head at once
  if (s.ready || s.last) read_piece();
}

void Connection::write_piece(std::string_view bytes, bool ended) {
  Stream& s = *stream_;
  std::string out;
  if (!s.started) {
    shard_.count(route_, 200, shard_.now() - started_, waited_, pass_.caller.get());
    if (http10_ || must_end()) keep_alive_ = false;
    out = fmt::format(
        "HTTP/1.1 200 OK\r\nDate: {}\r\nX-Content-Type-Options: nosniff\r\nContent-Type: {}\r\n"
        "Cache-Control: no-store\r\n{}{}{}\r\n",
        shard_.date(), s.plan->content_type,
        // nginx and others buffer an answer unless this field forbids it.
        s.plan->wait ? "" : "X-Accel-Buffering: no\r\n",
        http10_ ? "" : "Transfer-Encoding: chunked\r\n",
        keep_alive_ ? "" : "Connection: close\r\n");
    s.started = true;
    if (head_only_) ended = true;
  }
  if (!head_only_) {
    if (!bytes.empty() && !http10_)
      fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
    out += bytes;
    if (!bytes.empty() && !http10_) out += "\r\n";
    if (ended && !http10_) out += "0\r\n\r\n";
  }
  s.ended = ended;
  write({}, std::move(out));
}

// Called when the socket has taken the piece.
void Connection::after_piece() {
  Stream& s = *stream_;
  if (s.ended) {
    drop_stream();
    ticket_ = shard_.new_ticket(slot_);
    return after_write();
  }
  state_ = State::busy;
  deadline_ = Instant::never();
  if (shard_.stopping()) return end_stream_early();
  arm_read();
  // An empty piece was only the head: its watch is set.
  if (s.watch == nullptr || s.ready) read_piece();
}

void Connection::retry_stream() {
  if (stream_->retry && state_ == State::busy) read_piece();
}

// The server stops: the sent part is complete, and the client continues at another node from there.
void Connection::end_stream_early() {
  Stream& s = *stream_;
  if (state_ != State::busy) return;  // after_piece() calls this again
  keep_alive_ = false;
  if (s.plan->wait) {
    s.last = true;
    return on_stream_ready();
  }
  ticket_ = shard_.new_ticket(slot_);  // invalidates a piece that is on its way
  write_piece({}, true);
}

void Connection::drop_stream() {
  if (stream_->timer != nullptr) stream_->timer->cancel();
  // Destroying the watch and the plan may block on a file.
  ReaderPool& pool = shard_.shared().pool(stream_->plan->pool);
  pool.submit([plan = std::move(stream_->plan), watch = std::move(stream_->watch)] {});
  stream_.reset();
}

}  // namespace mainspring::http
