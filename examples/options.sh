# Shared by the examples that are scripts: their options, checked before anything starts. Source it from a script that
# has a function `usage`.
# shellcheck shell=bash disable=SC2034

refuse() { printf '%s: %s; see --help\n' "${0##*/}" "$*" >&2; exit 64; }
# read_options NAME… -- ARGUMENT…: sets the variable NAME for --NAME VALUE, and `keep` for --keep.
read_options() {
  local names=' '
  while [[ $1 != -- ]]; do names+="$1 "; shift; done
  shift
  while (($# > 0)); do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --keep) keep=yes; shift; continue ;;
    esac
    [[ $1 == --* && $names == *" ${1#--} "* ]] || refuse "unknown option $1"
    (($# >= 2)) || refuse "$1: needs a value"
    printf -v "${1#--}" %s "$2"
    shift 2
  done
}
# whole MINIMUM NAME…: the variables must be whole numbers.
whole() {
  local minimum=$1 name
  shift
  for name in "$@"; do
    if ! [[ ${!name} =~ ^(0|[1-9][0-9]{0,8})$ ]] || ((${!name} < minimum)); then
      refuse "--$name ${!name}: must be a whole number from $minimum"
    fi
  done
}
# programs FILE…: those of --bin. With OPTIONS_ONLY=yes ./run only checks the options, before it builds them.
programs() {
  local file
  [[ -z ${OPTIONS_ONLY:-} ]] || exit 0
  for file in "$@"; do
    [[ -x $file ]] || refuse "--bin: there is no program $file"
  done
}
