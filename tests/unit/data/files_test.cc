#include <gtest/gtest.h>

#include "data/files.h"
#include "data/listops/listops.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2});

std::vector<Example> read(const TemporaryFolder& folder, const std::string& text) {
  put(folder / "a.tsv", text);
  return listops::read_examples(kContext, folder / "a.tsv");
}

TEST(ListOpsFiles, WriteThenReadGivesTheSameSet) {
  const TemporaryFolder folder;
  const LabelledData made = listops::generate(kContext, 4, {.train = 30, .validation = 5, .test = 7});
  listops::write(kContext, made, folder / "new/listops");
  const LabelledData back = listops::read(kContext, folder / "new/listops");
  EXPECT_EQ(back.train, made.train);
  EXPECT_EQ(back.validation, made.validation);
  EXPECT_EQ(back.test, made.test);
  EXPECT_GT(back.max_length, 500);
  EXPECT_LT(back.max_length, 2000);
}

TEST(ListOpsFiles, ReadsOtherLineEndsAndBareBrackets) {
  const TemporaryFolder folder;
  const std::vector<Example> set = read(folder, "Source\tTarget\r\n( ( ( [MAX 2 ) 9 ) ] )\t9\r\n[MIN 1 2 ]\t1");
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(set[0].tokens, (listops::Tokens{2, 8, 15, 5}));
  EXPECT_EQ(set[1].label, 1);
  EXPECT_TRUE(read(folder, "Source\tTarget\n").empty());
}

TEST(ListOpsFiles, NamesFileLineAndTrouble) {
  const TemporaryFolder folder;
  const std::string head = "Source\tTarget\n[MIN 1 2 ]\t1\n";
  EXPECT_ERROR(read(folder, ""), kBad, "header", "a.tsv:1", "Source, Target");
  EXPECT_ERROR(read(folder, "source,target\n"), kBad, "header", "a.tsv:1", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1 2 ]\n"), kBad, "expected 2 fields, got 1", "a.tsv:3", "");
  EXPECT_ERROR(read(folder, head + "\n"), kBad, "expected 2 fields, got 0", "a.tsv:3", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1\t2 ]\t1\n"), kBad, "expected 2 fields, got 3", "a.tsv:3", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1 2\t1\n"), kBad, "ends before its last ]", "a.tsv:3, token 4", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1 2 ]\t\n"), kBad, "expected a digit", "a.tsv:3, column Target", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1 2 ]\t12\n"), kBad, "expected a digit, got \"12\"", "a.tsv:3", "");
  EXPECT_ERROR(read(folder, head + "[MIN 1 2 ]\t2\n"), kBad, "expression is 1, but Target says 2", "a.tsv:3", "");
  EXPECT_ERROR(read(folder, head + "[AVG 1 2 ]\t1\n"), kBad, "\"[AVG\" is not in the vocabulary", "a.tsv:3, token 1",
               "");
  EXPECT_ERROR(listops::read(kContext, folder / "none"), kBad, "no such file", "basic_train.tsv", "");
}

// Cut anywhere, or with any bit changed, a file reads as whole lines or is refused: it never crashes.
TEST(ListOpsFiles, SurvivesCutAndFlippedFiles) {
  const TemporaryFolder folder;
  const std::string text = "Source\tTarget\n( ( ( [MAX 2 ) 9 ) ] )\t9\n( ( ( [SM 4 ) 9 ) ] )\t3\n";
  std::size_t refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      EXPECT_LE(read(folder, bytes).size(), 3u);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), kBad);
      EXPECT_NE(error.where().find("a.tsv"), std::string::npos) << error.what();
    }
  };
  for (std::size_t cut = 0; cut < text.size(); ++cut) attempt(text.substr(0, cut));
  EXPECT_EQ(refused, text.size() - 5);  // fine: after the header, with and without its \n, and after each whole line
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      attempt(flipped);
    }
  EXPECT_GT(refused, 3 * text.size());
}

TEST(TextLines, GivesFieldsByLine) {
  const TemporaryFolder folder;
  put(folder / "t.tsv", "a\tb\tc\n1\t\t3\r\n\t\t\n");
  const TextLines file(folder / "t.tsv");
  using Fields = std::vector<std::string_view>;
  ASSERT_EQ(file.size(), 3u);
  EXPECT_EQ(file.fields(0), (Fields{"a", "b", "c"}));
  EXPECT_EQ(file.fields(1), (Fields{"1", "", "3"}));
  EXPECT_EQ(file.fields(2), (Fields{"", "", ""}));
}

}  // namespace
}  // namespace fovea
