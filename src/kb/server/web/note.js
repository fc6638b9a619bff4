// Writes and edits notes. A draft is kept in the browser until it is stored; storing it can be
// undone. If a note has changed since it was opened, both versions are shown.

import { ApiError, get, post, put, remove } from "./api.js";
import { $, button, h, head, show } from "./dom.js";
import { t } from "./i18n.js";

const DRAFT = "kb-draft";
const KINDS = ["", "decision", "lesson", "summary", "temp_note"];
const lifetimes = () => ({
  "": t("forever"),
  "1d": t("a day"),
  "7d": t("a week"),
  "30d": t("30 days"),
  "365d": t("a year"),
});

function draft(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function keep(key, values) {
  try {
    if (values) localStorage.setItem(key, JSON.stringify(values));
    else localStorage.removeItem(key);
  } catch {
    /* storage is disabled */
  }
}

const changed = () => document.dispatchEvent(new CustomEvent("kb:changed"));
const address = (path) => `/notes/${path.split("/").map(encodeURIComponent).join("/")}`;

export const openNote = (status) => openForm(status?.tags ?? {}, null);

// Opens a stored note in the form.
export async function editNote(path) {
  const [note, { tags }] = await Promise.all([get(address(path)), get("/tags").catch(() => ({ tags: {} }))]);
  openForm(tags, note);
}

const written = (note) => ({
  text: note.text,
  title: note.title ?? "",
  tags: note.tags.join(", "),
  kind: note.kind ?? "",
  ttl: "",
});

function openForm(knownTags, note, given = null) {
  const dialog = $("note");
  if (dialog.open) return;
  const key = note ? `${DRAFT}-${note.doc_path}` : DRAFT;
  const form = fields(knownTags, note);
  form.fill(given ?? draft(key) ?? (note ? written(note) : {}));
  const report = h("div", { class: "report", role: "status" });
  const fail = (error) => {
    if (!(error instanceof ApiError)) throw error;
    show(report, t("Not stored: {reason}", { reason: `${error.message}. ${error.hint ?? ""}` })); // the text stays
  };
  const store = async () => {
    const values = form.values();
    try {
      if (note) {
        const before = note;
        note = await put(address(note.doc_path), { ...body(values), version: note.version });
        keep(key, null);
        show(report, t("Changed."), " ", link(note.doc_path), " ", undoEdit(before, note, report));
      } else {
        const { doc_path } = await post("/documents", body(values));
        keep(key, null);
        form.fill({});
        show(report, t("Stored as"), " ", link(doc_path), ". ", undoNew(doc_path, values, knownTags, report));
      }
      changed();
    } catch (error) {
      if (error.code === "edit_conflict") await showConflict();
      else fail(error);
    }
  };
  // Shows both versions until one of them, or a mixture, is stored.
  const showConflict = async () => {
    const mine = form.values();
    const theirs = await get(address(note.doc_path));
    note = { ...note, version: theirs.version };
    const take = () => {
      form.fill(written(theirs));
      keep(key, form.values());
      show(report, h("h3", {}, t("Your version")), h("pre", { tabindex: "0", dir: "auto" }, mine.text));
    };
    show(
      report,
      h("div", { class: "notice", role: "alert" }, h("p", {}, t("This note was changed in the meantime. Nothing is stored yet."))),
      h("h3", {}, t("The other version")),
      h("pre", { tabindex: "0", dir: "auto", id: "other-version" }, theirs.text),
      h("p", { class: "acts" }, button(t("Store my version"), store), button(t("Continue with the other version"), take)),
    );
  };
  show(
    dialog,
    head("note-heading", note ? t("Edit the note") : t("Write a note"), dialog),
    h(
      "form",
      {
        class: "note-form",
        onsubmit: (event) => {
          event.preventDefault();
          store();
        },
        oninput: () => keep(key, form.values()),
      },
      form.rows,
      h("div", { class: "acts" }, h("button", {}, note ? t("Store the changes") : t("Store the note"))),
    ),
    report,
  );
  dialog.showModal();
  form.focus();
}

function body(values) {
  const chosen = values.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
  const sent = { text: values.text, tags: chosen };
  for (const name of ["title", "kind", "ttl"]) if (values[name].trim()) sent[name] = values[name].trim();
  return sent;
}

const link = (path) => h("a", { href: `/read/${path}` }, path);

// The fields of the form, with functions to fill and to read them.
function fields(knownTags, note) {
  const inputs = {
    text: h("textarea", { id: "note-text", rows: "8", required: true, dir: "auto" }),
    title: h("input", { id: "note-title-field", type: "text", autocomplete: "off", dir: "auto" }),
    tags: h("input", { id: "note-tags", type: "text", list: "known-tags", autocomplete: "off", placeholder: "ops, gateway" }),
    kind: h("select", { id: "note-kind" }, KINDS.map((each) => h("option", { value: each }, each ? t(each.replace("_", " ")) : t("none")))),
    ttl: h("select", { id: "note-ttl" }, Object.entries(lifetimes()).map(([value, name]) => h("option", { value }, name))),
  };
  if (note) {
    const until = note.expires_at ? t("until {date}, as before", { date: note.expires_at.slice(0, 10) }) : t("forever");
    inputs.ttl.options[0].textContent = until;
    if (note.expires_at) inputs.ttl.append(h("option", { value: "never" }, t("forever")));
  }
  const labeled = (name, input) => h("p", { class: "labeled" }, h("label", { for: input.id }, name), input);
  return {
    rows: [
      labeled(t("Text"), inputs.text),
      labeled(t("Title"), inputs.title),
      labeled(t("Tags, separated by commas"), inputs.tags),
      h("datalist", { id: "known-tags" }, Object.keys(knownTags).map((tag) => h("option", { value: tag }))),
      h("div", { class: "pair" }, labeled(t("Kind"), inputs.kind), labeled(t("Keep for"), inputs.ttl)),
    ],
    fill: (values) => {
      for (const [name, input] of Object.entries(inputs)) input.value = values[name] ?? "";
    },
    values: () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value])),
    focus: () => inputs.text.focus(),
  };
}

function undo(work, report) {
  return button(t("Undo"), async () => {
    try {
      await work();
      changed();
    } catch (error) {
      show(report, t("Could not undo: {reason}", { reason: error.message }));
    }
  });
}

// Removes a new note again, and puts its text back into the form.
const undoNew = (path, values, knownTags, report) =>
  undo(async () => {
    await remove(path);
    keep(DRAFT, values);
    $("note").close();
    openForm(knownTags, null);
  }, report);

// Restores the note as it was before the edit, unless it has changed again.
const undoEdit = (before, after, report) =>
  undo(async () => {
    const sent = { ...body(written(before)), version: after.version };
    if (!before.expires_at && after.expires_at) sent.ttl = "never";
    await put(address(before.doc_path), sent);
    $("note").close();
  }, report);
