#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/export.h"
#include "fovea/inspect.h"
#include "fovea/tokenizer.h"

// What inspect() found as one HTML file that needs nothing else: docs/inspect.md shows it.
namespace fovea {

// The tokens of an input as people read them, with the spaces before them; any bytes. None: they are numbers.
struct InspectTokens {
  std::vector<std::string> input;   // of the first sequence
  std::vector<std::string> second;  // of what a decoder reads
};

// A model, or a call, beside others on one page.
struct InspectedModel {
  std::string name;  // "runs/gpt", "softmax"
  InspectRecord record;
  InspectTokens tokens = {};
  std::vector<HeadImportance> importance = {};         // where it was asked for, and so of the others
  HeadPruning pruning = {};                            // of these heads
  std::vector<LayerApproximation> approximation = {};  // other mechanisms in place of its own
};

// What a vision model reads: a grid of patches, the last rows * columns tokens of the input.
struct InspectPicture {
  std::int64_t height = 0, width = 0;  // pixels
  std::vector<std::uint8_t> rgb;       // (height, width, 3)
  std::int64_t rows = 0, columns = 0;  // patches
};

// What a model is given to read, and how it looks.
struct InspectSubject {
  Batch batch;
  InspectTokens tokens = {};
  std::optional<InspectPicture> picture = {};
  std::int64_t left_out = 0;                 // tokens of the text beyond those asked for
  TokenNotes notes = {}, second_notes = {};  // for the classes of heads, where the tokens are those of a text
};

// A text whose words are tagged.
struct TaggedText {
  std::string text;
  std::vector<TaggedWord> words;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of the words: first and one past the last byte
};
// A file of CoNLL-U: words with their part of speech (UPOS), and what they depend on (HEAD, DEPREL), sentence after
// sentence. Their text is put together of the words and what is said of the spaces between them.
FOVEA_EXPORT TaggedText read_tagged_text(const std::string& path);

// Text for any model of tokens; `second` for those that read two, of which the last token is left out by a decoder.
// `most`: tokens at most; 0: all.
FOVEA_EXPORT InspectSubject inspect_text(const Context& context, const Model& model, const Tokenizer& tokenizer,
                                         std::string_view text, std::string_view second = {}, std::int64_t most = 0);
// A text with tags, for models that read one.
FOVEA_EXPORT InspectSubject inspect_tagged(const Context& context, const Model& model, const Tokenizer& tokenizer,
                                           const TaggedText& tagged, std::int64_t most = 0);
// Ids as they are; a tokeniser, where there is one, says what they look like.
FOVEA_EXPORT InspectSubject inspect_ids(const Context& context, const Model& model, const Tokenizer* tokenizer,
                                        std::span<const std::int32_t> ids, std::span<const std::int32_t> second = {});
// An example of a data set.
FOVEA_EXPORT InspectSubject inspect_example(const Context& context, const Model& model, const Dataset& data,
                                            const Split& split, std::int64_t example);
// A PNG file for a vision model, drawn to its size; values are (x - mean) / deviation.
FOVEA_EXPORT InspectSubject inspect_picture(const Context& context, const Model& model, const std::string& path,
                                            double mean = 0.5, double deviation = 0.5);

// Gives a batch what its loss is made of, where it has nothing yet: the next token of language models and decoders, of
// others the answer that the model itself gives. Refuses models without a loss.
FOVEA_EXPORT void ask_next_or_own(Context& context, const Model& model, Batch& batch);

// What the heads of a model are worth, and whether another mechanism would do.
struct WorthQuestion {
  const Batch& read;                         // by the mechanisms
  const Batch& asked;                        // for the heads: a batch with targets
  bool importance = false, pruning = false;  // pruning goes by ablation with importance, without it by gradient
  std::vector<std::string> mechanisms = {};  // to compare with softmax
};
// Fills in importance, pruning and approximation of a model.
FOVEA_EXPORT void add_worth(Context& context, const Model& model, const WorthQuestion& question,
                            InspectedModel& inspected);

struct InspectPage {
  std::string title = {}, sentence = {};
  std::string command = {};  // that made it
  std::vector<InspectedModel> models = {};
  std::optional<InspectPicture> picture = {};  // of the first model
  bool paper_curve = false;                    // as the records were made
  std::int64_t bytes = 0;                      // about how large the file may be; 0: 14 MB, and 28 MB for long texts
};

// Weights are kept as bytes on a logarithmic scale, its steps as fine as the size of the file allows; the `top` largest
// of each row in half precision. Throws for a page without models, or records whose sizes do not fit together.
FOVEA_EXPORT std::string inspect_page_html(const InspectPage& page);

// How fine a pyramid a page shows: InspectOptions::cells for maps of n x n tokens, heads of them.
FOVEA_EXPORT std::int64_t inspect_page_cells(std::int64_t n, std::int64_t heads, std::int64_t bytes = 0);

}  // namespace fovea
