// Hits, and what is shown when there are none.

import { $, h, plural, show } from "./dom.js";
import { scales, walk, why } from "./explain.js";
import { marked } from "./marks.js";
import { RETRIEVERS } from "./retrievers.js";
import { filterCount, state } from "./state.js";

export function showHits(response, act) {
  const longest = scales(response);
  const list = h(
    "ol",
    { class: "hits" },
    response.hits.map((hit) => one(hit, response, longest, act)),
  );
  const held = document.activeElement?.closest(".hit")?.dataset.chunk;
  show($("stage"), response.explain ? walk(response) : null, list);
  if (held) list.querySelector(`[data-chunk="${held}"] h2 a`)?.focus({ preventScroll: true });
}

function one(hit, response, longest, act) {
  const headings = hit.heading_path.filter((heading, at) => at > 0 || heading !== hit.title);
  const trail = [
    hit.doc_path.startsWith("note:") ? "note" : hit.doc_path.split("/").slice(0, -1).join("/"),
    ...headings,
  ];
  return h(
    "li",
    { class: "hit", "data-chunk": hit.chunk_id },
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
            onclick: (event) => {
              event.preventDefault();
              act.open(hit, event.currentTarget);
            },
          },
          hit.title || hit.doc_path,
        ),
      ),
      h(
        "span",
        { class: "found" },
        h("span", { class: "unseen" }, "found by"),
        RETRIEVERS.filter(({ source }) => hit.sources.includes(source)).map(({ label, style }) =>
          h("i", { class: style }, label),
        ),
      ),
    ),
    h(
      "p",
      { class: "trail" },
      trail.map((step, at) => [
        at ? h("span", { class: "sep", "aria-hidden": "true" }, "›") : null,
        step,
      ]),
    ),
    h("p", { class: hit.type === "code" ? "snippet code" : "snippet" }, hit.snippet),
    h(
      "div",
      { class: "under" },
      h(
        "a",
        {
          class: "cite",
          href: opened(hit),
          onclick: (event) => {
            event.preventDefault();
            act.open(hit, event.currentTarget);
          },
        },
        hit.citation.uri,
      ),
      h("span", { class: "badge" }, hit.type),
      hit.kind ? h("span", { class: "badge" }, hit.kind.replace("_", " ")) : null,
      hit.tags.slice(0, 4).map((tag) => h("span", { class: "tag" }, tag)),
    ),
    response.explain ? why(hit, response, longest) : null,
  );
}

const opened = (hit) => `/passages?uri=${encodeURIComponent(hit.citation.uri)}`;

export function markSnippets(ranges) {
  document.querySelectorAll(".hit .snippet").forEach((snippet, at) => {
    if (ranges[at]?.length) show(snippet, marked(snippet.textContent, ranges[at]));
  });
}

// --- when there is nothing to show ---------------------------------------------------------------

export function showBones() {
  show(
    $("stage"),
    h("div", { class: "bones", "aria-hidden": "true" }, h("div"), h("div"), h("div")),
  );
}

export function showWelcome(status, act) {
  if (status && !status.documents) return showEmptyStore(act);
  const size = status
    ? `${plural(status.documents, "document")} in ${plural(status.chunks, "passage")}`
    : "";
  show(
    $("stage"),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, "What are you looking for?"),
      h(
        "p",
        {},
        size ? `${size} are ready. ` : "",
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

function showEmptyStore(act) {
  show(
    $("stage"),
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
        h("button", { type: "button", onclick: act.add }, "Add files or a folder"),
      ),
      h("dl", {}, h("dt", {}, "or in a terminal"), h("dd", {}, h("code", {}, "kb ingest FOLDER"))),
    ),
  );
}

export function showNothing(act) {
  const filtered = filterCount() > 0;
  show(
    $("stage"),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, "No passage found"),
      h(
        "p",
        {},
        filtered
          ? "No passage matches with these filters."
          : "No passage has these words. Try other words, fewer words, or another mode.",
      ),
      h(
        "div",
        { class: "acts" },
        filtered ? h("button", { type: "button", onclick: act.clear }, "Clear the filters") : null,
        state.mode
          ? h(
              "button",
              { type: "button", class: "plain-button", onclick: act.auto },
              "Search in all modes",
            )
          : null,
      ),
    ),
  );
}

const PASSING = [408, 429]; // too slow, too many at once

export function showError(error, act) {
  show(
    $("stage"),
    h(
      "section",
      { class: "empty", role: "alert" },
      h("h2", {}, error.code === "unreachable" ? "The server is not responding" : "The request failed"),
      h("p", {}, error.message),
      error.hint ? h("p", {}, error.hint) : null,
      h("div", { class: "acts" }, ways(error, act)),
    ),
  );
}

// What was asked for and cannot be had will not be had the second time.
function ways(error, act) {
  const refused = error.status >= 400 && error.status < 500 && !PASSING.includes(error.status);
  if (!refused) return h("button", { type: "button", onclick: act.again }, "Try again");
  if (!state.mode) return null;
  return h("button", { type: "button", onclick: act.auto }, "Use the profile's mode");
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
  language: ["does not support this script", "Only words were searched."],
  unfit: ["was skipped: the model failed its exam in this language", "Only words were searched."],
  timeout: ["took too long", "Try again, or narrow the search."],
  truncated: ["was too long and was truncated", ""],
  failed: ["failed in part", ""],
};

const PLURAL = { has: "have", is: "are", does: "do", was: "were" };

export function showNotices(degraded, act) {
  show(
    $("notices"),
    causes(degraded).map((cause) => notice(cause, act)),
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

function notice({ parts, reason, detail }, act) {
  if (reason === "pending") {
    const why = sentence(parts, `is not complete: ${PASSAGES(detail)}`);
    return h(
      "div",
      { class: "notice" },
      h("p", {}, `${why}. They are found by their words meanwhile.`),
      h("button", { type: "button", onclick: () => act.embed(false) }, "Embed now"),
    );
  }
  const otherwise = [`did not answer: ${reason.replaceAll("_", " ")}`, ""];
  const [text, advice] = ADVICE[reason] ?? otherwise;
  const more = detail === null ? "" : `: ${detail}`;
  const retry =
    reason === "failed"
      ? h("button", { type: "button", onclick: () => act.embed(true) }, "Try again")
      : null;
  return h("div", { class: "notice" }, h("p", {}, `${sentence(parts, text)}${more}. ${advice}`), retry);
}

export const KEYS = [
  ["/", "search"],
  ["j k", "next and previous hit; also ↓ ↑, even from the query"],
  ["Enter", "from the query, go to the first hit; on a hit, open it"],
  ["e", "explain: what each retriever gave"],
  ["c", "compare six search methods"],
  ["?", "show all shortcuts"],
  ["s", "find passages similar to the open document"],
  ["f", "filters"],
  ["a", "add files or a folder"],
  ["d", "switch between light and dark"],
  ["Esc", "close the panel, then leave the query field; keeps its text"],
];
