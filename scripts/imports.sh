#!/bin/sh
# Checks who imports whom. Every room may use the standard library, modules from
# elsewhere as far as listed here, and of our own rooms only those listed: the
# overlay and the spool know leaves only, capture knows no store, store never knows
# search. Test files are free in what they import.
set -euf
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

# room: our own packages that it may import; a trailing /... includes those below.
allowed() {
	case "$1" in
	store/event) echo "" ;;
	fusefs/cmdline) echo "fusefs/ignore store/expr" ;;
	fusefs/ignore) echo "store/event" ;;
	fusefs/changes | fusefs/kernelfs | fusefs/procfs) echo "" ;;
	fusefs/sys) echo "store/event fusefs/kernelfs" ;;
	fusefs) echo "store/event fusefs/ignore fusefs/changes fusefs/procfs fusefs/sys" ;;
	fusefs/capture/spool) echo "fusefs/procfs store/event" ;;
	fusefs/capture) echo "fusefs fusefs/capture/spool fusefs/cmdline fusefs/ignore fusefs/procfs store/attrs store/event store/gitdir" ;;
	fusefs/mounts) echo "fusefs/cmdline fusefs/procfs store/gitdir" ;;
	fusefs/mounts/supervisor) echo "fusefs fusefs/capture fusefs/capture/spool fusefs/ignore fusefs/mounts store/wire store/wire/place" ;;
	store/diff) echo "store/text" ;;
	store/diff/difftest | store/expr | store/glob | store/tokens | store/gitdir | store/attrs | store/text) echo "" ;;
	store/wire) echo "fusefs/procfs" ;;
	store/wire/*) echo "store/wire" ;;
	store/undo) echo "store store/content store/attrs store/diff store/glob store/processes store/text" ;;
	store/undo/displace) echo "fusefs/procfs" ;;
	store/undo/gitback) echo "store/gitdir store/wire" ;;
	store/undo/apply) echo "store/attrs store/event store/gitdir store/wire store/undo/displace" ;;
	store/readers) echo "store store/cache store/diff store/tokens store/text store/wire/visible" ;;
	store/readers/*) echo "store store/diff store/diff/difftest store/tokens store/text store/readers" ;;
	store/storetest) echo "store" ;;
	store/memo) echo "fusefs/ignore fusefs/procfs" ;;
	store/memo/results | store/memo/results/*) echo "" ;;
	store/knowledge/manifest) echo "" ;;
	store/knowledge/notes) echo "store" ;;
	store/knowledge/docsync) echo "store store/glob store/knowledge/manifest" ;;
	store/knowledge/bundle) echo "store/cache search search/imports store store/glob store/knowledge/manifest store/text store/wire/visible" ;;
	store/daemon/onwire) echo "store store/wire store/wire/visible" ;;
	store/daemon/source) echo "fusefs/ignore fusefs/kernelfs fusefs/mounts store store/attrs store/daemon/onwire store/wire store/wire/place" ;;
	store/processes) echo "fusefs/cmdline store" ;;
	store/daemon/attribution) echo "fusefs/capture/spool fusefs/cmdline fusefs/procfs store store/daemon/onwire store/processes store/wire" ;;
	store/daemon/actions) echo "fusefs/cmdline store store/daemon/last store/daemon/lost store/daemon/onwire store/daemon/survey store/daemon/versions store/diff store/processes store/text store/wire" ;;
	store/daemon/gitstate) echo "fusefs/capture/spool store store/daemon/actions store/daemon/onwire store/daemon/source store/event store/gitdir store/text store/wire" ;;
	store/daemon/comments) echo "store store/daemon/onwire store/wire" ;;
	store/daemon/waits) echo "" ;;
	store/daemon/ingest) echo "fusefs/capture/spool store store/daemon/attribution store/daemon/onwire store/daemon/source store/daemon/waits store/wire" ;;
	store/daemon/versions) echo "store store/daemon/onwire store/diff store/text store/wire store/wire/visible" ;;
	store/daemon/survey) echo "fusefs/ignore fusefs/mounts fusefs/procfs store store/daemon/attribution store/daemon/ingest store/daemon/onwire store/daemon/source store/daemon/versions store/daemon/waits store/wire" ;;
	store/daemon/daemontest) echo "fusefs/capture/spool fusefs/ignore store store/storetest store/daemon/attribution store/daemon/gitstate store/daemon/ingest store/daemon/onwire store/daemon/source store/daemon/survey store/wire" ;;
	store/daemon/lost) echo "fusefs/capture/spool store store/diff store/readers store/text store/daemon/attribution store/daemon/onwire" ;;
	store/daemon/last) echo "store store/daemon/onwire store/wire" ;;
	store/daemon/fork) echo "fusefs/ignore store store/gitdir store/undo store/daemon/ingest store/daemon/onwire store/daemon/source store/daemon/survey store/wire" ;;
	store/daemon/past) echo "store store/undo store/daemon/ingest store/daemon/last store/daemon/onwire store/wire" ;;
	store/daemon/plans) echo "fusefs/ignore store store/undo store/daemon/actions store/daemon/attribution store/daemon/gitstate store/daemon/ingest store/daemon/last store/daemon/lost store/daemon/onwire store/daemon/source store/daemon/survey store/daemon/versions store/gitdir store/wire" ;;
	store/daemon/history) echo "store store/daemon/last store/daemon/lost store/daemon/onwire store/daemon/source store/daemon/survey store/daemon/versions store/processes store/wire" ;;
	store/daemon/answers) echo "store store/daemon/ingest store/daemon/survey store/daemon/waits store/memo/results store/wire" ;;
	store/daemon/workingset) echo "fusefs/capture/spool store store/daemon/attribution store/daemon/ingest store/daemon/last store/daemon/onwire store/daemon/source store/daemon/waits store/knowledge/bundle store/wire" ;;
	store/daemon/reads) echo "fusefs/ignore store store/diff store/readers store/tokens store/text store/daemon/attribution store/daemon/ingest store/daemon/last store/daemon/lost store/daemon/onwire store/daemon/source store/daemon/survey store/daemon/workingset store/wire" ;;
	store/daemon/knowledge) echo "fusefs/ignore search store store/knowledge/... store/memo/results store/readers store/daemon/answers store/daemon/attribution store/daemon/ingest store/daemon/onwire store/daemon/reads store/daemon/survey store/daemon/versions store/daemon/waits store/daemon/workingset store/wire" ;;
	store/daemon/find) echo "fusefs/ignore search store store/memo/results store/text store/daemon/answers store/daemon/ingest store/daemon/knowledge store/daemon/onwire store/daemon/source store/daemon/survey store/daemon/workingset store/wire" ;;
	store/daemon/sessions) echo "fusefs/cmdline store store/readers store/daemon/attribution store/daemon/ingest store/daemon/knowledge store/daemon/last store/daemon/onwire store/daemon/outputs store/daemon/reads store/daemon/source store/daemon/survey store/daemon/waits store/daemon/workingset store/wire" ;;
	store/daemon/outputs) echo "store/wire" ;;
	store/daemon/sending) echo "fusefs/ignore store store/daemon/ingest store/daemon/onwire store/daemon/waits store/portable store/remote store/wire" ;;
	store/daemon/tidy) echo "fusefs/capture/spool search store store/content store/keep store/portable store/processes store/readers store/space store/text store/daemon/answers store/daemon/ingest store/daemon/knowledge store/daemon/onwire store/daemon/waits store/daemon/workingset store/wire" ;;
	store/daemon) echo "fusefs/capture/spool fusefs/ignore fusefs/procfs search store store/memo/results store/readers store/wire store/wire/place store/daemon/..." ;;
	store/space) echo "" ;;
	store/db) echo "store/space" ;;
	store/cache) echo "" ;;
	store/content) echo "store/cache store/db store/space" ;;
	store/remote) echo "store store/portable" ;;
	store/remote/remotetest) echo "" ;;
	store/fleet) echo "store store/daemon/onwire store/diff store/event store/remote store/text" ;;
	store/fleet/fleettest) echo "" ;;
	store/portable) echo "store store/content store/db" ;;
	store/keep) echo "store store/content store/db store/space" ;;
	store) echo "store/event store/cache store/content store/db store/space store/attrs store/diff store/text" ;;
	search | search/*) echo "store store/expr store/glob store/text search/..." ;;
	mcp | mcp/*) echo "store/cache store/diff store/gitdir store/glob store/text store/wire store/undo/apply store/undo/gitback store/undo/displace store/wire/visible store/wire/when store/knowledge/manifest hooks/reshape mcp/..." ;;
	hooks/shell | hooks/clients/edit) echo "store/text" ;;
	hooks/reshape) echo "hooks/shell store/expr store/text" ;;
	hooks/clients) echo "hooks/clients/edit store/expr store/text store/wire/visible" ;;
	hooks | hooks/*) echo "fusefs/procfs store/tokens store/text store/wire store/wire/visible hooks/..." ;;
	cmd/cachebro/cli) echo "cmd/cachebro/fastpath fusefs/... store/..." ;;
	cmd/cachebro/machines) echo "cmd/cachebro/cli store/..." ;;
	cmd/cachebro/history | cmd/cachebro/knowledge) echo "cmd/cachebro/cli cmd/cachebro/machines fusefs/... store/..." ;;
	cmd/cachebro/mounting) echo "cmd/cachebro/cli cmd/cachebro/past cmd/cachebro/history fusefs/... hooks/... store/..." ;;
	cmd/cachebro/running | cmd/cachebro/storage | cmd/cachebro/setup) echo "cmd/cachebro/cli cmd/cachebro/machines cmd/cachebro/mounting fusefs/... hooks/... search/... store/..." ;;
	fusefs/past) echo "store/wire" ;;
	cmd/cachebro/past) echo "cmd/cachebro/cli fusefs fusefs/mounts fusefs/past store/wire store/wire/place store/wire/when" ;;
	cmd/cachebro/fork) echo "cmd/cachebro/cli cmd/cachebro/mounting cmd/cachebro/past fusefs/ignore fusefs/mounts mcp/replace store/diff store/gitdir store/text store/undo/displace store/wire" ;;
	cmd/cachebro/ui) echo "cmd/cachebro/cli cmd/cachebro/doctor cmd/cachebro/history cmd/cachebro/knowledge cmd/cachebro/storage store/diff store/text store/undo/apply store/wire store/wire/visible" ;;
	cmd/cachebro/doctor) echo "cmd/cachebro/cli cmd/cachebro/fork cmd/cachebro/history cmd/cachebro/mounting cmd/cachebro/setup fusefs/... hooks/... store/..." ;;
	cmd/* | scripts/*) echo "*" ;;
	*) echo "?" ;;
	esac
}

# The big modules each belong to one room.
owner() {
	case "$1" in
	github.com/hanwen/go-fuse/*) echo "fusefs fusefs/past scripts/..." ;;
	github.com/dgraph-io/badger/*) echo "store store/content store/db" ;;
	github.com/blevesearch/bleve/*) echo "search search/..." ;;
	github.com/mark3labs/mcp-go/*) echo "mcp mcp/..." ;;
	github.com/bmatcuk/doublestar/*) echo "store/glob" ;;
	github.com/sergi/go-diff/*) echo "store/diff" ;;
	github.com/alecthomas/chroma/*) echo "cmd/cachebro/ui" ;;
	github.com/spf13/pflag) echo "cmd/..." ;;
	mvdan.cc/sh/*) echo "hooks hooks/..." ;;
	filippo.io/age) echo "store/remote" ;;
	github.com/minio/minio-go/*) echo "store/remote store/remote/remotetest" ;;
	github.com/jackc/pgx/* | github.com/pressly/goose/*) echo "store/fleet" ;;
	github.com/redis/go-redis/*) echo "store/memo/results store/memo/results/..." ;;
	github.com/buildkite/terminal-to-html/*) echo "" ;; # tests only
	github.com/tiktoken-go/*) echo "store/tokens" ;;
	go.yaml.in/yaml/*) echo "store/knowledge/manifest" ;;
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
			fusefs/capture/spool | fusefs/procfs | store/wire)
				case "$imp" in golang.org/x/sys/*) ;; *) echo "$room may import the standard library only, not $imp" ;; esac
				;;
			esac
			;;
		esac
	done
done | sort -u >"$bad"

# mountd holds /dev/fuse: nothing in it may map files or own a database.
if go list -deps ./fusefs/capture ./fusefs/mounts/supervisor ./fusefs 2>/dev/null | grep -E 'dgraph-io/badger|blevesearch|mmap-go|go\.etcd\.io/bbolt' >>"$bad"; then
	echo "the line above: capture, supervisor and fusefs must not depend on it" >>"$bad"
fi

# One place that ends processes and reads the environment.
grep -rnE '\b(os\.Exit|log\.Fatal)' --include='*.go' --exclude='*_test.go' . | grep -vE '^\./(cmd/([a-z/-]*/)?main\.go|cmd/cachebro/fastpath/fastpath\.go|scripts/)|func .*/posix' >>"$bad" || true
grep -rnE '\bos\.(Getenv|LookupEnv|Environ)\(' --include='*.go' --exclude='*_test.go' fusefs store search mcp hooks |
	grep -vE 'cmd.Env = append\(os.Environ\(\)|^store/(remote/remotetest|fleet/fleettest)/' >>"$bad" || true

if [ -s "$bad" ]; then
	cat "$bad"
	echo "import rules: broken" >&2
	exit 1
fi
echo "import rules: ok"
