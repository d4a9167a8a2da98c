#include "io/npy.h"

#include <fmt/format.h>

#include <vector>

namespace fovea {

// The format: "\x93NUMPY", version 1.0, two bytes of header length; the header, a Python dict padded with spaces so
// that the data begin at a multiple of 64 bytes; the data.
void write_npy(const Path& path, const Tensor& tensor) {
  constexpr std::size_t kBefore = 10, kAlignment = 64;
  if (tensor.dtype() != DType::f32)
    fail(ErrorCode::usage, fmt::format("expected f32, got {}", name_of(tensor.dtype())), path.string());
  std::string dims;
  for (const std::int64_t size : tensor.shape().dims()) dims += std::to_string(size) + ", ";
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", dims);
  const std::size_t length = (kBefore + header.size() + kAlignment) / kAlignment * kAlignment - kBefore;
  header.resize(length - 1, ' ');
  header += '\n';
  AtomicFile file(path);
  file.write(std::string_view("\x93NUMPY\x01\x00", 8));
  const char size[2] = {static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  file.write(size, sizeof(size));
  file.write(header);
  const std::vector<float> values = tensor.to_vector<float>();
  file.write(values.data(), values.size() * sizeof(float));
  file.commit();
}

}  // namespace fovea
