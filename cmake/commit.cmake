# Writes the header OUT with the commit of SOURCE, when it is another than the one there: "138cb59 of 2026-11-18", with a
# plus after it where files were changed; empty outside of a repository.
cmake_minimum_required(VERSION 3.25)
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} log -1 --format=%h|%cs OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE trouble ERROR_QUIET)
  if(NOT trouble AND text MATCHES "^([0-9a-f]+)[|](.*)$")
    set(name ${CMAKE_MATCH_1})
    set(date ${CMAKE_MATCH_2})
    execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD -- src include cli RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND name "+")
    endif()
    set(commit "${name} of ${date}")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define FOVEA_COMMIT \"${commit}\"\n")
