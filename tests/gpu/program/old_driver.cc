// A driver that is too old: as much of libcuda.so.1 as the runtime asks of one before it gives up.

#include <cstring>

extern "C" {

__attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }

__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}

__attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* name, void** function, int,
                                                               unsigned long long, void*) {
  constexpr int kNotFound = 500;
  *function = nullptr;
  if (std::strcmp(name, "cuInit") == 0) *function = reinterpret_cast<void*>(cuInit);
  if (std::strcmp(name, "cuDriverGetVersion") == 0) *function = reinterpret_cast<void*>(cuDriverGetVersion);
  if (*name == '\0' || std::strcmp(name, "cuGetProcAddress") == 0)
    *function = reinterpret_cast<void*>(cuGetProcAddress_v2);
  return *function == nullptr ? kNotFound : 0;
}
}
