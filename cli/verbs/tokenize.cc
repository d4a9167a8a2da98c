#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <sstream>

#include "cli/kit/interrupt.h"
#include "cli/kit/options.h"
#include "cli/kit/progress.h"
#include "cli/kit/standard_input.h"
#include "cli/kit/verb.h"
#include "fovea/tokenizer.h"
#include "io/json.h"
#include "measure/stopwatch.h"
#include "report/numbers.h"
#include "text/shards.h"
#include "text/text_file.h"

// fovea tokenize: trains tokenisers, encodes text files into shards of ids, and shows how a text is cut.
namespace fovea::cli {
namespace {

constexpr std::size_t kFileCap = std::size_t{1} << 30;

struct TokenizeOptions {
  MachineOptions machine;
  std::string data, out, tokenizer, text;
  std::vector<std::string> ids;
  std::int64_t vocabulary = 8000, min_frequency = 2;
  std::string special = "<|endoftext|>";
};

// Links to folders are not followed: they may lead back.
void add_files(const Path& folder, std::vector<Path>& files) {
  for (const Path& entry : entries_of(folder)) {
    if (is_folder(entry) && !std::filesystem::is_symlink(entry)) add_files(entry, files);
    if (is_file(entry) && !entry.filename().string().starts_with('.')) files.push_back(entry);
  }
}

// The file, or every file of the folder and those below, by name; hidden ones are left out.
std::vector<Path> text_files(const std::string& data) {
  const Path root = given_file(data);
  std::vector<Path> files;
  if (!is_folder(root)) return {root};
  add_files(root, files);
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(ErrorCode::bad_input, "no files in this folder", data);
  return files;
}

// "<pad>,<s>"
std::vector<std::string> special_tokens(const std::string& list) {
  std::vector<std::string> tokens;
  std::istringstream parts(list);
  for (std::string token; std::getline(parts, token, ',');)
    if (!token.empty()) tokens.push_back(token);
  return tokens;
}

void require_free(const std::string& out) {
  if (is_there(out))
    fail(ErrorCode::usage, fmt::format("\"{}\" exists", out), "--out", "a new folder: nothing is overwritten");
}

void check(const Interrupt& interrupt) {
  if (interrupt.requested()) fail(ErrorCode::interrupted, "interrupted", {}, "nothing was written");
}

void run_train(const TokenizeOptions& options, const Console& console) {
  require_free(options.out);
  const Context context(options.machine.context(console));
  const Interrupt interrupt;
  const Stopwatch watch;
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const Path& path : text_files(options.data)) bytes += texts.emplace_back(read_text(path, kFileCap)).size();
  BpeTraining training;
  training.vocabulary = options.vocabulary;
  training.min_frequency = options.min_frequency;
  training.special_tokens = special_tokens(options.special);
  Progress bar(progress_options(console, "tokens", "merges"));
  training.progress = [&](std::int64_t done, std::int64_t wanted) {
    check(interrupt);
    ProgressState state;
    state.step = done;
    state.total = wanted;
    bar.update(state);
  };
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Tokenizer tokenizer = Tokenizer::train_bpe(context, views, training);
  bar.finish();
  tokenizer.save(options.out);
  console.print(fmt::format("{}: {} ids from {} of text in {:.1f} s", options.out, tokenizer.vocabulary(),
                            quantity_text(Quantity::bytes, static_cast<double>(bytes)), watch.seconds()));
  if (tokenizer.vocabulary() < options.vocabulary)
    console.note(fmt::format("fewer than the {} asked for: no pair occurs {} times any more", options.vocabulary,
                             options.min_frequency));
  console.document({{"folder", options.out},
                    {"vocabulary", tokenizer.vocabulary()},
                    {"bytes", bytes},
                    {"seconds", watch.seconds()}});
}

void run_encode(const TokenizeOptions& options, const Console& console) {
  require_free(options.out);
  const Context context(options.machine.context(console));
  const Interrupt interrupt;
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  const std::vector<Path> files = text_files(options.data);
  ShardWriter writer(options.out, {.vocabulary = tokenizer.vocabulary(), .tokenizer = tokenizer.fingerprint()});
  const std::optional<std::int32_t> end = tokenizer.special_ids().eos;
  const Stopwatch watch;
  Progress bar(progress_options(console, "files", "MB"));
  std::size_t bytes = 0;
  const auto rate = [&] { return static_cast<double>(bytes) / 1e6 / std::max(watch.seconds(), 1e-9); };
  ProgressState state;
  state.total = static_cast<std::int64_t>(files.size());
  for (const Path& path : files) {
    check(interrupt);
    const std::string text = read_text(path, kFileCap);
    const std::string_view view = text;
    writer.append(tokenizer.encode_all(context, {&view, 1}, false).front());
    if (end) writer.append({&*end, 1});
    bytes += text.size();
    ++state.step;
    state.rate = rate();
    bar.update(state);
  }
  bar.finish();
  writer.commit();
  console.print(fmt::format("{}: {} tokens of {} files, {} of text in {:.1f} s ({:.1f} MB/s)", options.out,
                            writer.tokens(), files.size(), quantity_text(Quantity::bytes, static_cast<double>(bytes)),
                            watch.seconds(), rate()));
  console.document({{"folder", options.out},
                    {"tokens", writer.tokens()},
                    {"files", files.size()},
                    {"bytes", bytes},
                    {"seconds", watch.seconds()}});
}

// White space and controls written so that they can be seen.
std::string visible(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", c);
    else
      out += c;
  }
  return "\"" + out + "\"";
}

