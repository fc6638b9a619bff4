// The page, wired up: what is typed becomes a search, what comes back is shown.

import { Failed, get, listen, post, setToken } from "./api.js";
import { showCompared } from "./compare.js";
import { $, h, plural, show } from "./dom.js";
import { showFilters } from "./filters.js";
import { acceptDrops, openAdd, showProgress } from "./ingest.js";
import { listenToKeys, openHelp, step } from "./keys.js";
import * as marks from "./marks.js";
import * as reader from "./reader.js";
import { RETRIEVERS } from "./retrievers.js";
import {
  markSnippets,
  showBones,
  showError,
  showHits,
  showNothing,
  showNotices,
  showWelcome,
} from "./results.js";
import { read, request, state, write } from "./state.js";

const TYPING_MS = 140; // a pause this long, and it is searched
const PATIENCE_MS = 180; // a shorter wait shows nothing

let status = null;
let asked = null; // the search under way, so that an answer that comes too late is dropped
let typing = 0;
let entered = null; // the query that Enter was pressed on, until it is answered

const act = {
  open: (hit, from) => guarded(() => reader.open(hit.citation.uri, from, act, hit.chunk_id)),
  turn: (uri) => guarded(() => reader.open(uri, null, act)),
  similar,
  add: openAdd,
  again: () => search(),
  clear: () => {
    state.filters = {};
    if (status) showFilters(status, search);
    search();
  },
  auto: () => {
    state.mode = "";
    reflect();
    search();
  },
  embed: (retry) =>
    guarded(async () => {
      showProgress("embedding", await post("/embed", { retry }));
    }),
};

// --- searching -----------------------------------------------------------------------------------

async function search() {
  clearTimeout(typing);
  asked?.abort();
  write();
  $("room").classList.toggle("comparing", state.compare && Boolean(state.query.trim()));
  if (!state.query.trim()) return rest();
  const own = (asked = new AbortController());
  $("results").setAttribute("aria-busy", "true");
  const patience = setTimeout(() => {
    if (!document.querySelector(".hits, .columns")) showBones();
  }, PATIENCE_MS);
  try {
    await (state.compare ? compare(own) : find(own));
    if (own === asked) land();
  } catch (error) {
    if (own.signal.aborted) return;
    failed(error);
  } finally {
    clearTimeout(patience);
    if (own === asked) $("results").setAttribute("aria-busy", "false");
  }
}

function enter() {
  entered = state.query = $("query").value;
  search();
}

// From the query to the first hit, once there is the answer to what was entered.
function land() {
  if (entered === state.query && document.activeElement === $("query")) step(1);
  entered = null;
}

async function find(own) {
  const response = await post("/search", request(), own.signal);
  if (own.signal.aborted) return;
  await answer(response, own);
}

async function answer(response, own) {
  showNotices(response.degraded, act);
  $("meta").textContent =
    `${plural(response.returned, "passage")} in ${response.timing_ms.total.toFixed(0)} ms`;
  document.title = `${response.query} – kb`;
  if (!response.returned) return showNothing(act);
  showHits(response, act);
  const ranges = await marks.find(
    response.query,
    response.hits.map((hit) => hit.snippet),
    own.signal,
  );
  if (!own.signal.aborted) markSnippets(ranges);
}

async function compare(own) {
  const compared = await get(
    "/search/compare-methods",
    { q: state.query, top: 10, ...state.filters },
    own.signal,
  );
  if (own.signal.aborted) return;
  showNotices([], act);
  $("meta").textContent = `six ways in ${compared.wall_ms.toFixed(0)} ms`;
  showCompared(compared, act);
}

async function similar(to) {
  asked?.abort();
  const own = (asked = new AbortController());
  await guarded(async () => {
    const response = await get(
      "/similar",
      { to, explain: state.explain, ...state.filters },
      own.signal,
    );
    $("room").classList.remove("comparing");
    showNotices(response.degraded, act);
    $("meta").textContent = `${plural(response.returned, "passage")} like ${to}`;
    if (response.returned) showHits(response, act);
    else showNothing(act);
    step(1);
  });
}

function rest() {
  $("meta").textContent = "";
  document.title = "kb";
  $("results").setAttribute("aria-busy", "false");
  showNotices(status?.degraded ?? [], act);
  showWelcome(status, act);
}

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}

function failed(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) return askForToken();
  if (!(error instanceof Failed)) console.error(error);
  $("meta").textContent = "";
  showError(
    error instanceof Failed
      ? error
      : {
          code: "page",
          message: String(error),
          hint: "Reload the page; if it happens again, please report it.",
        },
    act,
  );
}

// --- how things stand ----------------------------------------------------------------------------

