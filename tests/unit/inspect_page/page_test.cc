#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>

#include "core/rng.h"
#include "fovea/half.h"
#include "fovea/inspect_page.h"
#include "inspect_page/block.h"
#include "inspect_page/codes.h"
#include "io/html_text.h"
#include "io/json.h"
#include "support/expect_error.h"
#include "unit/inspect_page/made_up.h"

namespace fovea {
namespace {

InspectPage page_of(std::int64_t n, bool causal = false) {
  InspectedModel model{.name = "made up", .record = {}};
  model.record.layers.push_back(made_up::layer(n, "model.layers[0].attention", "softmax", causal));
  for (std::int64_t i = 0; i < n; ++i) model.tokens.input.push_back("t" + std::to_string(i));
  return {.title = "a page", .sentence = "four heads", .models = {std::move(model)}};
}

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::size_t begin = text.find(open);
  EXPECT_NE(begin, std::string::npos) << open;
  return text.substr(begin + open.size(), text.find(close, begin) - begin - open.size());
}

Json meta_of(const std::string& html) { return parse_json(between(html, "id=\"meta\">", "</script>"), "the page"); }

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i + 3 < text.size(); i += 4) {
    std::uint32_t group = 0;
    int kept = 3;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = kDigits.find(text[i + k]);
      if (digit == std::string_view::npos) --kept;
      group = group << 6 | static_cast<std::uint32_t>(digit == std::string_view::npos ? 0 : digit);
    }
    for (int k = 0; k < kept; ++k) out += static_cast<char>(group >> (16 - 8 * k) & 0xff);
  }
  return out;
}

// The numbers of a head as the page's script will see them.
std::string block_of(const std::string& html, const std::string& id) {
  const std::string packed = from_base64(between(html, "id=\"" + id + "\">", "</script>"));
  std::string out(64 << 20, '\0');
  uLongf size = out.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  out.resize(size);
  return out;
}

template <class T>
std::vector<T> part(const std::string& block, const Json& head, const std::string& name) {
  const Json& place = head["parts"][name];
  std::vector<T> out(place[2].get<std::size_t>());
  std::memcpy(out.data(), block.data() + place[1].get<std::size_t>(), out.size() * sizeof(T));
  return out;
}

viewer::Coding coding_of(const Json& head) {
  return {head["map"]["low"].get<double>(), head["map"]["step"].get<double>(), head["signed"].get<bool>()};
}

TEST(InspectPage, KeepsEveryWeightAsCloselyAsItSays) {
  const InspectPage page = page_of(40, true);
  const std::string html = inspect_page_html(page);
  const Json meta = meta_of(html);
  ASSERT_EQ(meta["heads"].size(), 4u);
  for (std::size_t h = 0; h < 4; ++h) {
    const Json& head = meta["heads"][h];
    const HeadRecord& record = page.models[0].record.layers[0].heads[h];
    const std::string block = block_of(html, head["block"].get<std::string>());
    const viewer::Coding coding = coding_of(head);
    const auto codes = part<std::uint8_t>(block, head, "mean");
    ASSERT_EQ(codes.size(), 1600u);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto weight = static_cast<double>(record.pyramid[0].mean[i]);
      const double shown = coding.value(codes[i]);
      if (codes[i] == 0) {
        EXPECT_LT(weight, std::exp2(coding.low));
      } else {
        EXPECT_NEAR(std::log2(shown), std::log2(weight), 0.51 * coding.step);
      }
    }
    const auto keys = part<std::uint16_t>(block, head, "top_key");
    const auto weights = part<std::uint16_t>(block, head, "top_weight");
    const auto kept = static_cast<std::int64_t>(keys.size()) / 40;
    for (std::int64_t row = 0; row < 40; ++row)
      for (std::int64_t k = 0; k < kept; ++k) {
        const auto at = static_cast<std::size_t>(row * kept + k), from = static_cast<std::size_t>(row * record.top + k);
        EXPECT_EQ(keys[at] == 65535 ? -1 : keys[at], record.top_keys[from]);
        f16 half;
        half.bits = weights[at];
        EXPECT_NEAR(static_cast<float>(half) / 32768.0f, record.top_weights[from],
                    6e-4 * record.top_weights[from] + 1e-7);
      }
    EXPECT_EQ(part<float>(block, head, "entropy"), record.entropy);
  }
}

