// Shows a document at a citation: its lines with the cited ones highlighted, or a page of a PDF.

import { t } from "./i18n.js";
import { get } from "./api.js";
import { $, button, copy, h, show } from "./dom.js";
import { find, marked } from "./marks.js";
import { state } from "./state.js";

const AROUND = 300; // lines shown before and after the cited ones in a long document
let opener = null;
let shown = null;

const STATES = {
  moved: t("The text has moved within its file since it was indexed. This is its current place."),
  stale: t("The file was changed or removed. This is the indexed text."),
};

export const isOpen = () => !$("reader").hidden;
export const current = () => shown;

export async function open(uri, from, actions, chunkId = null) {
  if (from) opener = from;
  const passage = await get("/passages", { uri });
  shown = passage.citation.uri;
  const pages = passage.citation.kind === "page" && passage.citation.page;
  const body = pages ? await page(passage, chunkId) : await lines(passage);
  const title = h("h2", { tabindex: "-1" }, passage.title || passage.doc_path);
  show($("reader"), top(passage, title, actions), changed(passage), body);
  $("reader").hidden = false;
  $("workspace").classList.add("reading");
  document.querySelectorAll(".hit.open").forEach((each) => each.classList.remove("open"));
  from?.closest(".hit")?.classList.add("open");
  title.focus({ preventScroll: true });
  center(body, body.querySelector(".cited, .cited-block"));
}

function top(passage, title, actions) {
  const { uri, page } = passage.citation;
  const shut = { class: "quiet icon close", "aria-label": t("Close the document") };
  const acts = [
    h("a", { class: "button plain-button", href: `/read/${uri}` }, t("Open the page")),
    button(t("Copy citation"), (event) => copy(uri, event.currentTarget)),
    button(t("Find similar"), () => actions.similar(shown)),
    uri.startsWith("note:") ? button(t("Edit"), () => actions.edit(uri.split("#")[0])) : null,
    page ? turn(passage, actions) : null,
  ];
  return h(
    "header",
    {},
    title,
    button("×", () => close(), shut),
    h("p", { class: "where" }, uri),
    h("div", { class: "acts" }, acts),
  );
}

function changed(passage) {
  if (passage.state === "exact") return h("div");
  return h("div", { class: "notice", role: "status" }, h("p", {}, passage.reason ? t("This is the indexed text: {reason}.", { reason: passage.reason }) : STATES[passage.state]));
}

// Scrolls only the text; the results beside it stay in place.
function center(body, cited) {
  if (!cited) return;
  const [text, span] = [body.getBoundingClientRect(), cited.getBoundingClientRect()];
  body.scrollTop += span.top - text.top - text.height / 3;
}

// With `stay`, the focus does not move.
export function close({ stay = false } = {}) {
  if (!isOpen()) return;
  $("reader").hidden = true;
  $("workspace").classList.remove("reading");
  document.querySelectorAll(".hit.open").forEach((each) => each.classList.remove("open"));
  if (stay) return;
  if (opener?.isConnected) opener.focus();
  else $("results").focus();
}

function turn(passage, actions) {
  const to = (number) => `${passage.citation.uri.split("#")[0]}#page=${number}`;
  const at = passage.citation.page;
  return [
    button(t("Previous page"), () => actions.turn(to(at - 1)), { disabled: at <= 1 }),
    button(t("Next page"), () => actions.turn(to(at + 1))),
  ];
}

const highlights = (texts) => find(state.query, texts);

async function page(passage, chunkId) {
  const chunk = chunkId ? await get(`/chunks/${chunkId}`).catch(() => null) : null;
  const at = chunk ? passage.text.indexOf(chunk.text) : -1;
  const parts =
    at < 0
      ? [passage.text]
      : [
          passage.text.slice(0, at).trimEnd(),
          chunk.text,
          passage.text.slice(at + chunk.text.length).trimStart(),
        ];
  const ranges = await highlights(parts);
  const children = parts.map((part, number) =>
    at >= 0 && number === 1
      ? h("span", { class: "cited-block" }, marked(part, ranges[number]))
      : marked(part, ranges[number]),
  );
  return h(
    "div",
    {
      class: "text prose",
      tabindex: "0",
      role: "region",
      "aria-label": t("Page {page}", { page: passage.citation.page }),
    },
    children,
  );
}

async function lines(passage) {
  const { start, end } = passage.citation;
  const region = h("div", { class: "text", tabindex: "0", role: "region", "aria-label": t("Text") });
  if (passage.state === "stale" || !start) {
    region.append(...drawn(passage.text.split("\n"), start ?? 1, start, end));
    return region;
  }
  const whole = await get("/passages", { uri: passage.citation.uri.split("#")[0], quiet: true });
  const all = whole.text.split("\n");
  const cited = all.slice(start - 1, end);
  const ranges = await highlights(cited);
  const draw = (from, to) => drawn(all.slice(from - 1, to), from, start, end, ranges);
  const first = Math.max(1, start - AROUND);
  const last = Math.min(all.length, end + AROUND);
  const rest = (text, from, to) =>
    h(
      "button",
      {
        type: "button",
        class: "plain-button rest",
        onclick: (event) => event.currentTarget.replaceWith(...draw(from, to)),
      },
      text,
    );
  if (first > 1) region.append(rest(t("Show lines {from} to {to}", { from: 1, to: first - 1 }), 1, first - 1));
  region.append(...draw(first, last));
  if (last < all.length)
    region.append(rest(t("Show lines {from} to {to}", { from: last + 1, to: all.length }), last + 1, all.length));
  return region;
}

function drawn(texts, from, start, end, ranges = []) {
  return texts.map((text, at) => {
    const number = from + at;
    const cited = start && number >= start && number <= end;
    const parts = cited ? marked(text, ranges[number - start]) : [text];
    return h(
      "div",
      { class: cited ? "line cited" : "line", "data-n": number },
      h("span", {}, parts.length && text ? parts : "\u200b"),
    );
  });
}
