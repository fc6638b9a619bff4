// Writes notes. What is typed is kept in the browser until it is stored, and can be undone after.

import { ApiError, post, remove } from "./api.js";
import { $, button, h, head, show } from "./dom.js";

const DRAFT = "kb-draft";
const KINDS = ["", "decision", "lesson", "summary", "temp_note"];
const LIFETIMES = { "": "forever", "1d": "a day", "7d": "a week", "30d": "30 days", "365d": "a year" };

function draft() {
  try {
    return JSON.parse(localStorage.getItem(DRAFT)) ?? {};
  } catch {
    return {};
  }
}

function keep(values) {
  try {
    if (values) localStorage.setItem(DRAFT, JSON.stringify(values));
    else localStorage.removeItem(DRAFT);
  } catch {
    /* storage is switched off */
  }
}

export function openNote(status) {
  const dialog = $("note");
  if (dialog.open) return;
  const given = draft();
  const text = h("textarea", { id: "note-text", rows: "8", required: true });
  text.value = given.text ?? "";
  const title = h("input", { id: "note-title-field", type: "text", autocomplete: "off" });
  title.value = given.title ?? "";
  const tags = h("input", { id: "note-tags", type: "text", list: "known-tags", autocomplete: "off", placeholder: "ops, gateway" });
  tags.value = given.tags ?? "";
  const kind = h("select", { id: "note-kind" }, KINDS.map((each) => h("option", { value: each }, each.replace("_", " ") || "none")));
  kind.value = given.kind ?? "";
  const ttl = h("select", { id: "note-ttl" }, Object.entries(LIFETIMES).map(([value, name]) => h("option", { value }, name)));
  ttl.value = given.ttl ?? "";
  const known = h("datalist", { id: "known-tags" }, Object.keys(status?.tags ?? {}).map((tag) => h("option", { value: tag })));
  const report = h("p", { class: "report", role: "status" });
  const values = () => ({ text: text.value, title: title.value, tags: tags.value, kind: kind.value, ttl: ttl.value });
  const field = (name, input) => h("p", { class: "labeled" }, h("label", { for: input.id }, name), input);
  const save = async (event) => {
    event.preventDefault();
    const written = values();
    const body = { text: written.text };
    for (const name of ["title", "kind", "ttl"]) if (written[name].trim()) body[name] = written[name].trim();
    const chosen = written.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
    if (chosen.length) body.tags = chosen;
    try {
      const { doc_path } = await post("/documents", body);
      keep(null);
      for (const input of [text, title, tags]) input.value = "";
      show(report, "Stored as ", h("a", { href: `/read/${doc_path}` }, doc_path), ". ", undo(doc_path, written, report));
      document.dispatchEvent(new CustomEvent("kb:changed"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      show(report, `Not stored: ${error.message}. ${error.hint}`); // the text stays
    }
  };
  show(
    dialog,
    head("note-heading", "Write a note", dialog),
    h(
      "form",
      { class: "note-form", onsubmit: save, oninput: () => keep(values()) },
      field("Text", text),
      field("Title", title),
      field("Tags, separated by commas", tags),
      known,
      h("div", { class: "pair" }, field("Kind", kind), field("Keep for", ttl)),
      h("div", { class: "acts" }, h("button", {}, "Store the note")),
    ),
    report,
  );
  dialog.showModal();
  text.focus();
}

// Removes the note again, and puts its text back into the form.
function undo(path, written, report) {
  return button("Undo", async () => {
    try {
      await remove(path);
      keep(written);
      $("note").close();
      openNote(null);
      document.dispatchEvent(new CustomEvent("kb:changed"));
    } catch (error) {
      show(report, `Not undone: ${error.message}`);
    }
  });
}
