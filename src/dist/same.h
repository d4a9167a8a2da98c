#pragma once

#include <span>
#include <string>

#include "dist/group.h"

namespace fovea::dist {

// Refuses ranks that differ in a text, naming the first line that does, or in the numbers of tensors, bit for bit.
void require_same(const Group& ranks, const std::string& what, const std::string& text);
void require_same(const Group& ranks, const std::string& what, std::span<const Tensor> tensors);

}  // namespace fovea::dist
