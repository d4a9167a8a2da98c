#include "fovea/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 1, .memory = {.poison = true}});

std::string framed(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string tensor_json(const char* dtype, const char* shape, const char* offsets) {
  return std::string("{\"dtype\":\"") + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

// Opens a file with the header {"a": ..., "b": ...} and this many bytes of data.
SafetensorsFile open_with(const std::string& header, std::size_t bytes) {
  const TemporaryFolder folder;
  put(folder / "x.safetensors", framed(header, std::string(bytes, 'x')));
  return SafetensorsFile(folder / "x.safetensors");
}

SafetensorsFile open_one(const char* dtype, const char* shape, const char* offsets, std::size_t bytes) {
  return open_with("{\"a\":" + tensor_json(dtype, shape, offsets) + "}", bytes);
}

std::vector<NamedTensor> samples() {
  const std::vector<float> floats = {1, -2, 3.5f, 0, 5, 6};
  const std::vector<std::uint8_t> small = {1, 2, 255};
  const std::vector<std::int64_t> large = {-(std::int64_t{1} << 60)};
  const Tensor matrix = Tensor::from<float>(kContext, {2, 3}, floats);
  return {{"bytes", Tensor::from<std::uint8_t>(kContext, {3}, small)},
          {"half", matrix.to(kContext, DType::bf16)},
          {"matrix", matrix},
          {"scalar", Tensor::from<std::int64_t>(kContext, {}, large)},
          {"transposed", matrix.transpose(0, 1)},
          {"empty", Tensor::zeros(kContext, {0, 4}, DType::f64)}};
}

TEST(Safetensors, WriteThenReadGivesTheSameTensors) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = samples();
  write_safetensors(folder / "x.safetensors", tensors, {{"step", "12"}, {"ü", "\"quoted\""}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"step", "12"}, {"ü", "\"quoted\""}}));
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    ASSERT_TRUE(file.has(named.name));
    const Tensor back = file.tensor(named.name);
    EXPECT_EQ(back.shape(), named.tensor.shape()) << named.name;
    EXPECT_EQ(back.dtype(), named.tensor.dtype()) << named.name;
    EXPECT_EQ(back.to_vector<double>(), named.tensor.to_vector<double>()) << named.name;
    EXPECT_TRUE(back.defined());
  }
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Safetensors, TensorsOutliveTheFileAndDoNotWriteToIt) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x.safetensors", samples());
  const std::string before = get(folder / "x.safetensors");
  Tensor matrix;
  {
    const SafetensorsFile file(folder / "x.safetensors");
    matrix = file.tensor("matrix");
  }
  matrix.fill(7);
  EXPECT_EQ(matrix.to_vector<float>()[5], 7.0f);
  EXPECT_EQ(get(folder / "x.safetensors"), before);
}

TEST(Safetensors, ReadsValuesThatAreNotAligned) {
  const TemporaryFolder folder;
  const float values[2] = {1.5f, -2.5f};
  std::string data(1 + sizeof values, '\7');
  std::memcpy(data.data() + 1, values, sizeof values);
  const std::string header =
      "{\"a\":" + tensor_json("U8", "[1]", "[0,1]") + ",\"b\":" + tensor_json("F32", "[2]", "[1,9]") + "}";
  put(folder / "x.safetensors", framed(header, data));
  const Tensor b = SafetensorsFile(folder / "x.safetensors").tensor("b");
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{1.5f, -2.5f}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.raw()) % 4, 0u);
}

TEST(Safetensors, UnknownTensorGetsTheNearest) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x.safetensors", samples());
  EXPECT_ERROR(SafetensorsFile(folder / "x.safetensors").tensor("matrx"), kBad, "no tensor \"matrx\"", "x.safetensors",
               "\"matrix\"?");
}

TEST(Safetensors, RefusesBrokenFrames) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& bytes) {
    put(folder / "x.safetensors", bytes);
    return SafetensorsFile(folder / "x.safetensors");
  };
  EXPECT_ERROR(open(""), kBad, "too short", "x.safetensors", "");
  EXPECT_ERROR(open("1234567"), kBad, "too short", "x.safetensors", "");
  EXPECT_ERROR(open(std::string(8, '\xff')), kBad, "at most 100000000", "x.safetensors", "");
  EXPECT_ERROR(open(framed("{}", "").substr(0, 9)), kBad, "cut off: the header claims 2 bytes, 1 follow",
               "x.safetensors", "");
  EXPECT_ERROR(open(framed("[]", "")), kBad, "not a JSON object", "", "");
  EXPECT_ERROR(open(framed("{", "")), kBad, "not JSON", "x.safetensors, header", "");
  EXPECT_ERROR(open(framed(std::string(5000, '['), "")), kBad, "nested deeper", "", "");
  EXPECT_ERROR(open(framed("{}", "abc")), kBad, "3 bytes after the last tensor", "", "");
  EXPECT_EQ(open(framed("{}   ", "")).names().size(), 0u);
  EXPECT_ERROR(SafetensorsFile(folder / "none"), kBad, "no such file", "none", "");
  EXPECT_ERROR(SafetensorsFile(folder.path()), kBad, "found a folder", "", "");
}

