#pragma once

#include <cstddef>

// Guards behind arrays, for tests: whoever writes past an array is found and named. The address sanitizer always has
// them, as bytes that cannot be touched; elsewhere a program turns them on before it allocates, and they are bytes of a
// known value that are looked at when their memory is used otherwise or given back.
namespace fovea::guard {

inline constexpr std::size_t kBytes = 64;

// A line of source: std::source_location, which clang has from 15 on.
struct Place {
  const char* file;
  int line;
  static constexpr Place current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool on = true;
#else
extern bool on;
#endif

// Behind every array there are this many bytes that belong to nobody.
inline std::size_t gap() { return on ? kBytes : 0; }

// For the rest of the program. Returns true, so that a global of a test program can do it before main.
bool turn_on();

// Guards the bytes from the end of an array to the end of its room. What was guarded inside is so no more.
void place(void* array, std::size_t bytes, std::size_t room, Place where);

// Looks at all guards in a block that is given back, and forgets them.
void check(void* block, std::size_t bytes);

// Ends the program: the memory of others is no longer what they left there.
[[noreturn]] void report(const char* what, std::size_t bytes, Place where);

}  // namespace fovea::guard
