#include "data/text/masker.h"

#include <algorithm>

#include "fovea/error.h"

namespace fovea {

Masker::Masker(const Masking& masking) : masking_(masking) {
  std::sort(masking_.special.begin(), masking_.special.end());
  if (std::ssize(masking_.special) >= masking_.vocabulary)
    fail(ErrorCode::usage, "every token is special: there is nothing to mask", "masking");
}

void Masker::mask(std::span<std::int32_t> ids, std::int32_t* targets, Random& random) const {
  std::int64_t asked = 0, maskable = 0;
  std::fill_n(targets, ids.size(), -1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_special(ids[i])) continue;
    ++maskable;
    if (random.uniform() >= masking_.share) continue;
    ask(ids[i], targets[i], random);
    ++asked;
  }
  if (asked > 0 || maskable == 0) return;
  auto chosen = random.below(static_cast<std::uint32_t>(maskable));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!is_special(ids[i]) && chosen-- == 0) return ask(ids[i], targets[i], random);
}

bool Masker::is_special(std::int32_t id) const {
  return std::binary_search(masking_.special.begin(), masking_.special.end(), id);
}

void Masker::ask(std::int32_t& id, std::int32_t& target, Random& random) const {
  target = id;
  const double choice = random.uniform();
  if (choice < masking_.replaced) {
    id = masking_.mask;
  } else if (choice < masking_.replaced + masking_.random) {
    do id = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(masking_.vocabulary)));
    while (is_special(id));
  }
}

}  // namespace fovea
