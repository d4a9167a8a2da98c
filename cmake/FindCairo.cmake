# Cairo, which brings no CMake package of its own.
find_path(CAIRO_INCLUDE_DIR cairo.h PATH_SUFFIXES cairo)
find_library(CAIRO_LIBRARY cairo)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cairo REQUIRED_VARS CAIRO_LIBRARY CAIRO_INCLUDE_DIR)
if(Cairo_FOUND AND NOT TARGET Cairo::cairo)
  add_library(Cairo::cairo UNKNOWN IMPORTED)
  set_target_properties(Cairo::cairo PROPERTIES IMPORTED_LOCATION ${CAIRO_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES ${CAIRO_INCLUDE_DIR})
  add_library(Cairo::headers INTERFACE IMPORTED)  # for those who open it themselves
  set_target_properties(Cairo::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CAIRO_INCLUDE_DIR}
                                                  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
