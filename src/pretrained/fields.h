#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/model.h"
#include "io/json.h"

namespace fovea::pretrained {

// Their config.json, read or written: an architecture names each field once, with the member of ours it stands for, and
// the same function does both. Fields that nobody has named are refused at the end.
class ConfigFields {
 public:
  ConfigFields(Json json, std::string where);  // reads
  ConfigFields() = default;                    // writes

  bool reading() const { return reading_; }
  const std::string& where() const { return where_; }  // the file
  // `absent`: the value where a file leaves the field out.
  void integer(const char* name, std::int64_t& value, std::optional<std::int64_t> absent = {});
  void real(const char* name, double& value, std::optional<double> absent = {});
  void flag(const char* name, bool& value, std::optional<bool> absent = {});
  void activation(const char* name, Activation& value);
  void layers(const char* name, StackConfig& stack);  // their number
  void classes(ModelConfig& config);                  // id2label or num_labels; 2 where a file leaves both out
  // Another value would change the result in a way that is not built.
  void fixed(const char* name, const Json& value);
  // Changes nothing here, but is written.
  void noted(const char* name, const Json& value);
  void passed(std::initializer_list<const char*> names);  // changes nothing
  const Json* find(const char* name);                     // for what is more than a value; null: not there
  void write(const char* name, Json value) { json_[name] = std::move(value); }

  [[noreturn]] void refuse(const std::string& what, const char* name, std::string hint = {}) const;
  void refuse_unknown(const std::vector<std::string>& ignored) const;
  Json take() { return std::move(json_); }

 private:
  bool reading_ = false;
  Json json_ = Json::object();
  std::string where_;
  std::vector<std::string> known_;
};

// "gelu_new" -> gelu_tanh, and back.
std::optional<Activation> parse_activation(std::string_view name);
std::string activation_name(Activation activation);

}  // namespace fovea::pretrained
