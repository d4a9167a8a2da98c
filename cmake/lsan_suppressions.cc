// Part of the report folder when it is built with the address sanitizer, so that every program that draws has it.

// Fontconfig loses sight of some of its caches at exit: 1016 bytes, however many pictures were drawn.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer asks for it by this name
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libfontconfig\n";
}
