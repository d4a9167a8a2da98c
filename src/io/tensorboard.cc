#include "io/tensorboard.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include <fmt/format.h>

namespace fovea {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t r = i;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ (r & 1 ? 0x82f63b78u : 0u);
    table[i] = r;
  }
  return table;
}();

// A checksum of data that itself holds checksums is stored turned and offset.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// Protocol buffer encoding: a key of field number and wire type, then the value.
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(std::uint32_t field, WireType type) { return varint(field << 3 | type); }

std::string bytes_field(std::uint32_t field, std::string_view value) {
  return key(field, kBytes) + varint(value.size()) + std::string(value);
}

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5 (message).
std::string event(double unix_seconds, std::int64_t step, const std::string& content) {
  return key(1, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(unix_seconds)) + key(2, kVarint) +
         varint(static_cast<std::uint64_t>(step)) + content;
}

// Summary: value = 1 (message); Value: tag = 1 (string), simple_value = 2 (float).
std::string scalar_summary(std::string_view tag, float value) {
  return bytes_field(
      5, bytes_field(1, bytes_field(1, tag) + key(2, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value))));
}

// TFRecord framing: length, its checksum, data, its checksum.
std::string record(const std::string& data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return length + little_endian(masked_crc(length)) + data + little_endian(masked_crc(data));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// The name TensorBoard looks for, unique in time, host, process and within the process.
std::string file_name() {
  static std::atomic<int> count{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '-';
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(now()), host.data(), ::getpid(),
                     count++);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xff];
  return ~crc;
}

EventLog::EventLog(const Path& folder) : path_(folder / file_name()) {
  make_folder(folder);
  file_ = open_for_append(path_);
  append(file_, record(event(now(), 0, bytes_field(3, "brain.Event:2"))), path_);
}

void EventLog::scalar(std::string_view tag, std::int64_t step, double value) { scalar(tag, step, value, now()); }

void EventLog::scalar(std::string_view tag, std::int64_t step, double value, double unix_seconds) {
  append(file_, record(event(unix_seconds, step, scalar_summary(tag, static_cast<float>(value)))), path_);
}

}  // namespace fovea
