#pragma once

#include <string>
#include <vector>

#include "experiment/predictions.h"
#include "fovea/data.h"
#include "report/html.h"

// What a trained model does with examples, for people to read.
namespace fovea {

// A text, as it may be read, cut to so many characters.
std::string readable(std::string_view text, std::size_t most = 300);

// The examples of a split as text, where its tokens stand for some; of pairs both.
std::vector<std::string> example_texts(const Context& context, const Dataset& data, const Split& split,
                                       std::span<const std::int64_t> examples);

// Examples that a classifier gets wrong, the surest first, some that it gets right, and which classes it takes for
// which.
std::vector<Section> class_sections(const Context& context, const Dataset& data, const Split& split,
                                    std::span<const Prediction> predictions);

// Numbers of texts that it gets most wrong, and some that it gets right.
std::vector<Section> number_sections(const Context& context, const Dataset& data, const Split& split,
                                     std::span<const NumberPrediction> predictions);

// How a language model goes on after the beginnings of some texts, or what a translator makes of some lines. None where
// the model does not generate, or the tokens stand for no text.
std::vector<Section> text_sections(Context& context, const Model& model, const Dataset& data, const Split& split);

}  // namespace fovea
