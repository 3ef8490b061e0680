# The image of sless. Manager, gateway and builder are in one image.
IMG ?= ghcr.io/naeel/sless:v0.1.0
# The cluster of the demo and of the end-to-end tests: local (this machine becomes a node, Debian and root needed) or
# current (that of the current kubeconfig, on which `make deploy` has put sless).
CLUSTER ?= local
# KEDA=1 also puts KEDA and its http-add-on on the local cluster, so that functions can scale to zero.
KEDA ?=
KEDA_FLAG = $(if $(filter-out 0 false,$(KEDA)),--keda)
# CERT_MANAGER=1 leaves the certificate of the webhooks to cert-manager, which must be on the cluster.
CERT_MANAGER ?=
# How many end-to-end stories run at once.
E2E_PROCS ?= 5
CONTAINER_TOOL ?= docker
# BASE_IMAGE and RUN_IMAGE take the place of what Dockerfile stands on.
IMAGE_ARGS = $(foreach name,BASE_IMAGE RUN_IMAGE,$(if $($(name)),--build-arg $(name)=$($(name))))
KUBECTL ?= kubectl

LOCALBIN ?= $(CURDIR)/bin
KUSTOMIZE ?= $(LOCALBIN)/kustomize
CONTROLLER_GEN ?= $(LOCALBIN)/controller-gen
CRD_REF_DOCS ?= $(LOCALBIN)/crd-ref-docs
GOLANGCI_LINT ?= $(LOCALBIN)/golangci-lint
KUBE_API_LINTER ?= $(LOCALBIN)/golangci-lint-kube-api-linter
LOGCHECK ?= $(LOCALBIN)/logcheck

KUSTOMIZE_VERSION ?= v5.8.1
CONTROLLER_TOOLS_VERSION ?= v0.23.0
CRD_REF_DOCS_VERSION ?= v0.3.0
GOLANGCI_LINT_VERSION ?= v2.13.1
KUBE_API_LINTER_VERSION ?= v0.0.0-20260716143926-092fe0c72997
LOGCHECK_VERSION ?= v0.11.0

# All that is compiled here and by hack/ has the same settings, so that each package is compiled once for all of it: most
# of the time of the first run.
export CGO_ENABLED ?= 0
ifeq ($(filter -trimpath,$(GOFLAGS)),)
export GOFLAGS := -trimpath $(GOFLAGS)
endif

SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec
MAKEFLAGS += --no-print-directory

.PHONY: all
all: build

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "\nUsage:\n  make \033[36m<target>\033[0m\n"} \
		/^[a-zA-Z_0-9-]+:.*?##/ { printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2 } \
		/^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Start a real cluster, put sless on it, apply two functions and call them.
	@echo "Compiling hack/demo (some minutes the first time, with its Go modules)"
	@go run ./hack/demo --cluster=$(CLUSTER) $(KEDA_FLAG)

.PHONY: cluster-up
cluster-up: ## Start the local cluster, or what is missing of it. Builds it first when needed. KEDA=1: with KEDA.
	@if [ "$(CLUSTER)" = current ]; then "$(KUBECTL)" get nodes; \
		else go run $(if $(KEDA_FLAG),./hack/demo keda,./hack/cluster up); fi

.PHONY: cluster-down
cluster-down: ## Stop the local cluster and remove everything it made.
	@go run ./hack/cluster down

.PHONY: cluster-status
cluster-status: ## Show the parts of the local cluster.
	@go run ./hack/cluster status

.PHONY: cluster-deploy
cluster-deploy: ## Put the code of this checkout on the local cluster, without functions.
	@go run ./hack/demo deploy $(KEDA_FLAG)

##@ Test

.PHONY: test
test: ## Run the unit tests and the tests against a real API server.
	@# The package that takes longest is first, so that all others are tested beside it.
	@assets="$${KUBEBUILDER_ASSETS:-$$(go run ./hack/cluster envtest-assets)}"; \
	echo "Compiling and running the tests (some minutes until the first result, the first time)"; \
	KUBEBUILDER_ASSETS="$$assets" go test -timeout=60m ./internal/controller $$(go list ./... | grep -v -e /test/e2e -e /internal/controller$$) \
		$(TEST_ARGS) \
		| { grep -v 'no test files' || true; }; \
	echo "make test: all tests passed"

