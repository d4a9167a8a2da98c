# oneDNN without its own package file, which on Debian insists on OpenCL headers that nothing here uses. FOVEA_ONEDNN is a
# folder that scripts/onednn made: its products alone, as a static library.
if(FOVEA_ONEDNN)
  set(DNNL_INCLUDE_DIR ${FOVEA_ONEDNN}/include)
  set(DNNL_LIBRARY ${FOVEA_ONEDNN}/lib/libdnnl.a)
  if(NOT EXISTS ${DNNL_LIBRARY})
    message(FATAL_ERROR "no oneDNN in ${FOVEA_ONEDNN}: scripts/onednn makes it")
  endif()
endif()
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR)
if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY})
  if(NOT FOVEA_ONEDNN)
    set_target_properties(DNNL::dnnl PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
  else()  # its headers are for src/gemm alone: other sources are compiled as ever, and a compiler cache knows them
    set_target_properties(DNNL::dnnl PROPERTIES INTERFACE_LINK_LIBRARIES "OpenMP::OpenMP_CXX;${CMAKE_DL_LIBS}"
                                                INTERFACE_LINK_OPTIONS LINKER:--gc-sections)
  endif()
endif()
