#!/bin/bash
# The library is part of another program's build, as docs/guides/cpp.md says: the outer project is configured, and a
# file of it and one module of ours are compiled. Usage: embedded_test.sh SOURCES
set -euo pipefail
sources=$(readlink -f "$1")
place=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-embedded.XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"
ln -s "$sources" mainspring
cp "$sources/examples/thumbnails.cc" main.cc
{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(outer CXX)\nadd_executable(my_program main.cc)\n'
  sed -n '/^```cmake$/,/^```$/p' "$sources/docs/guides/cpp.md" | grep -v '^```'
} >CMakeLists.txt
grep -q 'add_subdirectory(mainspring)' CMakeLists.txt
cmake -S . -B build -G Ninja >configured 2>&1 || { cat configured; exit 1; }
ninja -C build CMakeFiles/my_program.dir/main.cc.o ms_base
! ninja -C build -t targets all | grep -q 'doctest_main' || { echo "our tests are built with the program"; exit 1; }