.PHONY: test-e2e
test-e2e: ## Run the stories of users on a real cluster. KEDA=0: without those of functions that scale.
	@# Most of a story is waiting, so several run side by side; those that take a part of the platform down keep the others from it.
	@if [ "$(CLUSTER)" = local ]; then go run ./hack/demo deploy $(if $(filter 0 false,$(KEDA)),,--keda); fi
	SLESS_E2E_CLUSTER=$(CLUSTER) go run github.com/onsi/ginkgo/v2/ginkgo --tags=e2e --procs=$(E2E_PROCS) --timeout=60m -v \
		$(TEST_ARGS) ./test/e2e

.PHONY: setup-envtest envtest
setup-envtest envtest: ## Print the folder of the API server and etcd for make test; get or build them first.
	@go run ./hack/cluster envtest-assets

.PHONY: setup-test-e2e
setup-test-e2e: cluster-deploy ## Start the cluster of the end-to-end tests, with sless on it.

.PHONY: cleanup-test-e2e
cleanup-test-e2e: cluster-down ## Stop the cluster of the end-to-end tests.

.PHONY: fuzz
fuzz: ## Fuzz the archive package, a minute for each target.
	@for target in FuzzFromFiles FuzzFromZip FuzzFromZipEntries FuzzExtract; do \
		go test ./internal/archive -run='^$$' -fuzz="^$$target\$$" -fuzztime=1m; \
	done

.PHONY: bench
bench: ## Measure on a real cluster and print tables (docs/benchmarks.md).
	@if [ "$(CLUSTER)" = local ]; then go run ./hack/demo deploy $(KEDA_FLAG); fi
	@go run ./test/bench --cluster=$(CLUSTER) $(BENCH_ARGS)

##@ Develop

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate CRDs and roles from the markers in the code.
	@"$(CONTROLLER_GEN)" crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	@"$(CONTROLLER_GEN)" rbac:roleName=manager-role paths=./internal/controller/... output:rbac:dir=config/rbac

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the DeepCopy functions of the API.
	@"$(CONTROLLER_GEN)" object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: api-docs
api-docs: $(CRD_REF_DOCS) ## Generate the API reference.
	@"$(CRD_REF_DOCS)" --source-path=api/v1alpha1 --config=hack/api-docs.yaml --renderer=markdown \
		--output-path=docs/reference/api.md

.PHONY: fmt
fmt: ## Format the code.
	@gofmt -l -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: vet
vet: ## Run go vet, also over the end-to-end tests.
	@go vet ./...
	@go vet -tags=e2e ./test/e2e/

.PHONY: lint
lint: $(GOLANGCI_LINT) $(KUBE_API_LINTER) $(LOGCHECK) ## Run all linters.
	"$(GOLANGCI_LINT)" run
	"$(KUBE_API_LINTER)" run --config=.golangci-kal.yml ./api/...
	"$(LOGCHECK)" ./...

.PHONY: lint-fix
lint-fix: $(GOLANGCI_LINT) ## Run golangci-lint and let it mend what it can.
	"$(GOLANGCI_LINT)" run --fix

.PHONY: lint-config
lint-config: $(GOLANGCI_LINT) ## Check the configuration of golangci-lint.
	"$(GOLANGCI_LINT)" config verify

.PHONY: verify
verify: ## Check that everything generated is current, formatted and committed.
	@hack/verify.sh

##@ Build

.PHONY: build
build: ## Build the programs into bin/.
	go build -o bin/manager ./cmd
	go build -o bin/gateway ./cmd/gateway
	go build -o bin/builder ./cmd/builder

.PHONY: run
run: ## Run the manager on this machine against the current kubeconfig: make run CONFIG=my.yaml
	go run ./cmd --config=$(CONFIG)

