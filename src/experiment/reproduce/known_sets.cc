#include "experiment/reproduce/known_sets.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/nearest.h"
#include "fovea/error.h"
#include "io/sha256.h"

namespace fovea {
namespace {

constexpr std::size_t kHead = 4096;

std::vector<KnownFile> cifar_batches() {
  constexpr std::size_t kBatch = 10000 * 3073;
  return {{"data_batch_1.bin", kBatch}, {"data_batch_2.bin", kBatch}, {"data_batch_3.bin", kBatch},
          {"data_batch_4.bin", kBatch}, {"data_batch_5.bin", kBatch}, {"test_batch.bin", kBatch}};
}

std::vector<KnownFile> grey_pictures() {
  return {{"train-grey-images-idx3-ubyte", 51200016, "379b0911fb695e1ac0f19b92c01c39e0ba643ec353e64d7e0f1212abe413b993",
           "52c77e49b02bd8bd"},
          {"train-labels-idx1-ubyte", 50008, "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
           "0fefd9bab7b85c4c"},
          {"test-grey-images-idx3-ubyte", 10240016, "c8e01d57cac756f1416fcdd5efdfe498df78e9f4f3f50ed4bdb1bce055a928f9",
           "fc70c9578fd82268"},
          {"test-labels-idx1-ubyte", 10008, "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
           "0d627635640fd29c"}};
}

std::vector<KnownFile> reviews() {
  return {
      {"train.tsv", 33390335, "fb5475bb69320751fef173b473de4cbe5a5b368cdf29807b627e7e9b987e4cf2", "4b6af0fa2c8dce77"},
      {"test.tsv", 32608464, "b7c215fff1f30a0b86df603069840f0b3fb670038fcbedfb8dfeb3fcfa7d2a9b", "6b67f786fea73d22"}};
}

std::vector<KnownFile> acl_pairs() {
  return {
      {"papers.tsv", 12331827, "ce10d78509c9b077064ee89b11dd691030d3790514781b4839b48bc819a0bbae", "8e454af9316de009"},
      {"pairs.train.tsv", 88520, "d2b59421749a1395dfac4efd7451464756bb41497fe7b0273598b17ad5e0e614",
       "183148f29f67d673"},
      {"pairs.valid.tsv", 11040, "29f12ec544fe2c420d1096851a12c1c76d4782afbdfe0fa587101ef60948c621",
       "02146a78eee3de6a"},
      {"pairs.test.tsv", 11040, "9c5905b954d859481c3fbf3c70cefc3b87c26c2e61735d116f8fea7cce92d6a6",
       "f43ce0befc96ea38"}};
}

// Articles may stand in another order than in the publisher's file: only sizes are compared.
std::vector<KnownFile> wikitext_2(std::string_view train, std::string_view valid, std::string_view test) {
  return {{train, 10797148, "", "46493edcda6a43a9"},
          {valid, 1121681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", "25d0c188009865db"},
          {test, 1256449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", "a8f2237accd6cd59"}};
}

std::vector<KnownFile> wikitext_103() {
  return {{"wiki.train.tokens"},
          {"wiki.valid.tokens", 1142309, "9aee9f52d6e77de6c7751fc5e7c44287db3ec0eaf15477098acc6b93c1c4250b",
           "e994ea28150ff341"},
          {"wiki.test.tokens", 1281077, "56db52eb157b1ab5c89646eef70510c1eca6e12a3bfdb99f0d6b05b4eacb75b9",
           "95060240abcd1d19"}};
}

KnownSet glue(std::string_view name, std::vector<std::string_view> folders, std::size_t train, std::size_t dev) {
  return {name, name, std::move(folders), {{{"train.tsv", train}, {"dev.tsv", dev}}}};
}

std::vector<KnownSet> all_sets() {
  return {
      {"imdb", "IMDb", {"imdb"}, {reviews()}, {}, 25000},
      {"cifar10", "CIFAR-10", {"cifar10", "cifar-10-batches-bin"}, {grey_pictures(), cifar_batches()}, {}, 50000},
      {"aan",
       "AAN pairs of the Long-Range Arena",
       {"aan", "lra_release/tsv_data", "tsv_data"},
       {{{"new_aan_pairs.train.tsv"}, {"new_aan_pairs.eval.tsv"}, {"new_aan_pairs.test.tsv"}}},
       {},
       147086},
      {"acl-retrieval", "pairs of ACL papers", {"acl-retrieval"}, {acl_pairs()}, {}, 4426},
      {"wikitext-2",
       "WikiText-2",
       {"wikitext-2"},
       {wikitext_2("train.txt", "valid.txt", "test.txt"),
        wikitext_2("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens")}},
      {"wikitext-103", "WikiText-103", {"wikitext-103"}, {wikitext_103()}},
      {"tinyshakespeare",
       "Tiny Shakespeare",
       {"tinyshakespeare"},
       {{{"input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
          "bb0fdae1503c0755"}}}},
      glue("SST-2", {"glue/SST-2", "SST-2"}, 3806081, 94931),
      glue("MRPC", {"glue/MRPC", "MRPC"}, 941471, 105616),
      glue("CoLA", {"glue/CoLA", "CoLA"}, 428590, 53717),
      glue("RTE", {"glue/RTE", "RTE"}, 846226, 90343),
      {"ETTh1",
       "ETTh1",
       {"ett", "ETT-small"},
       {{{"ETTh1.csv", 2589657, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
          "5a1ae83fbfce9354"}}},
       "ETTh1.csv"},
      {"ETTh2",
       "ETTh2",
       {"ett", "ETT-small"},
       {{{"ETTh2.csv", 2417960, "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
          "09d7009c9c17ede9"}}},
       "ETTh2.csv"},
      {"ETTm1", "ETTm1", {"ett", "ETT-small"}, {{{"ETTm1.csv"}}}, "ETTm1.csv"},
      {"ETTm2", "ETTm2", {"ett", "ETT-small"}, {{{"ETTm2.csv"}}}, "ETTm2.csv"},
  };
}

// The file itself, or packed.
std::optional<Path> stored(const Path& folder, std::string_view name) {
  for (const std::string& file : {std::string(name), std::string(name) + ".xz"})
    if (is_file(folder / file)) return folder / file;
  return {};
}

std::string expected(const KnownFile& file) {
  std::string text(file.name);
  if (file.bytes > 0)
    text += fmt::format(" ({} bytes{}{})", file.bytes, file.sha256.empty() ? "" : ", SHA-256 ", file.sha256);
  return text;
}

const std::vector<KnownFile>& layout_of(const KnownSet& set, const Path& folder) {
  for (const std::vector<KnownFile>& layout : set.layouts)
    if (stored(folder, layout.front().name)) return layout;
  return set.layouts.front();
}

// Packed files carry a checksum of their own, which is checked when they are read.
void check_file(const KnownFile& known, const Path& path) {
  if (known.bytes == 0 || path.extension() == ".xz") return;
  const std::size_t bytes = std::filesystem::file_size(path);
  const std::string should = "it should be " + expected(known);
  if (bytes != known.bytes)
    fail(ErrorCode::bad_input, fmt::format("{} has {} bytes of {}", known.name, bytes, known.bytes), path.string(),
         should + "; --parts runs what is there and says so");
  if (!known.sha256.empty() && sha256_of_file(path) != known.sha256)
    fail(ErrorCode::bad_input, fmt::format("{} has other contents than the original", known.name), path.string(),
         should + "; --parts runs what is there and says so");
}

}  // namespace

std::span<const KnownSet> known_sets() {
  static const std::vector<KnownSet> sets = all_sets();
  return sets;
}

const KnownSet& known_set(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownSet& set : known_sets()) names.push_back(set.name);
  return known_sets()[place_of_name(name, names, "data set", "--data")];
}

std::optional<Path> find_set(const KnownSet& set, const Path& data) {
  std::vector<Path> places;
  for (const std::string_view folder : set.folders) places.push_back(data / folder);
  places.push_back(data);
  for (const Path& place : places) {
    const auto first = stored(place, layout_of(set, place).front().name);
    if (first) return set.file.empty() ? place : *first;
  }
  return {};
}

std::string expected_files(const KnownSet& set) {
  std::vector<std::string> files;
  for (const KnownFile& file : set.layouts.front()) files.push_back(expected(file));
  return fmt::format("{} with {}", set.folders.front(), fmt::join(files, ", "));
}

void require_whole(const KnownSet& set, const Path& place) {
  const Path folder = set.file.empty() ? place : place.parent_path();
  for (const KnownFile& known : layout_of(set, folder)) {
    const auto path = stored(folder, known.name);
    if (!path)
      fail(ErrorCode::bad_input, fmt::format("{} lacks {}", set.title, known.name), folder.string(),
           "it should have " + expected(known));
    check_file(known, *path);
  }
}

void refuse_half_copied(const Path& place, std::span<const KnownSet> originals) {
  const Path folder = is_folder(place) ? place : place.parent_path();
  for (const KnownSet& set : originals)
    for (const std::vector<KnownFile>& layout : set.layouts)
      for (const KnownFile& known : layout) {
        const Path path = folder / known.name;
        if (known.head.empty() || !is_file(path) || std::filesystem::file_size(path) >= known.bytes) continue;
        const MappedFile file(path);
        const std::string_view head(reinterpret_cast<const char*>(file.bytes().data()),
                                    std::min(kHead, file.bytes().size()));
        if (sha256(head).starts_with(known.head))
          fail(ErrorCode::bad_input,
               fmt::format("{} of {} is half-copied: {} bytes of {}", known.name, set.title, file.bytes().size(),
                           known.bytes),
               path.string(), "it should be " + expected(known));
      }
}

}  // namespace fovea
