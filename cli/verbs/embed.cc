#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/progress.h"
#include "cli/kit/standard_input.h"
#include "cli/kit/verb.h"
#include "experiment/run_folder.h"
#include "fovea/pretrained.h"
#include "fovea/safetensors.h"
#include "io/csv.h"
#include "io/npy.h"
#include "measure/stopwatch.h"
#include "report/terminal.h"
#include "text/text_file.h"

// fovea embed: one vector for each text.
namespace fovea::cli {
namespace {

struct EmbedVerb {
  MachineOptions machine;
  std::string model, data, out;
  std::vector<std::string> texts;
  std::int64_t neighbours = 0, batch = 4096;
  bool normalize = false;
};

// The texts given one by one, then the lines of the file.
std::vector<std::string> texts_of(const EmbedVerb& verb) {
  std::vector<std::string> texts = verb.texts;
  if (!verb.data.empty()) {
    const std::string content = read_text(given_file(verb.data));
    for (std::size_t begin = 0; begin < content.size();) {
      const std::size_t end = std::min(content.find('\n', begin), content.size());
      const std::size_t ink = end > begin && content[end - 1] == '\r' ? end - 1 : end;
      texts.push_back(content.substr(begin, ink - begin));
      begin = end + 1;
    }
  }
  if (texts.empty())
    fail(ErrorCode::usage, "no texts", verb.data.empty() ? "fovea embed" : verb.data,
         "--text TEXT, or --data FILE with one on each line");
  return texts;
}

void write_csv(const Path& path, const Tensor& vectors) {
  std::string text;
  const std::vector<double> values = vectors.to_vector<double>();
  const auto width = static_cast<std::size_t>(vectors.dim(1));
  for (std::size_t row = 0; row < static_cast<std::size_t>(vectors.dim(0)); ++row) {
    std::vector<CsvCell> cells(values.begin() + static_cast<std::ptrdiff_t>(row * width),
                               values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    text += csv_line(cells);
  }
  write_file(path, text);
}

void check_name(const std::string& out) {
  const std::string ending = Path(out).extension().string();
  if (!out.empty() && ending != ".npy" && ending != ".safetensors" && ending != ".csv")
    fail(ErrorCode::usage, fmt::format("\"{}\" says no format that vectors are written in", out), "--out",
         "a name that ends in .npy, .safetensors or .csv");
}

void write(const std::string& out, const Tensor& vectors) {
  const std::string ending = Path(out).extension().string();
  if (ending == ".npy") return write_npy(out, vectors);
  if (ending == ".csv") return write_csv(out, vectors);
  const NamedTensor named{"embeddings", vectors};
  write_safetensors(out, std::span(&named, 1));
}

// Each text, and below it those most like it.
std::string neighbour_text(const std::vector<std::string>& texts, const std::vector<std::vector<Neighbour>>& near) {
  constexpr std::size_t kNumber = 10;  // columns before a text
  const auto room = static_cast<std::size_t>(std::max(20, Terminal::of(STDOUT_FILENO).width)) - kNumber;
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    out += fmt::format("{}\n", cut_right(texts[i], room + kNumber));
    for (const Neighbour& other : near[i])
      out += fmt::format("  {:6.3f}  {}\n", other.cosine, cut_right(texts[static_cast<std::size_t>(other.row)], room));
  }
  return out;
}

Json document_of(const EmbedVerb& verb, const Tensor& vectors, const std::vector<std::vector<Neighbour>>& near) {
  Json rows = Json::array();
  for (const auto& row : near) {
    Json list = Json::array();
    for (const Neighbour& other : row) list.push_back({{"row", other.row}, {"cosine", other.cosine}});
    rows.push_back(std::move(list));
  }
  Json result = {{"texts", vectors.dim(0)}, {"width", vectors.dim(1)}};
  if (!verb.out.empty()) result["file"] = verb.out;
  if (verb.neighbours > 0) result["neighbours"] = std::move(rows);
  return result;
}

void run(const EmbedVerb& verb, const Console& console) {
  check_name(verb.out);
  const std::vector<std::string> texts = texts_of(verb);
  if (verb.out.empty() && verb.neighbours == 0)
    fail(ErrorCode::usage, "what to do with the vectors?", "fovea embed", "--out FILE, or --neighbours K");
  Context context(verb.machine.context(console));
  const std::string folder = checkpoint_of(verb.model, "fovea embed").string();
  const Model model = load_model(context, folder);
  const std::optional<Tokenizer> tokenizer = load_tokenizer(model, folder);
  if (!tokenizer)
    fail(ErrorCode::bad_input, "the model has no tokeniser", folder,
         "a model from fovea import, with its tokenizer.json");
  const Stopwatch watch;
  Progress progress(progress_options(console, "embed", "texts"));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Tensor vectors = embed(
      context, model, *tokenizer, views,
      {.batch_tokens = verb.batch, .normalize = verb.normalize, .progress = [&](std::int64_t done, std::int64_t all) {
         progress.update({.step = done, .total = all});
       }});
  progress.finish();
  const double seconds = watch.seconds();
  if (!verb.out.empty()) write(verb.out, vectors);
  const auto near = neighbours(context, vectors, verb.neighbours);
  if (verb.neighbours > 0) console.print(neighbour_text(texts, near));
  if (!verb.out.empty())
    console.print(fmt::format("{}: {} vectors of {} in {:.2f} s", verb.out, vectors.dim(0), vectors.dim(1), seconds));
  console.document(document_of(verb, vectors, near));
}

}  // namespace

void add_embed(Program& program) {
  const auto options = std::make_shared<EmbedVerb>();
  const Arguments verb = program.add({"embed",
                                      "Turns texts into vectors, and shows which are alike.",
                                      {"fovea embed minilm --data sentences.txt --out vectors.npy",
                                       "fovea embed minilm --data sentences.txt --neighbours 3"}},
                                     [options](const Console& console) { run(*options, console); });
  verb.add_option("model", options->model, "folder of a run or of a model, with a tokeniser").required();
  verb.add_option("--text", options->texts, "a text; may be given again").type_name("TEXT").repeatable();
  verb.add_option("--data", options->data, "file with a text on each line, also as .xz, or -").type_name("FILE");
  verb.add_option("--out", options->out, "vectors, as .npy, .safetensors or .csv").type_name("FILE");
  verb.add_option("--neighbours", options->neighbours, "shows the K texts most like each")
      .type_name("K")
      .check(in_range(1, 1e6));
  verb.add_flag("--normalize", options->normalize, "vectors of length 1");
  verb.add_option("--batch", options->batch, "tokens at once").type_name("N").check(in_range(1, 1e8)).show_default();
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
