// store copy: copies a store between directories and databases while its server runs.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/support.h"
#include "disk_sqlite/transfer.h"
#include "engine/copy_store.h"
#include "env/clock.h"
#include "store_postgres/transfer.h"

namespace mainspring::cli {
namespace {

using Stage = CopyProgress::Stage;

constexpr Duration kLineEvery = std::chrono::seconds(5);  // without a terminal
constexpr Duration kShowEvery = std::chrono::seconds(1);  // with one
constexpr Duration kLongestFence = std::chrono::hours(1);

// One end: a directory or a URL.
struct Place {
  std::optional<PostgresOptions> postgres;
  std::string directory;
  std::string shown;
};

Result<Place> place_of(const Invocation& invocation, const std::string& argument,
                       const std::string& schema_flag) {
  Place place;
  const std::string text = *invocation.argument(argument);
  const auto schema = invocation.flag(schema_flag);
  if (!is_postgres_url(text)) {
    if (text.find("://") != std::string::npos) {
      return invalid(argument, fmt::format("{} \"{}\": must be a directory, or begin with "
                                           "postgres://",
                                           argument, shown_url(text)));
    }
    if (schema) {
      return invalid(schema_flag, fmt::format("--{} \"{}\": {} is a directory, which has no schema",
                                              schema_flag, *schema, argument));
    }
    place.directory = place.shown = text;
    return place;
  }
  Options options = invocation.options;
  options.store = text;
  options.store_file = "none";
  if (schema) options.store_schema = *schema;
  MS_TRY_ASSIGN(place.postgres, postgres_options(options));
  place.shown = shown_url(text);
  if (options.store_schema != PostgresOptions().schema)
    place.shown += fmt::format(" (schema {})", options.store_schema);
  return place;
}

Result<std::unique_ptr<TransferSource>> open_source(const Place& place, SourceGoesOn goes_on) {
  if (place.postgres) return open_postgres_source(*place.postgres, place.shown, goes_on);
  return open_sqlite_source(place.directory, goes_on);
}

Result<std::unique_ptr<TransferTarget>> open_target(const Place& place) {
  if (place.postgres) return open_postgres_target(*place.postgres, place.shown);
  return open_sqlite_target(place.directory);
}

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::copying:
      return "copying";
    case Stage::catching_up:
      return "catching up";
    case Stage::verifying:
      return "verifying";
    case Stage::fenced:
      return "during the fence";
  }
  return "";
}

// Shows the progress: a bar on a terminal, a line every few seconds elsewhere, none with --json.
class Meter {
 public:
  Meter(Io& io, const Clock& clock, bool json)
      : io_(io), line_(io), clock_(clock), silent_(json && !io.err_is_terminal) {}

  void show(const CopyProgress& progress) {
    if (silent_) return;
    const Instant now = clock_.now().instant;
    const bool new_stage = !stage_start_ || progress.stage != stage_ || progress.rows_done < done_;
    if (new_stage) stage_start_ = now, first_ = progress.rows_done, stage_ = progress.stage;
    done_ = progress.rows_done;
    if (io_.err_is_terminal) {
      if (!new_stage && now < shown_ + kShowEvery) return;
      line_.show(text(progress, now));
    } else {
      const bool tell = new_stage ? stage_ == Stage::copying || stage_ == Stage::verifying
                                  : now >= shown_ + kLineEvery;
      if (!tell) return;
      io_.err(text(progress, now) + "\n");
    }
    shown_ = now;
  }
  void clear() { line_.clear(); }

 private:
  std::string text(const CopyProgress& progress, Instant now) const {
    if (progress.stage == Stage::verifying) return "verifying the target";
    const std::int64_t rows = std::max(progress.rows, progress.rows_done);
    std::string out;
    if (io_.err_is_terminal) {
      constexpr std::int64_t kWidth = 20;
      const auto full =
          static_cast<std::size_t>(rows == 0 ? kWidth : kWidth * progress.rows_done / rows);
      out = fmt::format("[{:-<{}}] ", std::string(full, '#'), kWidth);
    }
    out += fmt::format("{}: {} of {} rows", name_of(progress.stage),
                       format_count(progress.rows_done), format_count(rows));
    const std::int64_t us = (now - *stage_start_).count();
    const std::int64_t made = progress.rows_done - first_;
    if (us < 1'000'000 || made <= 0) return out;
    const std::int64_t rate = std::max<std::int64_t>(1, made * 1'000'000 / us);
    out += fmt::format(", {}/s", format_count(rate));
    if (rows > progress.rows_done)
      out += fmt::format(", {} left",
                         format_age(std::chrono::seconds((rows - progress.rows_done) / rate + 1)));
    return out;
  }

