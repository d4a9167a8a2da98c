#include "fovea/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <unordered_map>

#include "core/nearest.h"
#include "io/file.h"
#include "io/json.h"
#include "tensor/views.h"

// The format: 8 bytes little-endian length of the header; the header, a JSON object that gives each tensor's dtype,
// shape and byte range; the data. Ranges fill the data without gap or overlap.
namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are mapped as they are stored");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeader = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {{"F64", DType::f64},   {"I64", DType::i64}, {"F32", DType::f32}, {"I32", DType::i32},
                                 {"BF16", DType::bf16}, {"F16", DType::f16}, {"U8", DType::u8}};

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0, end = 0;  // bytes after the header
};

// Reads one header; knows the file's name for errors.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  std::size_t data_begin() const { return kLengthBytes + header_bytes_; }
  Metadata take_metadata() { return std::move(metadata_); }

  // The tensors in order of their data.
  std::vector<Entry> entries() {
    const JsonMap header = parse_json_map(header_text(), path_ + ", header");
    if (!header.is_object()) refuse("the header is not a JSON object");
    check_size(header);
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey)
        read_metadata(value);
      else
        entries.push_back(read_entry(name, value));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_ranges(entries);
    return entries;
  }

 private:
  std::string_view header_text() {
    if (bytes_.size() < kLengthBytes) refuse("file is too short to be safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kMaxHeader)
      refuse(fmt::format("the header claims {} bytes; at most {} are allowed", length, kMaxHeader));
    if (length > bytes_.size() - kLengthBytes)
      refuse(
          fmt::format("file is cut off: the header claims {} bytes, {} follow", length, bytes_.size() - kLengthBytes));
    header_bytes_ = static_cast<std::size_t>(length);
    return {reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, header_bytes_};
  }

  // A file that was copied in part is told from one that is wrong in itself.
  void check_size(const JsonMap& header) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
    std::uint64_t end = 0;
    for (const auto& [name, value] : header.items()) {
      const bool ranged = value.is_object() && value.contains("data_offsets") && value["data_offsets"].is_array() &&
                          value["data_offsets"].size() == 2 && value["data_offsets"][1].is_number_unsigned();
      if (ranged) end = std::max(end, value["data_offsets"][1].get<std::uint64_t>());
    }
    if (end > bytes_.size() - data_begin() && end < kMost)
      refuse(fmt::format("file is cut off: it has {} bytes, {} are expected", bytes_.size(), data_begin() + end), {},
             "copy it again");
  }

  void read_metadata(const JsonMap& value) {
    if (!value.is_object()) refuse("expected an object of strings", kMetadataKey);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(fmt::format("expected a string for \"{}\"", key), kMetadataKey);
      metadata_[key] = text.get<std::string>();
    }
  }

  Entry read_entry(const std::string& name, const JsonMap& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      refuse("expected exactly dtype, shape and data_offsets", name);
    Entry entry{.name = name, .dtype = read_dtype(name, value["dtype"]), .shape = read_shape(name, value["shape"])};
    const std::vector<std::uint64_t> range = read_numbers(name, "data_offsets", value["data_offsets"]);
    if (range.size() != 2 || range[0] > range[1]) refuse("data_offsets must be [begin, end]", name);
    if (range[1] > bytes_.size() - data_begin())
      refuse(
          fmt::format("data_offsets end at {}, but there are {} bytes of data", range[1], bytes_.size() - data_begin()),
          name);
    entry.begin = static_cast<std::size_t>(range[0]);
    entry.end = static_cast<std::size_t>(range[1]);
    std::size_t needed = 0;
    const auto count = static_cast<std::size_t>(entry.shape.numel());
    if (__builtin_mul_overflow(count, size_of(entry.dtype), &needed) || needed != entry.end - entry.begin)
      refuse(fmt::format("shape {} of {} does not take the {} bytes of data_offsets", entry.shape.text(),
                         name_of(entry.dtype), entry.end - entry.begin),
             name);
    return entry;
  }

  DType read_dtype(const std::string& name, const JsonMap& value) const {
    if (!value.is_string()) refuse("dtype must be a string", name);
    const auto& text = value.get_ref<const std::string&>();
    for (const DTypeName& known : kDTypes)
      if (known.name == text) return known.dtype;
    refuse(fmt::format("dtype \"{}\" is not one this library reads", text.substr(0, 40)), name,
           "F64, F32, BF16, F16, I64, I32 or U8");
  }

  Shape read_shape(const std::string& name, const JsonMap& value) const {
    const std::vector<std::uint64_t> sizes = read_numbers(name, "shape", value);
    const std::vector<std::int64_t> dims(sizes.begin(), sizes.end());
    try {
      return Shape(std::span(dims));  // refuses too many axes, sizes beyond 63 bits, products that overflow
    } catch (const Error& error) {
      refuse(error.message(), name);
    }
  }

  std::vector<std::uint64_t> read_numbers(const std::string& name, const char* key, const JsonMap& value) const {
    if (!value.is_array()) refuse(fmt::format("{} must be a list of whole numbers", key), name);
    std::vector<std::uint64_t> numbers;
    for (const JsonMap& number : value) {
      if (!number.is_number_unsigned()) refuse(fmt::format("{} must be a list of whole numbers", key), name);
      numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
  }

  void check_ranges(const std::vector<Entry>& entries) const {
    std::size_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin < end)
        refuse(fmt::format("its data overlaps another tensor's, at byte {}", entry.begin), entry.name);
      if (entry.begin > end)
        refuse(fmt::format("bytes {} to {} before its data belong to no tensor", end, entry.begin), entry.name);
      end = entry.end;
    }
    const std::size_t have = bytes_.size() - data_begin();
    if (end != have) refuse(fmt::format("{} bytes after the last tensor belong to none", have - end));
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& tensor = {}, std::string hint = {}) const {
    std::string where = path_;
    if (!tensor.empty()) where += fmt::format(", tensor \"{}\"", tensor.substr(0, 200));
    fail(ErrorCode::bad_input, what, where, std::move(hint));
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  std::size_t header_bytes_ = 0;
  Metadata metadata_;
};

