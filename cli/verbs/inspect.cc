#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/verb.h"
#include "data/batches.h"
#include "experiment/inspect_files.h"
#include "experiment/inspect_worth.h"
#include "experiment/run_folder.h"
#include "fovea/pretrained.h"
#include "io/file.h"
#include "io/json.h"
#include "io/npy.h"
#include "measure/stopwatch.h"
#include "text/text_file.h"

// fovea inspect: what the heads of a model read, as one page.
namespace fovea::cli {
namespace {

struct InspectVerb {
  MachineOptions machine;
  std::string model, text, prompt, tokens, tags, second, picture, out, files, tokenizer, layers, split = "test", size,
                                                                                                 mechanisms;
  std::vector<std::string> beside, exact;
  std::optional<std::int64_t> length, example;
  bool paper_curve = false, rollout = false, force = false, importance = false, prune = false;
  std::int64_t examples = 32;

  bool asks_heads() const { return importance || prune; }
};

// A text is cut to so many tokens when nothing is said.
constexpr std::int64_t kUsualLength = 512;

int sources_of(const InspectVerb& verb) {
  return static_cast<int>(!verb.text.empty()) + static_cast<int>(!verb.prompt.empty()) +
         static_cast<int>(!verb.tokens.empty()) + static_cast<int>(!verb.tags.empty()) +
         static_cast<int>(!verb.picture.empty()) + static_cast<int>(verb.example.has_value());
}

void check(const InspectVerb& verb) {
  if (sources_of(verb) > 1)
    fail(ErrorCode::usage, "more than one thing to read", "fovea inspect",
         "one of --text, --prompt, --tokens, --tags, --picture and --example");
  if (verb.out.empty() && verb.files.empty() && !verb.asks_heads() && verb.mechanisms.empty())
    fail(ErrorCode::usage, "where to write the page?", "fovea inspect", "--out FILE.html");
  if (!verb.out.empty() && !verb.force && is_there(verb.out))
    fail(ErrorCode::usage, "there is such a file already", verb.out, "another name, or --force to write over it");
  if (!verb.exact.empty() && verb.files.empty())
    fail(ErrorCode::usage, "where to write the weights?", "--exact", "--files FOLDER");
  if (!verb.files.empty() && !verb.force && is_there(verb.files) && !std::filesystem::is_empty(verb.files))
    fail(ErrorCode::usage, "there is something in that folder already", verb.files,
         "another name, or --force to write over it");
}

// The tokeniser of the model, or what --tokenizer names; bytes for a model that takes them.
std::optional<Tokenizer> tokenizer_of(const InspectVerb& verb, const std::string& folder, const Model& model) {
  if (!verb.tokenizer.empty()) return Tokenizer::load(verb.tokenizer);
  if (const auto own = load_tokenizer(model, folder)) return own;
  if (model.config().vocabulary == 256) return Tokenizer::bytes();
  return {};
}

// What is read, and what the heads are asked for: the same, or more examples of the run's data.
struct Given {
  InspectSubject subject;
  Batch asked;
};

// An example of the data that the run was trained on.
Given example_of(const Context& context, const Model& model, const Path& checkpoint, const InspectVerb& verb,
                 const Console& console) {
  const Path run = checkpoint.parent_path();
  if (!is_there(run / kRunFile))
    fail(ErrorCode::usage, "nothing to read, and no run whose data could be taken", verb.model,
         "--text FILE, --prompt TEXT, --tokens 1,2,3 or --picture FILE.png");
  RunSettings settings = load_settings(run.string());
  settings.model = model.config();
  RunProgress progress(console);
  const Dataset data = load_data(context, settings, checkpoint, progress);
  const auto& split = verb.split == "train" ? data.train : verb.split == "validation" ? data.validation : data.test;
  if (empty(split))
    fail(ErrorCode::bad_input, fmt::format("{} has no examples for {}", data.name, verb.split), "--split");
  console.note(fmt::format("example {} of {}, {}", verb.example.value_or(0), data.name, verb.split));
  const std::int64_t first = verb.example.value_or(0);
  Given given{inspect_example(context, model, data, *split, first), {}};
  std::vector<std::int64_t> examples;
  for (std::int64_t i = 0; i < std::min(verb.examples, split->size()); ++i)
    examples.push_back((first + i) % split->size());
  if (verb.asks_heads()) given.asked = make_batch(context, *split, examples);
  return given;
}

// "0,5,7": ids and layers are counted from 0.
std::vector<std::int64_t> numbers_of(const std::string& text, const std::string& option) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *const last = text.data() + text.size();
  while (at < last) {
    std::int32_t number = -1;
    const auto [end, error] = std::from_chars(at, last, number);
    if (error != std::errc() || number < 0 || (end < last && (*end != ',' || end + 1 == last)))
      fail(ErrorCode::usage, fmt::format("expected whole numbers from 0 on, separated by commas, got \"{}\"", text),
           option, option + " 0,3,5");
    numbers.push_back(number);
    at = end < last ? end + 1 : last;
  }
  return numbers;
}

std::vector<std::int32_t> ids_of(const std::string& text, const std::string& option) {
  const std::vector<std::int64_t> numbers = numbers_of(text, option);
  return {numbers.begin(), numbers.end()};
}

InspectSubject text_of(const Context& context, const Model& model, const std::string& folder, const InspectVerb& verb) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(verb, folder, model);
  if (!verb.tokens.empty()) {
    return inspect_ids(context, model, tokenizer ? &*tokenizer : nullptr, ids_of(verb.tokens, "--tokens"),
                       ids_of(verb.second, "--second"));
  }
  if (!tokenizer)
    fail(ErrorCode::bad_input, "the model has no tokeniser", verb.model,
         model.config().vocabulary > 0 ? "--tokens 1,2,3, --example N or --tokenizer FOLDER" : "--example N");
  const bool is_file = !verb.text.empty() || !verb.tags.empty();
  const std::int64_t most = verb.length ? *verb.length
                            : is_file   ? std::min(kUsualLength, model.config().max_length)
                                        : 0;
  if (!verb.tags.empty()) return inspect_tagged(context, model, *tokenizer, read_tagged_text(verb.tags), most);
  const std::string text = verb.text.empty() ? verb.prompt : read_text(verb.text);
  return inspect_text(context, model, *tokenizer, text, verb.second, most);
}

