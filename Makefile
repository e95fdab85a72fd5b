# Begin with "make mount DIR=…". "make test" runs the tests, and "make ci" all checks.
GO      ?= go
BIN     := bin/cachebro
PREFIX  ?= /usr/local
DIR     ?= $(CURDIR)
# The packages whose tests run with the race detector. They have many goroutines, and mount nothing,
# because the detector would slow down a mount.
RACE    := ./store/wire ./store/leaf/spool ./store/readers ./cmd/cachebro/daemon ./cmd/cachebro/daemon/ingest ./fusefs/capture ./mcp
FUZZTIME ?= 5s
export GOFLAGS += -buildvcs=false
# HOME may be missing on a bare machine. Go's caches and the history are in it.
export HOME ?= $(shell awk -F: -v id="$$(id -u)" '$$3 == id { print $$6; exit }' /etc/passwd)

.PHONY: all build fleet mount test quick check fuzz ci ui-test fleet-test bench install dist clients picture deps testdeps clean
all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/cachebro

# The program that stores the histories of many machines in PostgreSQL (doc/fleet.md).
fleet:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/cachebro-fleet ./cmd/cachebro-fleet

# Install what a fresh machine lacks (see scripts/deps.sh).
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

# Run the tests that need no mount, server or other user. Go caches the results of packages that did
# not change.
quick:
	@scripts/test.sh quick

# Run all checks besides the tests: style, dead code, imports, races, fuzzing, cross-builds.
check:
	@scripts/ci.sh "$(RACE)" "$(FUZZTIME)"

ci: test check

fuzz:
	@scripts/fuzz.sh "$(FUZZTIME)"

# Test the pages in a real Chromium, which is installed if it is missing.
ui-test: build
	@scripts/uitest/run.sh "$(CURDIR)/$(BIN)"

# Test the code that uses buckets against a real S3 server.
fleet-test: testdeps
	@scripts/fleet.sh

bench: testdeps build
	@scripts/bench.sh

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/cachebro

# Make packages, tarballs and npm packages in dist/. The same commit gives the same bytes.
dist:
	@$(GO) run ./scripts/dist

# Install the newest clients of agents from npm, and test what each can do with cachebro
# (doc/clients.md).
clients:
	@scripts/clients/run.sh

# Make the README's pictures from real sessions.
picture: build
	$(GO) run ./scripts/picture $(BIN) doc/session.svg
	TAGS=uipicture RUN=TestPicture scripts/uitest/run.sh "$(CURDIR)/$(BIN)"

clean:
	rm -rf bin dist dist.incomplete