.PHONY: docker-build
docker-build: ## Build the image of sless.
	$(CONTAINER_TOOL) build $(IMAGE_ARGS) -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image of sless.
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: docker-runtimes
docker-runtimes: ## Build and push the runtime images: make docker-runtimes REGISTRY_HOST=docker.io/acme
	@test -n "$(REGISTRY_HOST)" || { echo "set REGISTRY_HOST to your registry, such as docker.io/acme" >&2; exit 1; }
	@for folder in runtimes/*/runtime.yaml; do \
		folder=$$(dirname $$folder); \
		version=$$(sed -n 's/^version: *//p' $$folder/runtime.yaml); \
		ref="$(REGISTRY_HOST)/sless-runtime-$$(basename $$folder):$$version"; \
		echo "Building $$ref"; \
		$(CONTAINER_TOOL) build -f $$folder/Dockerfile -t "$$ref" . && $(CONTAINER_TOOL) push "$$ref"; \
	done

PLATFORMS ?= linux/arm64,linux/amd64
.PHONY: docker-buildx
docker-buildx: ## Build and push the image of sless for several platforms.
	$(CONTAINER_TOOL) buildx build --push --platform=$(PLATFORMS) \
		$(IMAGE_ARGS) --tag $(IMG) .

.PHONY: build-installer
build-installer: manifests generate $(KUSTOMIZE) ## Generate dist/install.yaml and dist/install-cert-manager.yaml.
	@mkdir -p dist
	@"$(KUSTOMIZE)" build config/install > dist/install.yaml
	@"$(KUSTOMIZE)" build config/install-cert-manager > dist/install-cert-manager.yaml

##@ Deploy

ignore-not-found ?= false

.PHONY: install
install: manifests $(KUSTOMIZE) ## Install the CRDs on the cluster of the current kubeconfig.
	@"$(KUSTOMIZE)" build config/crd | "$(KUBECTL)" apply --server-side -f -

.PHONY: uninstall
uninstall: manifests $(KUSTOMIZE) ## Remove the CRDs, and with them all functions.
	@"$(KUSTOMIZE)" build config/crd | "$(KUBECTL)" delete --ignore-not-found=$(ignore-not-found) -f -

.PHONY: deploy
deploy: build-installer ## Put sless on the cluster of the current kubeconfig (docs/install.md). CERT_MANAGER=1: with its certificates.
	@sed 's#ghcr.io/naeel/sless:v0.1.0#$(IMG)#g' dist/install$(if $(filter-out 0 false,$(CERT_MANAGER)),-cert-manager).yaml | "$(KUBECTL)" apply --server-side -f -

.PHONY: undeploy
undeploy: $(KUSTOMIZE) ## Remove sless and all functions from the cluster of the current kubeconfig.
	@# What has a finalizer goes first: the manager takes down what it made for it.
	@"$(KUBECTL)" delete functionjobs.sless.io,triggers.sless.io,functions.sless.io --all --all-namespaces --ignore-not-found --timeout=5m
	@"$(KUSTOMIZE)" build config/install | "$(KUBECTL)" delete --ignore-not-found=$(ignore-not-found) -f -

##@ Tools

.PHONY: kustomize controller-gen golangci-lint
kustomize: $(KUSTOMIZE) ## Install kustomize into bin/.
controller-gen: $(CONTROLLER_GEN) ## Install controller-gen into bin/.
golangci-lint: $(GOLANGCI_LINT) ## Install golangci-lint into bin/.

$(KUSTOMIZE):
	$(call go-install-tool,$@,sigs.k8s.io/kustomize/kustomize/v5,$(KUSTOMIZE_VERSION))
$(CONTROLLER_GEN):
	$(call go-install-tool,$@,sigs.k8s.io/controller-tools/cmd/controller-gen,$(CONTROLLER_TOOLS_VERSION))
$(CRD_REF_DOCS):
	$(call go-install-tool,$@,github.com/elastic/crd-ref-docs,$(CRD_REF_DOCS_VERSION))
$(GOLANGCI_LINT):
	$(call go-install-tool,$@,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION))
$(KUBE_API_LINTER):
	$(call go-install-tool,$@,sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter,$(KUBE_API_LINTER_VERSION))
$(LOGCHECK):
	$(call go-install-tool,$@,sigs.k8s.io/logtools/logcheck,$(LOGCHECK_VERSION))

# $1 the file, $2 the package, $3 the version.
define go-install-tool
@echo "Installing $(notdir $1) $3"
@GOBIN="$(LOCALBIN)" go install $2@$3
endef
