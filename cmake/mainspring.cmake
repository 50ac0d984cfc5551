# Shared by all targets: warnings, sanitizers, ccache, and the function that declares a module.

find_program(MAINSPRING_CCACHE ccache)
if(MAINSPRING_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these two, ccache skips every file that has a precompiled header. No file reads __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${MAINSPRING_CCACHE})
endif()

option(MAINSPRING_WERROR "Warnings are errors" OFF)
# Files of a module are compiled together, MAINSPRING_UNITY at a time: most of a unit's cost is its headers.
# 0 compiles each file alone, which shows whether each header includes what it uses.
set(MAINSPRING_UNITY 8 CACHE STRING "Files compiled together; 0 = each alone")
option(MAINSPRING_THREAD_SAFETY "clang's thread-safety analysis, as errors" OFF)

add_library(mainspring_flags INTERFACE)
target_compile_features(mainspring_flags INTERFACE cxx_std_20)  # also for programs that include this project
target_link_libraries(mainspring_flags INTERFACE fmt::fmt)  # here, for its definitions: precompiled.h includes its header
target_compile_options(mainspring_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 reports uninitialised values in empty std::optional where there are none, and in a file that reads
  # precompiled.h copies beyond the short buffer of a moved-from string. clang warns about real cases.
  target_compile_options(mainspring_flags INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-restrict)
  if(MAINSPRING_UNITY GREATER 0)
    # A class of a .cc file may contain types of its anonymous namespace: the unit that includes both is compiled once.
    target_compile_options(mainspring_flags INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(MAINSPRING_WERROR)
  target_compile_options(mainspring_flags INTERFACE -Werror)
endif()
if(MAINSPRING_THREAD_SAFETY)
  target_compile_options(mainspring_flags INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
if(MAINSPRING_SANITIZE)
  target_compile_options(mainspring_flags INTERFACE -fsanitize=${MAINSPRING_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(mainspring_flags INTERFACE -fsanitize=${MAINSPRING_SANITIZE})
  if(MAINSPRING_SANITIZE MATCHES undefined)
    target_compile_options(mainspring_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(MAINSPRING_HARDEN)
  # tests/endpoints/hardening_test.sh checks the program for the effect of each of these.
  target_compile_definitions(mainspring_flags INTERFACE _FORTIFY_SOURCE=2 _GLIBCXX_ASSERTIONS)
  if(NOT CMAKE_POSITION_INDEPENDENT_CODE)  # which is -fPIC, for a library that becomes part of a shared one
    target_compile_options(mainspring_flags INTERFACE -fPIE)
  endif()
  target_compile_options(mainspring_flags INTERFACE
    -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  # Reproducible builds: no path of the tree in debug information, __FILE__ or asserts.
  target_compile_options(mainspring_flags INTERFACE
    -ffile-prefix-map=${PROJECT_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  target_link_options(mainspring_flags INTERFACE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
find_program(MAINSPRING_GOLD ld.gold)
if(MAINSPRING_GOLD AND PROJECT_IS_TOP_LEVEL AND NOT MAINSPRING_HARDEN)
  # Takes half the time of the default linker, for each of ninety programs.
  target_link_options(mainspring_flags INTERFACE -fuse-ld=gold)
endif()
if(MAINSPRING_FUZZ)
  target_compile_options(mainspring_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(MAINSPRING_MUTANTS)
  target_compile_definitions(mainspring_flags INTERFACE MAINSPRING_MUTANTS=1)
endif()
target_include_directories(mainspring_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)

# precompiled.h is compiled by one target and read by every other, with GNU's compiler.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_library(ms_precompiled OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(ms_precompiled PRIVATE mainspring_flags)
  # Through an include directory: an absolute path would become part of the compiled text, and ccache
  # could not share objects between directories.
  target_include_directories(ms_precompiled PRIVATE ${PROJECT_SOURCE_DIR}/cmake)
  target_precompile_headers(ms_precompiled PRIVATE <precompiled.h>)
endif()

# mainspring_speed_up(DIRECTORY): the precompiled header and units of several files for the targets of DIRECTORY and
# below. Called when all targets are declared.
function(mainspring_speed_up DIRECTORY)
  get_property(targets DIRECTORY ${DIRECTORY} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(target STREQUAL ms_precompiled OR NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY|SHARED_LIBRARY")
      continue()
    endif()
    if(TARGET ms_precompiled)
      target_precompile_headers(${target} REUSE_FROM ms_precompiled)
    endif()
    if(MAINSPRING_UNITY GREATER 0)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MAINSPRING_UNITY})
    endif()
  endforeach()
  get_property(below DIRECTORY ${DIRECTORY} PROPERTY SUBDIRECTORIES)
  foreach(directory ${below})
    mainspring_speed_up(${directory})
  endforeach()
endfunction()

# mainspring_module(NAME SRCS … DEPS … LIBS … TESTS …)
#   SRCS  the module's .cc files;  DEPS  modules on lower floors;  LIBS  external libraries;
#   TESTS test files beside the code, each doctest, built into one program NAME_test.
function(mainspring_module NAME)
  cmake_parse_arguments(M "" "" "SRCS;DEPS;LIBS;TESTS" ${ARGN})
  add_library(ms_${NAME} STATIC ${M_SRCS})
  set(deps "")
  foreach(dep ${M_DEPS})
    list(APPEND deps ms_${dep})
  endforeach()
  target_link_libraries(ms_${NAME} PUBLIC mainspring_flags ${deps} ${M_LIBS})
  if(M_TESTS AND MAINSPRING_TESTS)
    mainspring_test(${NAME}_test SRCS ${M_TESTS} DEPS ${NAME})
  endif()
endfunction()

# mainspring_test(NAME SRCS … DEPS … LIBS …): one doctest program, known to ctest.
function(mainspring_test NAME)
  cmake_parse_arguments(T "" "" "SRCS;DEPS;LIBS" ${ARGN})
  if(NOT TARGET ms_doctest_main)
    add_library(ms_doctest_main OBJECT ${PROJECT_SOURCE_DIR}/tests/doctest_main.cc)
    target_link_libraries(ms_doctest_main PRIVATE mainspring_flags)
    target_include_directories(ms_doctest_main PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  endif()
  add_executable(${NAME} ${T_SRCS} $<TARGET_OBJECTS:ms_doctest_main>)
  set(deps "")
  foreach(dep ${T_DEPS})
    list(APPEND deps ms_${dep})
  endforeach()
  target_link_libraries(${NAME} PRIVATE mainspring_flags ${deps} ${T_LIBS})
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${NAME} PRIVATE MAINSPRING_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             MAINSPRING_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