void run_text(const TokenizeOptions& options, const Console& console) {
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  const Encoding encoding = tokenizer.encode(options.text);
  std::string out = fmt::format("{:>8}  {:>9}  {:<20}  {}\n", "id", "bytes", "token", "text");
  Json pieces = Json::array();
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [begin, end] = encoding.offsets[i];
    const std::string token(tokenizer.token(encoding.ids[i]));
    const std::string text = options.text.substr(begin, end - begin);
    const std::size_t width = text_width(token);
    out += fmt::format("{:>8}  {:>9}  {}{}  {}\n", encoding.ids[i], fmt::format("{}-{}", begin, end), token,
                       std::string(width < 20 ? 20 - width : 0, ' '), encoding.special[i] ? "" : visible(text));
    pieces.push_back({{"id", encoding.ids[i]},
                      {"token", token},
                      {"begin", begin},
                      {"end", end},
                      {"special", encoding.special[i] == 1}});
  }
  console.print(out + fmt::format("{} tokens for {} bytes", encoding.ids.size(), options.text.size()));
  console.document({{"tokens", pieces}, {"text", tokenizer.decode(encoding.ids)}});
}

// "12 7 9", "12,7,9" or "[12, 7, 9]".
std::vector<std::int32_t> ids_of(std::string_view text, const Tokenizer& tokenizer, const std::string& where) {
  std::vector<std::int32_t> ids;
  constexpr std::string_view kBetween = " ,[]\t\r\n";
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find_first_not_of(kBetween), text.size());
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    text.remove_prefix(word.size());
    if (word.empty()) continue;
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= tokenizer.vocabulary())
      fail(ErrorCode::usage, fmt::format("\"{}\" is no token id: they are 0 to {}", word, tokenizer.vocabulary() - 1),
           where, "fovea tokenize decode 12 7 9 --tokenizer tok");
    ids.push_back(id);
  }
  return ids;
}

