#!/usr/bin/env bash
# Puts everything that is installed below a directory: stage.sh PROGRAM DIRECTORY. The program, completions for
# bash, zsh and fish, man pages, the systemd unit, the dashboard and the licences. `make install` and `make dist` use it.
set -euo pipefail
program=$1
root=$2
here=$(cd "$(dirname "$0")/.." && pwd)

install -Dm755 "$program" "$root/bin/shellkeep"
for shell in bash:share/bash-completion/completions/shellkeep zsh:share/zsh/site-functions/_shellkeep \
  fish:share/fish/vendor_completions.d/shellkeep.fish; do
  file=$root/${shell#*:}
  install -d "$(dirname "$file")"
  "$program" completions "${shell%%:*}" >"$file"
done
install -d "$root/share/man/man1"
"$program" man "$root/share/man/man1"
install -Dm644 -t "$root/share/doc/shellkeep" "$here/README.md" "$here/LICENSE-APACHE" "$here/LICENSE-MIT" "$here/docs/operate.md"
install -Dm644 "$here/deploy/systemd/shellkeep.service" "$root/share/shellkeep/shellkeep.service"
install -Dm644 "$here/deploy/grafana/shellkeep.json" "$root/share/shellkeep/grafana.json"
