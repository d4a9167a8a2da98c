#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace fovea::cli {
namespace {

constexpr int kInterrupted = 130;
std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait");

// Only what POSIX allows inside a handler: write and _exit.
void handle(int) {
  constexpr std::string_view kFirst = "\nstopping after this step; press again to stop at once\n";
  constexpr std::string_view kSecond = "\nstopped\n";
  const bool again = g_requested.exchange(true);
  const std::string_view text = again ? kSecond : kFirst;
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(kInterrupted);
  if (again) _exit(kInterrupted);
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  g_requested.store(false);
  install(handle);
}

Interrupt::~Interrupt() { install(SIG_DFL); }

const std::atomic<bool>& Interrupt::requested() const { return g_requested; }

}  // namespace fovea::cli
