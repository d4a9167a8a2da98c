#include <algorithm>

#include "core/parallel.h"
#include "gemm/cpu/backend.h"

namespace fovea::gemm {
namespace {

constexpr std::int64_t kRows = 16, kDepth = 128;

// rows [begin, end) of one c += a b; b is walked by rows, so that the inner loop is dense in c and usually in b.
void multiply_rows(const Tensor& a, const Tensor& b, const Tensor& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t k = a.dim(1), n = b.dim(1), step = b.stride(1);
  for (std::int64_t p0 = 0; p0 < k; p0 += kDepth)
    for (std::int64_t i = begin; i < end; ++i) {
      double* out = c.data<double>() + i * n;
      for (std::int64_t p = p0; p < std::min(k, p0 + kDepth); ++p) {
        const double factor = a.data<double>()[i * a.stride(0) + p * a.stride(1)];
        const double* row = b.data<double>() + p * b.stride(0);
        for (std::int64_t j = 0; j < n; ++j) out[j] += factor * row[j * step];
      }
    }
}

void start_rows(const Tensor& c, const Epilogue& epilogue, std::int64_t begin, std::int64_t end) {
  if (epilogue.accumulate) return;
  const std::int64_t n = c.dim(1);
  for (std::int64_t i = begin; i < end; ++i) {
    double* out = c.data<double>() + i * n;
    if (epilogue.bias.defined())
      std::copy_n(epilogue.bias.data<double>(), n, out);
    else
      std::fill_n(out, n, 0.0);
  }
}

void multiply_matrix(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Epilogue& epilogue) {
  parallel_ranges(context, c.dim(0), kRows, [&](std::int64_t begin, std::int64_t end) {
    start_rows(c, epilogue, begin, end);
    multiply_rows(a, b, c, begin, end);
    if (!epilogue.relu) return;
    double* out = c.data<double>();
    for (std::int64_t i = begin * c.dim(1); i < end * c.dim(1); ++i) out[i] = std::max(out[i], 0.0);
  });
}

}  // namespace

void multiply_blocked(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c,
                      const Epilogue& epilogue) {
  if (c.rank() == 2) return multiply_matrix(context, a, b, c, epilogue);
  for (std::int64_t i = 0; i < c.dim(0); ++i)
    multiply_blocked(context, a.select(0, i), b.select(0, i), c.select(0, i), epilogue);
}

}  // namespace fovea::gemm
