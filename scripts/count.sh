#!/bin/sh
# Counts the lines of Go that are shipped and those that support tests, packages, types, commands,
# and, per 1,000 lines, things that make code hard to read.
# Usage: scripts/count.sh [DIR]    DIR is another Go project to compare with
set -eu
cd "${1:-$(dirname "$0")/..}"
# Directories with programs for development or with test support, in this project and in others.
support='(^|/)(scripts|e2e|testdata|internal/test[a-z]*)/'
all=$(git ls-files '*.go')
tests=$(printf '%s\n' "$all" | grep '_test\.go$' || true)
helps=$(printf '%s\n' "$all" | grep -v '_test\.go$' | grep -E "$support" || true)
ships=$(printf '%s\n' "$all" | grep -v '_test\.go$' | grep -vE "$support")
lines() { [ -z "$1" ] && echo 0 || printf '%s\n' "$1" | tr '\n' '\0' | xargs -0 cat | wc -l; }
shipped=$(lines "$ships")
printf 'lines shipped       %s\n' "$shipped"
printf 'lines test support  %s\n' "$(lines "$helps")"
printf 'lines of tests      %s\n' "$(lines "$tests")"

# List each package with its lines, the largest first.
sizes=$(printf '%s\n' "$ships" | tr '\n' '\0' | xargs -0 wc -l | awk '$2 != "total" { d = $2; sub("/?[^/]*$", "", d); n[d] += $1 } END { for (d in n) print n[d], d }' | sort -rn)
count=$(printf '%s\n' "$sizes" | wc -l)
printf 'packages            %s, median %s lines, largest %s\n' "$count" \
	"$(printf '%s\n' "$sizes" | sed -n "$((count / 2 + 1))p" | cut -d' ' -f1)" "$(printf '%s\n' "$sizes" | head -1)"
printf 'largest type        %s\n' "$(printf '%s\n' "$ships" | tr '\n' '\0' | xargs -0 grep -H '^func (' |
	sed -nE 's#^(.*)/[^/]*:func \(([A-Za-z_0-9]+ )?\*?([A-Za-z0-9_]+).*#\1.\3#p' | sort | uniq -c | sort -rn | head -1 | awk '{ print $1, "methods,", $2 }')"
rate() { # NAME COUNT: prints the rate of something
	printf '%-19s %s per 1,000 lines\n' "$1" "$(awk "BEGIN { printf \"%.2f\", $2 * 1000 / $shipped }")"
}
found() { printf '%s\n' "$ships" | tr '\n' '\0' | xargs -0 cat | grep -cE "$1" || true; }
rate 'if x = …; …' "$(found '^[[:space:]]*(\} else )?if [^:{"]*[^:=!<>{"+|&-]=[^=][^{"]*; ')"
rate '4 operators' "$(found '^[[:space:]]*(if|for|case|return|switch) .*((&&|\|\|).*){4}')"
rate 'a, b, c = …' "$(found '^[[:space:]]*[^"(:=]+,[^"(:=]+,[^"(:=]+ = ')"
