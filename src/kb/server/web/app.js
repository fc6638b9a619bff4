// The entry point of the page: runs searches and shows their results.

import { ApiError, get, listen, post, setToken } from "./api.js";
import { ask } from "./ask.js";
import { showCompared } from "./compare.js";
import { $, h, show } from "./dom.js";
import { t, translatePage } from "./i18n.js";
import { buildFilters, showCounts, showFolders, showStored, syncFilters } from "./filters.js";
import { acceptDrops, openAdd, showProgress } from "./ingest.js";
import { listenToKeys, openHelp, step } from "./keys.js";
import * as marks from "./marks.js";
import { showNotices } from "./notices.js";
import { editNote, openNote } from "./note.js";
import { tagList } from "./tags.js";
import { stop } from "./written.js";
import * as reader from "./reader.js";
import { RETRIEVERS } from "./retrievers.js";
import {
  markSnippets,
  groupHits,
  showSkeleton,
  showError,
  showHits,
  showNothing,
  showWelcome,
} from "./results.js";
import { isSaved, rememberHits, rememberQuery, toggleSaved } from "./searches.js";
import { filters, read, request, state, write } from "./state.js";

const DEBOUNCE_MS = 30; // the pause in typing after which a search replaces one that still runs
const COUNT_DELAY_MS = 150; // the pause after which the documents of a query are counted
const PAGE = 10; // hits shown at first, and added by "Load more"
const MOST = 200;
const SKELETON_DELAY_MS = 180; // faster searches show no skeleton

let status = null;
let pending = null; // the AbortController of the current search; responses of others are dropped
let typing = 0;
let counting = 0;
let top = PAGE; // hits of the current query
let entered = null; // the query that was submitted with Enter, until its results are shown

const actions = {
  open: (hit, from) => reportErrors(() => reader.open(hit.citation.uri, from, actions, hit.chunk_id)),
  turn: (uri) => reportErrors(() => reader.open(uri, null, actions)),
  similar,
  edit: (path) => reportErrors(() => editNote(path)),
  add: openAdd,
  ask: () => toggleView("ask"),
  again: () => search(),
  more: async () => {
    const shown = document.querySelectorAll(".hit").length;
    top = Math.min(MOST, top + PAGE);
    await search({ keep: true, count: false }); // more hits do not change the counts
    document.querySelectorAll(".hit h2 a")[shown]?.focus({ preventScroll: true });
  },
  clear: () => {
    state.filters = {};
    syncFilters();
    search();
  },
  all: () => {
    state.all = !state.all;
    search();
  },
  auto: () => {
    state.mode = "";
    syncControls();
    search();
  },
  embed: (retry) =>
    reportErrors(async () => {
      showProgress("embedding", await post("/embed", { retry }));
    }),
};

// --- searching -----------------------------------------------------------------------------------

async function search({ keep = false, count = true } = {}) {
  clearTimeout(typing);
  clearTimeout(counting);
  if (!keep) top = PAGE;
  pending?.abort();
  stop();
  write();
  $("newer").hidden = true;
  $("workspace").classList.toggle("comparing", state.compare && !state.ask && Boolean(state.query.trim()));
  if (!state.query.trim()) return showStart();
  const controller = (pending = new AbortController());
  $("results").setAttribute("aria-busy", "true");
  const skeletonTimer = setTimeout(() => {
    if (!document.querySelector(".hits, .columns")) showSkeleton();
  }, SKELETON_DELAY_MS);
  try {
    const run = state.ask ? answer : state.compare ? compare : runSearch;
    await run(controller);
    if (controller !== pending) return;
    focusFirstHit();
    if (count) countLater(controller);
  } catch (error) {
    if (controller.signal.aborted) return;
    showFailure(error);
  } finally {
    clearTimeout(skeletonTimer);
    if (controller === pending) $("results").setAttribute("aria-busy", "false");
  }
}

// Searches at once, unless a search is running; that one is replaced when typing pauses.
function typedQuery() {
  state.query = $("query").value;
  labelSave();
  clearTimeout(typing);
  if ($("results").getAttribute("aria-busy") === "true") typing = setTimeout(() => search(), DEBOUNCE_MS);
  else search();
}

function enter() {
  entered = state.query = $("query").value;
  search();
}

// Moves the focus from the query to the first hit, once the submitted query has its results.
function focusFirstHit() {
  if (entered === state.query && !(state.ask && $("stop")) && document.activeElement === $("query")) step(1);
  entered = null;
}

async function runSearch(controller) {
  const size = top;
  const response = await post("/search", { ...request(), top: size }, controller.signal);
  if (controller.signal.aborted) return;
  rememberQuery(state.query, entered === state.query);
  await showResponse(response, controller, response.returned >= size && size < MOST);
}

