// Explains the results: the stages of the search, and a bar for each retriever's score of a hit.

import { t } from "./i18n.js";
import { h } from "./dom.js";
import { RETRIEVERS } from "./retrievers.js";

const COLORS = { rerank: "by-judge" };
for (const { name, style } of RETRIEVERS) COLORS[name] = style;

const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));

const time = (ms) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

// The highest score of each retriever, because every retriever has its own scale.
export function scales(response) {
  const longest = {};
  for (const hit of response.hits) {
    for (const { part, score } of contributions(hit, response)) {
      if (score !== null) longest[part] = Math.max(longest[part] ?? 0, Math.abs(score));
    }
  }
  return longest;
}

function contributions(hit, response) {
  const explanation = response.explain?.hits?.find((each) => each.chunk_id === hit.chunk_id);
  const rows = RETRIEVERS.map(({ name, mode, label, style }) => ({
    part: name,
    name: t(label),
    style,
    rank: hit.retrieval[`${mode}_rank`],
    score: hit.retrieval[`${mode}_score`] ?? explanation?.scores?.[name] ?? null,
  }));
  rows.push({
    part: "rerank",
    name: t("Reranking"),
    style: "by-judge",
    rank: null,
    score: hit.retrieval.rerank_score,
  });
  return rows;
}

export function why(hit, response, longest) {
  const rows = contributions(hit, response).filter(
    (row) => row.score !== null || longest[row.part] !== undefined,
  );
  const explanation = response.explain?.hits?.find((each) => each.chunk_id === hit.chunk_id);
  const factors = Object.entries(explanation?.factors ?? {}).map(
    ([name, value]) => `${name.replaceAll("_", " ")} × ${number(value)}`,
  );
  return h(
    "div",
    { class: "why" },
    h(
      "dl",
      {},
      rows.map((row) => bar(row, longest[row.part])),
    ),
    h(
      "p",
      { class: "sum" },
      t("{kind} score {score}", { kind: hit.score_kind, score: number(hit.score) }),
      factors.length ? t(", including {factors}", { factors: factors.join(", ") }) : "",
    ),
  );
}

function bar({ name, style, rank, score }, longest) {
  const fill = h("span", { class: "fill" });
  if (score !== null)
    fill.style.width = `${longest ? Math.max(2, (100 * Math.max(score, 0)) / longest) : 0}%`;
  return [
    h("dt", {}, name),
    h("dd", { class: `track ${style} ${score === null ? "none" : ""}` }, fill),
    h("dd", {}, rank ? t("no. {rank}", { rank }) : "–"),
    h("dd", {}, score === null ? t("not found") : number(score)),
  ];
}

export function searchStages(response) {
  const { pipeline, stages } = response.explain;
  const shown = stages.filter((stage) => stage.ms > 0);
  const strip = h(
    "div",
    { class: "stages", "aria-hidden": "true" },
    shown.map((stage) => {
      const piece = h("span", { class: COLORS[stage.stage] });
      piece.style.flexGrow = stage.ms;
      return piece;
    }),
  );
  return h(
    "section",
    { class: "search-stages", "aria-label": t("Search stages") },
    h("h2", {}, t("Profile {name}, {time}", { name: response.profile, time: time(response.timing_ms.total) })),
    h("p", { class: "pipeline" }, pipeline),
    strip,
    h(
      "ul",
      { class: "stage-legend" },
      shown.map((stage) =>
        h("li", { class: COLORS[stage.stage] }, `${stage.stage} ${time(stage.ms)}${ofWhich(stage)}`),
      ),
      rest(shown, response.timing_ms.total),
    ),
  );
}

// The first retriever encodes the query for all of them; the others wait for it.
function ofWhich({ encoding_ms: encoding }) {
  return encoding >= 0.1 ? ` (${t("encoding the query: {time}", { time: time(encoding) })})` : "";
}

// The difference between the total and the sum of the stages.
function rest(stages, total) {
  const between = total - stages.reduce((sum, { ms }) => sum + ms, 0);
  if (between >= 0.05) return h("li", {}, `${t("other")} ${time(between)}`);
  return between < -0.05 ? h("li", {}, t("some in parallel")) : null;
}
