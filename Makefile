# `make demo` runs the main job, `make test` the tests. Both install what they need into .venv.
#   make check      formatting, lint, types, layers, workflows
#   make core-without-torch  score with the core alone, in .venv-core
#   make test-slow  the tests that take minutes
#   make test-search  the fast tests with examples that hypothesis draws anew
#   make test-learning  five methods learn; an hour
#   make test-parts the tests of parts that `make test` does not install, in .venv-parts;
#                   XMEM_REPO, CUTIE_REPO and EEE_REPO name checkouts
#   make test-trl   the contracts with TRL, with the release TRL=1.14.2, in .venv
#   make mutants    hundreds of plausible mistakes, each of which the tests have to find; an hour
#   make gpu        seconds and memory of the parts on a GPU (benchmarks/gpu.py)
#   make rehearse   the slow tests that rehearse the papers' commands with stand-ins
#   make docs       the pages that are generated
#   make pages      the documentation as a site, strictly, in build/pages
#   make dist       the sdist and the wheel, in dist/
#   make site       the front end of the site, with Node; nobody else needs it
#   make learning   train every method beside random rewards; hours (docs/learning.md)

VENV := .venv
BIN := $(VENV)/bin
PARTS := .venv-parts
CORE := .venv-core
# The first interpreter that is new enough; `make PYTHON=… demo` chooses another.
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DEMO ?= demo
SEEDS ?= 3
STEPS ?= 60
TRL ?= 1.16.0
# Python compiles what is imported; of twenty thousand modules that are installed most never are.
# So it has to keep what it compiled, or each command would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL)
LINTED := harness tasks models trainers leaderboards tests benchmarks examples hatch_build.py

.PHONY: demo site pages test tests test-slow test-search test-learning test-parts test-trl rehearse mutants gpu \
	core-without-torch check docs dist learning clean

# Two evaluations side by side, in one thread each: more of them wait for each other longer than the
# small networks compute.
demo: EVAL = OMP_NUM_THREADS=1 $(BIN)/harness eval --tasks reason_seg,mevis,counting \
	--data $(DEMO)/data --out $(DEMO)/runs
demo: $(VENV)/.torch
	@test -f $(DEMO)/data/shapes.json || \
		$(BIN)/harness data make shapes --out $(DEMO)/data --seed 0 --size 36 \
		--tasks reason_seg,mevis,counting
	@echo "evaluate pocket and two baselines on $(DEMO)/data"
	@$(EVAL) --model "saliency(segmenter=grabcut,propagator=flow),random" >$(DEMO)/baselines.txt 2>&1 & \
		other=$$!; trap "kill $$other" INT TERM; \
		$(EVAL) --model pocket || { kill $$other; exit 1; }; \
		wait $$other; code=$$?; cat $(DEMO)/baselines.txt; exit $$code
	$(BIN)/harness board site --runs $(DEMO)/runs --out $(DEMO)/site
	@echo "the site: $(DEMO)/site/index.html"

test: check tests

tests: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m "slow and not learning"

test-search: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" --hypothesis-profile=search

test-learning: $(VENV)/.dev
	$(BIN)/python -m pytest -m learning

test-parts: $(PARTS)/.parts
	$(PARTS)/bin/python -m pytest tests/models/test_lmms_eval.py tests/lmms tests/models/test_sam2_package.py \
		tests/models/test_xmem.py tests/run/test_slurm.py tests/core/test_formats.py \
		tests/leaderboards/test_export.py tests/docs/test_notebook.py tests/cli/test_logs.py -k "lmms_eval.py or test_notebook.py \
		or test_sam2_package.py or official_code \
		or submitit or real_sheet or real_inspect or wandb or mlflow" \
		$(if $(XMEM_REPO),--xmem-repo "$(XMEM_REPO)") \
		$(if $(CUTIE_REPO),--cutie-repo "$(CUTIE_REPO)") \
		$(if $(EEE_REPO),--eee-repo "$(EEE_REPO)")

