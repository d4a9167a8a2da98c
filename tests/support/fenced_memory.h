#pragma once

#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "fovea/memory.h"

namespace fovea::testing {

// A made-up device: host memory that can be touched only while a kernel of its context runs. Whoever reads or writes it
// from above the kernels ends the program with the name of the test; transfers are counted.
class FencedMemory : public Memory {
 public:
  FencedMemory()
      : Memory(Device::fenced),
        begin_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
    watch();
  }
  ~FencedMemory() override { munmap(begin_, kBytes); }

  std::size_t size() const override { return kBytes; }

  // Blocks are never reused: a pointer that was kept too long stays one nobody else has.
  void* map(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    if (rounded > kBytes - used_) return nullptr;
    void* data = begin_ + used_;
    used_ += rounded;
    return data;
  }
  void unmap(void*, std::size_t) override {}
  void fill(void* to, unsigned char value, std::size_t bytes) override {
    enter();
    std::memset(to, value, bytes);
    leave();
  }
  void write(void* to, const void* host, std::size_t bytes) override {
    ++writes;
    enter();
    std::memcpy(to, host, bytes);
    leave();
  }
  void read(void* host, const void* from, std::size_t bytes) override {
    ++reads;
    enter();
    std::memcpy(host, from, bytes);
    leave();
  }
  void enter() override {
    const std::lock_guard lock(mutex_);
    if (depth_++ == 0) mprotect(begin_, kBytes, PROT_READ | PROT_WRITE);
  }
  void leave() override {
    const std::lock_guard lock(mutex_);
    if (--depth_ == 0) mprotect(begin_, kBytes, PROT_NONE);
  }

  int writes = 0, reads = 0;  // host to device, and back

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;  // of addresses
  static constexpr std::size_t kAlign = 64;

  // Names the test before the program dies of an access outside of a kernel.
  static void watch() {
    static const bool installed = [] {
      struct sigaction action = {};
      action.sa_handler = report;
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      return sigaction(SIGSEGV, &action, nullptr) == 0;
    }();
    static_cast<void>(installed);
  }
  static void report(int) {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const auto say = [](const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); };
    say("\ntouched the memory of a device outside of a kernel: ");
    say(test == nullptr ? "no test" : test->name());
    say("\n");
    void* frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  }

  std::byte* begin_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  int depth_ = 0;
};

}  // namespace fovea::testing
