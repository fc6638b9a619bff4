// Requests to the server. Every failure is an ApiError with the code, message and hint of error.v1.

import { t } from "./i18n.js";

export class ApiError extends Error {
  constructor({ code, message, hint }, status) {
    super(message);
    Object.assign(this, { code, hint, status });
  }
}

const unreachable = {
  code: "unreachable",
  message: t("The connection failed."),
  hint: t("Check that kb serve is running. This page retries automatically."),
};

let token = sessionStorage.getItem("kb-token");

// A link may carry the token in its fragment, which is never sent to a server. Remove it at once.
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

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers: headers(options.headers),
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(unreachable, 0);
  }
  if (response.ok) return response;
  let body;
  try {
    body = await response.json();
  } catch {
    body = {
      code: "unexpected",
      message: t("The server answered with {status}.", { status: response.status }),
      hint: "",
    };
  }
  throw new ApiError(body, response.status);
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
  (await request(`${path}?${query(values)}`, { signal })).json();
export const post = async (path, body, signal) =>
  (await request(path, { method: "POST", headers: json, body: JSON.stringify(body), signal })).json();
export const put = async (path, body) =>
  (await request(path, { method: "PUT", headers: json, body: JSON.stringify(body) })).json();
export const remove = async (path) =>
  (
    await request(`/documents/${path.split("/").map(encodeURIComponent).join("/")}`, {
      method: "DELETE",
      headers: { "X-KB-Request": "page" },
    })
  ).json();
export const upload = async (file) =>
  (
    await request(`/uploads/${encodeURIComponent(file.name)}`, {
      method: "PUT",
      headers: { "X-KB-Request": "page", "Content-Type": "application/octet-stream" },
      body: file,
    })
  ).json();

// Server-sent events through fetch, because EventSource cannot send a token.
export async function listen(onEvent, onConnectionChange) {
  for (;;) {
    try {
      const response = await request("/events");
      onConnectionChange(null);
      await readEvents(response.body.pipeThrough(new TextDecoderStream()), onEvent);
    } catch (error) {
      if (error.status === 401 || error.status === 403) return; // a token with limits gets no events
      onConnectionChange(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function readEvents(stream, onEvent) {
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
      if (lines.event) onEvent(lines.event, JSON.parse(lines.data));
    }
  }
}

// Sends a request whose response is a stream of events.
export async function stream(path, body, onEvent, signal) {
  const options = { method: "POST", headers: json, body: JSON.stringify(body), signal };
  const response = await request(path, options);
  await readEvents(response.body.pipeThrough(new TextDecoderStream()), onEvent);
}

// Saves the file of a document.
export async function download(path) {
  const response = await request(`/originals/${path.split("/").map(encodeURIComponent).join("/")}`);
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = path.split("/").at(-1);
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
