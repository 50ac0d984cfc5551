# Runs first in `cmake --install`. An install that would copy nothing, or only a part, fails before it changes a file.
cmake_policy(VERSION 3.25)

set(mainspring_components mainspring-dev)
if(mainspring_program)
  list(PREPEND mainspring_components mainspring)
endif()
if(CMAKE_INSTALL_COMPONENT AND NOT CMAKE_INSTALL_COMPONENT IN_LIST mainspring_components)
  if(NOT mainspring_top_level)
    return()  # a component of the project that includes this one
  endif()
  list(JOIN mainspring_components " or " mainspring_names)
  message(FATAL_ERROR "component \"${CMAKE_INSTALL_COMPONENT}\": must be ${mainspring_names}")
endif()
if(mainspring_refused AND NOT "$ENV{MAINSPRING_INSTALL_ANYWAY}")
  message(FATAL_ERROR "${mainspring_build} is not installed: ${mainspring_refused}. Build a release first:\n"
    "  cmake --preset release\n"
    "  cmake --build build/release --target ${mainspring_targets}\n"
    "  cmake --install build/release")
endif()

set(mainspring_files "")
if(mainspring_program AND NOT CMAKE_INSTALL_COMPONENT STREQUAL "mainspring-dev")
  list(APPEND mainspring_files "${mainspring_program}")
endif()
if(NOT CMAKE_INSTALL_COMPONENT STREQUAL "mainspring")
  list(APPEND mainspring_files "${mainspring_library}")
endif()
foreach(mainspring_file IN LISTS mainspring_files)
  if(NOT EXISTS "${mainspring_file}")
    message(FATAL_ERROR "Nothing is installed: ${mainspring_file} is not built. Build it first:\n"
      "  cmake --build ${mainspring_build} --target ${mainspring_targets}")
  endif()
endforeach()
