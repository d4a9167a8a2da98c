#pragma once

#include "core/rng.h"
#include "data/files.h"
#include "data/pictures/pictures.h"
#include "data/text/language.h"
#include "fovea/data.h"
#include "fovea/tokenizer.h"

// One loader for each kind of data; kinds.cc chooses.
namespace fovea {

Dataset load_text(const Context& context, const DataSettings& settings, const DataUse& use);
Dataset load_parallel(const Context& context, const DataSettings& settings, const DataUse& use);
Dataset load_labelled(const Context& context, const DataSettings& settings, const DataUse& use);
Dataset load_pairs(const Context& context, const DataSettings& settings, const DataUse& use);
// Pictures as sequences of their values, for classify.
Dataset pixel_data(const PictureParts& parts, const DataSettings& settings);
Dataset load_pictures(const Context& context, const DataSettings& settings, const DataUse& use);
Dataset load_captions(const Context& context, const DataSettings& settings, const DataUse& use);
Dataset load_series(const Context& context, const DataSettings& settings, const DataUse& use);

// Data that is made where no folder is named: "listops", "pathfinder".
bool is_generated(std::string_view source);

// How they tell their files from others.
bool is_pictures(const Path& folder);
bool is_captions(const Path& folder);
bool is_parallel(const DataSettings& settings);
bool is_labelled(const DataSettings& settings, bool pairs);  // in a folder, or a file of columns
bool is_text(const Path& folder);

// Text that was turned into ids before: a folder of shards, or train, valid and test, each one of shards.
inline constexpr std::int64_t kWindowLength = 256;  // of text, where nothing else is said
bool is_shards(const Path& folder);
Dataset load_shards(const DataSettings& settings, const DataUse& use);

// The token after the last one of a text; refuses tokenisers without one.
std::int32_t end_of_text(const Tokenizer& tokenizer);

// What a tokeniser says of masks. Without one in it, the mask is an id of its own after the others.
Masking masking_of(const Tokenizer* tokenizer, std::int64_t& vocabulary);

// "mnist" of "data/mnist/", "input" of "input.txt.xz".
std::string data_name(const DataSettings& settings);

// The length that texts are cut to: as set, else `usual`, but no more than the model takes.
std::int64_t chosen_length(const DataSettings& settings, const DataUse& use, std::int64_t usual);

// The most that are kept of a part.
template <class T>
void keep_first(std::vector<T>& examples, std::int64_t count) {
  if (count > 0 && count < std::ssize(examples)) examples.resize(static_cast<std::size_t>(count));
}

// Moves one of every ten training examples, drawn at random, to the validation part, for data that comes without one.
template <class T>
void hold_out(std::vector<T>& train, std::vector<T>& validation) {
  constexpr std::uint64_t kSeed = 0x686f6c64;  // always the same: a run that goes on must find the same parts
  constexpr std::size_t kTen = 10;
  Random random(kSeed);
  std::vector<T> kept;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < train.size(); ++i) {
    if (i % kTen == 0) chosen = i + random.below(kTen);
    (i == chosen ? validation : kept).push_back(std::move(train[i]));
  }
  train = std::move(kept);
}

// The tokeniser of the model that exists, or the one that the settings name, which may be made from the texts.
// `by_default` is used where they name none.
std::shared_ptr<const Tokenizer> chosen_tokenizer(const Context& context, const DataSettings& settings,
                                                  const DataUse& use, std::string_view by_default,
                                                  std::span<const std::string_view> texts);

}  // namespace fovea