async function showResponse(response, controller, more = false) {
  response.hits = groupHits(response.hits);
  rememberHits(response.query, response.hits);
  showFolders(response.hits);
  showNotices(response.degraded, actions);
  $("meta").textContent =
    t("{n} passage in {ms} ms|{n} passages in {ms} ms", {
      n: response.returned,
      ms: response.timing_ms.total.toFixed(0),
    });
  document.title = `${response.query} – kb`;
  if (!response.returned) return showNothing(actions);
  showHits(response, actions, more);
  highlight(response, controller).catch(reportUnlessAborted(controller));
}

const reportUnlessAborted = (controller) => (error) => {
  if (!controller.signal.aborted) showFailure(error);
};

// Highlights and counts come after the hits, since nobody waits for them.
async function highlight(response, controller) {
  const ranges = await marks.find(
    response.query,
    response.hits.map((hit) => hit.snippet),
    controller.signal,
  );
  if (!controller.signal.aborted) markSnippets(ranges);
}

// A count costs the server as much as a search, so it waits until nobody is typing.
function countLater(controller) {
  counting = setTimeout(
    () => countFacets(controller).catch(reportUnlessAborted(controller)),
    COUNT_DELAY_MS,
  );
}

async function countFacets(controller) {
  const wanted = request();
  const facets = await post("/search/facets", wanted, controller.signal);
  if (!controller.signal.aborted) showCounts(facets);
}

async function answer(controller) {
  showNotices([], actions);
  await ask(controller, actions, entered === state.query);
}

async function compare(controller) {
  const compared = await get(
    "/search/compare-methods",
    { q: state.query, top: 10, ...filters() },
    controller.signal,
  );
  if (controller.signal.aborted) return;
  showNotices([], actions);
  $("meta").textContent = t("six methods in {ms} ms", { ms: compared.wall_ms.toFixed(0) });
  showCompared(compared, actions);
}

async function similar(to) {
  pending?.abort();
  const controller = (pending = new AbortController());
  await reportErrors(async () => {
    const response = await get(
      "/similar",
      { to, explain: state.explain, ...filters() },
      controller.signal,
    );
    $("workspace").classList.remove("comparing");
    showNotices(response.degraded, actions);
    $("meta").textContent = t("{n} passage like {to}|{n} passages like {to}", { n: response.returned, to });
    if (response.returned) showHits(response, actions);
    else showNothing(actions);
    step(1);
  });
}

function showStart() {
  $("meta").textContent = "";
  document.title = "kb";
  $("results").setAttribute("aria-busy", "false");
  showNotices(status?.degraded ?? [], actions);
  showCounts(null);
  showWelcome(status, actions);
}

async function reportErrors(work) {
  try {
    await work();
  } catch (error) {
    showFailure(error);
  }
}

function showFailure(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) return askForToken();
  if (!(error instanceof ApiError)) console.error(error);
  $("meta").textContent = "";
  showError(
    error instanceof ApiError
      ? error
      : {
          code: "page",
          message: String(error),
          hint: t("Reload the page; if it happens again, please report it."),
        },
    actions,
  );
}

// --- status --------------------------------------------------------------------------------------

async function refresh() {
  status = await get("/status");
  const vectors = {
    ready: t("vectors ready"),
    off: t("words only"),
    pending: t("{n} passage to embed|{n} passages to embed", { n: status.vectors.pending }),
  };
  const vectorState = vectors[status.vectors.state] ?? status.vectors.state.replaceAll("_", " ");
  $("counts").textContent =
    [
    t("{n} document|{n} documents", { n: status.documents }),
    t("{n} passage|{n} passages", { n: status.chunks }),
    vectorState,
  ].join(" · ");
  showStored(status);
  tagList(status.tags);
}

async function showProfiles() {
  const profiles = await get("/profiles");
  const option = (name) => h("option", { value: name, title: profiles[name].summary ?? "" }, name);
  show($("profile"), h("option", { value: "" }, t("default")), Object.keys(profiles).map(option));
  $("profile").value = state.profile;
}

let embedded = 0; // according to the last event
function onEvent(name, now) {
  if (name === "model") {
    $("loading").hidden = now.state !== "loading";
    return;
  }
  showProgress(name, now);
  if (name !== "embedding") return;
  const news = now.embedded !== embedded || status?.vectors.pending > 0;
  embedded = now.embedded;
  if (news && now.state !== "working")
    reportErrors(async () => {
      await refresh();
      await searchAgain();
    });
}

// Shows what has changed, without replacing results that somebody is using: those wait for a click.
async function searchAgain() {
  if (!state.query.trim()) return showStart();
  const results = $("results-content");
  const inUse = reader.isOpen() || scrollY > 0 || results.contains(document.activeElement) || results.querySelector("form");
  if (inUse) $("newer").hidden = false;
  else await search({ keep: true });
}

let disconnected = false;
function onConnectionChange(error) {
  if (!error && disconnected) reportErrors(async () => void (await Promise.all([refresh(), searchAgain()])));
  disconnected = Boolean(error);
  if (!error) return;
  $("running").hidden = false;
  $("running-bar").hidden = true;
  $("running-text").textContent =
    error.code === "unreachable" ? t("No connection to the server") : error.message;
}