Given given_of(Context& context, const Model& model, const Path& checkpoint, const InspectVerb& verb,
               const Console& console) {
  const bool text = !verb.text.empty() || !verb.prompt.empty() || !verb.tokens.empty() || !verb.tags.empty();
  if (!text && verb.picture.empty()) return example_of(context, model, checkpoint, verb, console);
  Given given{verb.picture.empty() ? text_of(context, model, checkpoint.string(), verb)
                                   : inspect_picture(context, model, verb.picture),
              {}};
  given.asked = given.subject.batch;
  if (verb.asks_heads()) ask_next_or_own(context, model, given.asked);
  return given;
}

std::int64_t longest_of(const InspectSubject& subject, const Model& model) {
  if (subject.picture) return subject.picture->rows * subject.picture->columns + 1;
  const auto tokens = [](const Input& input) { return input.ids.defined() ? input.ids.numel() : 0; };
  const std::int64_t n = std::max(tokens(subject.batch.input), tokens(subject.batch.second));
  return n > 0 ? n : model.config().max_length;
}

// Before the model has run: about how many heads the page will show.
std::int64_t heads_of(const ModelConfig& config, std::int64_t models) {
  std::int64_t heads = std::ssize(config.layers) * config.heads;
  if (config.decoder) heads += 2 * std::ssize(config.decoder->layers) * config.decoder->heads;
  return heads * models;
}

// "2,0,100,200,0,64": rows 100 to 199 and keys 0 to 63 of head 0 in layer 2.
MapRequest rectangle_of(const std::string& text) {
  const std::vector<std::int64_t> n = numbers_of(text, "--exact");
  if (n.size() != 6)
    fail(ErrorCode::usage, fmt::format("expected six numbers, got \"{}\"", text), "--exact",
         "--exact LAYER,HEAD,ROW,ROW,KEY,KEY: from the first row and key up to the second, which are left out");
  return {n[0], n[1], n[2], n[3], n[4], n[5]};
}

