// What is asked for, kept in the address behind the #, so that a search can be linked and gone back to.
// A link that has it behind a ? is understood too, as by the search box of a browser.

const LISTS = ["tags", "type", "kind"];
const SINGLES = ["scope", "path_glob", "after", "before"];

export const state = {
  query: "",
  mode: "",
  profile: "",
  explain: false,
  compare: false,
  filters: {},
};

export function read() {
  const said = new URLSearchParams(location.hash.slice(1) || location.search);
  state.query = said.get("q") ?? "";
  state.mode = said.get("mode") ?? "";
  state.profile = said.get("profile") ?? "";
  state.explain = said.has("explain");
  state.compare = said.has("compare");
  state.filters = {};
  for (const name of LISTS) if (said.has(name)) state.filters[name] = said.getAll(name);
  for (const name of SINGLES) if (said.get(name)) state.filters[name] = said.get(name);
}

export function write() {
  const said = new URLSearchParams();
  if (state.query) said.set("q", state.query);
  for (const name of ["mode", "profile"]) if (state[name]) said.set(name, state[name]);
  for (const name of ["explain", "compare"]) if (state[name]) said.set(name, "1");
  for (const name of LISTS) for (const value of state.filters[name] ?? []) said.append(name, value);
  for (const name of SINGLES) if (state.filters[name]) said.set(name, state.filters[name]);
  const hash = said.toString();
  history.replaceState(null, "", location.pathname + (hash ? `#${hash}` : ""));
}

export function toggle(name, value, on) {
  const values = new Set(state.filters[name] ?? []);
  if (on) values.add(value);
  else values.delete(value);
  if (values.size) state.filters[name] = [...values];
  else delete state.filters[name];
}

export function set(name, value) {
  if (value) state.filters[name] = value;
  else delete state.filters[name];
}

export const filterCount = () => Object.values(state.filters).flat().length;

export function request() {
  const asked = { query: state.query, explain: state.explain };
  for (const name of ["mode", "profile"]) if (state[name]) asked[name] = state[name];
  if (filterCount()) asked.filters = state.filters;
  return asked;
}
