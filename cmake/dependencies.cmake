# What libfovea stands on, from the system's packages (scripts/bootstrap says what each is for). No public header
# includes any of them; fovea-config.cmake.in looks for the same ones, for those who link the static library.
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
fovea_needs(Cairo libcairo2-dev)
fovea_needs(LibLZMA liblzma-dev)
fovea_needs(ICU libicu-dev COMPONENTS uc)
fovea_needs(PCRE2 libpcre2-dev)
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "not found: ${missing}. fovea is built on the system's libraries; on Debian and Ubuntu "
                      "scripts/bootstrap installs them, elsewhere install the like of those in brackets.")
endif()
set(FOVEA_DEPENDENCIES OpenMP::OpenMP_CXX DNNL::dnnl hwy::hwy fmt::fmt nlohmann_json::nlohmann_json Cairo::cairo
                       LibLZMA::LibLZMA ICU::uc PCRE2::pcre2)
