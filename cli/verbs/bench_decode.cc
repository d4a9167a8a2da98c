#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/kit/load_warning.h"
#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "cli/verbs/generate_lines.h"
#include "fovea/version.h"
#include "generate/decoder.h"
#include "io/fields.h"
#include "measure/machine.h"
#include "measure/rounds.h"
#include "measure/stopwatch.h"
#include "report/html.h"

// fovea bench decode: time and memory of one more token, by how many came before and how many sequences go on together.
namespace fovea::cli {
namespace {

struct DecodeOptions {
  MachineOptions machine;
  std::string model = "gpt2-small", attention, contexts = "1024,8192", batches = "1", dtype = "f32", weights = "bf16",
              out;
  std::vector<std::string> set;
  std::int64_t tokens = 16;
};

// What --set changes.
struct ModelSettings {
  ModelConfig model;
  void fields(FieldVisitor& v) { v("model", model, "the model"); }
};

struct DecodeRow {
  std::string attention;
  std::int64_t context = 0, batch = 1;
  double seconds = 0.0, spread = 0.0;  // of one step: median, and half the distance between the quartiles
  std::size_t bytes = 0;               // that the sequences are remembered in

  double tokens_per_second() const { return static_cast<double>(batch) / seconds; }
};

struct DecodeReport {
  std::string command, setting, machine;
  std::vector<DecodeRow> rows;
  std::vector<std::string> warnings = {};
};

constexpr std::int64_t kBytes = 256;     // vocabulary of presets that leave it open
constexpr std::int64_t kShortest = 256;  // context that a curve starts from
constexpr std::int64_t kChunk = 1024;    // tokens read at once on the way to a context

std::vector<std::int64_t> contexts_of(const DecodeOptions& options) {
  std::vector<std::int64_t> contexts = split_numbers(options.contexts, "--context");
  if (contexts.size() == 1 && !options.out.empty())
    for (std::int64_t n = contexts[0] / 2; n >= kShortest; n /= 2) contexts.push_back(n);
  std::sort(contexts.begin(), contexts.end());
  return contexts;
}

ModelConfig config_of(const DecodeOptions& options, const std::string& attention, std::int64_t longest) {
  ModelSettings settings{ModelConfig::preset(options.model)};
  ModelConfig& config = settings.model;
  if (!attention.empty()) config.set_attention(attention);
  if (config.vocabulary == 0) config.vocabulary = kBytes;
  config.dtype = parse_dtype(options.dtype);
  config.max_length = std::max(config.max_length, longest + options.tokens);
  set_fields(settings, options.set);
  return settings.model;
}

// Sequences that go on together, and how long each step took.
struct Together {
  std::vector<nn::Past> pasts;
  std::vector<double> seconds = {};

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const nn::Past& past : pasts)
      for (const nn::LayerPast& layer : past.layers) sum += layer.self.bytes();
    return sum;
  }
};

