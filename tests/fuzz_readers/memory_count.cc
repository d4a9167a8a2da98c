#include "fuzz_readers/memory_count.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOVEA_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOVEA_SANITIZED
#endif

namespace {

std::atomic<std::ptrdiff_t> now{0}, most{0};

void took(std::size_t bytes) {
  const std::ptrdiff_t held = now += static_cast<std::ptrdiff_t>(bytes);
  std::ptrdiff_t before = most;
  while (held > before && !most.compare_exchange_weak(before, held)) {
  }
}

void gave(std::size_t bytes) { now -= static_cast<std::ptrdiff_t>(bytes); }

}  // namespace

#ifdef FOVEA_SANITIZED

#include <sanitizer/allocator_interface.h>

namespace {

void hook() {
  static const int once = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t bytes) { took(bytes); },
      [](const volatile void* data) { gave(__sanitizer_get_allocated_size(data)); });
  static_cast<void>(once);
}

}  // namespace

#else

// In the place of the C library's: these pass the work on to it.
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* data);

static void* counted(void* data) {
  if (data != nullptr) took(malloc_usable_size(data));
  return data;
}

void* malloc(std::size_t bytes) noexcept { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) noexcept { return counted(__libc_calloc(count, bytes)); }
void* memalign(std::size_t alignment, std::size_t bytes) noexcept { return counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
void* realloc(void* data, std::size_t bytes) noexcept {
  const std::size_t before = malloc_usable_size(data);
  void* const moved = __libc_realloc(data, bytes);
  if (moved != nullptr || bytes == 0) gave(before);
  return counted(moved);
}
void free(void* data) noexcept {
  gave(malloc_usable_size(data));
  __libc_free(data);
}
}

namespace {

void hook() {}

}  // namespace

#endif

namespace fovea::fuzz {
namespace {

std::ptrdiff_t start = 0;

}  // namespace

void start_counting() {
  hook();
  most = start = now;
}

std::size_t most_taken() { return static_cast<std::size_t>(most - start); }

}  // namespace fovea::fuzz
