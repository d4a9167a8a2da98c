#!python
# Starts the program, which lies in the package beside the engine that both use; the package itself is not imported.
import importlib.util
import os
import sys

folders = importlib.util.find_spec("fovea").submodule_search_locations
program = next(path for path in (os.path.join(folder, "bin", "fovea") for folder in folders) if os.path.exists(path))
os.execv(program, ["fovea", *sys.argv[1:]])
