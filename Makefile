# `make help` lists what there is. `make test` needs nothing but Go.

# The versions of every tool that go.mod does not pin.
GOLANGCI_LINT_VERSION := v2.15.0
# v1.9.0 depends on a module version that the module mirror does not hand out.
GOVULNCHECK_VERSION := v1.8.0

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   ?= $(shell git rev-parse --verify -q HEAD 2>/dev/null || echo unknown)
IMAGE    ?= feedsink:$(VERSION)
GO_IMAGE ?= golang:1.26
FUZZTIME ?= 5s

GOLANGCI_LINT := .bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# The end-to-end tests take longest and mostly wait: begun first, all others run beside them.
TESTS := ./test/e2e ./...

# Packages with tests that run only against a real Kafka.
KAFKA_PACKAGES = $(shell grep -rl --include='*_test.go' '^//go:build kafka$$' . | xargs -n1 dirname | sort -u)

.DEFAULT_GOAL := help
.PHONY: help build man install reproducible sbom test race check lint fmt tidy generated fuzz vuln contract manifests test-deploy test-image test-container test-kafka test-secured test-debezium test-faults test-audit test-memory test-page simulate simulate-shrink simulate-bugs bench soak image clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# As the Dockerfile builds it: neither the machine nor the time of the build shows in it.
build: ## the binary, as dist/feedsink
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata,grpcnotrace \
		$(foreach package,kmsg kadm kfake,-gcflags 'github.com/twmb/franz-go/pkg/$(package)/...=-l') \
		-ldflags '-s -w -funcalign=16 -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o dist/feedsink ./cmd/feedsink

man: ## the manual pages of all commands, in dist/man
	go run -tags man -ldflags '-X main.version=$(VERSION)' ./cmd/feedsink man dist/man

PREFIX ?= /usr/local
install: build man ## the binary and its manual pages, under PREFIX (/usr/local)
	install -D dist/feedsink $(DESTDIR)$(PREFIX)/bin/feedsink
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 dist/man/*.1

reproducible: ## is the binary the same wherever it is built?
	.ci/reproducible

sbom: build ## the binary's bill of materials, as dist/feedsink.cdx.json
	cd test/deploy && go run ./sbom ../../dist/feedsink $(VERSION) >../../dist/feedsink.cdx.json

test: ## every test that needs nothing but Go
	go test -tags man -timeout 25m $(TESTS)

race: ## the same with the race detector, in random order
	go test -race -shuffle=on -timeout 40m $(TESTS)

check: lint tidy generated race fuzz vuln ## all the gates of a change

lint: $(GOLANGCI_LINT) ## go vet, golangci-lint and the format
	go vet -tags kafka,prism,debezium,big,page,movedclock,simulation ./...
	go vet -tags kafka,image ./test/e2e
	$(GOLANGCI_LINT) run --allow-parallel-runners
	$(GOLANGCI_LINT) fmt --diff
	cd test/deploy && go vet -tags image ./... && $(abspath $(GOLANGCI_LINT)) run --allow-parallel-runners

fmt: $(GOLANGCI_LINT) ## format all Go files
	$(GOLANGCI_LINT) fmt

tidy: ## is go.mod what the code needs?
	go mod tidy -diff
	cd test/deploy && go mod tidy -diff

generated: ## are the generated files what their sources say?
	.ci/generated

fuzz: ## every fuzz target, FUZZTIME each
	.ci/fuzz $(FUZZTIME)

vuln: ## known vulnerabilities, where their database can be reached
	.ci/vuln $(GOVULNCHECK_VERSION)

contract: ## the client against a foreign mock of the published OpenAPI document; needs Node.js
	.ci/contract

manifests: ## render the plain manifests from the Helm chart
	cd test/deploy && go run ./manifests

# A module of its own, so that Helm, Kubernetes and Prometheus stay out of go.mod.
test-deploy: ## chart, manifests, alert rules and dashboard
	cd test/deploy && go test ./...

test-image: ## the image IMAGE under the chart's security context; needs Docker
	cd test/deploy && FEEDSINK_IMAGE=$(IMAGE) go test -tags image -count=1 -v -run 'Image(Is|Runs)' .

test-container: ## the end-to-end suite with every sink a container of IMAGE, against a real Apache Kafka; needs Docker
	cd test/deploy && FEEDSINK_IMAGE=$(IMAGE) go test -tags image -count=1 -timeout 30m -v -run ImagePasses .

test-kafka: ## the tests against a real Apache Kafka and schema registry; needs Docker
	go test -tags kafka -count=1 -p 1 -timeout 30m $(KAFKA_PACKAGES)

test-secured: ## the end-to-end suite through each secured listener of a real Kafka; needs Docker
	.ci/secured

test-debezium: ## a PostgreSQL table through a real Debezium and Kafka into the service's tables; needs Docker, PostgreSQL, Java and Maven
	go test -tags kafka,debezium -count=1 -timeout 10m -run CellByCell -v ./test/debezium

test-faults: ## the sink under every fault a cluster has, an hour and a half; FAULTFLAGS=-quick: a quarter of an hour; needs Docker
	go run ./test/faults $(FAULTFLAGS)

RUNS ?= 100
test-audit: ## is each kind of loss, doubling, other order and forgery found by audit, and nothing else after RUNS runs under kills?
	go test -count=1 -run '^(TestEachPlantIsFound|TestNothingIsFoundWhereAllIsWell|TestWhatIsNoGap)$$' -v ./test/planted
	FEEDSINK_AUDIT_RUNS=$(RUNS) go test -count=1 -timeout 2h -parallel 8 -run '^TestAuditFindsWhatIsPlantedAndNothingElse$$' -v ./test/e2e

test-memory: ## ten million keys wait for a slot, in bounded memory, and three million rows go as six files; eight minutes
	go test -tags big -count=1 -timeout 20m -run '^Test(TenMillionKeys|ThreeMillionRows)' -v ./test/e2e

test-page: ## the status page in headless Chromium, judged by axe; needs chromium, Node.js
	.ci/page

SEEDS ?= 1
SEED  ?= 1
simulate: ## SEEDS lives of the whole sink in virtual time, from SEED on; SIMULATEFLAGS="-follow -logs DIR": more to see
	go test -tags simulation -ldflags=-checklinkname=0 -count=1 -timeout 0 -v ./test/simulation -seed $(SEED) -seeds $(SEEDS) $(SIMULATEFLAGS)

simulate-shrink: ## what of the life of SEED, which fails, has to go wrong for that
	.ci/simulate-shrink $(SEED)

simulate-bugs: ## is each bug of test/simulation/bugs found by SEEDS seeds?
	.ci/simulate-bugs $(SEEDS)

bench: ## throughput and cost, as ratios to a bare loop in the same run
	go run ./test/bench $(BENCHFLAGS)

soak: ## 45 minutes of load on both lanes: is what the sink holds flat? SOAKFLAGS="-for 5m": shorter
	go run ./test/bench -soak $(SOAKFLAGS)

image: ## the container image
	docker build --build-arg GO_IMAGE=$(GO_IMAGE) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t $(IMAGE) .

clean: ## remove what the targets above have built
	rm -rf .bin dist

$(GOLANGCI_LINT):
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .bin/golangci-lint $@
