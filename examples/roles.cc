// A whole program: two roles around one engine. One handles mails, the other enqueues them; it
// crashes once, and is started again alone.
//
//   roles --engine DIRECTORY [--listen 127.0.0.1:8081] [--set mails=3]
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

#include "mainspring/role.h"

using namespace std::chrono_literals;

struct Mail {
  static constexpr std::string_view kind = "mail";
  int number = 0;
};
BOOST_DESCRIBE_STRUCT(Mail, (), (number))

// Its work is done by a handler.
struct Mailer : mainspring::Role {
  std::string_view name() const override { return "mailer"; }

  bool on_start(mainspring::RoleContext& context) override {
    context.engine().on<Mail>([this](const Mail& mail) {
      fmt::print("mail {} sent\n", mail.number);
      sent = mail.number;
    });
    return true;
  }

  void run(std::stop_token stop) override { mainspring::wait_for_stop(stop); }

  void on_stop() override { fmt::print("the mailer sent {} mails\n", sent); }

  int sent = 0;
};

// Its work is done in run().
struct Newsletter : mainspring::Role {
  std::string_view name() const override { return "newsletter"; }

  bool on_start(mainspring::RoleContext& context) override {
    fmt::print("the newsletter starts\n");
    engine = &context.engine();
    mails = std::stoi(context.config("mails", "2"));
    return true;
  }

  void run(std::stop_token stop) override {
    while (written < mails && !stop.stop_requested()) {
      auto mail = engine->enqueue(Mail{++written});
      if (!mail) throw std::runtime_error(mail.error().message);
      (void)engine->wait(mail->id, 1min, stop);
      if (written == 1) throw std::runtime_error("out of paper");
    }
    kill(getpid(), SIGTERM);  // what Ctrl-C or systemd do otherwise
    mainspring::wait_for_stop(stop);
  }

  void on_stop() override { fmt::print("the newsletter stops\n"); }

  mainspring::Engine* engine = nullptr;
  int mails = 0;
  int written = 0;
};

int main(int argc, char** argv) {
  Mailer mailer;
  Newsletter newsletter;
  mainspring::RoleOptions options;
  options.first_pause = 10ms;
  return mainspring::run({&mailer, &newsletter}, argc, argv, options);
}
