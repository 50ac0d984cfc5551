// Joins the threads' histories, and writes a history as text.
#include "history.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace blackbox {
namespace {

template <class T>
void move_all(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

const char* word(Done done) {
  return done == Done::yes ? "yes" : done == Done::no ? "no" : "unknown";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string span(const Span& at) {
  return fmt::format("\"invoke\":{},\"return\":{}", at.invoke, at.ret);
}

using Lines = std::vector<std::pair<Micros, std::string>>;

void add_enqueues(const History& history, Lines& lines) {
  for (const EnqueueEvent& e : history.enqueues) {
    std::string jobs;
    for (const EnqueuedItem& item : e.jobs) {
      jobs += fmt::format("{}{{\"nonce\":{},\"id\":{},\"duplicate\":{},\"state\":\"{}\"}}",
                          jobs.empty() ? "" : ",", item.nonce, item.id, item.duplicate, item.state);
    }
    lines.emplace_back(
        e.at.invoke,
        fmt::format("{{\"op\":\"enqueue\",{},\"done\":\"{}\",\"status\":{},\"queue\":{},\"key\":{},"
                    "\"unique\":{},\"jobs\":[{}]}}",
                    span(e.at), word(e.done), e.status, quoted(e.queue), quoted(e.key),
                    quoted(e.unique), jobs));
  }
}

void add_leases(const History& history, Lines& lines) {
  for (const GrantEvent& g : history.grants) {
    lines.emplace_back(
        g.at.invoke,
        fmt::format(
            "{{\"op\":\"claim\",{},\"request\":{},\"id\":{},\"token\":{},\"attempt\":{},"
            "\"max_attempts\":{},\"queue\":{},\"checkpoint\":{},\"session\":{},\"state\":{},"
            "\"hold\":{}}}",
            span(g.at), g.request, g.id, g.token, g.attempt, g.max_attempts, quoted(g.queue),
            quoted(g.checkpoint), quoted(g.session), quoted(g.session_state), g.hold));
  }
  for (const FinishEvent& f : history.finishes) {
    lines.emplace_back(
        f.at.invoke,
        fmt::format("{{\"op\":\"finish\",{},\"done\":\"{}\",\"id\":{},\"token\":{},\"outcome\":\"{}"
                    "\",\"status\":\"{}\",\"text\":{},\"after\":{}}}",
                    span(f.at), word(f.done), f.id, f.token, f.outcome, f.status, quoted(f.text),
                    f.after));
  }
  for (const RenewEvent& r : history.renews) {
    lines.emplace_back(
        r.at.invoke,
        fmt::format("{{\"op\":\"renew\",{},\"done\":\"{}\",\"id\":{},\"token\":{},\"renewed\":{},"
                    "\"lost\":{},\"cancel\":{},\"checkpoint\":{}}}",
                    span(r.at), word(r.done), r.id, r.token, r.renewed, r.lost, r.cancel,
                    quoted(r.checkpoint)));
  }
}

void add_operators(const History& history, Lines& lines) {
  for (const CancelEvent& c : history.cancels) {
    lines.emplace_back(c.at.invoke,
                       fmt::format("{{\"op\":\"cancel\",{},\"done\":\"{}\",\"id\":{},\"status\":{},"
                                   "\"state\":\"{}\",\"requested\":{}}}",
                                   span(c.at), word(c.done), c.id, c.status, c.state, c.requested));
  }
  for (const RetryEvent& r : history.retries) {
    lines.emplace_back(
        r.at.invoke, fmt::format("{{\"op\":\"retry\",{},\"done\":\"{}\",\"id\":{},\"status\":{}}}",
                                 span(r.at), word(r.done), r.id, r.status));
  }
  for (const PauseEvent& p : history.pauses) {
    lines.emplace_back(
        p.at.invoke,
        fmt::format("{{\"op\":\"pause\",{},\"done\":\"{}\",\"queue\":{},\"paused\":{}}}",
                    span(p.at), word(p.done), quoted(p.queue), p.paused));
  }
  for (const ReadEvent& r : history.reads) {
    lines.emplace_back(r.at.invoke,
                       fmt::format("{{\"op\":\"read\",{},\"id\":{},\"status\":{},\"state\":\"{}\","
                                   "\"attempt\":{}}}",
                                   span(r.at), r.id, r.status, r.state, r.attempt));
  }
  for (const NemesisEvent& n : history.nemeses) {
    lines.emplace_back(n.at.invoke, fmt::format("{{\"op\":\"nemesis\",{},\"what\":{}}}", span(n.at),
                                                quoted(n.what)));
  }
}

}  // namespace

Micros lease_end(const GrantEvent& grant, std::vector<const RenewEvent*> renews) {
  std::stable_sort(renews.begin(), renews.end(),
                   [](const auto* a, const auto* b) { return a->at.invoke < b->at.invoke; });
  Micros end = grant.at.invoke + grant.lease;
  for (const RenewEvent* r : renews) {
    if (r->token != grant.token) continue;
    if (r->accepted()) end = r->at.invoke + r->lease;
    if (r->done == Done::unknown) end = std::min(end, r->at.invoke);
  }
  return end;
}

void History::append(History&& other) {
  move_all(enqueues, other.enqueues);
  move_all(grants, other.grants);
  move_all(finishes, other.finishes);
  move_all(renews, other.renews);
  move_all(cancels, other.cancels);
  move_all(retries, other.retries);
  move_all(pauses, other.pauses);
  move_all(reads, other.reads);
  move_all(counts, other.counts);
  move_all(session_holds, other.session_holds);
  move_all(session_writes, other.session_writes);
  move_all(nemeses, other.nemeses);
  move_all(unanswered, other.unanswered);
  unknown_claims += other.unknown_claims;
}

std::size_t History::operations() const {
  return enqueues.size() + grants.size() + finishes.size() + renews.size() + cancels.size() +
         retries.size() + pauses.size() + reads.size();
}

void write_jsonl(const History& history, const std::string& path) {
  Lines lines;
  add_enqueues(history, lines);
  add_leases(history, lines);
  add_operators(history, lines);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::ofstream out(path);
  for (const auto& [at, line] : lines) out << line << '\n';
  for (const auto& [id, job] : history.jobs) {
    out << fmt::format(
        "{{\"op\":\"final\",\"id\":{},\"nonce\":{},\"queue\":{},\"state\":\"{}\","
        "\"attempt\":{},\"max_attempts\":{},\"errors\":{}}}\n",
        id, job.nonce, quoted(job.queue), job.state, job.attempt, job.max_attempts,
        job.errors.size());
  }
}

}  // namespace blackbox