TEST(Safetensors, RefusesHeadersThatLie) {
  const char* tensor = "x.safetensors, tensor \"a\"";
  EXPECT_EQ(open_one("F32", "[2]", "[0,8]", 8).tensor("a").numel(), 2);
  EXPECT_ERROR(open_one("F32", "[2]", "[0,12]", 12), kBad, "does not take the 12 bytes", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2]", "[0,8]", 4), kBad, "cut off: it has 66 bytes, 70 are expected", "x.safetensors",
               "copy it again");
  EXPECT_ERROR(open_one("F32", "[2]", "[0,9223372036854775807]", 8), kBad, "but there are 8", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2]", "[8,0]", 8), kBad, "[begin, end]", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2]", "[0,8,9]", 8), kBad, "[begin, end]", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2]", "[0,-8]", 8), kBad, "whole numbers", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2.0]", "[0,8]", 8), kBad, "shape must be", tensor, "");
  EXPECT_ERROR(open_one("F32", "[-2]", "[0,8]", 8), kBad, "shape must be", tensor, "");
  EXPECT_ERROR(open_one("F32", "[1,1,1,1,1,1,2]", "[0,8]", 8), kBad, "at most 6 axes", tensor, "");
  EXPECT_ERROR(open_one("F32", "[4611686018427387904,4]", "[0,8]", 8), kBad, "overflows", tensor, "");
  EXPECT_ERROR(open_one("F32", "[4611686018427387904]", "[0,0]", 0), kBad, "does not take", tensor, "");
  EXPECT_ERROR(open_one("F32", "[18446744073709551615]", "[0,8]", 8), kBad, "negative size", tensor, "");
  EXPECT_ERROR(open_one("F8_E4M3", "[8]", "[0,8]", 8), kBad, "\"F8_E4M3\"", tensor, "BF16");
  EXPECT_ERROR(open_one("F32", "[2]", "[4,12]", 12), kBad, "bytes 0 to 4", tensor, "");
  EXPECT_ERROR(open_one("F32", "[2]", "[0,8]", 9), kBad, "1 bytes after the last", "", "");
  EXPECT_ERROR(open_with("{\"a\":1}", 0), kBad, "exactly dtype, shape and data_offsets", tensor, "");
  EXPECT_ERROR(open_with("{\"__metadata__\":{\"a\":1}}", 0), kBad, "expected a string", "__metadata__", "");
  EXPECT_ERROR(open_with("{\"__metadata__\":[]}", 0), kBad, "object of strings", "__metadata__", "");
  const std::string a = "\"a\":" + tensor_json("F32", "[2]", "[0,8]");
  EXPECT_ERROR(open_with("{" + a + "," + a + "}", 8), kBad, "\"a\" is given twice", "", "");
  EXPECT_ERROR(open_with("{" + a + ",\"b\":" + tensor_json("F32", "[1]", "[4,8]") + "}", 8), kBad, "overlaps",
               "tensor \"b\"", "");
}

TEST(Safetensors, WriterRefusesWhatCannotBeReadBack) {
  const TemporaryFolder folder;
  const Tensor one = Tensor::zeros(kContext, {1});
  const std::string path = folder / "x.safetensors";
  const auto write = [&](std::vector<NamedTensor> tensors) { write_safetensors(path, tensors); };
  EXPECT_ERROR(write({{"a", one}, {"a", one}}), ErrorCode::usage, "used twice: \"a\"", path, "");
  EXPECT_ERROR(write({{"__metadata__", one}}), ErrorCode::usage, "reserved", path, "");
  EXPECT_ERROR(write({{"a", Tensor()}}), ErrorCode::usage, "undefined", path, "");
  EXPECT_ERROR(write({{"\xff", one}}), ErrorCode::usage, "not UTF-8", path, "");
  EXPECT_EQ(folder.files(), 0u);
}

// Cut at every byte, or with any bit changed: tensors or an Error, never a crash.
TEST(Safetensors, SurvivesCutAndFlippedFiles) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x.safetensors", samples(), {{"k", "v"}});
  const std::string bytes = get(folder / "x.safetensors");
  const std::string path = folder / "y.safetensors";
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    put(path, bytes.substr(0, cut));
    EXPECT_ERROR(SafetensorsFile(path), kBad, "", "y.safetensors", "");
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      put(path, flipped);
      try {
        const SafetensorsFile file(path);
        for (const std::string& name : file.names()) file.tensor(name).to_vector<double>();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), kBad);
      }
    }
}

}  // namespace
}  // namespace fovea
