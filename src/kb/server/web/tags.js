// Adds a tag to a document, where the document is shown.

import { ApiError, post } from "./api.js";
import { button, h } from "./dom.js";
import { t } from "./i18n.js";

// A button that turns into a field for a tag. The new tag is inserted before it, with an undo.
export function tagButton(doc_path) {
  const start = button("+", open, { class: "add-tag", "aria-label": t("Add a tag"), title: t("Add a tag") });
  const place = h("span", { class: "tagging" }, start);
  function open() {
    const field = h("input", { type: "text", class: "tag-field", list: "tag-list", autocomplete: "off", "aria-label": t("Add a tag"), placeholder: t("tag") });
    const form = h("form", { onsubmit: (event) => save(event, field) }, field);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
    start.replaceWith(form);
    field.focus();
  }
  function close() {
    place.querySelector("form")?.replaceWith(start);
    start.focus();
  }
  async function save(event, field) {
    event.preventDefault();
    const tag = field.value.trim().replace(/^#/, "");
    if (!tag) return close();
    try {
      await post("/tags", { document: doc_path, add: [tag] });
      close();
      place.before(added(tag), " ");
      document.dispatchEvent(new CustomEvent("kb:changed"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      field.setCustomValidity(error.message);
      field.reportValidity();
      field.addEventListener("input", () => field.setCustomValidity(""), { once: true });
    }
  }
  function added(tag) {
    const shown = h("span", { class: "tag" }, tag);
    const undo = button(t("Undo"), async () => {
      await post("/tags", { document: doc_path, remove: [tag] });
      whole.remove();
      start.focus();
      document.dispatchEvent(new CustomEvent("kb:changed"));
    }, { class: "add-tag" });
    const whole = h("span", { class: "tagging", role: "status" }, shown, undo);
    return whole;
  }
  return place;
}

// The list of known tags, which the fields offer.
export function tagList(tags) {
  const list = document.getElementById("tag-list") ?? document.body.appendChild(h("datalist", { id: "tag-list" }));
  list.replaceChildren(...Object.keys(tags).map((tag) => h("option", { value: tag })));
}