// Parts of maps as they are, not divided by anything: rectangle-2-0-rows-100-200-keys-0-64.npy.
std::vector<std::string> write_rectangles(Context& context, const Model& model, const Batch& batch,
                                          const InspectVerb& verb) {
  std::vector<MapRequest> requests;
  for (const std::string& text : verb.exact) requests.push_back(rectangle_of(text));
  if (requests.empty()) return {};
  std::vector<std::string> names;
  make_folder(verb.files);
  for (const MapRectangle& found : map_rectangles(context, model, batch, requests)) {
    const MapRequest& at = found.at;
    names.push_back(fmt::format("rectangle-{}-{}-rows-{}-{}-keys-{}-{}.npy", at.layer, at.head, at.row_begin,
                                at.row_end, at.key_begin, at.key_end));
    write_npy(Path(verb.files) / names.back(),
              Tensor::from<float>(context, {at.row_end - at.row_begin, at.key_end - at.key_begin}, found.weights));
  }
  return names;
}

struct Looked {
  InspectedModel model;
  std::vector<std::string> rectangles;
};

Looked look(Context& context, const std::string& name, const InspectVerb& verb, const Console& console,
            InspectPage& page) {
  const Path checkpoint = checkpoint_of(name, "fovea inspect");
  const Model model = load_model(context, checkpoint.string());
  const Given given = given_of(context, model, checkpoint, verb, console);
  const InspectSubject& subject = given.subject;
  if (subject.left_out > 0)
    console.note(fmt::format("the first {} of {} tokens are read; --length N for more", subject.tokens.input.size(),
                             std::ssize(subject.tokens.input) + subject.left_out));
  InspectOptions options{.paper_curve = verb.paper_curve,
                         .rollout = verb.rollout,
                         .notes = subject.notes,
                         .second_notes = subject.second_notes};
  if (!verb.layers.empty()) options.layers = numbers_of(verb.layers, "--layers");
  const std::int64_t n = longest_of(subject, model);
  options.cells = inspect_page_cells(n, heads_of(model.config(), 1 + std::ssize(verb.beside)), page.bytes);
  if (page.models.empty()) page.picture = subject.picture;
  InspectedModel out{.name = name, .record = inspect(context, model, subject.batch, options), .tokens = subject.tokens};
  if (verb.rollout && !out.record.rollout)
    console.note(
        fmt::format("no rollout: it needs layers with maps, of one length up to {} tokens", options.rollout_tokens));
  WorthQuestion question{subject.batch, given.asked, verb.importance, verb.prune};
  if (!verb.mechanisms.empty()) question.mechanisms = split_names(verb.mechanisms, "--approximation");
  add_worth(context, model, question, out);
  const bool first = page.models.empty();
  return {std::move(out), first ? write_rectangles(context, model, subject.batch, verb) : std::vector<std::string>()};
}

std::string sentence_of(const InspectPage& page) {
  std::string out;
  for (const InspectedModel& model : page.models) {
    std::size_t heads = 0;
    std::int64_t tokens = 0;
    for (const LayerRecord& layer : model.record.layers)
      heads += layer.heads.size(), tokens = std::max(tokens, layer.n_q);
    const std::string with = heads > 0 ? fmt::format("with {} heads", heads) : "none of which has a map,";
    out += fmt::format("{}{}: {} layers {} reading {} tokens", out.empty() ? "" : "; ", model.name,
                       model.record.layers.size(), with, tokens);
  }
  return out + ".";
}

