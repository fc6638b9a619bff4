// Shows hits, or a message if there are none.

import { t } from "./i18n.js";
import { KEYS } from "./shortcuts.js";
import { $, button, h, show } from "./dom.js";
import { scales, searchStages, why } from "./explain.js";
import { marked } from "./marks.js";
import { RETRIEVERS } from "./retrievers.js";
import { filterCount, state } from "./state.js";
import { tagButton } from "./tags.js";
import { forget, recent, saved } from "./searches.js";

export function showHits(response, actions, more = false) {
  const longest = scales(response);
  const items = response.hits.map((hit, at) =>
    one(hit, response, longest, actions, at > 0 && response.hits[at - 1].doc_id === hit.doc_id),
  );
  const weak = weakFrom(response.hits);
  if (weak < items.length) items.splice(weak, 0, divider(weak));
  const list = h("ol", { class: "hits" }, items);
  const focused = document.activeElement?.closest(".hit")?.dataset.chunk;
  show(
    $("results-content"),
    response.explain ? searchStages(response) : null,
    list,
    more ? h("p", { class: "acts" }, button(t("Load more"), actions.more, { id: "load-more" })) : null,
  );
  if (focused) list.querySelector(`[data-chunk="${focused}"] h2 a`)?.focus({ preventScroll: true });
}

// Below this relevance, a hit is more likely to be about something else; as in kb.relevance.
const WEAK = 0.5;

// The index from which all further hits are weak.
function weakFrom(hits) {
  let index = hits.length;
  while (index > 0 && hits[index - 1].relevance !== null && hits[index - 1].relevance < WEAK) index--;
  return index;
}

// Passages of one document are grouped below its best one. Weak matches stay separate.
export function groupHits(hits) {
  const weak = weakFrom(hits);
  const grouped = (part) => {
    const documents = new Map();
    for (const hit of part) {
      if (!documents.has(hit.doc_id)) documents.set(hit.doc_id, []);
      documents.get(hit.doc_id).push(hit);
    }
    return [...documents.values()].flat();
  };
  return [...grouped(hits.slice(0, weak)), ...grouped(hits.slice(weak))];
}

function divider(index) {
  return h(
    "li",
    { class: "divider" },
    h("span", {}, index ? t("Weak matches") : t("Nothing relevant found. Weak matches")),
  );
}

function relevance(hit) {
  if (hit.relevance === null) return null;
  const percent = `${Math.round(100 * hit.relevance)} %`;
  const fill = h("span", { class: "fill" });
  fill.style.width = percent.replace(" ", "");
  return h(
    "span",
    { class: hit.relevance < WEAK ? "relevance weak" : "relevance", title: t("relevance {percent}", { percent }) },
    h("span", { class: "visually-hidden" }, t("relevance {percent}", { percent })),
    h("span", { class: "track", "aria-hidden": "true" }, fill),
  );
}

function one(hit, response, longest, actions, continues = false) {
  const headings = hit.heading_path.filter((heading, at) => at > 0 || heading !== hit.title);
  const trail = [
    hit.doc_path.startsWith("note:") ? t("note") : hit.doc_path.split("/").slice(0, -1).join("/"),
    ...headings,
  ];
  return h(
    "li",
    { class: continues ? "hit continues" : "hit", "data-chunk": hit.chunk_id },
    h(
      "header",
      {},
      h(
        "h2",
        {},
        h(
          "a",
          {
            href: opened(hit),
            dir: "auto",
            onclick: openPanel(hit, actions),
          },
          continues ? headings.at(-1) || hit.citation.uri.split("#").at(-1) : hit.title || hit.doc_path,
        ),
      ),
      relevance(hit),
      h(
        "span",
        { class: "sources" },
        h("span", { class: "visually-hidden" }, t("found by")),
        RETRIEVERS.filter(({ source }) => hit.sources.includes(source)).map(({ label, style }) =>
          h("i", { class: style }, t(label)),
        ),
      ),
    ),
    continues ? null : h(
      "p",
      { class: "trail" },
      trail.map((step, at) => [
        at ? h("span", { class: "sep", "aria-hidden": "true" }, "›") : null,
        step,
      ]),
    ),
    h("p", { class: snippetClass(hit), dir: "auto" }, hit.snippet),
    h(
      "div",
      { class: "under" },
      h(
        "a",
        {
          class: "cite",
          href: opened(hit),
          onclick: openPanel(hit, actions),
        },
        hit.citation.uri,
      ),
      continues
        ? null
        : [
            h("span", { class: "badge" }, hit.type),
            hit.kind ? h("span", { class: "badge" }, t(hit.kind.replace("_", " "))) : null,
            hit.tags.slice(0, 4).map((tag) => h("span", { class: "tag" }, tag)),
            tagButton(hit.doc_path),
          ],
    ),
    others(hit, actions),
    response.explain ? why(hit, response, longest) : null,
  );
}

// Code and tables need columns of equal width; lists only need their lines.
function snippetClass({ type, snippet }) {
  if (type === "code" || /^\|/m.test(snippet)) return "snippet code";
  return snippet.includes("\n") ? "snippet lines" : "snippet";
}

