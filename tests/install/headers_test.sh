#!/bin/bash
# Each public header compiles alone, without warnings, with nothing of this tree but include/; and includes no third-party
# header but those of Boost.Describe and tl::expected. Usage: headers_test.sh SOURCES COMPILER
set -euo pipefail
sources=$(readlink -f "$1")
compiler=$2
cd "$sources/include"

foreign=$(grep -HnE '^ *# *include' mainspring/* |
  grep -vE '#include (<[a-z_]+>|"mainspring/[a-z_]+\.(h|def)"|<boost/describe\.hpp>|<tl/expected\.hpp>)$' || true)
if [[ -n $foreign ]]; then
  printf 'headers that are not documented:\n%s\n' "$foreign"
  exit 1
fi

compile() {
  local output
  output=$(printf '#include "%s"\n' "$2" |
    "$1" -std=c++20 -fsyntax-only -I. -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -x c++ - 2>&1) ||
    { printf '%s does not compile alone:\n%s\n' "$2" "$output"; return 1; }
}
export -f compile
printf '%s\0' mainspring/*.h | xargs -0 -n 1 -P 2 bash -c 'compile "$@"' compile "$compiler"
