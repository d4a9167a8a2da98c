# What fovea stands on, from the system's packages (scripts/bootstrap says what each is for). No public header includes
# any of them; fovea-config.cmake.in looks for those of the components that are asked for, for static libraries.
# src/CMakeLists.txt says which component needs which.
macro(fovea_needs name debian)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    list(APPEND missing "${name} (${debian})")
  endif()
endmacro()
fovea_needs(OpenMP g++ COMPONENTS CXX)
fovea_needs(DNNL libdnnl-dev)
fovea_needs(hwy libhwy-dev)
fovea_needs(fmt libfmt-dev)
fovea_needs(nlohmann_json nlohmann-json3-dev)
fovea_needs(LibLZMA liblzma-dev)
fovea_needs(Utf8proc libutf8proc-dev)
fovea_needs(PCRE2 libpcre2-dev)
fovea_needs(PNG libpng-dev)
fovea_needs(Cairo libcairo2-dev)
if(FOVEA_MPI)  # of the programs that are launched by it alone: no library stands on it
  set(MPI_CXX_SKIP_MPICXX ON)
  fovea_needs(MPI "libopenmpi-dev, or FOVEA_MPI=OFF" COMPONENTS CXX)
endif()
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "not found: ${missing}. fovea is built on the system's libraries; on Debian and Ubuntu "
                      "scripts/bootstrap installs them, elsewhere install the like of those in brackets.")
endif()
