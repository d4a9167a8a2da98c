#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fovea/inspect_page.h"

namespace fovea {

// By token, 1 for a special one and for those of nothing but punctuation and white space.
std::vector<std::uint8_t> delimiters_of(const Encoding& encoding, std::string_view text);
std::vector<std::uint8_t> delimiters_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

// By token, the word that it begins in; -1: none.
std::vector<std::int32_t> words_of(const Encoding& encoding, const TaggedText& tagged);

}  // namespace fovea
