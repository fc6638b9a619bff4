// Creates elements: h("a", {href: "/"}, "home"). Text is never parsed as HTML.

import { t } from "./i18n.js";

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== false && child !== undefined),
  );
  return element;
}

export function button(text, actions, attributes = {}) {
  return h("button", { type: "button", class: "plain-button", onclick: actions, ...attributes }, text);
}

// Copies a text, and shows on the button whether that worked: over plain HTTP from another machine,
// browsers have no clipboard.
export async function copy(text, pressed) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { readonly: true, "aria-hidden": "true", class: "visually-hidden" });
    field.value = text;
    pressed.after(field);
    field.select();
    copied = document.execCommand("copy");
    field.remove();
    pressed.focus();
  }
  pressed.textContent = copied ? t("Copied") : t("The browser does not allow copying");
}

export function show(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

export function head(id, title, dialog) {
  const close = h(
    "button",
    {
      type: "button",
      class: "quiet icon close",
      "aria-label": t("Close"),
      onclick: () => dialog.close(),
    },
    "×",
  );
  return h("header", {}, h("h2", { id }, title), close);
}
