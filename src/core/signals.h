#pragma once

#include <signal.h>

#include <initializer_list>

namespace fovea {

// While it lives, no handler of a signal runs on the calling thread; signals wait. Products of oneDNN (2.6 on AVX2 and
// AVX-512) keep numbers further below the stack pointer than the ABI protects: the frame of a handler overwrites them,
// and the product then writes anywhere. Costs 0.4 us. Signals of faults are let through: they cannot wait.
class SignalPause {
 public:
  SignalPause() { pause(&before_); }
  ~SignalPause() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalPause(const SignalPause&) = delete;
  SignalPause& operator=(const SignalPause&) = delete;

  // For good, on a thread that only computes.
  static void forever() {
    thread_local bool paused = false;
    if (!paused) pause(nullptr);
    paused = true;
  }

 private:
  static void pause(sigset_t* before) {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, before);
  }

  sigset_t before_;
};

}  // namespace fovea
