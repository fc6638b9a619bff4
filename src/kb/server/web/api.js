// The server, asked. Every failure is an Failed with the code, message and hint of error.v1.

export class Failed extends Error {
  constructor({ code, message, hint }, status) {
    super(message);
    Object.assign(this, { code, hint, status });
  }
}

const unreachable = {
  code: "unreachable",
  message: "The connection failed.",
  hint: "Check that kb serve is running. This page retries automatically.",
};

let token = sessionStorage.getItem("kb-token");

// A link may bring the token behind its #, which no server ever sees; it is taken out at once.
const inLink = new URLSearchParams(location.hash.slice(1)).get("token");
if (inLink) {
  setToken(inLink);
  history.replaceState(null, "", location.pathname);
}

export function setToken(value) {
  token = value;
  sessionStorage.setItem("kb-token", value);
}

function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers: headers(options.headers),
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed(unreachable, 0);
  }
  if (response.ok) return response;
  let told;
  try {
    told = await response.json();
  } catch {
    told = {
      code: "unexpected",
      message: `The server answered with ${response.status}.`,
      hint: "",
    };
  }
  throw new Failed(told, response.status);
}

const json = { "Content-Type": "application/json" };
const query = (values) =>
  new URLSearchParams(
    Object.entries(values).flatMap(([name, value]) =>
      [value]
        .flat()
        .filter((each) => each !== null && each !== undefined)
        .map((each) => [name, each]),
    ),
  );

export const get = async (path, values = {}, signal) =>
  (await ask(`${path}?${query(values)}`, { signal })).json();
export const post = async (path, body, signal) =>
  (await ask(path, { method: "POST", headers: json, body: JSON.stringify(body), signal })).json();
export const upload = async (file) =>
  (
    await ask(`/uploads/${encodeURIComponent(file.name)}`, {
      method: "PUT",
      headers: { "X-KB-Request": "page", "Content-Type": "application/octet-stream" },
      body: file,
    })
  ).json();

// Server-sent events by fetch, since EventSource cannot send a token.
export async function listen(tell, lost) {
  for (;;) {
    try {
      const response = await ask("/events");
      lost(null);
      await readEvents(response.body.pipeThrough(new TextDecoderStream()), tell);
    } catch (error) {
      if (error.status === 401) return;
      lost(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function readEvents(stream, tell) {
  let rest = "";
  for await (const part of stream) {
    const blocks = (rest + part).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = Object.fromEntries(
        block
          .split("\n")
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      if (lines.event) tell(lines.event, JSON.parse(lines.data));
    }
  }
}
