# Installs the program stripped, and its debug information as a separate file. Both are complete before they replace
# those of an earlier install.
cmake_policy(VERSION 3.25)

cmake_path(ABSOLUTE_PATH mainspring_bindir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
cmake_path(GET mainspring_program FILENAME mainspring_name)
set(mainspring_directory "$ENV{DESTDIR}${mainspring_bindir}")
set(mainspring_new "${mainspring_directory}/.mainspring-new")
set(mainspring_debug "${mainspring_name}.debug")  # the stripped program refers to its debug information by this name
file(MAKE_DIRECTORY "${mainspring_directory}/.debug" "${mainspring_new}")

# mainspring_copy(NAME OPTION…): copies the program to the file NAME.
function(mainspring_copy NAME)
  execute_process(COMMAND "${mainspring_objcopy}" ${ARGN} "${mainspring_program}" "${mainspring_new}/${NAME}"
                  RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    file(REMOVE_RECURSE "${mainspring_new}")
    message(FATAL_ERROR "${mainspring_directory}/${mainspring_name} is not installed: objcopy failed")
  endif()
endfunction()
mainspring_copy("${mainspring_debug}" --only-keep-debug --compress-debug-sections)
mainspring_copy("${mainspring_name}" --strip-all "--add-gnu-debuglink=${mainspring_new}/${mainspring_debug}")

file(CHMOD "${mainspring_new}/${mainspring_debug}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(CHMOD "${mainspring_new}/${mainspring_name}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
     GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
foreach(mainspring_file "${mainspring_name}" ".debug/${mainspring_debug}")
  cmake_path(GET mainspring_file FILENAME mainspring_from)
  message(STATUS "Installing: ${mainspring_directory}/${mainspring_file}")
  file(RENAME "${mainspring_new}/${mainspring_from}" "${mainspring_directory}/${mainspring_file}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${mainspring_bindir}/${mainspring_file}")
endforeach()
file(REMOVE_RECURSE "${mainspring_new}")
