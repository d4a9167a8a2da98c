#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/csv.h"
#include "io/tensorboard.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;

TEST(Csv, RowsReadBackExactly) {
  const TemporaryFolder folder;
  CsvLog log(folder / "m.csv", {"step", "loss", "note, \"quoted\""});
  log.row({std::int64_t{1}, 0.1 + 0.2, std::string("a,b\n\"c\"")});
  log.row({std::int64_t{2}, std::nan(""), std::monostate{}});
  const CsvTable table = read_csv(folder / "m.csv");
  EXPECT_EQ(table.columns[2], "note, \"quoted\"");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][2], "a,b\n\"c\"");
  EXPECT_EQ(table.numbers("loss")[0], 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(table.numbers("loss")[1]));
  EXPECT_EQ(table.numbers("step"), (std::vector<double>{1, 2}));
  EXPECT_ERROR(table.numbers("los"), ErrorCode::usage, "no column \"los\"", "", "\"loss\"?");
  EXPECT_ERROR(log.row({}), ErrorCode::internal, "0 cells in a table of 3", "m.csv", "");
}

TEST(Csv, EveryRowIsInTheFileAtOnce) {
  const TemporaryFolder folder;
  CsvLog log(folder / "m.csv", {"step"});
  log.row({std::int64_t{7}});
  EXPECT_EQ(get(folder / "m.csv"), "step\n7\n");
}

TEST(Csv, ResumesAtAStep) {
  const TemporaryFolder folder;
  put(folder / "m.csv", "step,loss\n10,1\n20,2\n30,3\n40,");  // the last row was cut off
  CsvLog log = CsvLog::resume(folder / "m.csv", {"step", "loss"}, 20);
  log.row({std::int64_t{21}, 2.5});
  EXPECT_EQ(get(folder / "m.csv"), "step,loss\n10,1\n20,2\n21,2.5\n");
  EXPECT_ERROR(CsvLog::resume(folder / "m.csv", {"step", "accuracy"}, 20), kBad, "columns of this file", "m.csv", "");
  CsvLog::resume(folder / "m.csv", {"step", "loss", "tokens"}, 20).row({std::int64_t{30}, 0.25, std::int64_t{7}});
  const CsvTable wider = read_csv(folder / "m.csv");  // an older version wrote fewer columns
  EXPECT_TRUE(std::isnan(wider.numbers("tokens").front()));
  EXPECT_EQ(wider.numbers("tokens").back(), 7.0);
  CsvLog::resume(folder / "new.csv", {"step"}, 5);
  EXPECT_EQ(get(folder / "new.csv"), "step\n");
}

TEST(Csv, RefusesRaggedAndEmptyText) {
  EXPECT_ERROR(parse_csv("", "m.csv"), kBad, "no header", "m.csv", "");
  EXPECT_ERROR(parse_csv("a,b\n1,2\n3\n", "m.csv"), kBad, "expected 2 cells, got 1", "m.csv, row 2", "");
  EXPECT_TRUE(parse_csv("a,b\n1,2", "m.csv").rows.empty());
  EXPECT_TRUE(parse_csv("a,b\n\"1,2\n3,4\n", "m.csv").rows.empty());  // an open quote swallows the rest
}

TEST(TensorBoard, Crc32cKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// A reader of event files, written from the format's definition and sharing nothing with the writer.
struct ScalarEvent {
  double time = 0;
  std::uint64_t step = 0;
  std::string version, tag;
  float value = 0;
};

class EventReader {
 public:
  explicit EventReader(const std::string& bytes) : in_(bytes) {}

  std::vector<ScalarEvent> events() {
    std::vector<ScalarEvent> all;
    while (at_ < in_.size()) {
      const std::string length = take(8);
      EXPECT_EQ(masked(length), fixed<std::uint32_t>(take(4)));
      const std::string data = take(fixed<std::uint64_t>(length));
      EXPECT_EQ(masked(data), fixed<std::uint32_t>(take(4)));
      all.emplace_back();
      message(data, all.back(), 0);
    }
    return all;
  }

 private:
  template <class T>
  static T fixed(const std::string& bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  static std::uint32_t masked(const std::string& bytes) {
    std::uint32_t crc = 0xffffffff;
    for (const char c : bytes) {
      crc ^= static_cast<unsigned char>(c);
      for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  }

  std::string take(std::size_t count) {
    const std::string part = in_.substr(at_, count);
    EXPECT_EQ(part.size(), count);
    at_ += count;
    return part;
  }

  static std::uint64_t varint(const std::string& data, std::size_t& i) {
    std::uint64_t value = 0;
    for (int shift = 0; i < data.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(data[i++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  // level 0: Event, 1: Summary, 2: Summary.Value
  static void message(const std::string& data, ScalarEvent& out, int level) {
    for (std::size_t i = 0; i < data.size();) {
      const std::uint64_t key = varint(data, i), field = key >> 3, wire = key & 7;
      if (wire == 0) {
        const std::uint64_t value = varint(data, i);
        if (level == 0 && field == 2) out.step = value;
      } else {
        const std::size_t size = wire == 1 ? 8 : wire == 5 ? 4 : varint(data, i);
        const std::string part = data.substr(i, size);
        i += size;
        if (level == 0 && field == 1) out.time = fixed<double>(part);
        if (level == 0 && field == 3) out.version = part;
        if (level == 0 && field == 5) message(part, out, 1);
        if (level == 1 && field == 1) message(part, out, 2);
        if (level == 2 && field == 1) out.tag = part;
        if (level == 2 && field == 2) out.value = fixed<float>(part);
      }
    }
  }

  std::string in_;
  std::size_t at_ = 0;
};

TEST(TensorBoard, AnIndependentReaderSeesWhatWasWritten) {
  const TemporaryFolder folder;
  EventLog log(folder / "runs");
  log.scalar("train/loss", 0, 2.302585, 1.7e9);
  log.scalar("train/loss", 300, -0.5, 1.7e9 + 0.25);
  log.scalar("a tag longer than one hundred and twenty-seven bytes " + std::string(120, 'x'), 1ll << 40, 1e-3, 2e9);
  const std::vector<ScalarEvent> events = EventReader(get(log.path())).events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].value, 2.302585f);
  EXPECT_EQ(events[2].step, 300u);
  EXPECT_EQ(events[2].time, 1.7e9 + 0.25);
  EXPECT_EQ(events[2].value, -0.5f);
  EXPECT_EQ(events[3].step, std::uint64_t{1} << 40);
  EXPECT_EQ(events[3].tag.size(), 173u);
  EXPECT_NE(log.path().filename().string().find("tfevents"), std::string::npos);
}

TEST(TensorBoard, TwoLogsInOneFolderAreTwoFiles) {
  const TemporaryFolder folder;
  const EventLog first(folder.path()), second(folder.path());
  EXPECT_NE(first.path(), second.path());
}

}  // namespace
}  // namespace fovea