// A number that JSON has, or null.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_worth_document(const InspectPage& page, Json& out) {
  for (const InspectedModel& model : page.models) {
    for (const HeadImportance& head : model.importance)
      out["importance"].push_back({{"model", model.name},
                                   {"layer", head.layer},
                                   {"head", head.head},
                                   {"by_gradient", number_or_null(head.by_gradient)},
                                   {"by_ablation", number_or_null(head.by_ablation)}});
    for (const PruningStep& step : model.pruning.steps)
      out["pruning"].push_back({{"model", model.name},
                                {"removed", step.removed},
                                {"loss", number_or_null(step.loss)},
                                {"accuracy", number_or_null(step.accuracy)}});
    for (const LayerApproximation& of : model.approximation)
      out["approximation"].push_back({{"model", model.name},
                                      {"layer", of.layer},
                                      {"mechanism", of.row.mechanism},
                                      {"length", of.row.length},
                                      {"output_error", number_or_null(of.row.output_error)},
                                      {"divergence", number_or_null(of.row.divergence)},
                                      {"top_agreement", number_or_null(of.row.top_agreement)},
                                      {"reason", of.row.reason}});
  }
}

// What the tokens told of a head, where they are known.
void add_token_document(const HeadVerdict& verdict, Json& head) {
  const auto add = [&](const char* name, const ComparedShare& found) {
    if (std::isfinite(found.share))
      head[name] = {{"of", found.of}, {"share", found.share}, {"baseline", number_or_null(found.baseline)}};
  };
  add("delimiters", verdict.delimiters);
  add("relation", verdict.relation);
  add("tag", verdict.tag);
}

Json document_of(const InspectPage& page, const InspectVerb& verb, const std::vector<std::string>& files,
                 double seconds) {
  Json layers = Json::array();
  for (const InspectedModel& model : page.models)
    for (const LayerRecord& layer : model.record.layers) {
      Json heads = Json::array();
      for (const HeadRecord& head : layer.heads) {
        const HeadVerdict& v = head.verdict;
        heads.push_back({{"head", head.head},
                         {"class", name_of(v.head_class)},
                         {"entropy", v.entropy},
                         {"area", head.area},
                         {"near_mass", v.near_mass},
                         {"deviation", v.deviation},
                         {"bad_rows", head.bad_rows}});
        add_token_document(v, heads.back());
      }
      layers.push_back({{"model", model.name},
                        {"place", layer.place},
                        {"mechanism", layer.mechanism},
                        {"map", name_of(layer.map.kind)},
                        {"map_text", layer.map.text},
                        {"heads", heads}});
    }
  Json out{{"layers", layers}, {"seconds", seconds}};
  add_worth_document(page, out);
  if (!verb.out.empty()) out["page"] = verb.out;
  if (!files.empty()) out["files"] = files;
  return out;
}

std::vector<std::string> models_of(const InspectVerb& verb) {
  std::vector<std::string> names{verb.model};
  names.insert(names.end(), verb.beside.begin(), verb.beside.end());
  return names;
}

void run(const InspectVerb& verb, const Console& console) {
  check(verb);
  Context context(verb.machine.context(console));
  std::optional<AtomicFile> file;
  if (!verb.out.empty()) file.emplace(verb.out);  // a place that cannot be written to is found before the work
  const Stopwatch clock;
  InspectPage page{.command = console.command, .paper_curve = verb.paper_curve};
  if (!verb.size.empty()) page.bytes = static_cast<std::int64_t>(parse_bytes(verb.size, "--size"));
  std::vector<std::string> files;
  for (const std::string& name : models_of(verb)) {
    Looked looked = look(context, name, verb, console, page);
    page.models.push_back(std::move(looked.model));
    files.insert(files.end(), looked.rectangles.begin(), looked.rectangles.end());
  }
  page.title = "What " + Path(verb.model).filename().string() + " reads";
  page.sentence = sentence_of(page);
  std::size_t bytes = 0;
  if (file) {
    const std::string html = inspect_page_html(page);
    bytes = html.size();
    file->write(html);
    file->commit();
  }
  if (!verb.files.empty())
    for (std::string& name : write_inspect_files(context, page, verb.files)) files.push_back(std::move(name));
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  console.print(inspect_table(page).text(terminal));
  if (verb.asks_heads()) console.print("\n" + inspect_importance_table(page).text(terminal));
  if (verb.prune) console.print("\n" + inspect_pruning_table(page).text(terminal));
  if (!verb.mechanisms.empty()) console.print("\n" + inspect_approximation_table(page, false).text(terminal));
  for (const InspectedModel& model : page.models)
    for (const LayerRecord& layer : model.record.layers)
      if (layer.heads.empty())
        console.note(fmt::format("{} ({}) has no map: {}", layer.place, layer.mechanism, layer.map.text));
  if (file)
    console.print(
        fmt::format("page: {} ({:.1f} MB, {:.1f} s)", verb.out, static_cast<double>(bytes) / 1e6, clock.seconds()));
  if (!files.empty()) console.print(fmt::format("files: {} in {}", files.size(), verb.files));
  console.document(document_of(page, verb, files, clock.seconds()));
}

