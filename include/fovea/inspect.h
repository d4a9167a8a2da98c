#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/attention.h"
#include "fovea/export.h"
#include "fovea/model.h"

// What attention does, at any length and for any mechanism: statistics of the maps that a model or a call makes, in
// memory that grows with the tokens and not with their square. docs/inspect.md defines every number.
namespace fovea {

// What stands for the weights of a mechanism.
enum class MapKind : std::uint8_t {
  weights,    // what the mechanism weighs with: no weight is negative
  effective,  // o = W v for the W that its steps come to: signed where they are; statistics are of |W|
  none,       // the output is not linear in v: there is no map, `reason` says why
};
FOVEA_EXPORT std::string_view name_of(MapKind kind);

// Which map of a mechanism is shown, in words, before a call is made.
struct MapNote {
  MapKind kind = MapKind::weights;
  std::string text;          // "weights after the softmax"; with `none`, why there is none
  bool sums_to_one = false;  // rows of the map, where they have a key at all
};
FOVEA_EXPORT MapNote map_note(const Mechanism& mechanism);

// What is known of the tokens that a model reads, for the classes of its heads. Lists are by token, or empty.
struct TaggedWord {
  std::string tag;         // its kind: "NOUN", "PERSON"; empty: none
  std::string relation;    // to the word it depends on: "nsubj"
  std::int64_t head = -1;  // that word; -1: none
};
struct TokenNotes {
  std::vector<std::uint8_t> delimiter;  // 1: a special token, or nothing but punctuation and white space
  std::vector<std::int32_t> word;       // which of the words; -1: none
  std::vector<TaggedWord> words = {};
};

// Every row is divided by the sum of its magnitudes before a statistic is made of it (`row_sum` keeps that sum).
struct InspectOptions {
  std::vector<std::int64_t> layers = {};  // which attention layers, in the order they run; empty: all
  std::int64_t sequence = 0;              // which sequence of the batch
  std::int64_t top = 8;                   // keys kept for each row, at most
  std::int64_t cells = 256;            // the finest level of the pyramid has at most so many rows and columns; 0: none
  std::int64_t curve_points = 100;     // of the locally accumulated score
  bool paper_curve = false;            // as the appendix of the TransNormer paper computes it
  std::int64_t block = 0;              // width of the block-diagonal share; 0: that of the mechanism, or 64
  bool rollout = false;                // of self-attention layers of equal length; up to `rollout_tokens`
  std::int64_t rollout_tokens = 2048;  // it needs a square of them
  TokenNotes notes = {}, second_notes = {};  // of the input, and of what a decoder reads
};

// A level of the pyramid: cells of `cell_rows` rows and `cell_keys` keys, the last of each smaller. The first level is
// the finest; where its cells are 1 by 1 its means are the weights themselves.
struct MapLevel {
  std::int64_t rows = 0, columns = 0;  // of cells
  std::int64_t cell_rows = 1, cell_keys = 1;
  std::vector<float> mean;     // (rows, columns): of the signed weights, as shares of their row
  std::vector<float> largest;  // (rows, columns): of their magnitudes
};

enum class HeadClass : std::uint8_t {
  previous,   // the token before, in most rows
  next,       // the token after
  self,       // the token itself
  offset,     // another fixed distance
  broadcast,  // one key takes most of the mass of other rows
  delimiter,  // special tokens and punctuation do
  syntactic,  // words read the one they depend on, or those that depend on them
  semantic,   // words of one kind
  block,      // inside blocks of neighbours
  local,      // near by
  diffuse,    // none of these
  undefined,  // rows without numbers
};
FOVEA_EXPORT std::string_view name_of(HeadClass head_class);

// A share, and what it would be of a head that knows nothing of tokens. NaN: they are not known.
struct ComparedShare {
  std::string of = {};
  double share = std::numeric_limits<double>::quiet_NaN();
  double baseline = std::numeric_limits<double>::quiet_NaN();
  double gain() const { return share - baseline; }
};

// The class of a head and the numbers it was told by; shares are means over rows that have a key.
struct HeadVerdict {
  HeadClass head_class = HeadClass::undefined;
  std::int64_t offset = 0;         // key position - query position at which most rows have their largest weight
  double offset_rate = 0.0;        // share of rows that do
  double near_mass = 0.0;          // mass within 3 tokens
  double deviation = 0.0;          // sqrt of the mean squared distance: the width of a Gaussian fitted to it
  std::int64_t broadcast_key = 0;  // the key with the most mass of other rows
  double broadcast_mass = 0.0;     // their mean mass on it
  std::int64_t block_width = 0;
  double block_mass = 0.0;         // mass inside the row's own block
  double block_by_distance = 0.0;  // the same of a head with these distances that knows no blocks
  double entropy = 0.0;            // mean over rows, divided by the logarithm of the keys a row may read
  ComparedShare delimiters = {};   // mass on delimiters; of a row that reads all keys alike
  // Words whose largest weight on another word is on that of the relation it follows best ("nsubj"; "nsubj back": from
  // the word that others depend on); of the best fixed distance.
  ComparedShare relation = {};
  // Of the mass on words that on those of one tag, or, of "its own", words whose largest weight on another word is on
  // one of their own tag; of a row that reads all words alike.
  ComparedShare tag = {};
};

// One head of one layer. Numbers that a row does not have (no key, NaN weights) are NaN.
struct HeadRecord {
  std::int64_t head = 0;
  // By row, n_q of each.
  std::vector<float> entropy;         // 0 to log(n_k)
  std::vector<float> effective_keys;  // e^entropy
  std::vector<float> largest;         // weight (share of the row), and which key has it; -1: none
  std::vector<std::int32_t> largest_key;
  std::vector<float> max_logit;  // largest score; empty where the mechanism has no scores
  std::vector<float> row_sum;    // sum of magnitudes before the row was divided by it
  // (n_q, top), the largest first; -1 and 0 where a row has fewer.
  std::int64_t top = 0;
  std::vector<std::int32_t> top_keys;
  std::vector<float> top_weights;  // signed shares
  // By key, n_k: the mass it receives from all rows.
  std::vector<double> received;
  // n_q + n_k - 1: element key - row + n_q - 1 has the mean over rows of the mass at that distance. Where a causal map
  // has fewer queries than keys, row i stands on key i + n_k - n_q.
  std::vector<double> distance;
  // curve[p]: mean over rows of the mass on the (p + 1) / points share of the keys nearest to the row, and the area
  // below. With paper_curve: curve[p] is the share of keys at which the mass first reaches p / points.
  std::vector<double> curve;
  double area = 0.0;
  std::vector<MapLevel> pyramid;  // finest first, the last has one cell
  HeadVerdict verdict;
  std::int64_t bad_rows = 0;  // rows with NaN or infinite weights
};

struct LayerRecord {
  std::int64_t index = 0;  // in the order they run
  std::string place;       // "model.layers[3].attention"
  std::string mechanism;   // "diag:block=32"
  MapNote map;
  bool causal = false, cross = false;
  std::int64_t n_q = 0, n_k = 0;
  std::vector<HeadRecord> heads;  // none without a map
  std::vector<float> rollout;     // (n, n) up to and with this layer, where asked for
};

struct InspectRecord {
  std::string model;  // its task
  std::vector<LayerRecord> layers;
  std::optional<LayerRecord> rollout;  // of all layers that read the input, as one head, where asked for
};

// Runs the model on a batch and measures layer after layer, in memory of one layer.
FOVEA_EXPORT InspectRecord inspect(Context& context, const Model& model, const Batch& batch,
                                   const InspectOptions& options = {});
// The same of one attention call: q (b, n_q, heads, d_k), k and v as attention() takes them.
FOVEA_EXPORT LayerRecord inspect_attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Mechanism& mechanism, const AttentionOptions& call = {},
                                           const InspectOptions& options = {});

