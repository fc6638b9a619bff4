// Shows hits, or a message if there are none.

import { $, button, h, plural, show } from "./dom.js";
import { scales, searchStages, why } from "./explain.js";
import { marked } from "./marks.js";
import { RETRIEVERS } from "./retrievers.js";
import { filterCount, state } from "./state.js";
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
    more ? h("p", { class: "acts" }, button("Load more", actions.more, { id: "load-more" })) : null,
  );
  if (focused) list.querySelector(`[data-chunk="${focused}"] h2 a`)?.focus({ preventScroll: true });
}

// Below, a hit is more likely about something else, as in kb.relevance.
const WEAK = 0.5;

// The index from which all further hits are weak.
function weakFrom(hits) {
  let index = hits.length;
  while (index > 0 && hits[index - 1].relevance !== null && hits[index - 1].relevance < WEAK) index--;
  return index;
}

// Passages of one document stand together, below its best one. Weak matches stay apart.
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
    h("span", {}, index ? "Weak matches" : "Nothing relevant found. Weak matches"),
  );
}

function relevance(hit) {
  if (hit.relevance === null) return null;
  const percent = `${Math.round(100 * hit.relevance)} %`;
  const fill = h("span", { class: "fill" });
  fill.style.width = percent.replace(" ", "");
  return h(
    "span",
    { class: hit.relevance < WEAK ? "relevance weak" : "relevance", title: `relevance ${percent}` },
    h("span", { class: "visually-hidden" }, `relevance ${percent}`),
    h("span", { class: "track", "aria-hidden": "true" }, fill),
  );
}

