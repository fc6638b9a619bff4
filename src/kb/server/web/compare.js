// Six search methods side by side. Hovering over a passage links it in all columns that contain it.

import { t } from "./i18n.js";
import { $, h, show } from "./dom.js";

const NAMES = {
  fts5_only: t("Words"),
  dense_only: t("Meaning"),
  sparse_only: t("Terms"),
  two_way_hybrid: t("Words + meaning"),
  three_way_hybrid: t("All three"),
  three_way_reranked: t("All three, reranked"),
};

export function showCompared(compared, actions) {
  const methods = Object.entries(compared.methods);
  const counts = new Map();
  for (const [, method] of methods)
    for (const hit of method.hits ?? []) counts.set(hit.chunk_id, (counts.get(hit.chunk_id) ?? 0) + 1);
  const links = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  links.setAttribute("class", "links");
  links.setAttribute("aria-hidden", "true");
  const columns = h(
    "div",
    { class: "columns", tabindex: "0", role: "region", "aria-label": t("Six search methods") },
    methods.map(([name, method]) => column(name, method, counts, methods.length, actions)),
    links,
  );
  const on = (event) => link(columns, links, event.target.closest(".card")?.dataset.chunk);
  columns.addEventListener("pointerover", on);
  columns.addEventListener("focusin", on);
  columns.addEventListener("pointerleave", () => link(columns, links, null));
  columns.addEventListener("focusout", () => link(columns, links, null));
  show($("results-content"), columns);
  columns.addEventListener("scroll", () => fade(columns), { passive: true });
  new ResizeObserver(() => fade(columns)).observe(columns);
}

const EDGE_PX = 8; // a smaller overflow is not faded

// Fades out an edge if there is more content behind it.
function fade(columns) {
  const left = columns.scrollWidth - columns.clientWidth - columns.scrollLeft;
  columns.classList.toggle("more-right", left > EDGE_PX);
  columns.classList.toggle("more-left", columns.scrollLeft > EDGE_PX);
}

function column(name, method, counts, of, actions) {
  const summary = method.error
    ? t("failed")
    : t("{n} hit, {ms} ms|{n} hits, {ms} ms", { n: method.count, ms: method.latency_ms.toFixed(0) });
  return h(
    "section",
    { class: "column", "aria-label": NAMES[name] ?? name },
    h("header", {}, h("h2", {}, NAMES[name] ?? name), h("p", {}, summary)),
    method.error ? h("p", { class: "notice" }, errorText(method.error)) : null,
    h(
      "ol",
      {},
      (method.hits ?? []).map((hit) => h("li", {}, card(hit, counts.get(hit.chunk_id), of, actions))),
    ),
  );
}

const errorText = (error) =>
  typeof error === "string" ? error : [error.message, error.hint].filter(Boolean).join(" ");

function card(hit, count, of, actions) {
  return h(
    "button",
    {
      type: "button",
      class: "card",
      "data-chunk": hit.chunk_id,
      onclick: (event) => actions.open(hit, event.currentTarget),
    },
    h("b", {}, hit.title || hit.doc_path),
    h("span", {}, hit.section_label ?? hit.citation.uri),
    h("span", { class: "shared" }, count > 1 ? t("in {count} of {of}", { count, of }) : t("only here")),
  );
}

function link(columns, links, chunk) {
  columns.classList.toggle("linking", Boolean(chunk));
  const linked = [...columns.querySelectorAll(".card")].filter((card) => {
    const same = Boolean(chunk) && card.dataset.chunk === chunk;
    card.classList.toggle("linked", same);
    return same;
  });
  links.replaceChildren(...linked.slice(1).map((card, at) => drawLink(linked[at], card, columns)));
}

function drawLink(from, to, columns) {
  const origin = columns.getBoundingClientRect();
  const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  const x1 = a.right - origin.left + columns.scrollLeft,
    y1 = a.top + a.height / 2 - origin.top;
  const x2 = b.left - origin.left + columns.scrollLeft,
    y2 = b.top + b.height / 2 - origin.top;
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", `M${x1} ${y1}C${x1 + 14} ${y1} ${x2 - 14} ${y2} ${x2} ${y2}`);
  return path;
}
