#pragma once

#include <omp.h>

namespace fovea::gemm {

// oneDNN asks OpenMP how many threads to use: told for as long as this lives, with what was there before put back.
class VendorThreads {
 public:
  explicit VendorThreads(int threads) : before_(omp_get_max_threads()), changed_(threads != before_) {
    if (changed_) omp_set_num_threads(threads);
  }
  ~VendorThreads() {
    if (changed_) omp_set_num_threads(before_);
  }
  VendorThreads(const VendorThreads&) = delete;
  VendorThreads& operator=(const VendorThreads&) = delete;

 private:
  int before_;
  bool changed_;
};

}  // namespace fovea::gemm
