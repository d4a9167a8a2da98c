#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// The candidate a mistyped name most likely meant: the one with the fewest insertions, deletions, replacements and
// swaps of neighbours, upper and lower case being equal. Empty when none is near enough to be worth offering.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

// The hint of an "unknown name" error: `"lr"?` when a name is near, else all of them: `one of lr, steps, seed`.
std::string name_hint(std::string_view name, std::span<const std::string_view> candidates);

// Where `name` stands among the names of a choice; an error that says `unknown WHAT "name"` if it is none of them.
std::size_t place_of_name(std::string_view name, std::span<const std::string_view> names, std::string_view what,
                          const std::string& where);

}  // namespace fovea