# constraints.txt names one release of TRL; pyproject.toml allows a range, whose others are tried here.
test-trl: $(VENV)/.dev
	$(PIP) --no-deps "trl==$(TRL)"
	$(BIN)/python -m pytest tests/trainers/test_grpo_loss.py tests/trainers/test_session.py tests/trainers/test_sft.py \
		tests/trainers/test_grpo_vllm.py tests/trainers/test_grpo_metrics.py tests/trainers/test_dr2seg_vllm.py

rehearse: $(VENV)/.dev
	$(BIN)/python -m pytest tests/rehearsal -m slow

# The parts at published sizes on a GPU, with the packages of the machine's own Python (PYTHON=…):
# nothing is installed or downloaded. On a CPU tiny networks show that the command works.
gpu:
	PYTHONPATH=. $(PYTHON) benchmarks/gpu.py --json gpu.json

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutations/run.py $(if $(ROOM),--only $(ROOM))

check: $(VENV)/.dev
	$(BIN)/ruff format --check --quiet $(LINTED)
	$(BIN)/ruff check --quiet $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@if command -v actionlint >/dev/null; then actionlint; \
		else echo "actionlint is not installed: .github/workflows was not checked (CI checks it)"; fi

# Data, a classical model, scoring and a board, where importing torch would fail.
core-without-torch: $(CORE)/.core
	$(CORE)/bin/python -c "import importlib.util as u; assert u.find_spec('torch') is None"
	rm -rf $(CORE)/demo
	$(CORE)/bin/harness data make shapes --out $(CORE)/demo/data --size 4 --tasks reason_seg,mevis,counting
	$(CORE)/bin/harness eval --model "saliency(segmenter=grabcut,propagator=flow)" \
		--tasks reason_seg,mevis,counting --data $(CORE)/demo/data --out $(CORE)/demo/runs
	$(CORE)/bin/harness score $(CORE)/demo/runs/*/reason_seg
	$(CORE)/bin/harness board site --runs $(CORE)/demo/runs --out $(CORE)/demo/site

docs: $(VENV)/.dev
	$(BIN)/python tests/golden/conformance.py
	$(BIN)/python tests/docs/agents.py
	$(BIN)/python tests/docs/reading.py
	$(BIN)/python examples/learning/results_page.py

dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

pages: $(VENV)/bin/python
	$(PIP) -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

site:
	cd leaderboards/site/front && npm ci --ignore-scripts --no-audit --no-fund && npm run check && npm run build

learning: $(VENV)/.dev
	$(BIN)/python examples/learning/learning.py --seeds $(SEEDS) --steps $(STEPS) $(if $(METHODS),--methods $(METHODS))

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; found none"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp says what is installed; `.dev` includes `.torch`.
$(VENV)/.torch: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e ".[torch]"
	@touch $@

$(VENV)/.dev: pyproject.toml examples/pocket/pyproject.toml examples/stv/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e ".[torch,text,train,ray,db,server,completion,dev]"
	$(PIP) --no-deps -e examples/pocket -e examples/stv
	$(PIP) --no-deps dashscope==2.0.2  # Qwen's vocabulary, a file that tests of published sizes read
	@touch $@ $(VENV)/.torch

$(CORE)/.core: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; found none"; exit 1; }
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python $(INSTALL) -c constraints.txt -e .
	@touch $@

# sam2 is built from its source, where pip would fetch another torch than the pinned one.
$(PARTS)/.parts: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; found none"; exit 1; }
	$(PYTHON) -m venv $(PARTS)
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt SAM2_BUILD_CUDA=0 \
		$(PARTS)/bin/python $(INSTALL) \
		-e ".[sam2,lmms,wandb,mlflow,dev]" inspect-ai ipykernel jsonschema nbclient openpyxl submitit
	@touch $@

clean:
	rm -rf $(VENV) $(PARTS) $(CORE) $(DEMO) dist build
