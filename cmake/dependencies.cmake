# What libfovea stands on, from the system's packages (scripts/bootstrap says what each is for). No public header
# includes any of them; fovea-config.cmake.in looks for the same ones, for those who link the static library.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(DNNL REQUIRED)
find_package(hwy REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Cairo REQUIRED)
set(FOVEA_DEPENDENCIES OpenMP::OpenMP_CXX DNNL::dnnl hwy::hwy fmt::fmt nlohmann_json::nlohmann_json Cairo::cairo)
