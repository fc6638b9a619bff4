// Notices about degraded parts of a search.

import { $, h, show } from "./dom.js";
import { language, t } from "./i18n.js";
import { RETRIEVERS } from "./retrievers.js";

const PARTS = { rerank: t("Reranking"), query: t("Your query") };
for (const { name, label } of RETRIEVERS) PARTS[name] = t(`Search by ${label.toLowerCase()}`);

// What happened, for one part and for several, and what helps.
const ADVICE = {
  no_model: [
    "{parts} has no model, so only words were searched|{parts} have no model, so only words were searched",
    t("Run kb models list, and choose one with models.encoder."),
  ],
  model_mismatch: [
    "{parts} cannot use the stored vectors",
    t("Run kb reindex to embed everything with the new model."),
  ],
  query_language: ["{parts} is less reliable for this query|{parts} are less reliable for this query", ""],
  language: [
    "{parts} does not support this script|{parts} do not support this script",
    t("Only words were searched."),
  ],
  unfit: [
    "{parts} was skipped: the model failed its exam in this language|{parts} were skipped: the model failed its exam in this language",
    "",
  ],
  timeout: ["{parts} took too long", t("Try again, or narrow the search.")],
  truncated: ["{parts} was too long and was truncated|{parts} were too long and were truncated", ""],
  failed: ["{parts} failed in part", ""],
};

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

const list = new Intl.ListFormat(language === "en" ? "en-GB" : language);

// The names of the parts, as the subject of a sentence.
function names([first, ...more]) {
  const others = language === "en" ? more.map((name) => name[0].toLowerCase() + name.slice(1)) : more;
  return list.format([first, ...others]);
}

function notice({ parts, reason, detail }, actions) {
  const values = { parts: names(parts), n: parts.length };
  if (reason === "pending") {
    const passages = t("{n} passage has no vectors yet|{n} passages have no vectors yet", { n: Number(detail) });
    const why = t("{parts} is not complete|{parts} are not complete", values);
    return h(
      "div",
      { class: "notice" },
      h("p", {}, `${why}: ${passages}. `, t("Meanwhile, these are found by their words.")),
      h("button", { type: "button", onclick: () => actions.embed(false) }, t("Embed now")),
    );
  }
  const [text, advice] = ADVICE[reason] ?? ["{parts} failed", ""];
  const more = [ADVICE[reason] ? null : reason.replaceAll("_", " "), detail].filter((each) => each !== null).map((each) => `: ${each}`);
  const retry =
    reason === "failed"
      ? h("button", { type: "button", onclick: () => actions.embed(true) }, t("Try again"))
      : null;
  return h("div", { class: "notice" }, h("p", {}, `${t(text, values)}${more.join("")}. ${advice}`), retry);
}
