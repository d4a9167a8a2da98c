set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Flags of everything we compile. Scalar policies are vectorised by the compiler: without -fno-trapping-math the AVX2
# target is not (7x slower); -ffast-math would fold the rounding step of exp2 and give wrong sums, so it stays out.
add_library(fovea_flags INTERFACE)
target_compile_options(fovea_flags INTERFACE -Wall -Wextra -Werror -fno-math-errno -fno-trapping-math -ffp-contract=fast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(fovea_flags INTERFACE -Wno-restrict)  # false alarms on std::string with GCC 12 (bug 105651)
endif()
target_include_directories(fovea_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Portable, AVX2 and AVX-512: the sets between them bring code size and no speed.
target_compile_definitions(fovea_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")

# Adds a folder's sources as an object library that ends up in libfovea.
function(fovea_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(fovea_${name} OBJECT ${sources})
  target_include_directories(fovea_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(fovea_${name} PUBLIC fovea_flags ${FOVEA_DEPENDENCIES})
  set_property(GLOBAL APPEND PROPERTY FOVEA_FOLDERS fovea_${name})
endfunction()

set(FOVEA_SANITIZE "" CACHE STRING "sanitizers, comma separated (see the presets)")
if(FOVEA_SANITIZE)
  target_compile_options(fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  target_link_options(fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE})
endif()
