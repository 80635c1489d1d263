# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-encoders dist-test newest-test docs notebook tutorials lint bench evidence fuzz chaos clean

demo: $(VENV)/.core
	$(BIN)/jigsawmil demo

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# timm needs torchvision, which fits only the torch it was built for: an environment with the newest of both, gigabytes
test-encoders: .venv-encoders/.done
	.venv-encoders/bin/pytest tests/slides/test_encoders.py tests/slides/test_hub.py

# The sdist and the wheel, tried in an environment of their own
dist-test: $(VENV)/.dev
	$(BIN)/python -m tools.dist_test

# The same without constraints.txt, but for torch, and the quick tests on the newest versions: gigabytes
newest-test: $(VENV)/.dev
	$(BIN)/python -m tools.dist_test --newest

# The documentation site, into site/; a warning is an error
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

notebook: $(VENV)/.core
	$(BIN)/python -m tools.notebook

# The other tutorials, at full length
tutorials: $(VENV)/.dev
	$(BIN)/python -m tools.pages

lint: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

# on an idle machine; make bench QUICK=--quick to try
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.speed.step $(QUICK)
	$(BIN)/python -m benchmarks.speed.scaling $(QUICK)

evidence: $(VENV)/.dev
	$(BIN)/python -m benchmarks.evidence

# 100,000 damaged files, and a table of what each reader made of them; python -m tools.fuzz --resume continues a run that was cut
fuzz: $(VENV)/.dev
	$(BIN)/python -m tools.fuzz

# 500 kills of study, train, extract and export, and every byte compared with an undisturbed run
chaos: $(VENV)/.dev
	$(BIN)/python -m tools.chaos

clean:
	rm -rf $(VENV) .venv-encoders .pytest_cache .mypy_cache .ruff_cache

# One stamp an environment: rebuilt when the requirements change.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv-encoders/.done: pyproject.toml
	$(PYTHON) -m venv .venv-encoders
	.venv-encoders/bin/pip install --quiet --editable '.[slides,encoders]' torch torchvision onnx pytest pytest-timeout
	touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	touch $@
