# Puts text files into a header: `k_NAME_EXT` of namespace NAMESPACE for each, as it stands. A change of a file configures again.
function(fovea_embed header namespace)
  set(constants "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    string(REPLACE "." "_" name ${name})
    file(READ ${file} content)
    string(APPEND constants "inline constexpr std::string_view k_${name} = R\"~~~~(${content})~~~~\";\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${header}
       CONTENT "#pragma once\n\n#include <string_view>\n\nnamespace ${namespace} {\n\n\@constants\@\n}  // namespace ${namespace}\n" @ONLY)
endfunction()
