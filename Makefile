# pawl: make help lists what can be done.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

export GOTOOLCHAIN := go1.27.3
export CGO_ENABLED ?= 1

BIN := $(CURDIR)/bin
# What a long proof runs; make test runs a share of it.
SEEDS ?= 10000
ROUNDS ?= 200
HISTORIES ?= 2000

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## a demo: a relay, flaky endpoints, a load, and what became of it (15 s or Ctrl-C)
	@go run ./examples/demo

.PHONY: build
build: ## build bin/pawl
	go build -o $(BIN)/pawl ./cmd/pawl

.PHONY: test
test: ## the tests, simulations and end-to-end rounds of a normal run
	go test ./...

.PHONY: check
check: fmt vet lint race rules vuln fresh ## everything that must hold before a change lands

.PHONY: fmt
fmt:
	@bad=$$(gofmt -l cmd internal examples test bench docs packaging tools); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint
	$(BIN)/golangci-lint run ./...

.PHONY: race
race:
	go test -race -short ./...

# Prometheus' engine has a module of its own, as the tools have. The rules are no part
# of that module, so a result that go test kept would not know of a change in them.
.PHONY: rules
rules: ## the alert rules and the board in Prometheus' own engine
	cd tools/rules && go vet ./... && go test -count=1 ./...

.PHONY: vuln
vuln: $(BIN)/govulncheck $(BIN)/vulndb
	$(BIN)/govulncheck -db file://$(BIN)/vulndb ./...

.PHONY: fresh
fresh: ## generated files are what the code generates
	@go generate ./... && if [ -n "$$(git status --porcelain -- docs)" ]; then \
		echo "generated files are stale; commit what 'go generate ./...' wrote:"; git status --porcelain -- docs; git diff -- docs | head -50; exit 1; fi

.PHONY: prove
prove: ## the long proofs in full: every seed, every kill round, the race detector
	PAWL_SIM_SEEDS=$(SEEDS) go test -count=1 -timeout 60m ./internal/sim
	PAWL_HISTORIES=$(HISTORIES) go test -count=1 -timeout 60m ./test/metamorphic
	PAWL_LONG=1 go test -count=1 -timeout 30m -run 'Backlog' ./internal/store/sqlite
	PAWL_LONG=1 go test -count=1 -timeout 30m -run 'ModelChecked' ./internal/deliver
	PAWL_KILL_ROUNDS=$(ROUNDS) PAWL_LONG=1 go test -count=1 -timeout 90m ./test/e2e
	PAWL_E2E_RACE=1 go test -count=1 -timeout 30m ./test/e2e
	go test -race -count=1 -timeout 60m ./...

.PHONY: sim
sim: ## replay one simulation: make sim SEED=7
	PAWL_SIM_SEED=$(SEED) go test -count=1 -v ./internal/sim

.PHONY: history
history: ## replay one history of the store: make history SEED=7
	SEED=$(SEED) go test -count=1 -v ./test/metamorphic

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s) each
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-30s} $$pkg; \
		done; \
	done

.PHONY: bench
bench: ## the benchmarks against peers; results in bench/results
	$(MAKE) -C bench

# The tools have a module of their own, so that they weigh on nobody's build.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/govulncheck: tools/go.mod tools/go.sum
	cd tools && GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck

# govulncheck's database, made from the vulndb module at a fixed version.
$(BIN)/vulndb: tools/go.mod tools/go.sum
	cd tools && GOBIN=$(BIN) go install golang.org/x/vulndb/cmd/indexdb
	rm -rf $@ && $(BIN)/indexdb -vulns "$$(cd tools && go list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv" -out $@
