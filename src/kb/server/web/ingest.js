// Adds files, by path, by choosing or by dropping them; and shows the progress of embedding.

import { t } from "./i18n.js";
import { ApiError, post, upload } from "./api.js";
import { $, h, head, show } from "./dom.js";

let report = null;

export function openAdd() {
  const dialog = $("add");
  if (dialog.open) return;
  const path = h("input", {
    id: "add-path",
    type: "text",
    placeholder: "~/notes",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "add-about",
  });
  const files = h("input", {
    type: "file",
    multiple: true,
    class: "visually-hidden",
    id: "add-files",
    onchange: () => addFiles([...files.files]),
  });
  report = h("ul", { class: "done" });
  show(
    dialog,
    head("add-title", t("Add to the knowledge base"), dialog),
    h(
      "label",
      { class: "target" },
      files,
      h("b", {}, t("Choose files")),
      t(" or drop them anywhere on the page"),
    ),
    h("h3", {}, h("label", { for: "add-path" }, t("A file or folder on the server's machine"))),
    h(
      "form",
      {
        class: "field",
        onsubmit: (event) => {
          event.preventDefault();
          addPath(path.value.trim());
        },
      },
      path,
      h("button", {}, t("Read")),
    ),
    h(
      "p",
      { id: "add-about" },
      t("Ingest a folder again to update the store; unchanged files are skipped."),
    ),
    h("div", { role: "status" }, report),
  );
  dialog.showModal();
  path.focus();
}

function line(name, text, good) {
  const row = h(
    "li",
    {},
    h(
      "span",
      { class: good === null ? "" : good ? "ok" : "bad", "aria-hidden": "true" },
      good === null ? "…" : good ? "✓" : "×",
    ),
    h("span", {}, h("span", { class: "name" }, name), ` ${text}`),
  );
  report.prepend(row);
  return row;
}

async function addAndReport(name, work) {
  if (!$("add").open) openAdd();
  const waiting = line(name, t("reading"), null);
  try {
    const done = await work();
    waiting.remove();
    line(name, summary(done), !done.failed.length);
    for (const each of [...done.failed, ...done.skipped].slice(0, 5))
      line(each.path, each.reason, false);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    waiting.remove();
    line(name, `${error.message}. ${error.hint}`, false);
  }
  document.dispatchEvent(new CustomEvent("kb:changed"));
}

function summary(done) {
  const parts = [
    [done.added.length, t("added")],
    [done.changed.length, t("changed")],
    [done.removed.length, t("removed")],
    [done.unchanged, t("unchanged")],
    [done.failed.length, t("failed")],
  ];
  return (
    parts
      .filter(([count]) => count)
      .map(([count, what]) => `${count} ${what}`)
      .join(", ") || t("no supported files")
  );
}

const addPath = (path) => (path ? addAndReport(path, () => post("/ingest", { paths: [path] })) : null);

export async function addFiles(files) {
  for (const file of files) await addAndReport(file.name, () => upload(file));
}

export function acceptDrops() {
  let depth = 0;
  const files = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (files(event)) {
      depth += 1;
      $("drop").hidden = false;
    }
  });
  addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    if (!depth) $("drop").hidden = true;
  });
  addEventListener("dragover", (event) => {
    if (files(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    depth = 0;
    $("drop").hidden = true;
    if (!files(event)) return;
    event.preventDefault();
    addFiles([...event.dataTransfer.files]);
  });
}

// --- live progress -------------------------------------------------------------------------------

export function showProgress(name, now) {
  const ingesting = name === "ingest" && now.stage !== "done";
  const embedding = name === "embedding" && now.state === "working";
  $("running").hidden = !(
    ingesting ||
    embedding ||
    (name === "embedding" && now.state === "failed")
  );
  $("running-bar").hidden = !(ingesting || embedding);
  $("running-bar").max = now.total || 1;
  $("running-bar").value = now.done;
  if (embedding)
    $("running-text").textContent =
      t("Embedding {done} of {n} passage, {speed} per second|Embedding {done} of {n} passages, {speed} per second", { done: now.done, n: now.total, speed: now.per_second });
  else if (ingesting) $("running-text").textContent = t("Reading {path}", { path: now.path || "…" });
  else if (now.state === "failed") $("running-text").textContent = t("Embedding is paused: {reason}", { reason: now.error });
}