// A part of a map: weights of rows [row_begin, row_end) on keys [key_begin, key_end), not divided by anything.
struct MapRequest {
  std::int64_t layer = 0;  // in the order they run; of a single call: which of its sequences
  std::int64_t head = 0;
  std::int64_t row_begin = 0, row_end = 0, key_begin = 0, key_end = 0;
};
struct MapRectangle {
  MapRequest at;
  std::vector<float> weights;  // (row_end - row_begin, key_end - key_begin)
};
// Exact, in the order asked for; one run of the model serves all of them.
FOVEA_EXPORT std::vector<MapRectangle> map_rectangles(Context& context, const Model& model, const Batch& batch,
                                                      std::span<const MapRequest> requests, std::int64_t sequence = 0);
FOVEA_EXPORT MapRectangle map_rectangle(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Mechanism& mechanism, const AttentionOptions& call,
                                        const MapRequest& request);

// How far a mechanism is from softmax on the same q, k and v.
struct ApproximationRow {
  std::string mechanism;
  std::int64_t length = 0;
  double output_error = 0.0;   // |o - o_softmax| / |o_softmax|, over all rows and heads
  double divergence = 0.0;     // mean KL(softmax row || row of the mechanism), natural logarithm; NaN without a map
  double top_agreement = 0.0;  // share of the 8 largest keys of softmax that are among the 8 largest of the mechanism
  double seconds = 0.0, softmax_seconds = 0.0;  // of a forward pass each
  std::string reason;                           // why numbers are missing
};
// The first `length` rows of the first item of q, k and v, for each of the lengths. Weights of mechanisms that have
// some are drawn. Maps are compared on 256 rows at most, evenly along the sequence.
FOVEA_EXPORT std::vector<ApproximationRow> approximation(Context& context, const Tensor& q, const Tensor& k,
                                                         const Tensor& v, std::span<const std::string> mechanisms,
                                                         std::span<const std::int64_t> lengths, bool causal = false);

