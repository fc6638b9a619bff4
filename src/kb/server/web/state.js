// The state of the search, kept in the URL fragment, so that searches can be linked and revisited.
// Links with the state in the query string work too, for browsers' search boxes.

const LISTS = ["tags", "type", "kind"];
const SINGLES = ["scope", "path_glob", "after", "before"];

export const state = {
  query: "",
  mode: "",
  profile: "",
  explain: false,
  compare: false,
  ask: false,
  all: false,
  filters: {},
};

export function read() {
  const params = new URLSearchParams(location.hash.slice(1) || location.search);
  state.query = params.get("q") ?? "";
  state.mode = params.get("mode") ?? "";
  state.profile = params.get("profile") ?? "";
  state.explain = params.has("explain");
  state.compare = params.has("compare");
  state.ask = params.has("ask");
  state.all = params.has("all");
  state.filters = {};
  for (const name of LISTS) if (params.has(name)) state.filters[name] = params.getAll(name);
  for (const name of SINGLES) if (params.get(name)) state.filters[name] = params.get(name);
}

export function write() {
  const params = new URLSearchParams();
  if (state.query) params.set("q", state.query);
  for (const name of ["mode", "profile"]) if (state[name]) params.set(name, state[name]);
  for (const name of ["explain", "compare", "ask", "all"]) if (state[name]) params.set(name, "1");
  for (const name of LISTS) for (const value of state.filters[name] ?? []) params.append(name, value);
  for (const name of SINGLES) if (state.filters[name]) params.set(name, state.filters[name]);
  const hash = params.toString();
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

// The filters as the server takes them. A path without wildcards is a part of the path.
export function filters() {
  const path = state.filters.path_glob;
  return !path || /[*?[]/.test(path) ? state.filters : { ...state.filters, path_glob: `**${path}**` };
}

export const filterCount = () => Object.values(state.filters).flat().length;

export function request() {
  const body = { query: state.query, explain: state.explain };
  for (const name of ["mode", "profile"]) if (state[name]) body[name] = state[name];
  if (state.all) body.collapse = false;
  if (filterCount()) body.filters = filters();
  return body;
}
