// The page of one document: /read/ and its citation, such as /read/notes/retry.md#L3-L9.

import { ApiError, download, get, setToken } from "./api.js";
import { draw } from "./document.js";
import { $, button, copy, h, show } from "./dom.js";
import { t, translatePage } from "./i18n.js";
import { find, marked } from "./marks.js";
import { editNote } from "./note.js";
import { showPages } from "./pages.js";
import { lastSearch } from "./searches.js";
import { tagButton, tagList } from "./tags.js";

const AROUND = 1000; // lines shown before and after the cited ones in a long text
const STATES = {
  moved: t("The text has moved within its file since it was indexed. This is its current place."),
  stale: t("The file was changed or removed. This is the indexed text."),
};
const path = location.pathname.slice("/read/".length);
const searched = lastSearch();

async function start() {
  const fragment = decodeURIComponent(location.hash);
  const isPlace = /^#(L\d+(-L\d+)?|page=\d+(,passage=\d+)?)$/.test(fragment);
  const uri = path + (isPlace ? fragment : "");
  try {
    await showDocument(await get("/renderings", { uri }), fragment);
  } catch (error) {
    showFailure(error);
  }
}

async function showDocument(rendering, fragment) {
  const { citation } = rendering;
  document.title = `${rendering.title || rendering.doc_path} – kb`;
  showHead(rendering);
  showState(rendering);
  get("/tags").then(({ tags }) => tagList(tags), () => null);
  const article = $("document");
  if (rendering.kind === "pages") {
    const hit = searched.hits.find((each) => each.uri === citation.uri);
    await showPages(article, rendering, hit?.chunk_id);
  } else if (rendering.kind === "lines") {
    await showLines(article, rendering);
  } else {
    article.classList.add("prose");
    show(article, draw(rendering));
    const first = article.firstElementChild;
    if (first?.matches("h2") && first.textContent.trim() === rendering.title.trim()) {
      first.classList.add("visually-hidden"); // it repeats the title above
      rendering.outline.shift();
    }
    if (citation.start && fragment.startsWith("#L")) await markPassage(article, citation);
    else if (fragment.length > 1) document.getElementById(fragment.slice(1))?.scrollIntoView();
  }
  article.setAttribute("aria-busy", "false");
  showOutline(rendering.outline);
  showHitLinks(citation.uri);
  await Promise.all([showBacklinks(rendering.doc_path), showSimilar(rendering.doc_path)]);
}

// --- above the document --------------------------------------------------------------------------

function showHead(rendering) {
  const { citation, doc_path, tags, type, date } = rendering;
  show(
    $("doc-head"),
    h("h1", { dir: "auto" }, rendering.title || doc_path),
    h("p", { class: "where" }, citation.uri),
    h(
      "p",
      { class: "under" },
      h("span", { class: "badge" }, type),
      h("span", { class: "badge" }, date.slice(0, 10)),
      tags.map((tag) => h("span", { class: "tag" }, tag)),
      tagButton(doc_path),
    ),
  );
  const editor = citation.link && !citation.link.startsWith("file:") ? citation.link : null;
  show(
    $("tools"),
    button(t("Copy citation"), (event) => copy(citation.uri, event.currentTarget)),
    doc_path.startsWith("note:")
      ? button(t("Edit"), () => editNote(doc_path).catch(showFailure), { id: "edit" })
      : null,
    editor ? h("a", { class: "button plain-button", href: editor }, t("Open in the editor")) : null,
    rendering.has_file
      ? button(t("Download original"), () => download(doc_path).catch(showFailure))
      : null,
  );
}

function showState({ state, reason }) {
  if (state === "exact") return;
  const text = reason ? t("This is the indexed text: {reason}.", { reason }) : STATES[state];
  show($("notices"), h("div", { class: "notice", role: "status" }, h("p", {}, text)));
}

function showOutline(outline) {
  if (outline.length < 3) return;
  const nav = $("outline");
  nav.hidden = false;
  const least = Math.min(...outline.map(({ level }) => level));
  show(
    nav,
    h("h2", {}, t("Contents")),
    h(
      "ol",
      {},
      outline.map(({ id, level, text }) =>
        h("li", { class: `level-${Math.min(4, level - least + 1)}` }, h("a", { href: `#${id}` }, text)),
      ),
    ),
  );
}

function showHitLinks(uri) {
  const { hits, query } = searched;
  $("home").href = query ? `/#q=${encodeURIComponent(query)}` : "/";
  const at = hits.findIndex((hit) => hit.uri === uri);
  if (at < 0 || hits.length < 2) return;
  const link = (text, hit) =>
    hit
      ? h("a", { class: "button plain-button", href: `/read/${hit.uri}` }, text)
      : h("span", { class: "button plain-button off", "aria-hidden": "true" }, text);
  const nav = $("hit-nav");
  nav.hidden = false;
  show(
    nav,
    link(t("‹ Previous hit"), hits[at - 1]),
    h("span", { class: "place" }, t("{at} of {n}", { at: at + 1, n: hits.length })),
    link(t("Next hit ›"), hits[at + 1]),
  );
}