void run_decode(const TokenizeOptions& options, const Console& console) {
  if (options.ids.empty() == options.data.empty())
    fail(ErrorCode::usage, "ids, or a file of them", "fovea tokenize decode",
         "fovea tokenize decode 12 7 9 --tokenizer tok; or --data FILE, ids of a text in each line");
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  std::vector<std::string> texts;
  if (!options.ids.empty()) {
    texts.push_back(
        tokenizer.decode(ids_of(fmt::format("{}", fmt::join(options.ids, " ")), tokenizer, "fovea tokenize decode")));
  } else {
    std::istringstream lines(read_text(given_file(options.data), kFileCap));
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);)
      texts.push_back(tokenizer.decode(ids_of(line, tokenizer, fmt::format("{}:{}", options.data, ++number))));
  }
  for (const std::string& text : texts) console.print(text);
  console.document({{"texts", texts}});
}

void add_data_options(const Arguments& app, TokenizeOptions& options) {
  app.add_option("--data", options.data, "text file, or folder of them; .xz is unpacked").type_name("PATH").required();
  app.add_option("--out", options.out, "folder to write, which must not exist").type_name("FOLDER").required();
  add_machine_options(app, options.machine);
}

void add_tokenizer_option(const Arguments& app, TokenizeOptions& options) {
  app.add_option("--tokenizer", options.tokenizer, "folder or file: tokenizer.json, vocab.json, vocab.txt, .bin")
      .type_name("PATH")
      .required();
}

// The WHATs share their options: only one of them runs.
struct Adder {
  Program& program;
  const Arguments& group;
  std::shared_ptr<TokenizeOptions> options = std::make_shared<TokenizeOptions>();

  Arguments add(const VerbText& text, void (*run)(const TokenizeOptions&, const Console&)) const {
    return program.add(
        text, [run, options = options](const Console& console) { run(*options, console); }, &group);
  }

  void train(const std::string& example) const {
    const Arguments app = add({"train",
                               "Trains a byte-level BPE tokeniser on text and writes its tokenizer.json.",
                               {example, "fovea tokenize train --data texts --out tok --special '<pad>,<s>'"}},
                              run_train);
    add_data_options(app, *options);
    const auto number = [&](const char* name, std::int64_t& value, const char* help) {
      return app.add_option(name, value, help).type_name("N").show_default();
    };
    number("--vocabulary", options->vocabulary, "ids in all").check(in_range(256, 1 << 24));
    number("--min-frequency", options->min_frequency, "of a pair that is merged").check(in_range(1, 1e9));
    app.add_option("--special", options->special, "special tokens, the first ids").type_name("A,B").show_default();
  }

  void encode(const std::string& example) const {
    const Arguments app = add({"encode",
                               "Turns text files into shards of ids, each file followed by the end-of-text token.",
                               {example, example + " --threads 2"}},
                              run_encode);
    add_tokenizer_option(app, *options);
    add_data_options(app, *options);
  }

  void text() const {
    const Arguments app = add({"text",
                               "Shows the tokens of a text: ids, bytes and pieces.",
                               {"fovea tokenize text 'Hello there' --tokenizer tok",
                                "fovea tokenize text 'Hello' --tokenizer vocab.txt --json"}},
                              run_text);
    app.add_option("text", options->text, "the text").required();
    add_tokenizer_option(app, *options);
  }

  void decode() const {
    const Arguments app =
        add({"decode",
             "Turns token ids back into text.",
             {"fovea tokenize decode 12 7 9 --tokenizer tok", "fovea tokenize decode --data ids.txt --tokenizer tok"}},
            run_decode);
    app.add_option("ids", options->ids, "the ids");
    app.add_option("--data", options->data, "file with the ids of a text in each line, or -").type_name("FILE");
    add_tokenizer_option(app, *options);
  }
};

}  // namespace

void add_tokenize(Program& program) {
  const std::string train = "fovea tokenize train --data corpus.txt --vocabulary 8000 --out tok";
  const std::string encode = "fovea tokenize encode --tokenizer tok --data corpus.txt --out ids";
  const Arguments group =
      program.add_group({"tokenize", "Trains tokenisers and turns text into ids.", {train, encode}});
  const Adder adder{program, group};
  adder.train(train);
  adder.encode(encode);
  adder.text();
  adder.decode();
}

}  // namespace fovea::cli