// `count` more tokens of every sequence; gives the seconds.
double read(const Decoder& decoder, std::span<nn::Past> pasts, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    tokens[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((pasts[0].length + i) * 31 % decoder.vocabulary());
  std::vector<Reading> readings;
  for (nn::Past& past : pasts) readings.push_back({&past, tokens});
  const Stopwatch watch;
  decoder.step(readings);
  return watch.seconds();
}

DecodeRow row_of(const Together& group, std::int64_t context) {
  std::vector<double> seconds = group.seconds;
  std::sort(seconds.begin(), seconds.end());
  const std::size_t quarter = seconds.size() / 4;
  return {.attention = {},
          .context = context,
          .batch = std::ssize(group.pasts),
          .seconds = median(seconds),
          .spread = 0.5 * (seconds[seconds.size() - 1 - quarter] - seconds[quarter]),
          .bytes = group.bytes()};
}

// Reads tokens up to each context in turn, and times some single ones there: of one batch and another by turns.
void measure(const Decoder& decoder, const DecodeOptions& options, const std::vector<std::int64_t>& contexts,
             const std::function<void(const DecodeRow&)>& done) {
  nn::Past past = decoder.new_past();
  read(decoder, {&past, 1}, 1);  // packs the weights
  for (const std::int64_t context : contexts) {
    while (past.length < context) read(decoder, {&past, 1}, std::min(kChunk, context - past.length));
    std::vector<Together> groups;
    for (const std::int64_t batch : split_numbers(options.batches, "--batch"))
      groups.push_back({std::vector(static_cast<std::size_t>(batch), past)});
    for (Together& group : groups) read(decoder, group.pasts, 1);  // every sequence gets a memory of its own
    for (std::int64_t i = 0; i < options.tokens; ++i)
      for (Together& group : groups) group.seconds.push_back(read(decoder, group.pasts, 1));
    for (const Together& group : groups) done(row_of(group, context));
  }
}

Table table_of(const DecodeReport& report) {
  Table table({{"context", Quantity::text},
               {"batch", Quantity::text},
               {"time per step", Quantity::seconds},
               {"tokens/s", Quantity::number},
               {"memory (MB)", Quantity::number}});
  for (const DecodeRow& row : report.rows)
    table.add(row.attention,
              {std::to_string(row.context), std::to_string(row.batch), TableCell(row.seconds, row.spread),
               row.tokens_per_second(), 1e-6 * static_cast<double>(row.bytes)});
  return table;
}

Plot plot_of(const DecodeReport& report, const std::string& title, const Axis& axis,
             double (*value)(const DecodeRow& row)) {
  Plot plot;
  plot.title = title;
  plot.x = {"tokens before", "", Scale::log2};
  plot.y = axis;
  for (const DecodeRow& row : report.rows) {
    const std::string name = row.batch == 1 ? row.attention : fmt::format("{}, {} together", row.attention, row.batch);
    auto series = std::find_if(plot.series.begin(), plot.series.end(), [&](auto& s) { return s.name == name; });
    if (series == plot.series.end()) series = plot.series.insert(series, {name});
    series->x.push_back(static_cast<double>(row.context));
    series->y.push_back(value(row));
  }
  return plot;
}

Json json_of(const DecodeReport& report) {
  Json rows = Json::array();
  for (const DecodeRow& row : report.rows)
    rows.push_back({{"attention", row.attention},
                    {"context", row.context},
                    {"batch", row.batch},
                    {"seconds", row.seconds},
                    {"spread", row.spread},
                    {"tokens_per_second", row.tokens_per_second()},
                    {"bytes", row.bytes}});
  return {{"version", FOVEA_VERSION},
          {"setting", report.setting},
          {"machine", report.machine},
          {"warnings", report.warnings},
          {"rows", rows}};
}

void write_report(const DecodeReport& report, const Path& folder) {
  make_folder(folder);
  const std::string csv = table_of(report).csv();
  Page page{.title = "One more token",
            .sentence = fmt::format("{} on {}.", report.setting, report.machine),
            .command = report.command,
            .table = table_of(report),
            .warnings = report.warnings,
            .details = {{"Rows as JSON", json_text(json_of(report))}},
            .downloads = {{"decode.csv", csv}}};
  page.figures.push_back({plot_of(report, "Time of one more token", {"time", "ms", Scale::log},
                                  [](const DecodeRow& row) { return 1e3 * row.seconds; }),
                          "A state of constant size takes the same time after any number of tokens; a cache is read "
                          "whole for every one."});
  page.figures.push_back({plot_of(report, "Memory of the sequences", {"memory", "MB", Scale::log},
                                  [](const DecodeRow& row) { return 1e-6 * static_cast<double>(row.bytes); }),
                          "What is remembered of the tokens before."});
  write_png(page.figures[0].plot, folder / "decode-time.png");
  write_png(page.figures[1].plot, folder / "decode-memory.png");
  write_file(folder / "decode.csv", csv);
  write_file(folder / "report.html", page_html(page));
}

void run(const DecodeOptions& options, const Console& console) {
  Context context(options.machine.context(console));
  const WeightForm form = weight_form(options.weights);
  const std::vector<std::int64_t> contexts = contexts_of(options);
  const LoadMeter load;
  DecodeReport report{console.command,
                      fmt::format("{}, weights {}, activations {}, {} threads", options.model, options.weights,
                                  options.dtype, context.threads()),
                      this_machine().text(),
                      {}};
  const std::vector<std::string> names =
      options.attention.empty() ? std::vector<std::string>{""} : split_names(options.attention, "--attention");
  for (const std::string& name : names) {
    const Model model(context, config_of(options, name, contexts.back() + 1));
    measure(Decoder(context, model, form), options, contexts, [&](DecodeRow row) {
      row.attention = model.config().layers.back();
      console.note(fmt::format("{} after {} tokens, {} together: {:.2f} ms", row.attention, row.context, row.batch,
                               1e3 * row.seconds));
      report.rows.push_back(std::move(row));
    });
  }
  warn_of_load(load, console, report.warnings);
  console.document(json_of(report));
  console.print(fmt::format("{}\n{}", report.setting, table_of(report).text(Terminal::of(STDOUT_FILENO))));
  if (options.out.empty()) return;
  write_report(report, options.out);
  console.note(fmt::format("report: {}/report.html", options.out));
}

}  // namespace

void add_bench_decode(Program& program, const Arguments& bench) {
  const auto o = std::make_shared<DecodeOptions>();
  const Arguments verb = program.add(
      {"decode",
       "Times one more token after a number of others, with random weights.",
       {"fovea bench decode --model gpt2-small --context 128 --batch 1,8,32",
        "fovea bench decode --model gpt --attention norm,softmax --context 65536"}},
      [o](const Console& console) { run(*o, console); }, &bench);
  verb.add_option("--model", o->model, "preset of a language model").type_name("NAME").show_default();
  verb.add_option("--attention", o->attention, "mechanisms in its layers [the preset's]").type_name("A,B");
  verb.add_option("--context", o->contexts, "tokens before; one alone and --out: also its halves")
      .type_name("N,N")
      .show_default();
  verb.add_option("--batch", o->batches, "sequences that go on together").type_name("N,N").show_default();
  verb.add_option("--tokens", o->tokens, "tokens that medians are taken over")
      .type_name("N")
      .check(in_range(1, 1 << 20))
      .show_default();
  verb.add_option("--weights", o->weights, "f32, bf16 or int8").type_name("NAME").show_default();
  verb.add_option("--dtype", o->dtype, "of activations and caches, f32 or bf16").type_name("NAME").show_default();
  verb.add_option("--set", o->set, "another setting, e.g. model.positions=rope").type_name("A.B=C").repeatable();
  verb.add_option("--out", o->out, "folder for report.html, PNG and CSV").type_name("FOLDER");
  add_machine_options(verb, o->machine);
}

}  // namespace fovea::cli
