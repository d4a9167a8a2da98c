#include "pretrained/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/json.h"
#include "models/files.h"

namespace fovea::pretrained {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kIndexCap = std::size_t{64} << 20;

// Norms of files from before 2019 are called gamma and beta.
std::string today_s(const std::string& name) {
  if (name.ends_with("LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with("LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

// "weight_map": {tensor: file}, as read from outside.
const JsonMap& weight_map(const JsonMap& index, const Path& file) {
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    refuse_file("no \"weight_map\"", file, "a file written by save_pretrained");
  for (const auto& [tensor, shard] : index["weight_map"].items())
    if (!shard.is_string() || Path(shard.get<std::string>()).filename() != shard.get<std::string>())
      refuse_file(fmt::format("\"{}\" is not in a file beside it: {}", tensor, shard.dump()), file,
                  "the name of a shard");
  return index["weight_map"];
}

// What the index expects; `absent` where it does not say.
std::uint64_t total_size(const JsonMap& index, std::uint64_t absent) {
  if (!index.contains("metadata") || !index["metadata"].is_object()) return absent;
  const JsonMap& metadata = index["metadata"];
  const bool given = metadata.contains("total_size") && metadata["total_size"].is_number_unsigned();
  return given ? metadata["total_size"].get<std::uint64_t>() : absent;
}

}  // namespace

void refuse_file(const std::string& what, const Path& file, const char* hint) {
  fail(ErrorCode::bad_input, what, file.string(), hint);
}

Weights::Weights(const Path& folder) : folder_(folder) {
  if (is_there(folder / kIndexFile))
    open_shards(folder / kIndexFile);
  else if (is_there(folder / kModelFile))
    open(folder / kModelFile);
  else if (is_there(folder / "pytorch_model.bin"))
    fail(ErrorCode::unsupported, "weights only as pytorch_model.bin, which can run code when it is opened",
         folder.string(), "load it with transformers and save_pretrained(..., safe_serialization=True)");
  else
    refuse_file(fmt::format("no {} and no {}", kModelFile, kIndexFile), folder, "copy the weights, too");
}

void Weights::open(const Path& file) {
  paths_.push_back(file);
  files_.emplace_back(file.string());
  add_names(files_.size() - 1);
}

void Weights::add_names(std::size_t file) {
  for (const std::string& name : files_[file].names())
    if (!place_.emplace(today_s(name), Place{file, name}).second)
      refuse_file(fmt::format("\"{}\" is also in {}", name, file_of(name)), paths_[file], "files of one model");
}

void Weights::open_shards(const Path& index_file) {
  const JsonMap index = parse_json_map(read_file(index_file, kIndexCap), index_file.string());
  const JsonMap& map = weight_map(index, index_file);
  std::vector<std::string> shards;
  for (const auto& [tensor, shard] : map.items()) shards.push_back(shard.get<std::string>());
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const std::string& shard : shards) {
    if (!is_there(folder_ / shard))
      refuse_file(fmt::format("{} is missing; it holds a part of the {} tensors", shard, map.size()), index_file,
                  "copy it, too");
    open(folder_ / shard);
  }
  for (const auto& [tensor, shard] : map.items()) {
    const auto found = place_.find(today_s(tensor));
    if (found == place_.end() || paths_[found->second.file].filename() != shard.get<std::string>())
      refuse_file(fmt::format("\"{}\" is not in the file", tensor), folder_ / shard.get<std::string>(),
                  "shards of the same model as the index");
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, place] : place_) {
    if (!map.contains(place.stored))
      refuse_file(fmt::format("\"{}\" is in {} but not in the index", name, file_of(name)), index_file,
                  "shards of the same model as the index");
    bytes += tensor(name).bytes();
  }
  const std::uint64_t expected = total_size(index, bytes);
  if (expected != bytes)
    refuse_file(fmt::format("the shards hold {} bytes of tensors, {} are expected", bytes, expected), index_file,
                "copy the shards again");
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : place_) names.push_back(name);
  return names;
}

Tensor Weights::tensor(const std::string& name) const {
  const Place& place = place_.at(name);
  return files_[place.file].tensor(place.stored);
}

std::string Weights::file_of(const std::string& name) const {
  const auto found = place_.find(name);
  return (found == place_.end() ? folder_ : paths_[found->second.file]).string();
}

}  // namespace fovea::pretrained
