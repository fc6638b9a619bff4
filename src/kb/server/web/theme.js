// Before the first paint, so that a page in the dark does not flash.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("kb-theme");
  } catch {
    /* storage is switched off */
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
