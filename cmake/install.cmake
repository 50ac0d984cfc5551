# What `cmake --install` puts where, in two components: mainspring (the program) and mainspring-dev (the library).
# The program is stripped when it is installed. Its debug information goes to .debug/mainspring.debug beside it, where gdb
# looks in any prefix.
if(NOT MAINSPRING_INSTALL)
  if(PROJECT_IS_TOP_LEVEL)
    install(CODE "message(FATAL_ERROR \"Nothing is installed: configure with -DMAINSPRING_INSTALL=ON\")" ALL_COMPONENTS)
  endif()
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# -- checks before anything is copied -----------------------------------------------------------------------------------
set(refused "")
if(MAINSPRING_MUTANTS OR MAINSPRING_SANITIZE OR MAINSPRING_FUZZ)
  set(refused "it is built for tests")
endif()
set(program "")
set(build_targets mainspring_library)
if(MAINSPRING_PROGRAM)
  set(program $<TARGET_FILE:mainspring>)
  list(PREPEND build_targets mainspring)
endif()
list(JOIN build_targets " " build_targets)
install(CODE "
  set(mainspring_top_level ${PROJECT_IS_TOP_LEVEL})
  set(mainspring_build [==[${CMAKE_BINARY_DIR}]==])
  set(mainspring_targets [==[${build_targets}]==])
  set(mainspring_refused [==[${refused}]==])
  set(mainspring_program [==[${program}]==])
  set(mainspring_library [==[$<TARGET_FILE:mainspring_library>]==])
  set(mainspring_objcopy [==[${CMAKE_OBJCOPY}]==])
  set(mainspring_strip [==[${CMAKE_STRIP}]==])
" ALL_COMPONENTS)
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_check.cmake ALL_COMPONENTS)

# -- mainspring -----------------------------------------------------------------------------------------------------------
if(MAINSPRING_PROGRAM)
  install(CODE "set(mainspring_bindir [==[${CMAKE_INSTALL_BINDIR}]==])" COMPONENT mainspring)
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_program.cmake COMPONENT mainspring)
  set(texts ${PROJECT_BINARY_DIR}/share)  # written by packaging/generate.sh when the program is linked
  install(FILES ${texts}/mainspring.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT mainspring)
  install(FILES ${texts}/completion/mainspring.bash RENAME mainspring
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT mainspring)
  install(FILES ${texts}/completion/_mainspring
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT mainspring)
  install(FILES ${texts}/completion/mainspring.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT mainspring)
endif()

# -- mainspring-dev -------------------------------------------------------------------------------------------------------
# Each external library: its target, the arguments of find_dependency(), and its pkg-config module or linker flag.
set(externals
  "Threads::Threads|Threads|-pthread"
  "Boost::headers|Boost 1.81|"
  "tl::expected|tl-expected|"
  "fmt::fmt|fmt|fmt"
  "date::date-tz|date|-ldate-tz"
  "OpenSSL::SSL|OpenSSL|libssl"
  "OpenSSL::Crypto|OpenSSL|libcrypto"
  "SQLite::SQLite3|SQLite3|sqlite3"
  "PostgreSQL::PostgreSQL|PostgreSQL|libpq"
  "CURL::libcurl|CURL|libcurl")
set(packages "")
set(pc_requires "")
set(pc_libs "")
foreach(library Boost::headers tl::expected ${external})
  set(row ${externals})
  list(FILTER row INCLUDE REGEX "^${library}\\|")
  if(NOT row MATCHES "^([^|]+)\\|([^|]+)\\|(.*)$")
    message(FATAL_ERROR "cmake/install.cmake: the list of external libraries has no row for ${library}")
  endif()
  set(pc "${CMAKE_MATCH_3}")
  list(APPEND packages "find_dependency(${CMAKE_MATCH_2})")
  if(pc MATCHES "^-")
    string(APPEND pc_libs " ${pc}")
  elseif(pc)
    list(APPEND pc_requires ${pc})
  endif()
endforeach()
list(REMOVE_DUPLICATES packages)
list(JOIN packages "\n" MAINSPRING_FIND_DEPENDENCIES)
list(JOIN pc_requires ", " MAINSPRING_PC_REQUIRES)
set(MAINSPRING_PC_LIBS "${pc_libs}")

file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/include/mainspring CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/include/mainspring/*.h ${PROJECT_SOURCE_DIR}/include/mainspring/*.def)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/include/mainspring/ OUTPUT_VARIABLE header_files)
install(FILES ${header_files} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mainspring COMPONENT mainspring-dev)
install(TARGETS mainspring_library EXPORT MainspringTargets
        ARCHIVE COMPONENT mainspring-dev INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(CODE "
  set(mainspring_libdir [==[${CMAKE_INSTALL_LIBDIR}]==])
  set(mainspring_includedir [==[${CMAKE_INSTALL_INCLUDEDIR}]==])
  set(mainspring_headers [==[${headers}]==])
" COMPONENT mainspring-dev)
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_library.cmake COMPONENT mainspring-dev)

set(generated ${PROJECT_BINARY_DIR}/install)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Mainspring)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MainspringConfig.cmake.in ${generated}/MainspringConfig.cmake
                              INSTALL_DESTINATION ${package_directory} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${generated}/MainspringConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# Relative to the place of the file, so that the prefix may be set at the install, and may move.
set(MAINSPRING_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
             BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE up)
  set(MAINSPRING_PC_PREFIX "\${pcfiledir}/${up}")
endif()
set(MAINSPRING_PC_LIBDIR "\${prefix}")
set(MAINSPRING_PC_INCLUDEDIR "\${prefix}")
cmake_path(APPEND MAINSPRING_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")  # an absolute one replaces the prefix
cmake_path(APPEND MAINSPRING_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(${PROJECT_SOURCE_DIR}/packaging/mainspring.pc.in ${generated}/mainspring.pc @ONLY)

# Last: neither CMake nor pkg-config finds an incomplete install.
install(FILES ${generated}/mainspring.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mainspring-dev)
install(EXPORT MainspringTargets NAMESPACE Mainspring:: DESTINATION ${package_directory} COMPONENT mainspring-dev)
install(FILES ${generated}/MainspringConfig.cmake ${generated}/MainspringConfigVersion.cmake
        DESTINATION ${package_directory} COMPONENT mainspring-dev)
