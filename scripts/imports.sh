#!/bin/sh
# Checks which packages import which. The packages are arranged on floors, like those of a house,
# and imports only go down: a package may import packages on its own floor and on lower floors. Test
# files may import anything.
set -euf
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

# floor PACKAGE: prints the floor of a package, counted from the bottom. fusefs and search are next
# to each other on one floor, and neither may import the other.
floor() {
	case "$1" in
	store/leaf/*) echo 0 ;; # these packages import none of cachebro's other packages
	store | store/*) echo 1 ;;
	fusefs | fusefs/*) echo 2 fusefs ;;
	search | search/*) echo 2 search ;;
	hooks | hooks/*) echo 3 ;;
	mcp | mcp/*) echo 4 ;;
	cmd/*) echo 5 ;;
	scripts/*) echo 6 ;; # programs for development, and packages that tests use (scripts/testkit)
	*) echo "?" ;;
	esac
}

# owner MODULE: prints the packages that may import a module. Only few may import a large module.
owner() {
	case "$1" in
	github.com/hanwen/go-fuse/*) echo "fusefs fusefs/past scripts/..." ;;
	github.com/dgraph-io/badger/*) echo "store store/content store/db" ;;
	github.com/blevesearch/bleve/*) echo "search search/..." ;;
	github.com/mark3labs/mcp-go/*) echo "mcp mcp/..." ;;
	github.com/bmatcuk/doublestar/*) echo "store/leaf/text" ;;
	github.com/sergi/go-diff/*) echo "store/diff" ;;
	github.com/alecthomas/chroma/*) echo "cmd/cachebro/ui" ;;
	github.com/spf13/pflag) echo "cmd/..." ;;
	mvdan.cc/sh/*) echo "hooks hooks/..." ;;
	filippo.io/age) echo "store/remote" ;;
	github.com/minio/minio-go/*) echo "store/remote scripts/testkit/remotetest" ;;
	github.com/jackc/pgx/* | github.com/pressly/goose/*) echo "store/fleet" ;;
	github.com/redis/go-redis/*) echo "store/memo/results scripts/testkit/redistest" ;;
	github.com/buildkite/terminal-to-html/*) echo "" ;; # tests only
	github.com/tiktoken-go/*) echo "store/tokens" ;;
	go.yaml.in/yaml/*) echo "store/knowledge/manifest" ;;
	*) echo "*" ;;
	esac
}

# within PACKAGE LIST: succeeds if the package is in the list.
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

# goesDown PACKAGE IMPORT: succeeds if the import is on a lower floor or on the same floor.
goesDown() {
	from=$(floor "$1") to=$(floor "$2")
	[ "$from" = "$to" ] || [ "${from%% *}" -gt "${to%% *}" ]
}

for os in linux darwin; do
	GOOS=$os go list -e -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}' ./... | sort -u | while read -r pkg imp; do
		room=${pkg#cachebro/}
		if [ "$(floor "$room")" = "?" ]; then
			echo "$room stands on no floor"
			continue
		fi
		case "$imp" in
		cachebro/*)
			goesDown "$room" "${imp#cachebro/}" || echo "$room may not import ${imp#cachebro/} ($os)"
			;;
		*.*/*)
			within "$room" "$(owner "$imp")" || echo "$room may not import $imp ($os)"
			# These packages must never fail because of a bug in a library, so they use no library.
			case "$room" in
			store/leaf/spool | store/leaf/procfs | store/wire)
				case "$imp" in golang.org/x/sys/*) ;; *) echo "$room may import the standard library only, not $imp" ;; esac
				;;
			esac
			;;
		esac
	done
done | sort -u >"$bad"

# mountd serves /dev/fuse, so none of its packages may map files or open a database.
if go list -deps ./fusefs/capture ./fusefs/mounts/supervisor ./fusefs 2>/dev/null | grep -E 'dgraph-io/badger|blevesearch|mmap-go|go\.etcd\.io/bbolt' >>"$bad"; then
	echo "the line above: capture, supervisor and fusefs must not depend on it" >>"$bad"
fi

# Only the daemon opens the databases. All other processes are clients of its socket.
grep -rnE '\bstore\.Open\(' --include='*.go' --exclude='*_test.go' . | grep -vE '^\./(cmd/cachebro/daemon|store/portable|scripts)/' >>"$bad" || true

# Only the commands end the process and read the environment.
grep -rnE '\b(os\.Exit|log\.Fatal)' --include='*.go' --exclude='*_test.go' . | grep -vE '^\./(cmd/([a-z/-]*/)?main\.go|cmd/cachebro/fastpath/fastpath\.go|scripts/)|func .*/posix' >>"$bad" || true
grep -rnE '\bos\.(Getenv|LookupEnv|Environ)\(' --include='*.go' --exclude='*_test.go' fusefs store search mcp hooks |
	grep -v 'cmd.Env = append(os.Environ()' >>"$bad" || true

if [ -s "$bad" ]; then
	cat "$bad"
	echo "import rules: broken" >&2
	exit 1
fi
echo "import rules: ok"
