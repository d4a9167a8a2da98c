# FOVEA_CUDA_CHECK: programs with CUDA beside those of a build without it, for machines that have no card. What knows which
# devices are built (core/built_devices.h) is compiled a second time, with the kernels; all else the programs share.
# Hardly optimised, as nobody runs it: PTX and machine code are made to see that they can be.
set(CMAKE_CUDA_FLAGS_RELEASE "-O0 -DNDEBUG --Ofast-compile=max -Xptxas=-O0")
set(FOVEA_DEVICE_LIST "Device::cpu, Device::cuda")
configure_file(${PROJECT_SOURCE_DIR}/src/core/built_devices.h.in ${PROJECT_BINARY_DIR}/generated/check/core/built_devices.h)

# The sources that include core/built_devices.h, also by way of other headers.
function(fovea_find_sources_of_devices out)
  set(headers core/built_devices.h)
  set(before "")
  while(NOT headers STREQUAL before)
    set(before "${headers}")
    string(REPLACE ";" "|" any "${headers}")
    execute_process(COMMAND grep -rlE --include=*.h --include=*.cc "^#include \"(${any})\"" src cli
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]+" found "${found}")
    set(sources ${found})
    list(FILTER sources INCLUDE REGEX "[.]cc$")
    list(FILTER found INCLUDE REGEX "[.]h$")
    list(TRANSFORM found REPLACE "^src/" "")
    set(headers core/built_devices.h ${found})
    list(REMOVE_DUPLICATES headers)
    list(SORT headers)
  endwhile()
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
fovea_find_sources_of_devices(FOVEA_SOURCES_OF_DEVICES)

# Of what is compiled with CUDA: its list of devices goes before the other.
function(fovea_know_card target)
  target_include_directories(${target} BEFORE PRIVATE ${PROJECT_BINARY_DIR}/generated/check)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
endfunction()

# Adds TARGET_check: those of the target's sources that know devices, and the KERNELS.
function(fovea_check_beside target)
  cmake_parse_arguments(PARSE_ARGV 1 beside "" "" "KERNELS;LINK")
  set(again "")
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(source IN_LIST FOVEA_SOURCES_OF_DEVICES)
      list(APPEND again ${source})
    endif()
  endforeach()
  if(NOT again AND NOT beside_KERNELS)
    return()
  endif()
  set_source_files_properties(${again} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(${target}_check OBJECT ${again} ${beside_KERNELS})
  target_include_directories(${target}_check PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target}_check PRIVATE fovea_flags ${FOVEA_CARD_LIBRARIES} ${beside_LINK})
  fovea_know_card(${target}_check)
  list(TRANSFORM again REPLACE ".*/(src|cli)/" "")
  list(JOIN again "|" again)
  set_target_properties(${target} PROPERTIES FOVEA_COMPILED_AGAIN "/(${again})[.]o$")
endfunction()

# Gives a program the objects of targets, with CUDA.
function(fovea_take_checked program)
  foreach(target ${ARGN})
    if(TARGET ${target}_check)
      get_target_property(again ${target} FOVEA_COMPILED_AGAIN)
      target_sources(${program} PRIVATE "$<FILTER:$<TARGET_OBJECTS:${target}>,EXCLUDE,${again}>"
                                        $<TARGET_OBJECTS:${target}_check>)
    else()
      target_sources(${program} PRIVATE $<TARGET_OBJECTS:${target}>)
    endif()
  endforeach()
endfunction()

# Links a program with the objects of folders, with CUDA, and with what they need but the runtime.
function(fovea_link_checked_folders program)
  list(TRANSFORM ARGN PREPEND fovea_ OUTPUT_VARIABLE targets)
  fovea_know_card(${program})
  fovea_take_checked(${program} ${targets})
  foreach(target ${targets})  # not the target itself: that would link all of its objects
    target_include_directories(${program} PRIVATE $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${program} PRIVATE $<TARGET_PROPERTY:${target},INTERFACE_LINK_LIBRARIES>)
  endforeach()
endfunction()
