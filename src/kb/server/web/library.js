// The page about the whole library: its map, a timeline and statistics.

import { ApiError, get } from "./api.js";
import { $, h, show } from "./dom.js";
import { language, number, t, translatePage } from "./i18n.js";
import { showMap } from "./map.js";

const month = (value) =>
  new Date(`${value}-01T00:00:00Z`).toLocaleDateString(language, { month: "long", year: "numeric", timeZone: "UTC" });

async function start() {
  try {
    showFigures(await get("/statistics"));
  } catch (error) {
    return showFailure(error);
  }
  try {
    showMap(await get("/map"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    show($("map"), h("p", { class: "empty" }, t("There is no map yet: {reason}.", { reason: error.message }), " ", error.hint ?? ""));
    for (const id of ["color", "zoom-in", "zoom-out", "zoom-all"]) $(id).disabled = true;
  }
  $("main").setAttribute("aria-busy", "false");
}

function showFailure(error) {
  if (!(error instanceof ApiError)) throw error;
  $("main").setAttribute("aria-busy", "false");
  if (error.status === 401) location.assign("/"); // that page asks for the token
  show($("notices"), h("div", { class: "notice", role: "alert" }, h("p", {}, error.message), h("p", {}, error.hint ?? "")));
}

// --- timeline ------------------------------------------------------------------------------------

const MONTHS = 60; // the last ones

// All months between the first and the last, of which some may have no document.
function every(months) {
  const counts = new Map(months.map((each) => [each.month, each.documents]));
  const last = months.at(-1).month;
  const all = [];
  let [year, at] = months[0].month.split("-").map(Number);
  for (let guard = 0; guard < 2400; guard++) {
    const name = `${String(year).padStart(4, "0")}-${String(at).padStart(2, "0")}`;
    all.push([name, counts.get(name) ?? 0]);
    if (name >= last) break;
    [year, at] = at === 12 ? [year + 1, 1] : [year, at + 1];
  }
  return all.slice(-MONTHS);
}

function showTimeline(months) {
  if (!months.length) return;
  const shown = every(months);
  const most = Math.max(...shown.map(([, count]) => count));
  show(
    $("months"),
    shown.map(([name, count]) => {
      const bar = h("span", { class: "bar-fill" });
      bar.style.height = `${(100 * count) / most}%`;
      const label = `${month(name)}: ${t("{n} document|{n} documents", { n: count })}`;
      const button = h("button", { type: "button", class: "month", "aria-label": label, title: label, disabled: !count, onclick: () => showMonth(name) }, bar);
      return h("li", {}, button, name.endsWith("-01") ? h("span", { class: "year", "aria-hidden": "true" }, name.slice(0, 4)) : null);
    }),
  );
}

async function showMonth(name) {
  const [year, at] = name.split("-").map(Number);
  const next = at === 12 ? `${year + 1}-01-01` : `${year}-${String(at + 1).padStart(2, "0")}-01`;
  const { documents } = await get("/documents", { after: `${name}-01`, before: next, limit: 100 });
  show($("month-documents"), h("h3", {}, month(name)), documentList(documents, (each) => each.date.slice(0, 10)));
}

// --- statistics ----------------------------------------------------------------------------------

function documentList(documents, detail) {
  if (!documents.length) return h("p", { class: "where" }, t("none"));
  return h(
    "ul",
    { class: "document-list" },
    documents.map((each) =>
      h("li", {}, h("a", { href: `/read/${each.doc_path}`, dir: "auto" }, each.title || each.doc_path), h("span", { class: "where" }, ` ${detail(each)}`)),
    ),
  );
}

function bars(counts) {
  const entries = Object.entries(counts).slice(0, 10);
  const most = Math.max(1, ...entries.map(([, count]) => count));
  return h(
    "dl",
    { class: "bars" },
    entries.map(([name, count]) => {
      const fill = h("span", { class: "bar-fill" });
      fill.style.width = `${(100 * count) / most}%`;
      return h("div", {}, h("dt", {}, t(name.replaceAll("_", " "))), h("dd", {}, h("span", { class: "bar-track", "aria-hidden": "true" }, fill), number(count)));
    }),
  );
}

// How many documents there were at the end of each month, as a line.
function growth(months) {
  const shown = every(months);
  const earlier = months.filter((each) => each.month < shown[0][0]);
  let total = earlier.reduce((sum, each) => sum + each.documents, 0);
  const sums = shown.map(([name, count]) => [name, (total += count)]);
  const x = (index) => (sums.length < 2 ? 0 : (300 * index) / (sums.length - 1));
  const points = sums.map(([, sum], index) => `${x(index).toFixed(1)},${(78 - (74 * sum) / total).toFixed(1)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("viewBox", "0 0 300 80");
  line.setAttribute("class", "growth");
  line.setAttribute("role", "img");
  const label = t("From {first} to {last}, the library grew to {n} document|From {first} to {last}, the library grew to {n} documents", { first: month(sums[0][0]), last: month(sums.at(-1)[0]), n: total });
  line.setAttribute("aria-label", label);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  path.setAttribute("points", points.join(" "));
  line.append(path);
  return [line, h("p", { class: "where" }, label)];
}

function showFigures(figures) {
  showTimeline(figures.months);
  const card = (title, about, ...content) => h("section", { class: "card-figure" }, h("h3", {}, title), about ? h("p", { class: "where" }, about) : null, content);
  show(
    $("figures"),
    figures.months.length ? card(t("Growth"), null, growth(figures.months)) : null,
    card(t("Kinds"), null, bars(figures.kinds)),
    card(t("Formats"), null, bars(figures.formats)),
    card(t("Languages"), null, bars(figures.languages)),
    card(t("Most read"), null, documentList(figures.most_read, (each) => t("read {n} time|read {n} times", { n: each.access_count }))),
    card(t("Stale"), t("never read, and not changed for a year"), documentList(figures.stale, (each) => each.updated_at)),
    card(t("Orphans"), t("notes without tags and links"), documentList(figures.orphans, (each) => each.date)),
    card(
      t("Near-duplicates"),
      t("documents with almost the same meaning"),
      figures.near_duplicates.length
        ? figures.near_duplicates.map(({ documents, similarity }) => [
            h("p", { class: "where" }, `${Math.round(100 * similarity)} %`),
            documentList(documents, (each) => each.doc_path), // the titles may be the same
          ])
        : h("p", { class: "where" }, t("none")),
    ),
  );
}

translatePage();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
start();
