#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/kit/interrupt.h"
#include "cli/kit/options.h"
#include "cli/kit/standard_input.h"
#include "cli/kit/verb.h"
#include "cli/verbs/generate_lines.h"
#include "data/text/bleu.h"
#include "experiment/run_folder.h"
#include "fovea/generate.h"
#include "fovea/pretrained.h"
#include "io/file.h"
#include "io/json.h"
#include "measure/stopwatch.h"
#include "text/text_file.h"

// fovea generate: continues prompts, or translates lines.
namespace fovea::cli {
namespace {

struct GenerateVerb {
  MachineOptions machine;
  GenerateOptions options;
  std::string folder, prompt, data, references, out, tokenizer, weights = "f32";
  std::string beam_stop{beam_stop_names().at(static_cast<std::size_t>(options.beam_stop))};
  std::optional<std::string> dtype;
  std::optional<std::int64_t> start;
  std::vector<std::string> stop;

  // With what was typed in another form than the options have.
  GenerateVerb checked() const {
    GenerateVerb out = *this;
    for (const std::string& text : stop) out.options.stop.push_back(unescaped(text));
    if (start) out.options.start = static_cast<std::int32_t>(*start);
    out.options.beam_stop = cli::beam_stop(beam_stop);
    return out;
  }
};

Tokenizer tokenizer_of(const GenerateVerb& verb, const Path& folder, const Model& model) {
  if (!verb.tokenizer.empty()) return Tokenizer::load(verb.tokenizer);
  if (const auto own = load_tokenizer(model, folder.string())) return *own;
  constexpr std::int64_t kBytes = 256;
  if (model.config().vocabulary < kBytes)
    fail(ErrorCode::bad_input,
         fmt::format("no tokenizer.json, and a vocabulary of {} is too small for bytes", model.config().vocabulary),
         folder.string(), "--tokenizer FOLDER");
  return Tokenizer::bytes();
}

std::vector<std::string> prompts_of(const GenerateVerb& verb) {
  if (verb.data.empty()) return {verb.prompt};
  std::vector<std::string> lines = lines_of(read_text(given_file(verb.data)));
  if (lines.empty()) fail(ErrorCode::bad_input, "no lines", verb.data, "one prompt on each line");
  return lines;
}

std::vector<std::string> references_of(const GenerateVerb& verb, std::size_t prompts) {
  if (verb.references.empty()) return {};
  std::vector<std::string> lines = lines_of(read_text(verb.references));
  if (lines.size() != prompts)
    fail(ErrorCode::bad_input, fmt::format("{} lines, but {} prompts", lines.size(), prompts), verb.references,
         "one line for each line of --data");
  return lines;
}

// How near the texts come to what somebody else wrote.
void compare(const std::vector<Generated>& results, const std::vector<std::string>& references, Json& document,
             const Console& console) {
  std::vector<std::string> texts;
  for (const Generated& result : results) texts.push_back(result.text);
  const Bleu bleu = corpus_bleu(texts, references);
  const double chrf = corpus_chrf(texts, references);
  document["bleu"] = bleu.score;
  document["chrf"] = chrf;
  console.note(fmt::format("BLEU {:.2f} (precisions {:.1f}, brevity {:.3f}), chrF {:.2f}, {} lines", bleu.score,
                           fmt::join(bleu.precisions, "/"), bleu.brevity, chrf, references.size()));
}

Json document_of(const std::vector<std::string>& prompts, const std::vector<Generated>& results, double seconds) {
  Json list = Json::array();
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Generated& r = results[i];
    tokens += r.ids.size();
    list.push_back({{"prompt", prompts[i]}, {"text", r.text}, {"ids", r.ids}, {"end", name_of(r.end)}});
    if (r.score != 0.0) list.back()["score"] = r.score;
  }
  return {{"results", list},
          {"tokens", tokens},
          {"seconds", seconds},
          {"tokens_per_second", static_cast<double>(tokens) / std::max(seconds, 1e-9)}};
}

bool shows_growth(const GenerateVerb& verb, const Console& console) { return !console.json && verb.out.empty(); }

// One prompt is shown as it grows, many as lines when they are complete; what goes to a file is not shown.
TextWatch watch_of(const GenerateVerb& verb, const Console& console, const std::shared_ptr<LineWriter>& lines) {
  TextWatch watch;
  if (lines != nullptr)
    watch.done = [lines](std::int64_t prompt, const Generated& result) { lines->put(prompt, result.text); };
  else if (shows_growth(verb, console))
    watch.piece = [](std::int64_t, std::string_view piece) { write_now(piece); };
  if (lines == nullptr && shows_growth(verb, console)) write_now(verb.prompt);
  return watch;
}

void run(const GenerateVerb& verb, const Console& console) {
  const WeightForm form = weight_form(verb.weights);
  const std::vector<std::string> prompts = prompts_of(verb), references = references_of(verb, prompts.size());
  Context context(verb.machine.context(console));
  const Path folder = checkpoint_of(verb.folder, "fovea generate");
  const Model model =
      load_model(context, folder.string(), verb.dtype ? std::optional(parse_dtype(*verb.dtype)) : std::nullopt);
  const Tokenizer tokenizer = tokenizer_of(verb, folder, model);
  Generator generator(context, model, form);
  const Interrupt interrupt;
  const bool by_line = !verb.data.empty() || model.config().task == Task::seq2seq;
  const auto lines = by_line ? std::make_shared<LineWriter>(verb.out, std::ssize(prompts), console) : nullptr;
  std::optional<AtomicFile> file;
  if (lines == nullptr && !verb.out.empty()) file.emplace(verb.out);
  const Stopwatch clock;
  const auto results = generate_text(generator, tokenizer, prompts, verb.options, watch_of(verb, console, lines),
                                     &interrupt.requested());
  const double seconds = clock.seconds();
  if (lines == nullptr && shows_growth(verb, console)) write_now("\n");
  if (file) {
    file->write(verb.prompt + results.front().text + "\n");
    file->commit();
  }
  if (lines != nullptr) lines->close();
  Json document = document_of(prompts, results, seconds);
  if (!references.empty() && !interrupt.requested()) compare(results, references, document, console);
  console.document(document);
  console.note(fmt::format("{} tokens in {:.2f} s: {:.1f} tokens/s", document["tokens"].get<std::int64_t>(), seconds,
                           document["tokens_per_second"].get<double>()));
  if (interrupt.requested())
    fail(ErrorCode::interrupted, fmt::format("stopped after {} tokens", document["tokens"].get<std::int64_t>()));
}

void add_options(const Arguments& verb, GenerateVerb& o) {
  GenerateOptions& g = o.options;
  const auto number = [&](const char* name, auto& value, const char* help, double low, double high) {
    verb.add_option(name, value, help).type_name("N").check(in_range(low, high)).show_default();
  };
  const Option prompt = verb.add_option("--prompt", o.prompt, "text to go on from").type_name("TEXT");
  const Option data = verb.add_option("--data", o.data, "file with a prompt on each line, or -").type_name("FILE");
  data.excludes(prompt);
  verb.add_option("--references", o.references, "what --data should give: BLEU, chrF").type_name("FILE").needs(data);
  verb.add_option("--out", o.out, "file for the results [standard output]").type_name("FILE");
  number("--tokens", g.max_tokens, "new tokens at most", 1, 1e9);
  number("--temperature", g.temperature, "0: the most likely token; above: draw", 0, 1e3);
  number("--top-k", g.top_k, "draw among the k most likely; 0: all", 0, 1e9);
  number("--top-p", g.top_p, "draw among the fewest with this probability", 1e-9, 1);
  number("--repetition-penalty", g.repetition_penalty, "above 1: repeat less", 0.01, 100);
  number("--beams", g.beams, "beginnings that beam search follows; 1: none", 1, 4096);
  number("--length-penalty", g.length_penalty, "of beams: above 0 favours long ones", -10, 10);
  verb.add_option("--beam-stop", o.beam_stop, "enough complete, likely or certain the best")
      .type_name("WHEN")
      .show_default()
      .common();
  verb.add_option("--stop", o.stop, "text to stop at; \\n is a new line").type_name("TEXT").repeatable();
  verb.add_option("--seed", g.seed, "of the draws").type_name("N").show_default();
  verb.add_option("--start", o.start, "first token of seq2seq [the tokeniser's]")
      .type_name("ID")
      .check(in_range(0, 1 << 30))
      .common();
  number("--batch", g.batch, "prompts that run together", 1, 4096);
  verb.add_option("--weights", o.weights, "f32, bf16 or int8: fewer bytes, faster").type_name("NAME").show_default();
  verb.add_option("--dtype", o.dtype, "of activations, f32 or bf16 [as trained]").type_name("NAME");
  verb.add_option("--tokenizer", o.tokenizer, "tokeniser [the model's own, or bytes]").type_name("FOLDER");
  add_machine_options(verb, o.machine);
}

}  // namespace

void add_generate(Program& program) {
  const auto options = std::make_shared<GenerateVerb>();
  const Arguments verb = program.add({"generate",
                                      "Continues a prompt with a language model, or translates lines.",
                                      {"fovea generate runs/first --prompt \"Once upon\" --temperature 0.8 --top-k 40",
                                       "fovea generate runs/translation --data lines.de --beams 4 --out lines.en"}},
                                     [options](const Console& console) { run(options->checked(), console); });
  verb.add_option("folder", options->folder, "folder of a run, a checkpoint or an import").required();
  add_options(verb, *options);
}

}  // namespace fovea::cli
