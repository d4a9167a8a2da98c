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
set(flags -Wall -Wextra -Werror -fno-math-errno -fno-trapping-math -ffp-contract=fast)
target_compile_options(fovea_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(fovea_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false alarms on std::string with GCC 12 (bug 105651)
else()
  target_compile_options(fovea_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-error;-Wno-unknown-warning-option>")  # GCC's are the warnings we keep to
endif()
target_include_directories(fovea_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
# Portable, AVX2 and AVX-512: the sets between them bring code size and no speed.
target_compile_definitions(fovea_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")

# Which devices have kernels, for src/core/visit_device.h: the one place that knows.
set(FOVEA_DEVICES cpu)
if(FOVEA_CUDA)
  list(APPEND FOVEA_DEVICES cuda)
endif()
list(TRANSFORM FOVEA_DEVICES PREPEND "Device::" OUTPUT_VARIABLE device_names)
list(JOIN device_names ", " FOVEA_DEVICE_LIST)
configure_file(${PROJECT_SOURCE_DIR}/src/core/built_devices.h.in ${PROJECT_BINARY_DIR}/generated/core/built_devices.h)

# Begins a component: the folders that follow, and what they need besides that of the components before it.
macro(fovea_component name)
  set(component ${name})
  cmake_parse_arguments(component "" "" "NEEDS" ${ARGN})
  list(APPEND needs ${component_NEEDS})
  set(needs_of_${name} ${needs})
endmacro()

# Adds a folder's sources as an object library of the component begun last.
macro(fovea_folder name)
  fovea_objects(${name} ${ARGN})
  if(TARGET fovea_${name})
    list(APPEND folders_of_${component} fovea_${name})
  endif()
endmacro()
function(fovea_objects name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/dist/mpi/")  # for programs that are launched as many: FOVEA_MPI
  if(NOT sources)  # headers alone
    return()
  endif()
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/cuda/*.cu)
  if(FOVEA_CUDA)
    list(APPEND sources ${kernels})
  endif()
  add_library(fovea_${name} OBJECT ${sources})
  target_include_directories(fovea_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(fovea_${name} PUBLIC fovea_flags ${needs})
  fovea_join(fovea_${name} ${ARGN})
  if(FOVEA_CUDA_CHECK)
    fovea_check_beside(fovea_${name} KERNELS ${kernels} LINK ${needs})
  endif()
endfunction()

# Links a program with the objects of folders and with what they need.
function(fovea_link_folders program)
  foreach(folder ${ARGN})
    target_link_libraries(${program} PRIVATE fovea_${folder})
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:fovea_${folder}>)
  endforeach()
endfunction()

# A plain source takes most of its compilation reading headers. With FOVEA_JOIN several of them are compiled as one, for
# builds that are made once. Sources that use the same names as others of their kind are compiled alone, with headers read before.
option(FOVEA_JOIN "compile several sources as one: a first build takes half the time, a later one longer" OFF)
function(fovea_join target)
  if(NOT FOVEA_JOIN)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 join "" "" HEADERS)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "cpu|cuda|/ops/|/mechanisms/|/pretrained/(bert|gpt2|llama|t5|vit)[.]cc")
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  list(TRANSFORM join_HEADERS REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${target} PRIVATE ${join_HEADERS})
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # takes joined sources for headers
endfunction()

set(FOVEA_SANITIZE "" CACHE STRING "sanitizers, comma separated (see the presets)")
if(FOVEA_SANITIZE)
  # A folder that is not tried itself (FOVEA_UNWATCHED) is compiled without.
  set(watched "$<NOT:$<BOOL:$<TARGET_PROPERTY:FOVEA_UNWATCHED>>>")
  target_compile_options(fovea_flags INTERFACE $<${watched}:-fsanitize=${FOVEA_SANITIZE}> -fno-omit-frame-pointer
                                               $<${watched}:-fno-sanitize-recover=all>)
  target_link_options(fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE})
endif()
