# What every target shares: warnings, sanitizers, ccache, and the one function that declares a module.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

option(MAINSPRING_WERROR "Warnings are errors" OFF)
option(MAINSPRING_THREAD_SAFETY "clang's thread-safety analysis, as errors" OFF)

add_library(mainspring_flags INTERFACE)
target_compile_options(mainspring_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 sees uninitialised values in empty std::optional where there are none.
  target_compile_options(mainspring_flags INTERFACE -Wno-maybe-uninitialized)
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
  # tests/doors/hardening_test.sh looks for what each of these leaves in the program.
  target_compile_definitions(mainspring_flags INTERFACE _FORTIFY_SOURCE=2 _GLIBCXX_ASSERTIONS)
  target_compile_options(mainspring_flags INTERFACE
    -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  # The same bytes wherever it is built: no path of the tree in debug information, __FILE__ or asserts.
  target_compile_options(mainspring_flags INTERFACE
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
  target_link_options(mainspring_flags INTERFACE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
if(MAINSPRING_FUZZ)
  target_compile_options(mainspring_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(MAINSPRING_MUTANTS)
  target_compile_definitions(mainspring_flags INTERFACE MAINSPRING_MUTANTS=1)
endif()
target_include_directories(mainspring_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)

# mainspring_module(NAME SRCS … DEPS … LIBS … TESTS …)
#   SRCS  the module's .cc files;  DEPS  modules on lower floors;  LIBS  outside libraries;
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
  add_executable(${NAME} ${T_SRCS} ${CMAKE_SOURCE_DIR}/tests/doctest_main.cc)
  set(deps "")
  foreach(dep ${T_DEPS})
    list(APPEND deps ms_${dep})
  endforeach()
  target_link_libraries(${NAME} PRIVATE mainspring_flags ${deps} ${T_LIBS})
  target_compile_definitions(${NAME} PRIVATE MAINSPRING_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             MAINSPRING_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
