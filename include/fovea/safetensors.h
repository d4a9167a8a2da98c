#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/export.h"
#include "fovea/tensor.h"

namespace fovea {

using Metadata = std::map<std::string, std::string>;

// A safetensors file, mapped into memory. Everything the header says is checked when it is opened: a file from outside
// gives tensors or an Error that names the file and the tensor.
class FOVEA_EXPORT SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const Metadata& metadata() const;
  const std::vector<std::string>& names() const;  // in order of their data
  bool has(std::string_view name) const;

  // A view of the mapped file, which it keeps alive; a copy where the file did not align the values. Writing to it
  // does not change the file. An unknown name is refused with the nearest one.
  Tensor tensor(std::string_view name) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Replaces the file in one atomic step: a kill at any moment leaves the old file or the new one.
FOVEA_EXPORT void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const Metadata& metadata = {});

}  // namespace fovea