// --- the passage ---------------------------------------------------------------------------------

async function markPassage(article, { start, end }) {
  const blocks = [...article.querySelectorAll("[data-start]")].filter(
    (block) =>
      !block.matches(".visually-hidden") &&
      !block.querySelector("[data-start]") &&
      Number(block.dataset.start) <= (end ?? start) &&
      Number(block.dataset.end) >= start,
  );
  if (!blocks.length) return;
  for (const block of blocks) block.classList.add("cited");
  blocks[0].scrollIntoView({ block: "center" });
  await markTerms(blocks);
}

// Highlights the terms of the last search.
async function markTerms(elements) {
  const texts = elements.flatMap(textNodes);
  const ranges = await find(searched.query, texts.map((node) => node.data)).catch(() => []);
  texts.forEach((node, at) => {
    if (ranges[at]?.length) node.replaceWith(...marked(node.data, ranges[at]));
  });
}

function textNodes(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (walker.currentNode.data.trim()) nodes.push(walker.currentNode);
  return nodes;
}

async function showLines(article, { text, citation, type }) {
  const all = text.split("\n");
  const { start, end } = citation.start && location.hash ? citation : { start: 0, end: 0 };
  const first = Math.max(1, (start || 1) - AROUND);
  const last = Math.min(all.length, (end || 1) + AROUND);
  const line = (number) => {
    const cited = number >= start && number <= end;
    return h(
      "div",
      { class: cited ? "line cited" : "line", "data-n": number },
      h("span", {}, all[number - 1] || "\u200b"),
    );
  };
  const lines = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => line(from + at));
  const rest = (from, to) =>
    button(
      t("Show lines {from} to {to}", { from, to }),
      (event) => event.currentTarget.replaceWith(...lines(from, to)),
      { class: "plain-button rest" },
    );
  const region = h(
    "div",
    { class: "text", tabindex: "0", role: "region", "aria-label": type === "code" ? t("Code") : t("Text") },
    first > 1 ? rest(1, first - 1) : null,
    lines(first, last),
    last < all.length ? rest(last + 1, all.length) : null,
  );
  show(article, region);
  const cited = [...region.querySelectorAll(".cited")];
  cited[0]?.scrollIntoView({ block: "center" });
  await markTerms(cited);
}

// --- below the document --------------------------------------------------------------------------

async function showBacklinks(to) {
  const { documents } = await get("/documents", { links_to: to, limit: 20 }).catch(() => ({ documents: [] }));
  const others = documents.filter(({ doc_path }) => doc_path !== to);
  if (!others.length) return;
  const section = $("backlinks");
  section.hidden = false;
  const item = ({ doc_path, title }) => h("li", {}, h("a", { href: `/read/${doc_path}`, dir: "auto" }, title || doc_path));
  show(section, h("h2", {}, t("Linked from")), h("ul", {}, others.map(item)));
}

async function showSimilar(to) {
  const { hits } = await get("/similar", { to, top: 5 }).catch(() => ({ hits: [] }));
  if (!hits.length) return;
  const section = $("similar");
  section.hidden = false;
  show(
    section,
    h("h2", {}, t("Similar")),
    h(
      "ul",
      {},
      hits.map((hit) =>
        h(
          "li",
          {},
          h("a", { href: `/read/${hit.citation.uri}` }, hit.title || hit.doc_path),
          h("p", { class: "where" }, hit.citation.uri),
        ),
      ),
    ),
  );
}

function showFailure(error) {
  if (error.status === 401) return askForToken();
  if (!(error instanceof ApiError)) console.error(error);
  $("document").setAttribute("aria-busy", "false");
  show(
    $("document"),
    h(
      "section",
      { class: "empty", role: "alert" },
      h("h2", {}, error.status === 404 ? t("There is no such document") : t("The document cannot be shown")),
      h("p", {}, error.message ?? String(error)),
      error.hint ? h("p", {}, error.hint) : null,
      h("p", {}, h("a", { href: "/" }, t("Back to the search"))),
    ),
  );
}

function askForToken() {
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    start();
  };
  show(
    $("document"),
    h(
      "form",
      { class: "field", onsubmit: enter },
      h("label", { for: "token" }, t("This server requires a token")),
      field,
      h("button", {}, t("Enter")),
    ),
  );
}

// Shows a note again once its form is closed.
$("note").addEventListener("close", () => location.reload());
addEventListener("hashchange", () => {
  if (/^#(L|page=)/.test(location.hash)) location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL fragment holds the place
  $("document").focus();
});
translatePage();
start();
