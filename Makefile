# Every target sets up what it needs. Start with `make demo` or `make test`; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
LAB ?= lab
PROFILE ?= full
NODES ?= 2
GPU_NODES ?= 25
CMD ?= kubectl get pdinf --all-namespaces
CRD := crds/pdinference.dev_pdinferenceservices.yaml

export PYTHONPATH := $(CURDIR)/operator:$(CURDIR)/worker_image:$(CURDIR)
export LAB CMD
BIN := $(CURDIR)/.venv/bin
PY := $(BIN)/python

.PHONY: help
help: ## This list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: ## Python environment from the lock file (cached per user)
	@$(PYTHON) tools/venv.py

## ---- see it run -------------------------------------------------------------------------------------------------

.PHONY: demo demo-down
demo: venv ## A real cluster, the operator, one service, one streamed answer, and scaling under load
	@$(PY) -m e2e.demo up
demo-down: venv ## Remove the demo: no process, mount, interface, rule or image stays behind
	@$(PY) -m e2e.demo down

## ---- the lab: a real Kubernetes cluster on this machine -----------------------------------------------------------

.PHONY: lab-up lab-status lab-exec lab-down
lab-up: venv ## Start a cluster (PROFILE=full|control-plane NODES=2 GPU_NODES=25 LAB=lab)
	@$(PY) -m e2e.lab up --name $(LAB) --profile $(PROFILE) --nodes $(NODES) --gpu-nodes $(GPU_NODES)
lab-status: venv ## What runs, and where
	@$(PY) -m e2e.lab status --name $(LAB)
lab-exec: venv ## Run CMD='…' against the cluster
	@$(PY) -m e2e.lab exec --name $(LAB) -- bash -c "$$CMD"
lab-down: venv ## Stop the cluster and remove every trace of it
	@$(PY) -m e2e.lab down --name $(LAB)

.PHONY: operator-install operator-run
operator-install: venv ## Install the chart on the lab with an image built from this checkout
	@$(PY) -m e2e.install --name $(LAB)
operator-run: venv ## Run the operator from this checkout against the lab (PD_PROMETHEUS_URL=… for SLO mode)
	@$(PY) -m e2e.lab exec --name $(LAB) -- bash -c 'kubectl apply --server-side -f crds && exec $(PY) -m pd_operator.main'

.PHONY: images
images: venv ## Build the operator, router and CPU engine images
	@$(PY) -m e2e.lab build operator router sglang-cpu

## ---- checks -----------------------------------------------------------------------------------------------------

.PHONY: test lint types imports unit chart-test cluster-test e2e
test: lint types imports generate-check unit chart-test cluster-test ## Everything but real pods
lint: venv ## Style
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
types: venv ## Types (strict)
	@$(BIN)/mypy operator e2e benchmarks tools tests
imports: venv ## Import rules between the layers
	@$(BIN)/lint-imports
unit: venv ## Unit, property and contract tests
	@$(PY) -m pytest tests/unit tests/property tests/contract
chart-test: venv ## Chart tests with the real helm
	@$(PY) -m pytest tests/chart
cluster-test: venv ## Tests against a real API server, scheduler and controller-manager
	@$(PY) -m pytest tests/cluster
e2e: venv ## The demo scenario and failures with real pods and the real engine
	@$(PY) -m pytest e2e/scenarios

## ---- benchmarks ---------------------------------------------------------------------------------------------------

.PHONY: bench-reconcile
bench-reconcile: venv ## Reconcile speed at N = 1, 50, 200, 1,000 services; writes build/bench/reconcile.json
	@$(PY) -m benchmarks.reconcile

## ---- generated files and locks ----------------------------------------------------------------------------------

.PHONY: generate generate-check lock format
generate: venv ## Regenerate the CRD from the models
	@$(PY) -m pd_operator.api.crd $(CRD)
	@$(PY) -m tools.chart_crd $(CRD) helm/pd-operator/templates/crd.yaml
	@$(PY) -m tools.chart_values helm/pd-operator
generate-check: generate ## Fail when generated files differ from what is checked in
	@git diff --exit-code --stat -- crds helm || { echo "error: generated files are out of date: run 'make generate' and commit the result"; exit 1; }
lock: venv ## Recompile the lock files from requirements/*.in
	@for set in runtime dev go; do $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate requirements/$$set.in -o requirements/$$set.txt; done
	@for set in e2e/sglang_cpu router_image; do $(BIN)/uv pip compile --quiet --no-deps --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate $$set/requirements.in -o $$set/requirements.txt; done
format: venv ## Fix style
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
