# For the scripts that fetch what tests need from elsewhere, each into its own directory below target/. They source this from
# the root of the tree.

# tools NAME WHAT VERSIONS: `home` is target/NAME. Ends the script when these versions are there already.
tools() {
  home=target/$1 what=$2 wanted=$3
  if [[ -e $home/installed && $(<"$home/installed") == "$wanted" ]]; then exit 0; fi
  mkdir -p "$home"
}

# unavailable WHY: tests that need them say with these words why they were skipped.
unavailable() {
  echo "$1" >"$home/unavailable"
  echo "$what: not available, $1" >&2
  exit 1
}

with_npm() {
  command -v npm >/dev/null 2>&1 || unavailable "npm is missing"
  npm install --prefix "$home" --silent --no-audit --no-fund --ignore-scripts "$@" || unavailable "npm could not fetch $*"
}

with_pip() {
  command -v python3 >/dev/null 2>&1 || unavailable "python3 is missing"
  [[ -x $home/venv/bin/pip ]] || python3 -m venv "$home/venv" || unavailable "python3 has no venv"
  "$home/venv/bin/pip" install --quiet --disable-pip-version-check "$@" || unavailable "pip could not fetch $*"
}

complete() {
  rm -f "$home/unavailable"
  echo "$wanted" >"$home/installed"
}
