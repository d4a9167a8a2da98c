#include "fuzz/pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <new>

#include "fuzz/board.h"
#include "fuzz/judge.h"
#include "fuzz/shrink.h"

namespace fovea::fuzz {
namespace {

constexpr double kPatience = 300.0;  // seconds of one case
constexpr int kShown = 3;            // failures of a mechanism that are made simpler and printed

// What a worker tells about a case that failed; shorter than PIPE_BUF, so that none comes in parts.
struct Message {
  std::uint64_t index;
  char failure[600];
};

class Pool {
 public:
  explicit Pool(const Settings& settings) : settings_(settings), board_(new_board()) {
    if (pipe(ends_) != 0) fail(ErrorCode::io, "no pipe for the workers");
    start_ = Clock::now();
    for (int w = 0; w < settings.jobs; ++w) workers_.push_back(start(w));
  }

  bool run() {
    while (running_ > 0) {
      listen(200);
      for (std::size_t w = 0; w < workers_.size(); ++w) look_after(w);
      if (!settings_.quiet) progress();
    }
    listen(0);
    print_table(*board_, seconds(), settings_.draw);
    return failures_ == 0;
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool over() const { return settings_.minutes > 0.0 && seconds() > 60.0 * settings_.minutes; }

  pid_t start(int w) {
    ++running_;
    const pid_t child = fork();
    if (child == 0) {
      work(w);
      _exit(0);
    }
    return child;
  }

  void work(int w) {
    Slot& slot = board_->slots[w];
    for (;;) {
      const std::uint64_t index = board_->next.fetch_add(1);
      if (index >= settings_.cases || over()) break;
      slot.index = index;
      slot.since = seconds();
      const Spec spec = draw(settings_.draw, index);
      const Verdict verdict = judge(spec);
      board_->count(spec, verdict, index);
      if (verdict.failure.empty()) continue;
      Message message{index, {}};
      std::strncpy(message.failure, verdict.failure.c_str(), sizeof message.failure - 1);
      if (write(ends_[1], &message, sizeof message) != sizeof message) _exit(1);
    }
    slot.done = true;
  }

  void listen(int milliseconds) {
    pollfd ready{ends_[0], POLLIN, 0};
    while (poll(&ready, 1, milliseconds) > 0) {
      Message message;
      if (read(ends_[0], &message, sizeof message) != sizeof message) return;
      report(message.index, message.failure);
      milliseconds = 0;
    }
  }

  // A worker that died leaves its case behind; another one takes over.
  void look_after(std::size_t w) {
    if (workers_[w] == 0) return;
    Slot& slot = board_->slots[w];
    if (!slot.done && seconds() - slot.since > kPatience) kill(workers_[w], SIGKILL);
    int status = 0;
    if (waitpid(workers_[w], &status, WNOHANG) != workers_[w]) return;
    --running_;
    workers_[w] = 0;
    if (slot.done) return;
    listen(0);
    const Spec spec = draw(settings_.draw, slot.index);
    board_->count(spec, {.failure = "dies"}, slot.index);
    report(slot.index, WIFSIGNALED(status) ? fmt::format("dies of {}", strsignal(WTERMSIG(status)))
                                           : fmt::format("exits with status {}", WEXITSTATUS(status)));
    slot.since = seconds();
    workers_[w] = start(static_cast<int>(w));
  }

  void report(std::uint64_t index, const std::string& failure) {
    ++failures_;
    Found found{draw(settings_.draw, index), failure};
    const std::string name = found.spec.mechanism.substr(0, found.spec.mechanism.find(':'));
    if (settings_.shrink && ++shown_[name] > kShown) return;
    if (settings_.shrink) found = shrink(found);
    fmt::print("{}case {}:{} {}: fovea_fuzz --case '{}'\n", settings_.quiet ? "" : "\n", settings_.draw.seed, index,
               found.failure, text_of(found.spec));
    std::fflush(stdout);
  }

  void progress() {
    const double now = seconds();
    if (now < next_progress_) return;
    next_progress_ = now + (isatty(1) != 0 ? 1.0 : 15.0);
    const auto done = static_cast<double>(board_->done.load());
    const double rate = done / now, of_cases = (static_cast<double>(settings_.cases) - done) / std::max(rate, 1e-9);
    const double left = settings_.minutes > 0.0 ? std::min(60.0 * settings_.minutes - now, of_cases) : of_cases;
    fmt::print("{}{:.0f} cases, {:.0f}/s, {} failed, {:.0f} s left{}", isatty(1) != 0 ? "\r" : "", done, rate,
               failures_, std::max(left, 0.0), isatty(1) != 0 ? "   " : "\n");
    std::fflush(stdout);
  }

  Settings settings_;
  Board* board_;  // seen by all processes
  Clock::time_point start_;
  int ends_[2] = {};
  std::vector<pid_t> workers_;
  int running_ = 0, failures_ = 0;
  double next_progress_ = 0.0;
  std::map<std::string, int> shown_;
};

}  // namespace

bool run_pool(const Settings& settings) { return Pool(settings).run(); }

}  // namespace fovea::fuzz
