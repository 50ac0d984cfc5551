# Runs after headers and library are copied: removes headers of an older version, and the library's debug information.
cmake_policy(VERSION 3.25)

cmake_path(ABSOLUTE_PATH mainspring_includedir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
file(GLOB mainspring_found RELATIVE "$ENV{DESTDIR}${mainspring_includedir}/mainspring"
     "$ENV{DESTDIR}${mainspring_includedir}/mainspring/*.h" "$ENV{DESTDIR}${mainspring_includedir}/mainspring/*.def")
foreach(mainspring_file IN LISTS mainspring_found)
  if(NOT mainspring_file IN_LIST mainspring_headers)
    message(STATUS "Removing: $ENV{DESTDIR}${mainspring_includedir}/mainspring/${mainspring_file}")
    file(REMOVE "$ENV{DESTDIR}${mainspring_includedir}/mainspring/${mainspring_file}")
  endif()
endforeach()

cmake_path(ABSOLUTE_PATH mainspring_libdir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
cmake_path(GET mainspring_library FILENAME mainspring_name)
execute_process(
  COMMAND "${mainspring_strip}" --strip-debug "$ENV{DESTDIR}${mainspring_libdir}/${mainspring_name}"
  COMMAND_ERROR_IS_FATAL ANY)