// The same on what each attention layer of a model reads in the first sequence, whatever its own mechanism: with all of
// its tokens, and before that with the first `lengths` of them.
struct LayerApproximation {
  std::int64_t layer = 0;  // in the order they run
  std::string place;
  ApproximationRow row;
};
FOVEA_EXPORT std::vector<LayerApproximation> approximation(Context& context, const Model& model, const Batch& batch,
                                                           std::span<const std::string> mechanisms,
                                                           std::span<const std::int64_t> lengths = {});

// What the heads of a model are worth on a batch: the mean over examples of |dL / dgate| for a gate on the output of a
// head, divided by the Euclidean norm over the heads of its layer; and how much the loss grows without the head.
struct HeadImportance {
  std::string place;
  std::int64_t layer = 0;  // in the order they run
  std::int64_t head = 0;
  double by_gradient = 0.0;
  double by_ablation = std::numeric_limits<double>::quiet_NaN();  // where asked for
};
FOVEA_EXPORT std::vector<HeadImportance> head_importance(Context& context, const Model& model, const Batch& batch,
                                                         bool ablation = false);

// How a model fares on a batch as its heads are taken out, the least important first (by ablation where it was
// measured, else by gradient); the last head of a layer stays.
struct PruningStep {
  std::int64_t removed = 0;           // heads
  double loss = 0.0, accuracy = 0.0;  // accuracy where there are classes
};
struct HeadPruning {
  std::vector<std::int64_t> order;  // heads as they are taken out, as places in the list of importance
  std::vector<PruningStep> steps;   // from none removed to all that can be
};
FOVEA_EXPORT HeadPruning head_pruning(Context& context, const Model& model, const Batch& batch,
                                      std::span<const HeadImportance> heads, std::int64_t points = 16);

}  // namespace fovea
