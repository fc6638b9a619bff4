// Searches that the browser stores: the hits of the last one, recent ones and saved ones.

const RECENT = 8;
const SAVED = 30;

function read(storage, key, otherwise) {
  try {
    return JSON.parse(storage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise; // storage is disabled, or holds something else
  }
}

function write(storage, key, value) {
  try {
    storage.setItem(key, JSON.stringify(value));
  } catch {
    /* storage is disabled or full */
  }
}

// For "next hit" on a document page: the last search of this tab or, in a new tab, of any tab.
const LAST = "kb-last-search";
export function lastSearch() {
  const own = read(sessionStorage, LAST, null);
  if (own) return own;
  const last = read(localStorage, LAST, { query: "", hits: [] });
  write(sessionStorage, LAST, last);
  return last;
}
export function rememberHits(query, hits) {
  const places = hits.map((hit) => ({ uri: hit.citation.uri, chunk_id: hit.chunk_id }));
  for (const storage of [sessionStorage, localStorage]) write(storage, LAST, { query, hits: places });
}

const list = (key) => {
  const value = read(localStorage, key, []);
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
};

export const recent = () => list("kb-recent");

// Every key starts a search, so a query replaces its own beginnings, and a beginning of an earlier
// query is remembered only if it was entered.
export function rememberQuery(query, entered) {
  const text = query.trim();
  const others = recent().filter((each) => !text.startsWith(each));
  if (!text || (!entered && others.some((each) => each.startsWith(text)))) return;
  write(localStorage, "kb-recent", [text, ...others].slice(0, RECENT));
}

export const saved = () => list("kb-saved");
export const isSaved = (query) => saved().includes(query.trim());
export function toggleSaved(query) {
  const text = query.trim();
  const others = saved().filter((each) => each !== text);
  write(localStorage, "kb-saved", isSaved(text) ? others : [text, ...others].slice(0, SAVED));
}

export function forget() {
  write(localStorage, "kb-recent", []);
}
