#include "inspect_page/viewer.h"

#include "inspect_page/viewer_files.h"

namespace fovea::viewer {

std::string script() {
  std::string out;
  for (const std::string_view file :
       {files::k_data_js, files::k_show_js, files::k_map_js, files::k_map_input_js, files::k_plot_js,
        files::k_overview_js, files::k_text_js, files::k_head_js, files::k_worth_js, files::k_main_js})
    out += std::string(file) + "\n";
  return out;
}

std::string style() { return std::string(files::k_page_css); }

std::string fill(const std::vector<std::pair<std::string_view, std::string>>& values) {
  const std::string_view frame = files::k_page_html;
  std::string out;
  for (std::size_t at = 0; at < frame.size();) {
    const std::size_t open = frame.find("{{", at);
    out += frame.substr(at, open == frame.npos ? open : open - at);
    if (open == frame.npos) break;
    const std::size_t close = frame.find("}}", open);
    const std::string_view name = frame.substr(open + 2, close - open - 2);
    for (const auto& [key, value] : values)
      if (key == name) out += value;
    at = close + 2;
  }
  return out;
}

}  // namespace fovea::viewer
