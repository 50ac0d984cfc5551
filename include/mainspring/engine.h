// Start here: a job engine in your program.
//
//   struct Thumbnail {
//     static constexpr std::string_view kind = "thumbnail";
//     std::string path;
//     int width = 200;
//   };
//   BOOST_DESCRIBE_STRUCT(Thumbnail, (), (path, width))
//
//   auto engine = mainspring::Engine::open("/var/lib/myapp/jobs");    // or "http://127.0.0.1:8080"
//   engine->on<Thumbnail>([](const Thumbnail& job, mainspring::Context& context) {
//     return make_thumbnail(job.path, job.width);                     // throw or return an error
//     to retry
//   });
//   engine->start();
//   engine->enqueue(Thumbnail{.path = "a.jpg"});
//
// A directory opens an engine inside this process; http://HOST:PORT works for a server elsewhere,
// with the same calls. All calls are safe from every thread. Guides: docs/guides/cpp.md.
