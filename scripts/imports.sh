#!/bin/sh
# Checks who imports whom. Every room may use the standard library, modules from
# elsewhere as far as listed here, and of our own rooms only those listed: fusefs
# knows nobody, store never knows search, spool and wire know nobody. Test files
# are free in what they import.
set -euf
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

# room: our own packages that it may import; a trailing /... includes those below.
allowed() {
	case "$1" in
	fusefs/ignore) echo "" ;;
	fusefs/journal | fusefs/kernelfs) echo "" ;;
	fusefs) echo "fusefs/ignore fusefs/journal fusefs/kernelfs" ;;
	store/diff | store/glob | store/tokens | store/spool | store/wire | store/results | store/results/redistest | store/manifest | store/gitdir | store/attrs) echo "" ;;
	store/wire/displace) echo "" ;;
	store/wire/carry) echo "store/attrs store/gitdir store/wire store/wire/displace" ;;
	store/wire/*) echo "store/wire" ;;
	store/shown) echo "store store/diff store/tokens store/wire/visible" ;;
	store/notes) echo "store" ;;
	store/docsync) echo "store store/glob store/manifest" ;;
	store/shown/*) echo "store store/diff store/tokens store/shown" ;;
	store/daemon | store/daemon/*) echo "store store/attrs store/diff store/tokens store/shown store/spool store/wire store/wire/place store/wire/visible store/results store/notes store/docsync store/glob search search/imports fusefs/ignore fusefs/kernelfs store/manifest store/daemon/..." ;;
	store) echo "store/attrs store/diff store/glob store/tokens" ;;
	search | search/*) echo "store store/glob search/..." ;;
	mcp | mcp/*) echo "store/gitdir store/glob store/wire store/wire/carry store/wire/displace store/wire/when store/manifest mcp/..." ;;
	hooks | hooks/*) echo "store/wire store/wire/visible hooks/..." ;;
	cmd/* | scripts/*) echo "*" ;;
	*) echo "?" ;;
	esac
}

# The big modules each belong to one room.
owner() {
	case "$1" in
	github.com/hanwen/go-fuse/*) echo "fusefs scripts/..." ;;
	github.com/dgraph-io/badger/*) echo "store" ;;
	github.com/blevesearch/bleve/*) echo "search search/..." ;;
	github.com/mark3labs/mcp-go/*) echo "mcp mcp/..." ;;
	github.com/bmatcuk/doublestar/*) echo "store/glob" ;;
	github.com/sergi/go-diff/*) echo "store/diff" ;;
	github.com/spf13/pflag) echo "cmd/..." ;;
	mvdan.cc/sh/*) echo "hooks hooks/..." ;;
	github.com/redis/go-redis/*) echo "store/results store/results/..." ;;
	github.com/tiktoken-go/*) echo "store/tokens" ;;
	go.yaml.in/yaml/*) echo "store/manifest" ;;
	*) echo "*" ;;
	esac
}

# within PACKAGE LIST: is the package in the list?
within() {
	for w in $2; do
		case "$w" in
		"*") return 0 ;;
		*/...) case "$1" in "${w%/...}" | "${w%...}"*) return 0 ;; esac ;;
		*) [ "$1" = "$w" ] && return 0 ;;
		esac
	done
	return 1
}

for os in linux darwin; do
	GOOS=$os go list -e -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}' ./... | sort -u | while read -r pkg imp; do
		room=${pkg#cachebro/}
		case "$imp" in
		cachebro/*)
			list=$(allowed "$room")
			if [ "$list" = "?" ]; then
				echo "$room is not in the table of rooms"
			elif ! within "${imp#cachebro/}" "$list"; then
				echo "$room may not import ${imp#cachebro/} ($os)"
			fi
			;;
		*.*/*)
			within "$room" "$(owner "$imp")" || echo "$room may not import $imp ($os)"
			# What must never die of a bug in a library uses none.
			case "$room" in
			store/spool | store/wire)
				case "$imp" in golang.org/x/sys/*) ;; *) echo "$room may import the standard library only, not $imp" ;; esac
				;;
			esac
			;;
		esac
	done
done | sort -u >"$bad"

# mountd holds /dev/fuse: nothing in it may map files or own a database.
if go list -deps ./cmd/cachebro/mountd ./fusefs 2>/dev/null | grep -E 'dgraph-io/badger|blevesearch|mmap-go|go\.etcd\.io/bbolt' >>"$bad"; then
	echo "the line above: mountd and fusefs must not depend on it" >>"$bad"
fi

# One place that ends processes and reads the environment.
grep -rnE '\b(os\.Exit|log\.Fatal)' --include='*.go' --exclude='*_test.go' . | grep -vE '^\./(cmd/([a-z/]*/)?main\.go|scripts/)|func .*/posix' >>"$bad" || true
grep -rnE '\bos\.(Getenv|LookupEnv|Environ)\(' --include='*.go' --exclude='*_test.go' fusefs store search mcp hooks |
	grep -v 'cmd.Env = append(os.Environ()' >>"$bad" || true

if [ -s "$bad" ]; then
	cat "$bad"
	echo "import rules: broken" >&2
	exit 1
fi
echo "import rules: ok"
