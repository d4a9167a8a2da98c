#include "cli/kit/interrupt.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>

namespace fovea::cli {
namespace {

constexpr int kInterrupted = 130;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
// `timeout` and shells may send one signal twice, to the process and to its group: nobody presses that fast.
constexpr std::int64_t kSamePress = 200'000'000;

std::atomic<bool> g_requested{false};
std::atomic<std::int64_t> g_pressed{0};  // nanoseconds; when Ctrl-C was first pressed
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may not wait");

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// Where nobody listens any more there is nobody to tell.
void say(std::string_view text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

// Only what POSIX allows inside a handler: clock_gettime, write and _exit. Only Ctrl-C ends a run at once when it comes
// again: a terminal that closes sends more than one signal, and every write to a broken pipe one more.
void handle(int signal) {
  const int error = errno;
  const bool first = !g_requested.exchange(true);
  if (signal == SIGINT) {
    std::int64_t pressed = 0;
    const std::int64_t now = nanoseconds();
    if (!g_pressed.compare_exchange_strong(pressed, now) && now - pressed > kSamePress) {
      say("\nstopped\n");
      _exit(kInterrupted);
    }
  }
  if (first && signal != SIGPIPE) say("\nstopping after this step; press again to stop at once\n");
  errno = error;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup wants no SIGHUP
  }
}

}  // namespace

Interrupt::Interrupt() {
  g_requested.store(false);
  g_pressed.store(0);
  install(handle);
}

Interrupt::~Interrupt() {
  install(SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);  // what is still to be said must not end the program before its exit code
}

const std::atomic<bool>& Interrupt::requested() const { return g_requested; }

}  // namespace fovea::cli