std::string_view stored_name(DType dtype) {
  for (const DTypeName& known : kDTypes)
    if (known.dtype == dtype) return known.name;
  fail(ErrorCode::internal, "dtype without a safetensors name");
}

// Ranges fill the data, so the widest types go first: then every value is aligned.
std::vector<const NamedTensor*> stored_order(std::span<const NamedTensor> tensors, const std::string& path) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    if (named.name == kMetadataKey || !names.insert(named.name).second)
      fail(ErrorCode::usage, "a tensor name that is reserved or used twice: \"" + named.name + "\"", path);
    if (!named.tensor.defined()) fail(ErrorCode::usage, "tensor \"" + named.name + "\" is undefined", path);
    order.push_back(&named);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return size_of(a->tensor.dtype()) > size_of(b->tensor.dtype());
  });
  return order;
}

std::string header_of(const std::vector<const NamedTensor*>& order, const Metadata& metadata, const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::size_t begin = 0;
  for (const NamedTensor* named : order) {
    const std::size_t end = begin + named->tensor.bytes();
    Json shape = Json::array();
    for (const std::int64_t size : named->tensor.shape().dims()) shape.push_back(size);
    header[named->name] = {
        {"dtype", stored_name(named->tensor.dtype())}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data
    if (text.size() > kMaxHeader) fail(ErrorCode::usage, "too many tensors or too much metadata for one file", path);
    return text;
  } catch (const Json::exception&) {
    fail(ErrorCode::usage, "a tensor name or metadata entry is not UTF-8", path);
  }
}

void write_data(AtomicFile& file, const Tensor& tensor) {
  const Tensor dense = on_host(tensor);
  file.write(dense.raw(), dense.bytes());
}

}  // namespace

struct SafetensorsFile::Content {
  explicit Content(const std::string& path) : path(path), file(path) {
    HeaderReader reader(path, file.bytes());
    entries = reader.entries();
    metadata = reader.take_metadata();
    data = file.bytes().subspan(reader.data_begin());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      names.push_back(entries[i].name);
      index[entries[i].name] = i;
    }
  }

  std::string path;
  MappedFile file;
  std::span<std::byte> data;
  Metadata metadata;
  std::vector<Entry> entries;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> index;
};

SafetensorsFile::SafetensorsFile(const std::string& path) : content_(std::make_unique<Content>(path)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const Metadata& SafetensorsFile::metadata() const { return content_->metadata; }
const std::vector<std::string>& SafetensorsFile::names() const { return content_->names; }
bool SafetensorsFile::has(std::string_view name) const { return content_->index.contains(std::string(name)); }

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto found = content_->index.find(std::string(name));
  if (found == content_->index.end()) {
    const std::vector<std::string_view> names(content_->names.begin(), content_->names.end());
    const std::string_view near = nearest_name(name, names);
    fail(ErrorCode::bad_input, fmt::format("there is no tensor \"{}\"", name), content_->path,
         near.empty() ? "" : fmt::format("\"{}\"?", near));
  }
  const Entry& entry = content_->entries[found->second];
  std::byte* data = content_->data.data() + entry.begin;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(entry.dtype) == 0)
    return Tensor::wrap(data, entry.shape, entry.dtype, content_->file.owner());
  const Tensor copy = host_tensor(entry.shape, entry.dtype);
  std::memcpy(copy.raw(), data, copy.bytes());
  return copy;
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  const std::vector<const NamedTensor*> order = stored_order(tensors, path);
  const std::string header = header_of(order, metadata, path);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, kLengthBytes);
  file.write(header);
  for (const NamedTensor* named : order) write_data(file, named->tensor);
  file.commit();
}

}  // namespace fovea