function askForToken() {
  const dialog = $("token-dialog");
  if (dialog.open) return;
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  show(
    dialog,
    h("header", {}, h("h2", { id: "token-title" }, t("This server requires a token"))),
    h(
      "p",
      {},
      t("The token is set on the server with KB_SERVE_TOKEN or --token-file. This tab keeps it until you close the tab."),
    ),
    h(
      "form",
      {
        class: "field",
        onsubmit: (event) => {
          event.preventDefault();
          setToken(field.value.trim());
          dialog.close();
          start();
        },
      },
      h("label", { class: "visually-hidden", for: "token" }, t("Token")),
      field,
      h("button", {}, t("Enter")),
    ),
  );
  dialog.showModal();
}

// --- controls ------------------------------------------------------------------------------------

// One mode for each retriever, between "Auto" and "Hybrid".
function showModes() {
  $("hybrid").before(
    ...RETRIEVERS.map(({ mode, label }) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: "mode", value: mode }),
        h("span", {}, t(label)),
      ),
    ),
  );
}

function syncControls() {
  $("query").placeholder = state.ask ? t("Ask a question") : t("Search by words or by meaning");
  labelSave();
  $("query").value = state.query;
  for (const radio of document.querySelectorAll('input[name="mode"]'))
    radio.checked = radio.value === state.mode;
  $("profile").value = state.profile;
  for (const name of ["explain", "compare", "ask"])
    $(name).setAttribute("aria-pressed", String(state[name]));
}

function labelSave() {
  const on = Boolean(state.query.trim()) && isSaved(state.query);
  $("save").hidden = !state.query.trim();
  $("save").setAttribute("aria-pressed", String(on));
  $("save").textContent = on ? t("★ Saved") : t("☆ Save");
}

function toggleView(name) {
  state[name] = !state[name];
  $("options").open = false;
  if (name === "compare" && state.compare) reader.close();
  if (name === "compare") scrollTo({ top: 0 });
  syncControls();
  search();
}

const isDark = () =>
  (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function labelTheme() {
  $("theme").setAttribute("aria-label", isDark() ? t("Switch to light mode") : t("Switch to dark mode"));
}

function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("kb-theme", next);
  } catch {
    /* storage is disabled */
  }
  labelTheme();
}

function focusFilters() {
  $("filters").open = true;
  $("facets").querySelector("input")?.focus();
}

function bindControls() {
  showModes();
  $("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    enter();
  });
  $("query").addEventListener("input", (event) => {
    if (!event.isComposing) typedQuery(); // an input method shows letters that are not the query yet
  });
  $("query").addEventListener("compositionend", typedQuery);
  $("modes").addEventListener("change", (event) => {
    state.mode = event.target.value;
    search();
  });
  $("profile").addEventListener("change", () => {
    state.profile = $("profile").value;
    search();
  });
  $("save").addEventListener("click", () => {
    toggleSaved(state.query);
    labelSave();
  });
  $("ask").addEventListener("click", () => toggleView("ask"));
  $("open-note").addEventListener("click", () => openNote(status));
  $("explain").addEventListener("click", () => toggleView("explain"));
  $("compare").addEventListener("click", () => toggleView("compare"));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#options")) $("options").open = false;
  });
  $("theme").addEventListener("click", switchTheme);
  $("open-help").addEventListener("click", openHelp);
  $("open-add").addEventListener("click", openAdd);
  addEventListener("hashchange", () => {
    read();
    syncControls();
    syncFilters();
    search();
  });
  document.addEventListener("kb:changed", () =>
    reportErrors(async () => {
      await refresh();
      if (!state.query.trim()) showStart();
      else if (pending) await countFacets(pending);
    }),
  );
  $("filters").open = !matchMedia("(max-width: 62rem)").matches;
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the URL fragment holds the search
    $("results").focus();
  });
  $("show-newer").addEventListener("click", () => search({ keep: true }));
  acceptDrops();
  listenToKeys({
    "/": () => {
      $("query").focus();
      $("query").select();
    },
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    e: () => toggleView("explain"),
    c: () => toggleView("compare"),
    q: () => toggleView("ask"),
    n: () => openNote(status),
    m: actions.all,
    f: focusFilters,
    a: openAdd,
    d: switchTheme,
    "?": openHelp,
    s: () => {
      if (reader.isOpen()) similar(reader.current());
    },
    close: (typing) => {
      if ($("options").open) {
        $("options").open = false;
        $("options").querySelector("summary").focus();
        return true;
      }
      const open = reader.isOpen();
      reader.close({ stay: typing });
      return open;
    },
  });
}

async function start() {
  await reportErrors(async () => {
    const isStart = !state.query.trim();
    await Promise.all([refresh(), showProfiles(), isStart ? null : search()]);
    if (isStart && !state.query.trim()) showStart();
    listen(onEvent, onConnectionChange);
  });
}

translatePage();
const typed = $("query").value; // while the page was loading
read();
state.query ||= typed;
syncControls();
labelTheme();
buildFilters(() => search());
bindControls();
if (!state.query) $("query").focus();
start();
