# Everything builds with go, git, make and a C compiler. Two commands are meant for visitors: demo and test.
SHELL := /bin/bash
.DEFAULT_GOAL := help

MODULES := . node testing testing/fakecri examples/apis examples examples/cli
TOOL    := GOWORK=off go tool -modfile=$(CURDIR)/tools/go.mod
GO      := go
RACE    ?= -race
GOTEST  := $(GO) test

.PHONY: help demo test check test-unit test-cluster test-node build krew bench bench-rollouts chaos mutants hostile house lint generate chart verify newest apidiff clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: ## a live rollout on a real control plane: in place, halted, finished, recreated; WORKLOAD=statefulset: Pods with ordinals; WORKLOAD=daemonset: Pods on Nodes that join and are tainted
	$(GO) build -o bin/ ./examples/quickstart ./examples/cli/cmd/kubectl-kruise
	@exec bin/quickstart --workload '$(or $(WORKLOAD),cloneset)'

test: test-unit test-cluster ## everything: units, fuzz seeds, Examples, and the real control plane

check: ## the quick loop, under 2 minutes: build; vet and test what changed since the merge base of main, without a control plane
	@bash .ci/check

test-unit: ## deciding halves, Examples, fuzz seeds, with the race detector
	$(GOTEST) $(RACE) ./...
	cd node && $(GOTEST) $(RACE) ./...
	cd examples/apis && $(GOTEST) $(RACE) ./...
	cd examples/cli && $(GOTEST) $(RACE) -short ./...

test-cluster: ## controllers against a real etcd and kube-apiserver, schedules of faults, and a sample of the planted mistakes
	@RACE="$(RACE)" bash .ci/cluster

mutants: ## plants all mistakes, one by one, and wants each to be found: a quarter of an hour and more
	cd examples && MUTANTS=all $(GO) test -count=1 -timeout 0 -v -run '^TestMutants$$' ./chaos

NODE_PACKAGES := gcc libc6-dev libseccomp-dev iproute2
test-node: ## controllers on a real kubelet and containerd, as root; installs the Debian packages it lacks
	@dpkg -s $(NODE_PACKAGES) >/dev/null 2>&1 || apt-get install -y --no-install-recommends $(NODE_PACKAGES) \
		|| { apt-get update && apt-get install -y --no-install-recommends $(NODE_PACKAGES); } \
		|| echo "packages were not installed; the tests say what is missing"
	$(GO) build -o bin/controlplane ./testing/cmd/controlplane
	bin/controlplane path kube-apiserver >/dev/null
	cd examples && WORKLOADKIT_NODE=1 $(GOTEST) -count=1 -timeout 30m -p 1 -v ./realnode ../testing/realnode ../testing/fakecri

build: ## bin/controlplane, bin/nodeagents, bin/kruise-manager, bin/kruise-daemon and bin/kubectl-kruise
	$(GO) build -tags grpcnotrace -o bin/ ./examples/cmd/... ./testing/cmd/... ./testing/fakecri/cmd/...
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -tags grpcnotrace -o bin/ ./examples/cli/cmd/kubectl-kruise

krew: ## bin/krew: archives of kubectl-kruise for krew, each with the LICENSE
	@mkdir -p bin/krew
	@for p in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64; do \
		dir=$$(mktemp -d) && name=kubectl-kruise$$([ $${p%/*} != windows ] || echo .exe) && cp LICENSE $$dir/ && \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags "-s -w" -o $$dir/$$name ./examples/cli/cmd/kubectl-kruise && \
		tar -C $$dir -czf bin/krew/kubectl-kruise-$${p%/*}-$${p#*/}.tar.gz LICENSE $$name && rm -rf $$dir || exit 1; done

bench: ## figures of the deciding halves
	$(GO) test -run '^$$' -bench . -benchmem ./...
	cd examples && $(GO) test -run '^$$' -bench . -benchmem ./controllers/... ./kinds/...

bench-rollouts: build ## whole rollouts on the real control plane, into examples/bench/RESULTS.md: most of an hour of a machine that does nothing else
	$(GO) build -o bin/ ./examples/bench ./examples/embed
	bin/bench results --again $(BENCH)

chaos: ## schedules of faults: SEEDS=10000 FIRST_SEED=1 STEPS=300 CONTROLLER=cloneset, all of them optional; SCRIPT=1-12,40 plays steps of one
	@cd examples && packages=$$(grep -rl --include='*_test.go' 'chaos\.Run(t' . | xargs -n1 dirname | sort -u | grep -E '/$(or $(CONTROLLER),[^/]*)$$') \
		|| { echo "no controller $(CONTROLLER) is tested under faults"; exit 1; }; \
	CHAOS_SEEDS=$(or $(SEEDS),10000) CHAOS_FIRST_SEED=$(FIRST_SEED) CHAOS_STEPS=$(STEPS) CHAOS_SCRIPT=$(SCRIPT) \
		$(GO) test -count=1 -timeout 0 -v -run '^TestFaults$$' $$packages

hostile: build ## a soak of ten minutes: one namespace and whoever reaches the webhooks do all they can, a neighbour rolls out; HOSTILE="--for 1m"
	$(GO) build -o bin/ ./examples/hostile
	bin/hostile --manager bin/kruise-manager $(HOSTILE)

house: ## figures of the repository: lines of each kind by part, prose of each package; MOST=5 fails above that many pronouns and relatives per 100 words
	@$(GO) run ./examples/internal/house -root . -most $(or $(MOST),100)

lint: ## golangci-lint, with go vet and the other linters listed in .golangci.yml
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(TOOL) golangci-lint run ./...) || exit 1; done

generate: ## deepcopy functions, registrations of types, CRDs, manifests and tables that follow from the rows of kinds, the chart's copies of manifests, the table of reasons, the embedded binaries module
	cd examples/apis && $(TOOL) controller-gen object paths="./apps/...;./policy/..."
	cd examples/apis && $(TOOL) controller-gen crd paths="./apps/...;./policy/..." output:crd:dir=../config/crd
	cd examples && $(GO) run ./internal/registration apis && $(GO) run ./internal/crdconversion config/crd && $(GO) run ./internal/manifests ..
	@for d in crd webhook rbac resourcedistribution imagepulljob daemon daemon-webhook; do rm -rf examples/charts/kruise/files/$$d && mkdir -p examples/charts/kruise/files/$$d && \
		(cd examples/config/$$d && cp $$(sed -n 's/^- \(path: \)\?\(.*\.yaml\)$$/\2/p' Kustomization) ../../charts/kruise/files/$$d/) || exit 1; done
	cd testing && $(GO) generate ./...
	@mkdir -p bin
	$(GO) run ./examples/internal/reasontable -root . > bin/reasons.md && mv bin/reasons.md docs/reasons.md

chart: ## the Helm chart, checked and rendered with its defaults into bin/chart.yaml
	@mkdir -p bin
	@$(TOOL) helm lint --strict --quiet examples/charts/kruise
	$(TOOL) helm template kruise examples/charts/kruise > bin/chart.yaml.new && mv bin/chart.yaml.new bin/chart.yaml

verify: generate ## generated files are current, modules are tidy, the root module requires what it may
	@git diff --exit-code -- . || (echo "generated files are not current: run make generate and commit"; exit 1)
	@for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) mod tidy -diff) || exit 1; done
	@bash .ci/requirements

newest: ## build and test the kit against the newest Kubernetes libraries and controller-runtime
	@bash .ci/newest

apidiff: ## incompatible changes of the root module's API since the last tag
	@bash .ci/apidiff

clean: ## remove built binaries of this checkout
	rm -rf bin
