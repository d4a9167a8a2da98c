#include <algorithm>
#include <array>

#include "fovea/inspect.h"
#include "mechanisms/kind.h"

namespace fovea {
namespace {

struct Note {
  std::string_view mechanism;
  MapKind kind;
  bool sums_to_one;
  std::string_view text;
};

using enum MapKind;
constexpr std::array kNotes{
    Note{"softmax", weights, true, "weights after the softmax"},
    Note{"taylor", weights, true, "Taylor polynomials of the scores, divided by their sum"},
    Note{"topk", weights, true, "weights of the keys that are kept"},
    Note{"sparsemax", weights, true, "projections of the scores to the simplex"},
    Note{"entmax15", weights, true, "weights after entmax"},
    Note{"margin", weights, true, "weights after the softmax, without the margin of training"},
    Note{"rela", weights, false, "rectified scores, before the norm"},
    Note{"relu2", weights, false, "squared rectified scores, before the norm"},
    Note{"sa-softmax", effective, false, "score times its share; negative where the score is"},
    Note{"sigmoid", weights, false, "sigmoids of the scores"},
    Note{"additive", weights, true, "weights after the softmax"},
    Note{"shaw", effective, false, "weights after the softmax; values by distance are no part of it"},
    Note{"xl", weights, true, "weights after the softmax"},
    Note{"diag", weights, false,
         "weights inside the blocks, before the norm; zero keys that fill the last one keep theirs"},
    Note{"window", weights, true, "weights after the softmax over the window"},
    Note{"dilated", weights, true, "weights after the softmax over the pattern"},
    Note{"star", effective, false, "what satellites and relay read, through all its steps"},
    Note{"sparse-fixed", weights, true, "weights after the softmax over the pattern"},
    Note{"sparse-strided", weights, true, "weights after the softmax over the pattern"},
    Note{"logsparse", weights, true, "weights after the softmax over the pattern"},
    Note{"cascade", weights, true, "weights after the softmax over the pattern"},
    Note{"longformer", weights, true, "window and global tokens, each with projections of their own"},
    Note{"bigbird", weights, true, "weights after the softmax over the pattern"},
    Note{"fixed-encoder", weights, true, "given heads as given, learned ones after the softmax"},
    Note{"informer", weights, true, "softmax of the queries that are kept, the mean of others"},
    Note{"reformer", weights, true, "all rounds of hashing, joined"},
    Note{"sinkhorn", effective, false, "sorted blocks and the query's own, joined"},
    Note{"transformer-xl", weights, true, "segment and memory in one softmax"},
    Note{"compressive", effective, false, "segment, memory and compressed memory, unfolded to tokens"},
    Note{"memformer", weights, false, "weights on tokens; the read of the slots is no part of it"},
    Note{"linear", effective, true, "products of features over their sum"},
    Note{"norm", effective, false, "products of features, before the norm"},
    Note{"performer", weights, true, "products of random features over their sum"},
    Note{"rfa", effective, false, "products of random features over their sum, with the gates"},
    Note{"cosformer", weights, true, "rectified products with their cosine, over their sum"},
    Note{"retnet", effective, false, "products with their decay, before the norm"},
    Note{"lightning", effective, false, "products with their decay, before the norm"},
    Note{"gla", effective, false, "products with the decay of every channel, before the norm"},
    Note{"lara", effective, false, "estimate over all proposals"},
    Note{"flash-quad", weights, false, "squared rectified scores, before the gate"},
    Note{"flash-gau", effective, false, "chunks and the linear part, before the gate"},
    Note{"polysketch", weights, true, "powers of the scores, or their sketch, over their sum"},
    Note{"kernelized", weights, false, "Gaussian kernel of queries and keys"},
    Note{"linformer", effective, false, "weights on projected keys, unfolded to tokens"},
    Note{"nystrom", effective, false, "product of the three factors"},
    Note{"skyformer", effective, false, "product of the three factors"},
    Note{"long-short", none, false, "values are normalised over all heads: the output is not linear in v"},
    Note{"s4d", effective, false, "the convolution, its mean over the channels of a head"},
};

}  // namespace

std::string_view name_of(MapKind kind) {
  constexpr std::string_view kNames[] = {"weights", "effective", "none"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(HeadClass head_class) {
  constexpr std::string_view kNames[] = {"previous",  "next",     "self",  "offset", "broadcast", "delimiter",
                                         "syntactic", "semantic", "block", "local",  "diffuse",   "undefined"};
  return kNames[static_cast<std::size_t>(head_class)];
}

MapNote map_note(const Mechanism& mechanism) {
  if (mechanism.name() == "compressive" && mechanism.choice("pool") != "mean")
    return {effective,
            "segment, memory and compressed memory, unfolded to tokens: the mean over channels of what an output "
            "changes by "
            "when all channels of a token do",
            false};
  const auto note =
      std::find_if(kNotes.begin(), kNotes.end(), [&](const Note& n) { return n.mechanism == mechanism.name(); });
  if (note == kNotes.end()) return {effective, "o = W v, from the gradient of the output", false};
  return {note->kind, std::string(note->text), note->sums_to_one};
}

}  // namespace fovea