TEST(InspectPage, SumsOfDistancesAreThoseOfTheRecord) {
  const InspectPage page = page_of(300);
  const std::string html = inspect_page_html(page);
  const Json head = meta_of(html)["heads"][0];
  const std::string block = block_of(html, "b0");
  const auto at = part<std::uint32_t>(block, head, "distance_at");
  const auto mass = part<float>(block, head, "distance");
  ASSERT_EQ(at.size(), mass.size());
  EXPECT_LT(at.size(), 599u);
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
  const std::vector<double>& all = page.models[0].record.layers[0].heads[0].distance;
  for (std::size_t k = 0; k < at.size(); ++k) {
    if (std::abs(static_cast<std::int64_t>(at[k]) - 299) >= 60) continue;  // there several are taken together
    EXPECT_FLOAT_EQ(mass[k], static_cast<float>(all[at[k]]));
  }
}

TEST(InspectPage, TextsOfOthersAreShownAndNeverRun) {
  InspectPage page = page_of(6);
  page.title = "</title><script>alert(1)</script>";
  page.models[0].name = "<img src=x onerror=alert(2)>";
  page.models[0].tokens.input = {
      "</script><script>alert(3)</script>", "<!--", std::string("\0\x01", 2), "\xc3", "\xe2\x80\xae", "]]>"};
  const std::string html = inspect_page_html(page);
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  const Json tokens = meta_of(html)["texts"][0]["tokens"];
  EXPECT_EQ(tokens[0], "</script><script>alert(3)</script>");
  EXPECT_EQ(tokens[2].get<std::string>(), std::string("\0\x01", 2));
  EXPECT_EQ(tokens[3], "⟨C3⟩");
}

// The policy names the script by its hash: nothing else can run, whatever gets into the file.
TEST(InspectPage, AllowsNothingOverTheNetwork) {
  const std::string html = inspect_page_html(page_of(4));
  const std::string policy = between(html, "Content-Security-Policy\" content=\"", "\">");
  EXPECT_EQ(policy.find("default-src 'none'; script-src 'sha256-"), 0u);
  EXPECT_EQ(policy.find("http"), std::string::npos);
  for (const char* outside : {"http://", "https://", "src=\"", "href=\""})
    EXPECT_EQ(between(html, "<style>", "<script").find(outside), std::string::npos) << outside;
}

TEST(InspectPage, SaysWhichRowsHaveNoNumbers) {
  InspectPage page = page_of(8);
  auto& heads = page.models[0].record.layers[0].heads;
  heads[0] = made_up::head(8, 8, [](std::int64_t i, std::int64_t) { return i == 3 ? std::nan("") : 1.0; },
                           {.head_class = HeadClass::undefined, .entropy = std::nan("")});
  for (MapLevel& level : heads[0].pyramid) {  // the engine leaves such rows out
    std::replace_if(
        level.mean.begin(), level.mean.end(), [](float w) { return std::isnan(w); }, 0.0f);
    std::replace_if(
        level.largest.begin(), level.largest.end(), [](float w) { return std::isnan(w); }, 0.0f);
  }
  const std::string html = inspect_page_html(page);
  const Json head = meta_of(html)["heads"][0];
  EXPECT_EQ(head["bad_rows"], 1);
  EXPECT_EQ(head["class"], "undefined");
  EXPECT_TRUE(head["entropy"].is_null());
  const auto codes = part<std::uint8_t>(block_of(html, "b0"), head, "mean");
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i] == viewer::kBadCode, i / 8 == 3) << i;
}

