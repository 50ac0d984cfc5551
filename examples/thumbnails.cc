// A whole program: thumbnails of pictures, made in the background, in parallel, by an engine inside
// this process. One picture is broken: it is tried three times and ends in the dead letter, where
// it can be looked at.
//
//   thumbnails DIRECTORY    pictures, thumbnails and the job store go there
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "mainspring/engine.h"

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// The job: a struct. Its fields are what is stored.
struct Thumbnail {
  static constexpr std::string_view kind = "thumbnail";
  static constexpr std::string_view queue = "photos";
  std::string path;
  int width = 8;
};
BOOST_DESCRIBE_STRUCT(Thumbnail, (), (path, width))

// The handler's result, stored with the job.
struct Made {
  std::string path;
  int width = 0;
  int height = 0;
};
BOOST_DESCRIBE_STRUCT(Made, (), (path, width, height))

// -- pictures: grey ones in the PGM format, which needs no library --------------------------------

struct Picture {
  int width = 0, height = 0;
  std::string pixels;
};

void write_picture(const fs::path& path, const Picture& picture) {
  std::ofstream(path, std::ios::binary)
      << fmt::format("P5\n{} {}\n255\n", picture.width, picture.height) << picture.pixels;
}

Picture read_picture(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string magic;
  Picture picture;
  int most = 0;
  in >> magic >> picture.width >> picture.height >> most;
  if (!in || magic != "P5") throw std::runtime_error("not a PGM picture");
  in.get();
  picture.pixels.resize(static_cast<std::size_t>(picture.width * picture.height));
  in.read(picture.pixels.data(), static_cast<std::streamsize>(picture.pixels.size()));
  if (!in) throw std::runtime_error("the picture is cut off");
  return picture;
}

Made make_thumbnail(const Thumbnail& job) {
  const Picture from = read_picture(job.path);
  Picture to{job.width, std::max(from.height * job.width / from.width, 1), ""};
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      const int at = (y * from.height / to.height) * from.width + x * from.width / to.width;
      to.pixels += from.pixels[static_cast<std::size_t>(at)];
    }
  }
  const fs::path path = fs::path(job.path).replace_extension(".thumb.pgm");
  write_picture(path, to);
  return {path.filename().string(), to.width, to.height};
}

// -------------------------------------------------------------------------------------------------

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? argv[1] : "thumbnails-example";
  fs::create_directories(folder);

  auto engine = mainspring::Engine::open((folder / "jobs").string());
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().message);
    return 1;
  }

  mainspring::HandlerOptions options;
  options.timeout = 1min;
  options.retry.first_delay = 10ms;
  engine->on<Thumbnail>([](const Thumbnail& job) { return make_thumbnail(job); }, options);
  if (auto started = engine->start(); !started) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }

  std::vector<Thumbnail> jobs;
  for (int i = 1; i <= 4; ++i) {
    const fs::path path = folder / fmt::format("picture{}.pgm", i);
    write_picture(path,
                  {16 * i, 9 * i, std::string(static_cast<std::size_t>(16 * 9 * i * i), '#')});
    jobs.push_back({.path = path.string()});
  }
  std::ofstream(folder / "broken.pgm") << "GIF89a";
  jobs.push_back({.path = (folder / "broken.pgm").string()});

  const auto enqueued = engine->enqueue_many(jobs, {.max_attempts = 3});
  if (!enqueued) {
    fmt::print(stderr, "{}\n", enqueued.error().message);
    return 1;
  }
  for (const mainspring::Enqueued& one : *enqueued) {
    const auto job = engine->wait(one.id, 1min);
    if (!job) {
      fmt::print(stderr, "{}\n", job.error().message);
      return 1;
    }
    if (const auto made = mainspring::Engine::result<Made>(*job)) {
      fmt::print("job {}: {} {}x{}\n", job->id, made->path, made->width, made->height);
    } else {
      fmt::print("job {}: {} after {} attempts: {}\n", job->id, to_string(job->state),
                 job->errors.size(), job->errors.back().message);
    }
  }
}
