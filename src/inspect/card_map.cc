#include "inspect/card_map.h"

#include "core/visit_device.h"

namespace fovea::inspection {
namespace {

// use<D>(rows) where D is a card.
template <class Use>
bool use_on_card(const Context& card, const MapSource& source, const Use& use) {
  const std::optional<ScoredRows> rows = source.scored();
  if (!rows) return false;
  visit_device(card, rows->in, [&]<Device D>() {
    if constexpr (D != Device::cpu)
      use.template operator()<D>(*rows);
    else
      fail(ErrorCode::unsupported, "maps of the host are measured as rows and tiles", "device");
  });
  return true;
}

}  // namespace

std::optional<MapSums> card_sums(const Context& card, const MapSource& source, const MapSpec& spec) {
  MapSums sums(spec);
  const auto sum = [&]<Device D>(const ScoredRows& rows) { kernels::sum_map<D>(card, rows, spec, sums); };
  if (!use_on_card(card, source, sum)) return {};
  return sums;
}

std::optional<MapRectangle> card_rectangle(const Context& card, const MapSource& source, const MapShape& shape,
                                           const MapRequest& request) {
  MapRectangle out{request, {}};
  const auto cut = [&]<Device D>(const ScoredRows& rows) { kernels::cut_rectangle<D>(card, rows, shape, out); };
  if (!use_on_card(card, source, cut)) return {};
  return out;
}

}  // namespace fovea::inspection
