#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "engine.h"
#include "fovea/tokenizer.h"
#include "text/utf8.h"

namespace fovea::python {
namespace {

std::vector<std::string_view> views_of(const std::vector<nb::bytes>& texts) {
  std::vector<std::string_view> views;
  views.reserve(texts.size());
  for (const nb::bytes& text : texts) views.emplace_back(static_cast<const char*>(text.data()), text.size());
  return views;
}

// Offsets of bytes as offsets of characters, which is how Python counts in a str. `text` is what they refer to.
class Characters {
 public:
  explicit Characters(std::string_view text) {
    count_.reserve(text.size() + 1);
    std::uint32_t n = 0;
    text::for_characters(text, [&](const text::Character& c, std::size_t) {
      count_.insert(count_.end(), c.size, n);
      ++n;
    });
    count_.push_back(n);
  }
  std::uint32_t operator[](std::uint32_t byte) const { return count_[byte]; }

 private:
  std::vector<std::uint32_t> count_;
};

// Of one text or two: (ids, offsets, sources, types, special).
nb::tuple encode(const Tokenizer& tokenizer, const std::vector<nb::bytes>& texts, bool special, std::size_t most,
                 bool characters) {
  Encoding encoding;
  {
    const std::vector<std::string_view> views = views_of(texts);
    const nb::gil_scoped_release no_gil;
    encoding = views.size() == 1 ? tokenizer.encode(views[0], special, most)
                                 : tokenizer.encode_pair(views[0], views[1], special, most);
    for (std::size_t source = 0; characters && source < views.size(); ++source) {
      const Characters place(views[source]);
      for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
        auto& [begin, end] = encoding.offsets[i];
        if (encoding.sources[i] != static_cast<int>(source)) continue;
        begin = place[begin];
        end = place[end];
      }
    }
  }
  nb::list offsets;
  for (const auto& [begin, end] : encoding.offsets) offsets.append(nb::make_tuple(begin, end));
  return nb::make_tuple(encoding.ids, offsets, encoding.sources, encoding.types, encoding.special);
}

std::vector<std::vector<std::int32_t>> encode_all(const Tokenizer& tokenizer, const std::vector<nb::bytes>& texts,
                                                  bool special) {
  const std::vector<std::string_view> views = views_of(texts);
  const std::shared_ptr<Context> context = context_for(1e9);
  const Running running;
  return tokenizer.encode_all(*context, views, special);
}

Tokenizer train(const std::vector<nb::bytes>& texts, std::int64_t vocabulary, std::vector<std::string> special,
                std::int64_t min_frequency) {
  const std::vector<std::string_view> views = views_of(texts);
  const std::shared_ptr<Context> context = context_for(1e9);
  const Running running;
  BpeTraining training;
  training.vocabulary = vocabulary;
  training.special_tokens = std::move(special);
  training.min_frequency = min_frequency;
  return Tokenizer::train_bpe(*context, views, training);
}

nb::dict special_ids(const Tokenizer& tokenizer) {
  const SpecialIds ids = tokenizer.special_ids();
  nb::dict out;
  const auto add = [&](const char* name, const std::optional<std::int32_t>& id) {
    if (id) out[name] = *id;
  };
  add("bos", ids.bos);
  add("eos", ids.eos);
  add("pad", ids.pad);
  add("unk", ids.unk);
  add("mask", ids.mask);
  add("cls", ids.cls);
  add("sep", ids.sep);
  return out;
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer::Stream>(module, "TokenStream")
      .def("next", &Tokenizer::Stream::next)
      .def("finish", &Tokenizer::Stream::finish);
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def("encode", encode)
      .def("encode_all", encode_all)
      .def("decode",
           [](const Tokenizer& t, const std::vector<std::int32_t>& ids, bool skip) { return t.decode(ids, skip); })
      .def("decode_stream", &Tokenizer::decode_stream)
      .def("vocabulary", &Tokenizer::vocabulary)
      .def("id", [](const Tokenizer& t, const std::string& token) { return t.id(token); })
      .def("token", [](const Tokenizer& t, std::int32_t id) { return std::string(t.token(id)); })
      .def("is_special", &Tokenizer::is_special)
      .def("special_ids", special_ids)
      .def("truncation", &Tokenizer::truncation)
      .def("fingerprint", &Tokenizer::fingerprint)
      .def("save", &Tokenizer::save);
  module.def("load_tokenizer", &Tokenizer::load);
  module.def("byte_tokenizer", &Tokenizer::bytes);
  module.def("character_tokenizer", [](const std::vector<nb::bytes>& t) { return Tokenizer::characters(views_of(t)); });
  module.def("word_tokenizer",
             [](const std::vector<nb::bytes>& t, std::int64_t limit) { return Tokenizer::words(views_of(t), limit); });
  module.def("train_tokenizer", train);
}

}  // namespace fovea::python
