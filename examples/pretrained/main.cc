// A program of its own that loads a sentence encoder as Hugging Face has it and says which texts are alike:
//   pretrained all-MiniLM-L6-v2 "A man reads a book" "Somebody is reading" "The stock market fell"
#include <fovea/pretrained.h>

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

namespace {

void run(const char* folder, const std::vector<std::string_view>& texts) {
  fovea::Context context;
  const fovea::Imported encoder = fovea::import_model(context, folder);
  if (!encoder.tokenizer) fovea::fail(fovea::ErrorCode::bad_input, "there is no tokenizer.json", folder);
  std::printf("%s, %lld parameters\n", encoder.architecture.c_str(),
              static_cast<long long>(encoder.model.parameter_count()));

  const fovea::Tensor vectors = fovea::embed(context, encoder.model, *encoder.tokenizer, texts);
  const auto near = fovea::neighbours(context, vectors, 1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::printf("%s\n", std::string(texts[i]).c_str());
    for (const fovea::Neighbour& other : near[i])
      std::printf("  %.3f  %s\n", other.cosine, std::string(texts[static_cast<std::size_t>(other.row)]).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: pretrained FOLDER TEXT...\n");
    return 2;
  }
  try {
    run(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
