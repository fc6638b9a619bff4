// Runs before the first paint, so that a dark page does not flash white.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("kb-theme");
  } catch {
    /* storage is disabled */
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