// What is read and what is asked of it.
void add_sources(const Arguments& verb, InspectVerb& o) {
  verb.add_option("--text", o.text, "file with the text to read").type_name("FILE");
  verb.add_option("--prompt", o.prompt, "the text itself").type_name("TEXT");
  verb.add_option("--tokens", o.tokens, "the ids themselves: 5,1,7").type_name("IDS");
  verb.add_option("--tags", o.tags, "CoNLL-U file: a text whose words have tags").type_name("FILE");
  verb.add_option("--picture", o.picture, "PNG file, for models of pictures").type_name("FILE");
  verb.add_option("--example", o.example, "example of the run's own data [0]").type_name("N").check(in_range(0, 1e12));
  verb.add_option("--split", o.split, "of that data: train, validation or test [test]").type_name("NAME").common();
  verb.add_option("--second", o.second, "what a decoder reads, or the other text").type_name("TEXT");
  verb.add_option("--length", o.length, "tokens of the text at most [512]").type_name("N").check(in_range(1, 1e7));
  verb.add_option("--beside", o.beside, "another model on the same page (repeatable)").type_name("MODEL").repeatable();
  verb.add_option("--layers", o.layers, "only these: 0,3 [all]").type_name("LIST").common();
  verb.add_flag("--rollout", o.rollout, "attention rollout: all layers in one map");
  verb.add_flag("--importance", o.importance, "what each head is worth, by gradient and by taking it out");
  verb.add_flag("--prune", o.prune, "the score as heads are taken out, least important first");
  verb.add_option("--examples", o.examples, "of the run's data, for these two")
      .type_name("N")
      .show_default()
      .check(in_range(1, 1e6))
      .common();
  verb.add_option("--approximation", o.mechanisms, "how far these are from softmax on the model's q, k, v")
      .type_name("A,B");
}

// Where it goes.
void add_outputs(const Arguments& verb, InspectVerb& o) {
  verb.add_option("--out", o.out, "the page").type_name("FILE");
  verb.add_option("--files", o.files, "folder for CSV, .npy, PNG and SVG").type_name("FOLDER");
  verb.add_option("--exact", o.exact, "LAYER,HEAD,ROW,ROW,KEY,KEY as .npy (repeatable)")
      .type_name("PART")
      .repeatable()
      .common();
  verb.add_option("--size", o.size, "about how large the page may be [14MB, long texts 28MB]")
      .type_name("BYTES")
      .common();
  verb.add_flag("--paper-curve", o.paper_curve, "locality as the TransNormer paper's routine has it").common();
  verb.add_flag("--force", o.force, "write over what is there");
  verb.add_option("--tokenizer", o.tokenizer, "tokeniser [the model's own, or bytes]").type_name("FOLDER").common();
}

}  // namespace

void add_inspect(Program& program) {
  const auto o = std::make_shared<InspectVerb>();
  const Arguments verb = program.add({"inspect",
                                      "Shows on one page what the heads of a model read.",
                                      {"fovea inspect runs/first --text story.txt --out first.html",
                                       "fovea inspect bert --prompt \"The cat sat.\" --out bert.html"}},
                                     [o](const Console& console) { run(*o, console); });
  verb.add_option("model", o->model, "folder of a run, a checkpoint or an import").required();
  add_sources(verb, *o);
  add_outputs(verb, *o);
  add_machine_options(verb, o->machine);
}

}  // namespace fovea::cli