  Io& io_;
  ProgressLine line_;
  const Clock& clock_;
  const bool silent_;
  std::optional<Instant> stage_start_;  // start of the stage
  Instant shown_;
  Stage stage_ = Stage::copying;
  std::int64_t first_ = 0, done_ = 0;
};

std::int64_t ms_of(Duration d) {
  return d.count() / 1000;
}

int print_json(Io& io, const Place& from, const Place& to, const CopyReport& report, bool kept) {
  std::string text;
  JsonWriter out(text);
  out.begin_object().key("from").string(from.shown).key("to").string(to.shown);
  out.key("moved").boolean(!kept && report.problems.empty());
  out.key("jobs").number(report.jobs).key("rows_written").number(report.rows);
  out.key("resumed").boolean(report.resumed).key("fences").number(report.fences);
  out.key("fence_ms").number(ms_of(report.fence));
  out.key("verified_in_fence").boolean(report.verified_in_fence);
  out.key("problems").begin_array();
  for (const std::string& problem : report.problems) out.string(problem);
  out.end_array().end_object();
  print_line(io, text);
  return report.problems.empty() ? kExitOk : kExitProblems;
}

int print_copy_report(Io& io, const Place& from, const Place& to, const CopyReport& report,
                      bool kept) {
  if (!report.problems.empty()) {
    for (const std::string& problem : report.problems)
      io.out(coloured(io, printable(problem), Colour::red) + "\n");
    print_line(io, fmt::format("{} is damaged: {} is unchanged and stays in "
                               "use",
                               to.shown, from.shown));
    return kExitProblems;
  }
  if (report.only_finished) {
    print_line(io, fmt::format("{} had already moved to {}: it is open now", from.shown, to.shown));
    return kExitOk;
  }
  print_line(io,
             fmt::format("{} {} to {}: {}, {}{}", from.shown, kept ? "copied" : "moved", to.shown,
                         counted(report.jobs, "job"), coloured(io, "sound", Colour::green),
                         report.resumed ? "; continued an unfinished copy" : ""));
  if (kept) return kExitOk;
  print_line(io, fmt::format("{} was blocked for {} ms", from.shown, ms_of(report.fence)));
  // A masked URL cannot be pasted.
  const bool masked = to.shown.find("***") != std::string::npos;
  print_line(io, fmt::format("start the server with --{} {}{}", to.postgres ? "store" : "data",
                             masked ? "and the URL of " : "", to.shown));
  return kExitOk;
}

}  // namespace

Result<int> run_store_copy(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const Place from, place_of(invocation, "FROM", "from-schema"));
  MS_TRY_ASSIGN(const Place to, place_of(invocation, "TO", "to-schema"));
  const bool kept = invocation.has("keep-source");
  const SystemClock clock;
  Meter meter(io, clock, invocation.json);
  CopyOptions options;
  options.source = kept ? SourceGoesOn::yes : SourceGoesOn::no;
  options.progress = [&](const CopyProgress& progress) { meter.show(progress); };
  MS_TRY_ASSIGN(const auto fence, invocation.duration("max-fence"));
  if (fence) {
    if (*fence <= Duration(0) || *fence > kLongestFence) {
      return invalid("max_fence",
                     fmt::format("--max-fence {}: must be more than 0 and at most {}",
                                 *invocation.flag("max-fence"), format_duration(kLongestFence)));
    }
    options.max_fence = *fence;
  }
  MS_TRY_ASSIGN(const auto source, open_source(from, options.source));
  MS_TRY_ASSIGN(const auto target, open_target(to));
  MS_TRY_ASSIGN(const CopyReport report, copy_store(*source, *target, options, clock));
  meter.clear();
  return invocation.json ? print_json(io, from, to, report, kept)
                         : print_copy_report(io, from, to, report, kept);
}

}  // namespace mainspring::cli
