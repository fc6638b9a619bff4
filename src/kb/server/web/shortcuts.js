// The keyboard shortcuts, as the help lists them.

import { t } from "./i18n.js";

export const KEYS = [
  ["/", t("search")],
  ["j k", t("next and previous hit; also ↓ ↑, even from the query")],
  ["Enter", t("from the query, go to the first hit; on a hit, open it")],
  ["e", t("explain: the scores of each retriever")],
  ["c", t("compare six search methods")],
  ["?", t("show all shortcuts")],
  ["q", t("ask: quote the sentences that answer a question")],
  ["n", t("write a note")],
  ["m", t("more: show duplicates, and every passage of a document")],
  ["s", t("find passages similar to the open document")],
  ["f", t("filters")],
  ["a", t("add files or a folder")],
  ["d", t("switch between light and dark")],
  ["Esc", t("close the panel, then leave the query field without clearing it")],
];
