#!/bin/bash
# Writes the man page and the shell completions, which are made from the program's own texts. The build calls it after it
# has linked the program. Usage: packaging/generate.sh PROGRAM DIRECTORY
set -euo pipefail
mkdir -p "$2/completion"
"$1" man >"$2/mainspring.1"
"$1" completion bash >"$2/completion/mainspring.bash"
"$1" completion zsh >"$2/completion/_mainspring"
"$1" completion fish >"$2/completion/mainspring.fish"
