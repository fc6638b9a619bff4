// Keyboard shortcuts. Letters are shortcuts only outside input fields.

import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { $, h, head, show } from "./dom.js";
import { KEYS } from "./shortcuts.js";

const TYPED = "input:not([type=checkbox]):not([type=radio]), textarea, select";

export function listenToKeys(actions) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return escape(event, actions);
    // A field of a dialog that has just been closed keeps the focus until the next frame.
    if (event.target.matches(TYPED) && !event.target.closest("dialog")) return inField(event);
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

// Closes an open panel, or else leaves the input field. Keeps the text of a search field, which
// browsers would clear.
function escape(event, actions) {
  event.preventDefault();
  const typing = event.target.matches(TYPED);
  if (actions.close(typing)) return;
  if (typing) event.target.blur();
}

function inField(event) {
  if (event.target.id === "query" && event.key === "ArrowDown") {
    event.preventDefault();
    step(1);
  }
}

const stops = () => [...document.querySelectorAll(".hit h2 a, .columns .card")];

export function step(by) {
  const all = stops();
  if (!all.length) return;
  const here = all.indexOf(document.activeElement);
  const at =
    here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by));
  all[at].focus();
  all[at].closest(".hit, .card").scrollIntoView({ block: "nearest" });
}

function languageChoice() {
  const option = ([value, name]) => h("option", { value, lang: value, selected: value === language }, name);
  const choice = h("select", { id: "language", onchange: () => setLanguage(choice.value) }, Object.entries(LANGUAGES).map(option));
  return h("p", { class: "labeled language" }, h("label", { for: "language" }, t("Language")), choice);
}

export function openHelp() {
  const dialog = $("help");
  if (dialog.open) return;
  show(
    dialog,
    head("help-title", t("Keyboard"), dialog),
    h(
      "dl",
      {},
      KEYS.map(([key, what]) => [
        h(
          "dt",
          {},
          key.split(" ").map((each, at) => [at ? " " : null, h("kbd", {}, each)]),
        ),
        h("dd", {}, what),
      ]),
    ),
    languageChoice(),
  );
  dialog.showModal();
}
