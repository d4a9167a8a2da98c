# Writes the source OUT, which defines what MODULE expects of Python, as NM lists it. Without Python in the process nothing
# uses these names; they are there so that the module loads.
execute_process(COMMAND ${NM} --dynamic --undefined-only --format=posix ${MODULE} OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)_?Py[A-Za-z0-9_]+" names "${listed}")
list(TRANSFORM names STRIP)
set(source "#define ABSENT(name) extern \"C\" [[gnu::visibility(\"default\")]] char name[64]; char name[64]\n")
foreach(name IN LISTS names)
  string(APPEND source "ABSENT(${name});\n")
endforeach()
file(WRITE ${OUT} "${source}")
