#!/bin/sh
# Prints the path of versitygw, a real S3 server that stores its data in a directory. It is built
# once, into the user's cache.
set -eu
version=v1.8.0
dir="${XDG_CACHE_HOME:-$HOME/.cache}/cachebro/versitygw-$version"
if [ ! -x "$dir/versitygw" ]; then
	mkdir -p "$dir"
	GOBIN="$dir" CGO_ENABLED=0 GOFLAGS= go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
fi
echo "$dir/versitygw"
