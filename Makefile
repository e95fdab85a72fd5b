# cachebro. "make mount DIR=…" is the way in; "make test" and "make ci" check it.
GO      ?= go
BIN     := bin/cachebro
PREFIX  ?= /usr/local
DIR     ?= $(CURDIR)
# Packages whose tests run with the race detector in ci: those with many
# goroutines and no mounts of their own to slow down.
RACE    := ./store/wire ./store/leaf/spool ./store/readers ./cmd/cachebro/daemon ./cmd/cachebro/daemon/ingest ./fusefs/capture ./mcp
FUZZTIME ?= 5s
export GOFLAGS += -buildvcs=false
# A bare machine may not say it; Go's caches and the history lie there.
export HOME ?= $(shell awk -F: -v id="$$(id -u)" '$$3 == id { print $$6; exit }' /etc/passwd)

.PHONY: all build fleet mount test quick check fuzz ci ui-test fleet-test bench install dist clients picture deps testdeps clean
all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/cachebro

# The program that keeps what many machines did in PostgreSQL (doc/fleet.md).
fleet:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/cachebro-fleet ./cmd/cachebro-fleet

# What a fresh machine lacks: FUSE's helper, git and an unpacker of nothing else.
deps:
	@scripts/deps.sh

testdeps:
	@scripts/deps.sh test

mount: deps build
	$(BIN) mount "$(DIR)"
	@echo
	@echo "Work in $(DIR) as always (in a shell that is there already: cd .)."
	@echo "What changed:  $(CURDIR)/$(BIN) log $(DIR)"
	@echo "An agent:      cd $(DIR) && $(CURDIR)/$(BIN) run -- claude"
	@echo "Leave:         $(CURDIR)/$(BIN) umount $(DIR)"

test: testdeps
	@scripts/test.sh

# After a change: what needs no mount, server or other user. Go keeps the results of
# packages that did not change.
quick:
	@scripts/test.sh quick

# What is checked beside the tests: style, dead code, imports, races, fuzzing, cross-builds.
check:
	@scripts/ci.sh "$(RACE)" "$(FUZZTIME)"

ci: test check

fuzz:
	@scripts/fuzz.sh "$(FUZZTIME)"

# The pages in a real Chromium, which is installed where it is missing.
ui-test: build
	@scripts/uitest/run.sh "$(CURDIR)/$(BIN)"

# What speaks to buckets, against a real S3 server.
fleet-test: testdeps
	@scripts/fleet.sh

bench: testdeps build
	@scripts/bench.sh

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/cachebro

# Packages, tarballs and npm packages in dist/; the same commit gives the same bytes.
dist:
	@$(GO) run ./scripts/dist

# The newest agents' clients from npm, and what each can do with cachebro (doc/clients.md).
clients:
	@scripts/clients/run.sh

# The README's pictures, from real sessions.
picture: build
	$(GO) run ./scripts/picture $(BIN) doc/session.svg
	TAGS=uipicture RUN=TestPicture scripts/uitest/run.sh "$(CURDIR)/$(BIN)"

clean:
	rm -rf bin dist dist.incomplete
