# Run by ctest; see CMakeLists.txt beside this file for the variables.
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${prefix} ${WORK}/embed ${WORK}/pretrained ${WORK}/train)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE output)
  set(output ${output} PARENT_SCOPE)
endfunction()

set(flags "")
if(SANITIZE)
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(example embed pretrained train)
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${example} -B ${WORK}/${example} -G Ninja -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${TYPE} ${flags})
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
endforeach()

run(${WORK}/pretrained/pretrained ${SOURCE}/tests/fixtures/pretrained/tiny-encoder "the cat sits" "a cat sits" "trees")
message("${output}")
if(NOT output MATCHES "BertModel, [0-9]+ parameters\nthe cat sits\n  0\\.[0-9]+  a cat sits\n")
  message(FATAL_ERROR "the texts do not have the expected neighbours")
endif()

run(${WORK}/train/train)
message("${output}")
if(NOT output MATCHES ": (9[0-9]|100)\\.[0-9]% of the digits in their place")
  message(FATAL_ERROR "the model did not learn to sort")
endif()

run(${WORK}/embed/embed)
message("${output}")

foreach(mechanism softmax norm)
  if(NOT output MATCHES "${mechanism} +output \\(2, 1024, 4, 32\\) +loss -?[0-9.]+ +\\|dq\\| [1-9]")
    message(FATAL_ERROR "no sound result for ${mechanism}")
  endif()
endforeach()

# The installed tree stands alone: no header or package file names the place it was built from.
file(GLOB_RECURSE installed ${prefix}/include/* ${prefix}/lib/*.cmake)
foreach(file ${installed})
  file(STRINGS ${file} traces REGEX "${SOURCE}/(src|include|build)")
  if(traces)
    message(FATAL_ERROR "${file} points back into the source tree: ${traces}")
  endif()
endforeach()
