// Filters, each with its number of documents in the whole store.

import { t } from "./i18n.js";
import { $, h, show } from "./dom.js";
import { filterCount, set, state, toggle } from "./state.js";

const SHORT = 8;

// Shows the counts of a search beside the choices; without one, those of the whole store.
export function showCounts(status, facets) {
  $("counted").textContent = facets
    ? t("{n} document for this query|{n} documents for this query", { n: facets.documents })
    : t("Counts of documents in the whole store");
  const counts = facets ?? status;
  const names = { type: "by_type", kind: "by_kind", scope: "by_scope", tags: "tags" };
  for (const row of $("facets").querySelectorAll(".choice")) {
    const box = row.querySelector("input");
    if (!names[box.name]) continue;
    const n = counts[names[box.name]][box.value] ?? 0;
    row.querySelector(".n").textContent = String(n);
    row.classList.toggle("none", !n);
  }
}

export function showFilters(status, changed) {
  const apply = () => {
    count();
    changed();
  };
  const kinds = Object.fromEntries(
    Object.entries(status.by_kind).filter(([name]) => name !== "none"),
  );
  show(
    $("facets"),
    h("p", { class: "counted", id: "counted" }, t("Counts of documents in the whole store")),
    facet(t("Format"), "type", status.by_type, apply),
    facet(t("Kind"), "kind", kinds, apply),
    scope(status.by_scope, apply),
    facet(t("Tags"), "tags", status.tags, apply, SHORT),
    h(
      "div",
      { class: "facet" },
      h("label", { class: "label", for: "path-glob" }, t("Path")),
      h("input", {
        type: "text",
        id: "path-glob",
        placeholder: "notes/**/*.md",
        value: state.filters.path_glob ?? "",
        onchange: (event) => {
          set("path_glob", event.target.value.trim());
          apply();
        },
      }),
    ),
    h(
      "fieldset",
      { class: "facet" },
      h("legend", {}, t("Dated")),
      date("after", t("from"), apply),
      date("before", t("before"), apply),
    ),
  );
  count();
}

function count() {
  const all = filterCount();
  $("filter-count").textContent = all ? t("{n} on", { n: all }) : "";
}

function date(name, label, apply) {
  return h(
    "label",
    { class: "pair" },
    label,
    h("input", {
      type: "date",
      value: state.filters[name] ?? "",
      onchange: (event) => {
        set(name, event.target.value);
        apply();
      },
    }),
  );
}

function facet(title, name, counts, apply, most = Infinity) {
  const entries = Object.entries(counts).sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
  if (!entries.length) return null;
  const chosen = new Set(state.filters[name] ?? []);
  const rows = entries.map(([value, n], at) =>
    choice(
      value,
      n,
      "checkbox",
      name,
      chosen.has(value),
      at >= most && !chosen.has(value),
      (on) => {
        toggle(name, value, on);
        apply();
      },
    ),
  );
  const hidden = rows.filter((row) => row.hidden);
  const more = hidden.length
    ? h(
        "button",
        {
          type: "button",
          class: "quiet more",
          onclick: (event) => {
            hidden.forEach((row) => {
              row.hidden = false;
            });
            event.currentTarget.remove();
            hidden[0].querySelector("input").focus();
          },
        },
        t("{n} more", { n: hidden.length }),
      )
    : null;
  return h("fieldset", { class: "facet" }, h("legend", {}, title), rows, more);
}

function scope(counts, apply) {
  if (Object.keys(counts).length < 2) return null;
  const rows = Object.entries(counts).map(([value, n]) =>
    choice(value, n, "checkbox", "scope", state.filters.scope === value, false, (on, box) => {
      document.querySelectorAll('#facets input[name="scope"]').forEach((each) => {
        if (each !== box) each.checked = false;
      });
      set("scope", on ? value : "");
      apply();
    }),
  );
  return h("fieldset", { class: "facet" }, h("legend", {}, t("Scope")), rows);
}

function choice(value, n, type, name, checked, hidden, changed) {
  const box = h("input", {
    type,
    name,
    value,
    onchange: (event) => changed(event.target.checked, event.target),
  });
  box.checked = checked;
  return h(
    "label",
    { class: "choice", hidden },
    box,
    h("span", {}, name === "kind" ? t(value.replaceAll("_", " ")) : value),
    h("span", { class: "n" }, String(n)),
  );
}
