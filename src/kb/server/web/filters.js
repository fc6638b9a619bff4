// Filters. Each choice has its number of documents: of the query or, without one, of the store.
// Fields and choices stay in place when counts change, so that nobody's typing is disturbed.

import { number, t } from "./i18n.js";
import { $, button, h, show } from "./dom.js";
import { filterCount, set, state, toggle } from "./state.js";

const SHORT = 8; // choices shown of a long list
const LISTS = [
  { name: "type", title: t("Format"), counts: "by_type" },
  { name: "kind", title: t("Kind"), counts: "by_kind", hidden: ["none"] },
  { name: "scope", title: t("Scope"), counts: "by_scope", single: true },
  { name: "tags", title: t("Tags"), counts: "tags", most: SHORT },
];

let stored = {}; // the counts of the whole store
let found = null; // the counts of the query
let changed = () => null;
const expanded = new Set(); // the lists that are shown in full

// Builds the panel. `onChange` is called after the user has changed a filter.
export function buildFilters(onChange) {
  changed = () => {
    count();
    onChange();
  };
  $("facets").addEventListener("submit", (event) => event.preventDefault()); // Enter in a field
  show(
    $("facets"),
    h("p", { class: "counted", id: "counted" }),
    LISTS.map(({ name, title }) =>
      h("fieldset", { class: "facet", hidden: true, "data-list": name }, h("legend", {}, title), h("div")),
    ),
    h(
      "div",
      { class: "facet" },
      h("label", { class: "label", for: "path-glob" }, t("Path")),
      h("input", {
        type: "text",
        id: "path-glob",
        name: "path_glob",
        autocomplete: "off",
        placeholder: t("folder or {pattern}", { pattern: "**/*.md" }),
        list: "folders",
        onchange: (event) => change("path_glob", event.target.value.trim()),
      }),
      h("datalist", { id: "folders" }),
    ),
    h(
      "fieldset",
      { class: "facet" },
      h("legend", {}, t("Dated")),
      dateField("after", t("from")),
      dateField("before", t("before")),
    ),
  );
  syncFilters();
}

function dateField(name, label) {
  const field = h("input", { type: "date", name, onchange: (event) => change(name, event.target.value) });
  return h("label", { class: "pair" }, label, field);
}

function change(name, value) {
  set(name, value);
  changed();
}

// Shows the filters of the address.
export function syncFilters() {
  for (const name of ["path_glob", "after", "before"])
    $("facets").querySelector(`[name=${name}]`).value = state.filters[name] ?? "";
  LISTS.forEach(draw);
  count();
}

export function showStored(status) {
  stored = status;
  if (!found) showCounts(null);
  else LISTS.forEach(draw);
}

// Shows the counts of a query; null for those of the whole store.
export function showCounts(facets) {
  found = facets;
  $("counted").textContent = facets
    ? t("{n} document for this query|{n} documents for this query", { n: facets.documents })
    : t("Counts of documents in the whole store");
  LISTS.forEach(draw);
}

// Suggests the folders of the hits for the path.
export function showFolders(hits) {
  const folders = new Set();
  for (const { doc_path } of hits) {
    const steps = doc_path.split("/");
    for (let depth = 1; depth < steps.length; depth++) folders.add(`${steps.slice(0, depth).join("/")}/`);
  }
  show($("folders"), [...folders].sort().map((value) => h("option", { value })));
}

function count() {
  const all = filterCount();
  $("filter-count").textContent = all ? t("{n} on", { n: all }) : "";
}

const isChosen = (name, value) => [state.filters[name] ?? []].flat().includes(value);

// Updates the choices of a list. They are replaced only if others are to be shown.
function draw(list) {
  const place = $("facets").querySelector(`[data-list=${list.name}]`);
  const focused = place.contains(document.activeElement) ? document.activeElement.value : null;
  const all = stored[list.counts] ?? {};
  const counts = (found ?? stored)[list.counts] ?? {};
  const chosen = [state.filters[list.name] ?? []].flat();
  const values = [...new Set([...Object.keys(all), ...chosen])].filter((value) => !list.hidden?.includes(value));
  const n = (value) => counts[value] ?? 0;
  const inStore = (a, b) => (all[b] ?? 0) - (all[a] ?? 0) || a.localeCompare(b);
  // A short list keeps its order while you type; of a long one, the choices of the query come first.
  values.sort(list.most ? (a, b) => n(b) - n(a) || inStore(a, b) : inStore);
  const most = expanded.has(list.name) ? Infinity : (list.most ?? Infinity);
  const shown = values.filter((value, at) => at < most || chosen.includes(value) || value === focused);
  const old = new Map(rowsOf(list).map((row) => [row.querySelector("input").value, row]));
  const rows = shown.map((value) => {
    const row = old.get(value) ?? choice(list, value);
    row.querySelector("input").checked = chosen.includes(value);
    row.querySelector(".n").textContent = number(n(value));
    row.classList.toggle("none", !n(value));
    return row;
  });
  place.hidden = values.length < (list.single ? 2 : 1);
  const rest = values.length - shown.length;
  if (rows.length === old.size && [...old.values()].every((row, at) => row === rows[at]) && !rest) return;
  show(place.lastElementChild, rows, rest ? moreButton(list, rest, shown) : null);
  if (focused !== null) place.querySelector(`[value="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

const rowsOf = ({ name }) => [...$("facets").querySelectorAll(`[data-list=${name}] .choice`)];

function moreButton(list, n, shown) {
  const open = () => {
    expanded.add(list.name);
    draw(list);
    rowsOf(list)
      .map((row) => row.querySelector("input"))
      .find((box) => !shown.includes(box.value))
      ?.focus();
  };
  return button(t("{n} more", { n }), open, { class: "quiet more" });
}

function choice(list, value) {
  const { name, single } = list;
  const box = h("input", { type: "checkbox", name, value });
  box.addEventListener("change", () => {
    if (single) set(name, box.checked ? value : "");
    else toggle(name, value, box.checked);
    draw(list);
    changed();
  });
  const label = name === "kind" ? t(value.replaceAll("_", " ")) : value;
  return h("label", { class: "choice" }, box, h("span", { dir: "auto" }, label), h("span", { class: "n" }));
}