TEST(InspectPage, SignedMapsKeepTheirSigns) {
  InspectPage page = page_of(8);
  LayerRecord& layer = page.models[0].record.layers[0];
  layer.map.kind = MapKind::effective;
  layer.heads = {made_up::head(8, 8, [](std::int64_t i, std::int64_t j) { return (i + j) % 2 == 0 ? 1.0 : -0.5; }, {})};
  const std::string html = inspect_page_html(page);
  const Json head = meta_of(html)["heads"][0];
  const viewer::Coding coding = coding_of(head);
  const auto codes = part<std::uint8_t>(block_of(html, "b0"), head, "mean");
  for (std::size_t i = 0; i < codes.size(); ++i)
    EXPECT_NEAR(coding.value(codes[i]), (i / 8 + i % 8) % 2 == 0 ? 1.0 / 6 : -0.5 / 6, 0.012);
}

TEST(InspectPage, AFileAsSmallAsAskedIsCoarser) {
  InspectPage page = page_of(160);
  page.bytes = 2'000'000;
  const std::string fine = inspect_page_html(page);
  page.bytes = 100'000;
  const std::string coarse = inspect_page_html(page);
  const std::size_t frame = fine.find("id=\"b0\"");
  EXPECT_LT(coarse.size() - frame, 110'000u);
  EXPECT_LT(coarse.size(), fine.size());
  EXPECT_GT(coding_of(meta_of(coarse)["heads"][3]).step, coding_of(meta_of(fine)["heads"][3]).step);
}

TEST(InspectPage, LevelsAreAsFineAsTheFileAllows) {
  EXPECT_EQ(inspect_page_cells(512, 144), 512);
  EXPECT_EQ(inspect_page_cells(2048, 4), 2048);
  EXPECT_EQ(inspect_page_cells(65536, 4), 1024);
  EXPECT_EQ(inspect_page_cells(4096, 144), 256);
}

TEST(InspectPage, RefusesWhatDoesNotFit) {
  InspectPage page = page_of(8);
  page.models[0].record.layers[0].heads[1].entropy.pop_back();
  EXPECT_ERROR(inspect_page_html(page), ErrorCode::shape, "head 1", "model.layers[0]", "inspect()");
  EXPECT_ERROR(inspect_page_html({}), ErrorCode::usage, "no models", "", "");
}

// Weights far apart without any order: nothing for deflate to find, and more than the bytes even in the coarsest steps.
TEST(Coding, DropsTheLeastWeightsWhereStepsAloneDoNotFit) {
  Random random(1, 1);
  std::vector<float> row(512), map;
  for (int i = 0; i < 512; ++i) {
    double sum = 0.0;
    for (float& w : row) sum += static_cast<double>(w = static_cast<float>(std::exp(4.0 * random.normal())));
    for (const float w : row) map.push_back(static_cast<float>(static_cast<double>(w) / sum));
  }
  constexpr double kLeast = 1.0 / (64 * 512), kBytes = 40e3;
  const viewer::Coding coding = viewer::coding_for(map, kLeast, false, kBytes);
  EXPECT_EQ(coding.step, 3.0);
  EXPECT_GT(coding.low, std::log2(kLeast));
  EXPECT_LE(coding.low, std::log2(1.0 / (2 * 512)));  // rows that read all keys alike are still seen
  EXPECT_LE(viewer::deflated(viewer::coded(map, coding)).size(), static_cast<std::size_t>(kBytes));
}

TEST(Coding, GivesBackWhatItTakes) {
  const viewer::Coding coding{-10.0, 0.25, true};
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(coding.code(static_cast<float>(coding.value(static_cast<std::uint8_t>(code)))), code) << code;
  EXPECT_EQ(coding.code(std::nanf("")), viewer::kBadCode);
  EXPECT_EQ(coding.code(HUGE_VALF), viewer::kBadCode);
}

}  // namespace
}  // namespace fovea