function one(hit, response, longest, actions, continues = false) {
  const headings = hit.heading_path.filter((heading, at) => at > 0 || heading !== hit.title);
  const trail = [
    hit.doc_path.startsWith("note:") ? "note" : hit.doc_path.split("/").slice(0, -1).join("/"),
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
            onclick: openPanel(hit, actions),
          },
          continues ? headings.at(-1) || hit.citation.uri.split("#").at(-1) : hit.title || hit.doc_path,
        ),
      ),
      relevance(hit),
      h(
        "span",
        { class: "sources" },
        h("span", { class: "visually-hidden" }, "found by"),
        RETRIEVERS.filter(({ source }) => hit.sources.includes(source)).map(({ label, style }) =>
          h("i", { class: style }, label),
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
    h("p", { class: snippetClass(hit) }, hit.snippet),
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
            hit.kind ? h("span", { class: "badge" }, hit.kind.replace("_", " ")) : null,
            hit.tags.slice(0, 4).map((tag) => h("span", { class: "tag" }, tag)),
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

// Passages that have no hit of their own: those with the same text, and further ones of the document.
function others(hit, actions) {
  if (!hit.duplicates && !hit.more_in_document) return null;
  const parts = [];
  if (hit.duplicates) parts.push(`and ${hit.duplicates} more with the same text`);
  if (hit.more_in_document) parts.push(`${hit.more_in_document} more in this document`);
  const link = (uri) =>
    h("li", {}, h("button", { type: "button", class: "plain-button", onclick: () => actions.turn(uri) }, uri));
  return h(
    "details",
    { class: "others" },
    h("summary", {}, parts.join(", ")),
    hit.duplicate_uris.length ? h("ul", {}, hit.duplicate_uris.map(link)) : null,
    h("button", { type: "button", class: "plain-button", onclick: actions.all }, "Show all as hits"),
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
    ? `${plural(status.documents, "document")} with ${plural(status.chunks, "passage")}`
    : "";
  show(
    $("results-content"),
    searchList("Saved searches", saved()),
    searchList(
      "Recent searches",
      recent().filter((query) => !saved().includes(query)),
      button("Forget", (event) => {
        forget();
        event.currentTarget.closest("section").remove();
      }),
    ),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, "What are you looking for?"),
      h(
        "p",
        {},
        size ? `${size} can be searched. ` : "",
        "Type words, a name from code, or a whole question. A query in 'single quotes' is an FTS5 expression.",
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
      h("h2", {}, "Nothing here yet"),
      h(
        "p",
        {},
        "Drop files anywhere on this page, or enter a folder. You can search by words at once, and by meaning as soon as the passages are embedded.",
      ),
      h(
        "div",
        { class: "acts" },
        h("button", { type: "button", onclick: actions.add }, "Add files or a folder"),
      ),
      h("dl", {}, h("dt", {}, "or in a terminal"), h("dd", {}, h("code", {}, "kb ingest FOLDER"))),
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
      h("h2", {}, "No passage found"),
      h(
        "p",
        {},
        filtered
          ? "No passage matches these filters."
          : "No passage has these words. Try other words, fewer words, or another mode.",
      ),
      h(
        "div",
        { class: "acts" },
        filtered ? h("button", { type: "button", onclick: actions.clear }, "Clear the filters") : null,
        state.mode
          ? h(
              "button",
              { type: "button", class: "plain-button", onclick: actions.auto },
              "Search in all modes",
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
      h("h2", {}, error.code === "unreachable" ? "The server is not responding" : "The request failed"),
      h("p", {}, error.message),
      error.hint ? h("p", {}, error.hint) : null,
      h("div", { class: "acts" }, errorActions(error, actions)),
    ),
  );
}

// A refused request would be refused again, so it gets no "Try again".
function errorActions(error, actions) {
  const refused = error.status >= 400 && error.status < 500 && !TEMPORARY.includes(error.status);
  if (!refused) return h("button", { type: "button", onclick: actions.again }, "Try again");
  if (!state.mode) return null;
  return h("button", { type: "button", onclick: actions.auto }, "Use the profile's mode");
}

// --- degraded parts ------------------------------------------------------------------------------

const PARTS = { rerank: "Reranking", query: "Your query" };
for (const { name, label } of RETRIEVERS) PARTS[name] = `Search by ${label.toLowerCase()}`;
const PASSAGES = (count) =>
  `${plural(Number(count), "passage has", "passages have")} no vectors yet`;

const ADVICE = {
  no_model: [
    "has no model, so only words were searched",
    "Run kb models list, and choose one with models.encoder.",
  ],
  model_mismatch: [
    "cannot use the stored vectors",
    "Run kb reindex to embed everything with the new model.",
  ],
  query_language: ["is less reliable for this query", ""],
  language: ["does not support this script", "Only words were searched."],
  unfit: ["was skipped: the model failed its exam in this language", "Only words were searched."],
  timeout: ["took too long", "Try again, or narrow the search."],
  truncated: ["was too long and was truncated", ""],
  failed: ["failed in part", ""],
};

const PLURAL = { has: "have", is: "are", does: "do", was: "were" };

export function showNotices(degraded, actions) {
  show(
    $("notices"),
    causes(degraded).map((cause) => notice(cause, actions)),
  );
}

// Parts that were degraded for the same reason share one notice.
function causes(degraded) {
  const byCause = new Map();
  for (const { part, reason, detail } of degraded) {
    const key = JSON.stringify([reason, detail]);
    if (!byCause.has(key)) byCause.set(key, { parts: [], reason, detail });
    byCause.get(key).parts.push(PARTS[part] ?? part);
  }
  return [...byCause.values()];
}

function sentence(parts, text) {
  if (parts.length === 1) return `${parts[0]} ${text}`;
  const [first, ...more] = parts;
  const others = more.map((name) => name[0].toLowerCase() + name.slice(1));
  const names = [[first, ...others.slice(0, -1)].join(", "), others.at(-1)].join(" and ");
  return `${names} ${text.replace(/^(has|is|does|was)\b/, (verb) => PLURAL[verb])}`;
}

function notice({ parts, reason, detail }, actions) {
  if (reason === "pending") {
    const why = sentence(parts, `is not complete: ${PASSAGES(detail)}`);
    return h(
      "div",
      { class: "notice" },
      h("p", {}, `${why}. Meanwhile, these are found by their words.`),
      h("button", { type: "button", onclick: () => actions.embed(false) }, "Embed now"),
    );
  }
  const otherwise = [`did not work: ${reason.replaceAll("_", " ")}`, ""];
  const [text, advice] = ADVICE[reason] ?? otherwise;
  const more = detail === null ? "" : `: ${detail}`;
  const retry =
    reason === "failed"
      ? h("button", { type: "button", onclick: () => actions.embed(true) }, "Try again")
      : null;
  return h("div", { class: "notice" }, h("p", {}, `${sentence(parts, text)}${more}. ${advice}`), retry);
}

export const KEYS = [
  ["/", "search"],
  ["j k", "next and previous hit; also ↓ ↑, even from the query"],
  ["Enter", "from the query, go to the first hit; on a hit, open it"],
  ["e", "explain: the scores of each retriever"],
  ["c", "compare six search methods"],
  ["?", "show all shortcuts"],
  ["q", "ask: quote the sentences that answer a question"],
  ["n", "write a note"],
  ["m", "more: show duplicates, and every passage of a document"],
  ["s", "find passages similar to the open document"],
  ["f", "filters"],
  ["a", "add files or a folder"],
  ["d", "switch between light and dark"],
  ["Esc", "close the panel, then leave the query field; keeps its text"],
];
