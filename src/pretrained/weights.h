#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/safetensors.h"
#include "io/file.h"

namespace fovea::pretrained {

// Throws: a file from outside is not what it should be.
[[noreturn]] void refuse_file(const std::string& what, const Path& file, const char* hint);

// The tensors of a folder: in model.safetensors, or in the shards that model.safetensors.index.json names.
class Weights {
 public:
  explicit Weights(const Path& folder);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return place_.contains(name); }
  Tensor tensor(const std::string& name) const;
  std::string file_of(const std::string& name) const;  // for errors; the folder where there is no such tensor

 private:
  void open(const Path& file);
  void open_shards(const Path& index);
  void add_names(std::size_t file);

  Path folder_;
  std::vector<Path> paths_;
  std::vector<SafetensorsFile> files_;
  struct Place {
    std::size_t file;
    std::string stored;  // its name there
  };
  std::map<std::string, Place> place_;
};

}  // namespace fovea::pretrained
