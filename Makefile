# Commands to try, test and measure kb. They need only Python 3.11 or later.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q -n 2
DEMO_STORE := build/demo/kb.sqlite
KB_DEMO := $(BIN)/kb --store $(DEMO_STORE)

.PHONY: test-integrations demo dev browser test test-slow check mutants bench quality docs site clean

demo: .venv/installed  ## ingest the example library and search it three times
	@rm -rf build/demo && mkdir -p build/demo
	$(KB_DEMO) ingest examples/library
	@echo
	$(KB_DEMO) search -n 3 "dedupe key unique index"
	@echo
	$(KB_DEMO) search -n 3 "How wide are the radio slots and why were they made wider?"
	@echo
	$(KB_DEMO) search -n 3 --type code "sleep until next window"

dev: .venv/dev  ## a virtual environment with everything that working on kb needs

browser:  ## install chromium for the tests of the web page, which are skipped without it
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq \
	  && apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null \
	  || echo "chromium is missing: the tests of the web page are skipped"

test: check browser  ## every check, and all tests but the slow ones
	$(PYTEST) -m "not slow"

test-slow: .venv/dev  ## the slow tests: kill, load and fuzz runs
	$(PYTEST) -m slow

test-integrations:  ## tests that need LangChain, LlamaIndex, llm or OCR, in an environment of their own
	$(PYTHON) -m venv build/integrations
	build/integrations/bin/python -m pip install --quiet -e '.[langchain,llama-index,llm,client,ocr,serve]' \
	  langchain-tests hypothesis pytest reportlab
	build/integrations/bin/python -m pytest -q -o filterwarnings= -o asyncio_mode=auto \
	  -o asyncio_default_fixture_loop_scope=function tests/integrations \
	  tests/ingest/parsers/test_image.py

check: .venv/dev  ## lint, types, import rules, generated documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/reference.py --check
	$(BIN)/python docs/pictures.py --check
	$(BIN)/python packaging/shared_files.py --check

mutants: .venv/dev  ## mutation tests of the ranking code: at least 95 % must be noticed
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m tests.mutants.seeds

bench: .venv/dev  ## speed, relative to references of the same run; fails if a bound is exceeded
	$(BIN)/python -m bench $(SECTIONS)

quality: .venv/dev  ## search quality on judged collections (KB_DATA or ../shared/data)
	$(BIN)/python -m bench.quality
	$(BIN)/python -m bench.fusion
	$(BIN)/python -m bench.questions
	$(BIN)/python -m bench.everyday
	$(BIN)/python -m bench.relevance
	$(BIN)/python -m bench.answers

docs: .venv/dev  ## write the generated parts of docs/ and packaging/
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/pictures.py
	$(BIN)/python packaging/shared_files.py

site: .venv/dev  ## build the documentation website: build/site/index.html
	$(BIN)/python docs/website.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("kb needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[html]'
	@touch $@

.venv/dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
