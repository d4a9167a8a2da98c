#include "ops/padding_kernels.h"

#include "ops/work.h"

namespace fovea {

template <>
void kernels::fill_padding<Device::cpu>(const Context& context, const FillPadding& io) {
  const auto rows = static_cast<std::int64_t>(io.spans.size()), width = rows == 0 ? 0 : io.x.numel() / rows;
  visit_float(io.x.dtype(), [&]<class T>() {
    const T filling = T(static_cast<Wide<T>>(io.value));
    for_rows(context, rows, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Span span = io.spans[static_cast<std::size_t>(row)];
        if (span.begin < span.end)
          std::copy_n(io.x.data<T>() + row * width, width, io.y.data<T>() + row * width);
        else
          std::fill_n(io.y.data<T>() + row * width, width, filling);
      }
    });
  });
}

}  // namespace fovea