// Passages without their own hit: those with the same text, and others of the document.
function others(hit, actions) {
  if (!hit.duplicates && !hit.more_in_document) return null;
  const parts = [];
  if (hit.duplicates) parts.push(t("and {n} more with the same text", { n: hit.duplicates }));
  if (hit.more_in_document) parts.push(t("{n} more in this document", { n: hit.more_in_document }));
  const link = (uri) =>
    h("li", {}, h("button", { type: "button", class: "plain-button", onclick: () => actions.turn(uri) }, uri));
  return h(
    "details",
    { class: "others" },
    h("summary", {}, parts.join(", ")),
    hit.duplicate_uris.length ? h("ul", {}, hit.duplicate_uris.map(link)) : null,
    h("button", { type: "button", class: "plain-button", onclick: actions.all }, t("Show all as hits")),
  );
}

const opened = (hit) => `/read/${hit.citation.uri}`;

// A plain click opens the panel; with Ctrl, Shift or the middle button, the page of the document.
const openPanel = (hit, actions) => (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
  event.preventDefault();
  actions.open(hit, event.currentTarget);
};

export function markSnippets(ranges) {
  document.querySelectorAll(".hit .snippet").forEach((snippet, at) => {
    if (ranges[at]?.length) show(snippet, marked(snippet.textContent, ranges[at]));
  });
}

// --- without hits --------------------------------------------------------------------------------

export function showSkeleton() {
  show(
    $("results-content"),
    h("div", { class: "skeleton", "aria-hidden": "true" }, h("div"), h("div"), h("div")),
  );
}

export function showWelcome(status, actions) {
  if (status && !status.documents) return showEmptyStore(actions);
  const size = status
    ? t("{documents} with {passages} can be searched.", {
        documents: t("{n} document|{n} documents", { n: status.documents }),
        passages: t("{n} passage|{n} passages", { n: status.chunks }),
      })
    : "";
  show(
    $("results-content"),
    searchList(t("Saved searches"), saved()),
    searchList(
      t("Recent searches"),
      recent().filter((query) => !saved().includes(query)),
      button(t("Forget"), (event) => {
        forget();
        event.currentTarget.closest("section").remove();
      }),
    ),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, t("What are you looking for?")),
      h(
        "p",
        {},
        size ? `${size} ` : "",
        t("Type words, a name from code, or a whole question. A query in 'single quotes' is an FTS5 expression."),
      ),
      h(
        "dl",
        {},
        KEYS.slice(0, 6).map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
      ),
    ),
  );
}

function searchList(title, queries, action = null) {
  if (!queries.length) return null;
  const link = (query) => h("li", {}, h("a", { href: `#q=${encodeURIComponent(query)}` }, query));
  return h(
    "section",
    { class: "searches" },
    h("header", {}, h("h2", {}, title), action),
    h("ul", {}, queries.map(link)),
  );
}

function showEmptyStore(actions) {
  show(
    $("results-content"),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, t("Nothing here yet")),
      h(
        "p",
        {},
        t("Drop files anywhere on this page, or enter a folder. You can search by words at once, and by meaning as soon as the passages are embedded."),
      ),
      h(
        "div",
        { class: "acts" },
        h("button", { type: "button", onclick: actions.add }, t("Add files or a folder")),
      ),
      h("dl", {}, h("dt", {}, t("or in a terminal")), h("dd", {}, h("code", {}, "kb ingest FOLDER"))),
    ),
  );
}

export function showNothing(actions) {
  const filtered = filterCount() > 0;
  show(
    $("results-content"),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, t("No passage found")),
      h(
        "p",
        {},
        filtered
          ? t("No passage matches these filters.")
          : t("No passage has these words. Try other words, fewer words, or another mode."),
      ),
      h(
        "div",
        { class: "acts" },
        filtered ? h("button", { type: "button", onclick: actions.clear }, t("Clear the filters")) : null,
        state.mode
          ? h(
              "button",
              { type: "button", class: "plain-button", onclick: actions.auto },
              t("Search in all modes"),
            )
          : null,
      ),
    ),
  );
}

const TEMPORARY = [408]; // a timeout

export function showError(error, actions) {
  show(
    $("results-content"),
    h(
      "section",
      { class: "empty", role: "alert" },
      h("h2", {}, error.code === "unreachable" ? t("The server is not responding") : t("The request failed")),
      h("p", {}, error.message),
      error.hint ? h("p", {}, error.hint) : null,
      h("div", { class: "acts" }, errorActions(error, actions)),
    ),
  );
}

// A refused request would be refused again, so it gets no t("Try again").
function errorActions(error, actions) {
  const refused = error.status >= 400 && error.status < 500 && !TEMPORARY.includes(error.status);
  if (!refused) return h("button", { type: "button", onclick: actions.again }, t("Try again"));
  if (!state.mode) return null;
  return h("button", { type: "button", onclick: actions.auto }, t("Use the profile's mode"));
}
