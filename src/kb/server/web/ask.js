// Answers to a question: quoted sentences, each with its citation, and written ones.

import { post } from "./api.js";
import { $, h, show } from "./dom.js";
import { t } from "./i18n.js";
import { find, marked } from "./marks.js";
import { rememberHits, rememberQuery } from "./searches.js";
import { filterCount, state } from "./state.js";
import { offer } from "./written.js";

// Shows the quotes; with `write`, a language model also writes an answer, if there is one.
export async function ask(controller, actions, write) {
  const body = { question: state.query, sentences: 5 };
  if (filterCount()) body.filters = state.filters;
  if (state.profile) body.profile = state.profile;
  const answer = await post("/ask", body, controller.signal);
  if (controller.signal.aborted) return;
  rememberQuery(state.query);
  rememberHits(state.query, answer.sentences);
  document.title = `${state.query} – kb`;
  const ms = answer.timing_ms.total.toFixed(0);
  const n = answer.sentences.length;
  $("meta").textContent = answer.answered
    ? t("{n} sentence in {ms} ms|{n} sentences in {ms} ms", { n, ms })
    : t("no answer in {ms} ms", { ms });
  if (!answer.answered) return showNothing(answer, actions);
  const items = answer.sentences.map((sentence) => quoted(sentence, actions));
  const writer = await offer(actions);
  if (controller.signal.aborted) return;
  show(
    $("results-content"),
    writer?.section ?? null,
    writer ? h("h2", { class: "part" }, t("Quoted from your documents")) : null,
    h("ol", { class: "answers hits" }, items),
  );
  if (write) writer?.write();
  const ranges = await find(state.query, answer.sentences.map(({ text }) => text), controller.signal);
  if (controller.signal.aborted) return;
  document.querySelectorAll(".answers blockquote").forEach((quote, at) => {
    if (ranges[at]?.length) show(quote, marked(quote.textContent, ranges[at]));
  });
}

function quoted(sentence, actions) {
  const { citation, chunk_id, title, heading_path: headings } = sentence;
  const trail = [title, ...headings.filter((heading) => heading !== title)].filter(Boolean);
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
    event.preventDefault();
    actions.open({ citation, chunk_id }, event.currentTarget);
  };
  return h(
    "li",
    { class: "hit answer" },
    h("blockquote", { class: sentence.text.includes("\n") ? "code" : null, dir: "auto" }, sentence.text),
    h("h2", {}, h("a", { href: `/read/${citation.uri}`, onclick: open }, citation.uri)),
    h("p", { class: "trail", dir: "auto" }, trail.join(" › ")),
  );
}

function showNothing({ closest }, actions) {
  const link = ({ uri }) => h("li", {}, h("a", { href: `/read/${uri}` }, uri));
  show(
    $("results-content"),
    h(
      "section",
      { class: "empty" },
      h("h2", {}, t("No document answers this question")),
      closest.length
        ? [h("p", {}, t("The closest passages, probably about something else:")), h("ul", {}, closest.map(link))]
        : null,
      h(
        "div",
        { class: "acts" },
        h("button", { type: "button", onclick: actions.ask }, t("Search instead")),
      ),
    ),
  );
}
