#!/bin/bash
# Writes what is made from the program's own texts: the man page and the shell completions.
# Usage: packaging/generate.sh PROGRAM. cli_test says when it has to be run.
set -euo pipefail
program=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")"
mkdir -p completion
"$program" man >mainspring.1
"$program" completion bash >completion/mainspring.bash
"$program" completion zsh >completion/_mainspring
"$program" completion fish >completion/mainspring.fish
