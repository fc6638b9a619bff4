// The texts of the page in the reader's language. English texts are the keys of the catalog.

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" };
const RIGHT_TO_LEFT = ["ar", "fa", "he", "ur"];
const CHOICE = "kb-language";

function chosen() {
  try {
    const own = localStorage.getItem(CHOICE);
    if (own in LANGUAGES) return own;
  } catch {
    /* storage is disabled */
  }
  const preferred = navigator.languages.map((each) => each.split("-")[0].toLowerCase());
  return preferred.find((each) => each in LANGUAGES) ?? "en";
}

export const language = chosen();
const messages =
  language === "en" ? {} : (await import(`/assets/messages-${language}.js`)).MESSAGES;
const plurals = new Intl.PluralRules(language);

// A text in the reader's language: t("{n} hit|{n} hits", { n: 2 }). A text with plural forms has
// the singular first, and is chosen by `n`.
export function t(text, values = {}) {
  const forms = (messages[text] ?? text).split("|");
  const form = forms.length > 1 && plurals.select(values.n) !== "one" ? forms[1] : forms[0];
  return form.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return typeof value === "number" ? number(value) : String(value ?? whole);
  });
}

export const number = (value, options) => value.toLocaleString(language, options);

export function setLanguage(value) {
  try {
    localStorage.setItem(CHOICE, value);
  } catch {
    /* storage is disabled */
  }
  location.reload();
}

// Translates the texts and labels in the HTML file.
const LABELS = ["aria-label", "placeholder", "title"];
export function translatePage() {
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (text in messages) walker.currentNode.data = walker.currentNode.data.replace(text, messages[text]);
  }
  for (const name of LABELS)
    for (const element of document.querySelectorAll(`[${name}]`))
      element.setAttribute(name, t(element.getAttribute(name)));
}
