#include "experiment/reproduce/known_sets.h"

#include <gtest/gtest.h>

#include "io/sha256.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(KnownSets, AreFoundByTheirFiles) {
  const TemporaryFolder folder;
  const KnownSet& set = known_set("imdb");
  EXPECT_FALSE(find_set(set, folder.path()));
  std::filesystem::create_directories(folder / "imdb");
  EXPECT_FALSE(find_set(set, folder.path()));  // nothing is in it
  put(folder / "imdb/train.tsv.xz", "");
  EXPECT_EQ(find_set(set, folder.path()), folder / "imdb");
  EXPECT_EQ(find_set(set, folder / "imdb"), folder / "imdb");
  put(folder / "ETTh1.csv", "");
  EXPECT_EQ(find_set(known_set("ETTh1"), folder.path()), folder / "ETTh1.csv");
  EXPECT_ERROR(known_set("imbd"), ErrorCode::usage, "imbd", "--data", "imdb");
}

TEST(KnownSets, RefuseWhatIsNotWhole) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", "1\tgood\n");
  EXPECT_ERROR(require_whole(known_set("imdb"), folder.path()), ErrorCode::bad_input, "7 bytes of 33390335",
               "train.tsv", "fb5475bb69320751fef173b473de4cbe5a5b368cdf29807b627e7e9b987e4cf2");
  put(folder / "train.tsv.xz", "");
  std::filesystem::remove(folder / "train.tsv");
  EXPECT_ERROR(require_whole(known_set("imdb"), folder.path()), ErrorCode::bad_input, "lacks test.tsv", "",
               "32608464 bytes");
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin"}) put(folder / name, std::string(100, 'x'));
  EXPECT_ERROR(require_whole(known_set("cifar10"), folder.path()), ErrorCode::bad_input, "100 bytes of 30730000",
               "data_batch_1.bin", "");
  put(folder / "ETTh1.csv", std::string(2589657, 'x'));
  EXPECT_ERROR(require_whole(known_set("ETTh1"), folder / "ETTh1.csv"), ErrorCode::bad_input, "other contents",
               "ETTh1.csv", "f18de3ad");
}

// Files of one's own may have any name and size.
TEST(KnownSets, OnlyBeginningsOfOriginalsAreHalfCopied) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", "1\tgood\n");
  put(folder / "input.txt", "");
  EXPECT_NO_THROW(refuse_half_copied(folder.path()));
  const std::string whole(10000, 'a');
  const std::string head = sha256(whole.substr(0, 4096)).substr(0, 16);
  const KnownSet set{"letters", "Letters", {"letters"}, {{{"a.txt", whole.size(), "", head}}}};
  const auto check = [&] { refuse_half_copied(folder / "a.txt", {&set, 1}); };
  put(folder / "a.txt", whole);
  EXPECT_NO_THROW(check());
  put(folder / "a.txt", std::string(9000, 'b'));
  EXPECT_NO_THROW(check());
  put(folder / "a.txt", whole.substr(0, 9000));
  EXPECT_ERROR(check(), ErrorCode::bad_input, "half-copied: 9000 bytes of 10000", "a.txt", "10000 bytes");
}

}  // namespace
}  // namespace fovea