async function refresh() {
  status = await get("/status");
  const vectors = {
    ready: "vectors ready",
    off: "words only",
    pending: plural(status.vectors.pending, "passage") + " to embed",
  };
  const found = vectors[status.vectors.state] ?? status.vectors.state.replaceAll("_", " ");
  $("counts").textContent =
    `${plural(status.documents, "document")} · ${plural(status.chunks, "passage")} · ${found}`;
  showFilters(status, search);
}

async function showProfiles() {
  const profiles = await get("/profiles");
  const option = (name) => h("option", { value: name, title: profiles[name].summary ?? "" }, name);
  show($("profile"), h("option", { value: "" }, "default"), Object.keys(profiles).map(option));
  $("profile").value = state.profile;
}

let embedded = 0; // as far as the page knows
function told(name, now) {
  if (name === "model") {
    $("loading").hidden = now.state !== "loading";
    return;
  }
  showProgress(name, now);
  if (name !== "embedding") return;
  const news = now.embedded !== embedded || status?.vectors.pending > 0;
  embedded = now.embedded;
  if (news && now.state !== "working")
    guarded(async () => {
      await refresh();
      if (state.query.trim() && !reader.isOpen()) await search();
      else if (!state.query.trim()) rest();
    });
}

let away = false;
function lost(error) {
  if (!error && away) guarded(async () => void (await Promise.all([refresh(), search()])));
  away = Boolean(error);
  if (!error) return;
  $("running").hidden = false;
  $("running-bar").hidden = true;
  $("running-text").textContent =
    error.code === "unreachable" ? "No connection to the server" : error.message;
}

function askForToken() {
  const dialog = $("door");
  if (dialog.open) return;
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  show(
    dialog,
    h("header", {}, h("h2", { id: "door-title" }, "This server requires a token")),
    h(
      "p",
      {},
      "It is set with KB_SERVE_TOKEN or --token-file on the server. This tab keeps it until you close it.",
    ),
    h(
      "form",
      {
        class: "field",
        onsubmit: (event) => {
          event.preventDefault();
          setToken(field.value.trim());
          dialog.close();
          begin();
        },
      },
      h("label", { class: "unseen", for: "token" }, "Token"),
      field,
      h("button", {}, "Enter"),
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
        h("span", {}, label),
      ),
    ),
  );
}

function reflect() {
  $("query").value = state.query;
  for (const radio of document.querySelectorAll('input[name="mode"]'))
    radio.checked = radio.value === state.mode;
  $("profile").value = state.profile;
  for (const name of ["explain", "compare"])
    $(name).setAttribute("aria-pressed", String(state[name]));
}

function flip(name) {
  state[name] = !state[name];
  if (name === "compare" && state.compare) reader.close();
  if (name === "compare") scrollTo({ top: 0 });
  reflect();
  search();
}

const isDark = () =>
  (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function nameTheme() {
  $("theme").setAttribute("aria-label", isDark() ? "Switch to light" : "Switch to dark");
}

function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("kb-theme", next);
  } catch {
    /* storage is switched off */
  }
  nameTheme();
}

function focusFilters() {
  $("filters").open = true;
  $("facets").querySelector("input")?.focus();
}

function wire() {
  showModes();
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    enter();
  });
  $("query").addEventListener("input", () => {
    state.query = $("query").value;
    clearTimeout(typing);
    typing = setTimeout(search, TYPING_MS);
  });
  $("modes").addEventListener("change", (event) => {
    state.mode = event.target.value;
    search();
  });
  $("profile").addEventListener("change", () => {
    state.profile = $("profile").value;
    search();
  });
  $("explain").addEventListener("click", () => flip("explain"));
  $("compare").addEventListener("click", () => flip("compare"));
  $("theme").addEventListener("click", switchTheme);
  $("open-help").addEventListener("click", openHelp);
  $("open-add").addEventListener("click", openAdd);
  addEventListener("hashchange", () => {
    read();
    reflect();
    if (status) showFilters(status, search);
    search();
  });
  document.addEventListener("kb:changed", () =>
    guarded(async () => {
      await refresh();
      if (!state.query.trim()) rest();
    }),
  );
  $("filters").open = !matchMedia("(max-width: 62rem)").matches;
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind the # is the search
    $("results").focus();
  });
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
    e: () => flip("explain"),
    c: () => flip("compare"),
    f: focusFilters,
    a: openAdd,
    d: switchTheme,
    "?": openHelp,
    s: () => {
      if (reader.isOpen()) similar(reader.current());
    },
    close: (typing) => {
      const open = reader.isOpen();
      reader.close({ stay: typing });
      return open;
    },
  });
}

async function begin() {
  await guarded(async () => {
    await Promise.all([refresh(), showProfiles()]);
    await search();
    listen(told, lost);
  });
}

read();
reflect();
nameTheme();
wire();
if (!state.query) $("query").focus();
begin();
