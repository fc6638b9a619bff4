// Answers that a language model writes: streamed, each sentence with its checked citations.
// The text of an answer is only ever shown as text: it adds no links but those of its citations.

import { ApiError, get, stream } from "./api.js";
import { button, h, show } from "./dom.js";
import { t } from "./i18n.js";
import { filterCount, state } from "./state.js";

const TURNS = 3; // earlier questions that are sent again
const CITED = /\[\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*\]/g;

let model = null; // the response of GET /ask
let running = null; // the AbortController of the answer that is being written

const marks = () => ({
  unsupported: t("the cited passage does not support this"),
  unknown: t("cites a passage that does not exist"),
  uncited: t("without a citation"),
  unchecked: t("not checked: there is no judge"),
});

export const stop = () => running?.abort();

// A section that offers to write an answer to the current question; null without a model.
export async function offer(actions) {
  stop();
  model ??= await get("/ask").catch(() => ({ model: null }));
  if (!model.model) return null;
  const turns = [];
  const exchanges = h("div", { class: "exchanges" });
  const start = h(
    "p",
    { class: "acts" },
    button(t("Write an answer"), () => write(), { id: "write", class: "" }),
    h("span", { class: "hint-text" }, t("Sends the question and the relevant passages to {model} at {host}.", model)),
  );
  const section = h("section", { class: "written", "aria-label": t("Written answer") }, exchanges, start);
  const write = (question = state.query) => {
    start.remove();
    section.querySelector(".follow-up")?.remove();
    return exchange(question, turns, exchanges, section, actions).then((complete) => {
      if (!complete || !section.isConnected) return;
      section.append(followUp(write));
    });
  };
  return { section, write };
}

function followUp(write) {
  const field = h("input", { id: "follow-up", type: "text", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    write(field.value.trim());
  };
  return h(
    "form",
    { class: "field follow-up", onsubmit: submit },
    h("label", { class: "visually-hidden", for: "follow-up" }, t("Ask a follow-up question")),
    Object.assign(field, { placeholder: t("Ask a follow-up question") }),
    h("button", {}, t("Ask")),
  );
}

// One question and its answer. Returns whether a further question may follow.
async function exchange(question, turns, exchanges, section, actions) {
  stop();
  const controller = (running = new AbortController());
  const checked = h("span", { "aria-live": "polite" });
  const rest = h("span", { class: "unchecked-text", "aria-hidden": "true" });
  const below = h("div", { class: "sources-of" });
  const stopping = button(t("Stop"), () => controller.abort(), { id: "stop" });
  const status = h("p", { class: "report", role: "status" }, t("Writing…"));
  exchanges.append(
    h(
      "div",
      { class: "exchange" },
      turns.length ? h("h2", { class: "question", dir: "auto" }, question) : null,
      h("p", { class: "written-text", dir: "auto" }, checked, rest),
      h("p", { class: "acts" }, stopping, status),
      below,
    ),
  );
  let answer = "";
  let sent = null;
  let complete = false;
  const on = {
    sent: (data) => {
      sent = data;
    },
    delta: ({ text }) => {
      answer += text;
      rest.textContent += text;
    },
    sentence: (sentence) => {
      rest.textContent = after(rest.textContent, sentence.text);
      checked.append(...checkedSentence(sentence, sent.citations, actions), " ");
    },
    error: (error) => {
      throw new ApiError(error, 0);
    },
    done: () => {
      complete = true;
    },
  };
  const body = { question, turns: turns.slice(-TURNS) };
  if (filterCount()) body.filters = state.filters;
  try {
    await stream("/ask/written", body, (name, data) => on[name]?.(data), controller.signal);
    if (!complete) throw new ApiError({ message: t("the connection was lost") }, 0);
    turns.push({ question, answer });
    show(status, sent ? "" : t("No document answers this question, so nothing was sent."));
  } catch (error) {
    if (error.name === "AbortError") show(status, t("Stopped."));
    else if (error instanceof ApiError)
      show(status, h("span", { class: "bad" }, t("The answer is not complete: {reason}", { reason: error.message })), " ", error.hint ?? "");
    else throw error;
  }
  stopping.remove();
  if (sent) show(below, sources(sent.citations, actions), messages(sent.messages));
  return complete || Boolean(answer);
}

// The text that follows a sentence, whose spaces may differ.
function after(text, sentence) {
  let left = sentence.replace(/\s/g, "").length;
  let at = 0;
  while (at < text.length && left > 0) if (!/\s/.test(text[at++])) left--;
  return text.slice(at);
}

function checkedSentence({ text, state: check }, citations, actions) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(CITED)) {
    parts.push(text.slice(at, match.index).trimEnd());
    for (const [digits] of match[0].matchAll(/\d+/g)) parts.push(reference(Number(digits), citations, actions));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  const mark = marks()[check];
  return [
    h("span", { class: mark ? `sentence ${check}` : "sentence" }, parts),
    mark ? h("span", { class: "check" }, " ⚠ ", mark) : "",
  ];
}

function reference(number, citations, actions) {
  const citation = citations[number - 1];
  if (!citation) return h("sup", { class: "reference bad" }, `[${number}]`);
  return h("sup", { class: "reference" }, passageLink(citation, `[${number}]`, actions));
}

function passageLink(citation, text, actions) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
    event.preventDefault();
    actions.open({ citation }, event.currentTarget);
  };
  return h("a", { href: `/read/${citation.uri}`, title: citation.uri, onclick: open }, text);
}

function sources(citations, actions) {
  const item = (citation) => h("li", {}, passageLink(citation, citation.uri, actions));
  return h("ol", { class: "source-list", "aria-label": t("Passages") }, citations.map(item));
}

function messages(sent) {
  const one = ({ role, content }) => [h("h3", {}, role), h("pre", { tabindex: "0", dir: "auto" }, content)];
  return h("details", { class: "sent" }, h("summary", {}, t("Show what was sent")), sent.map(one));
}
