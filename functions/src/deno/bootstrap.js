// Runs in each worker before the function's entry point. It makes every HTTP server of the function listen on the worker's one socket,
// reports to the supervisor on standard output, and removes what a function of a shared worker must not use (functions.md 3.7, 3.10.2).
//
// A report is a line that starts with U+001E and contains a JSON array: ["listening"], ["log", level, request id, message],
// ["dropped", count], ["pending", count of unsettled waitUntil promises], ["retire"].

import { AsyncLocalStorage } from "node:async_hooks";
import http from "node:http";
import process from "node:process";
import { format } from "node:util";

const { socket, publicUrl, internal, maxMessageChars, maxMessages, windowMs } = JSON.parse(Deno.env.get("BASALT_WORKER"));
for (const name of internal) Deno.env.delete(name);

const exit = Deno.exit.bind(Deno);
const serve = Deno.serve.bind(Deno);
const encoder = new TextEncoder();
const currentRequest = new AsyncLocalStorage();

function report(...fields) {
  let bytes = encoder.encode(`\u001e${JSON.stringify(fields)}\n`);
  while (bytes.length > 0) bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
}

// The supervisor holds the other end of standard input: a server that was killed leaves no worker. The wait starts late, and the timer
// does not keep the event loop alive, because the event loop of this script has to end before the function is loaded.
let isWatching = false;
async function exitWithSupervisor() {
  if (isWatching) return;
  isWatching = true;
  const buffer = new Uint8Array(64);
  try {
    while ((await Deno.stdin.read(buffer)) !== null);
  } finally {
    exit(0);
  }
}
Deno.unrefTimer(setTimeout(exitWithSupervisor, 500));

// --- Logs -------------------------------------------------------------------------------------------------------------------------

let windowEnd = 0;
let messagesInWindow = 0;
let dropped = 0;

function log(level, values) {
  const now = performance.now();
  if (now >= windowEnd) {
    windowEnd = now + windowMs;
    messagesInWindow = 0;
    if (dropped > 0) report("dropped", dropped);
    dropped = 0;
  }
  messagesInWindow += 1;
  if (messagesInWindow > maxMessages) {
    dropped += 1;
    return;
  }
  const text = format(...values);
  report("log", level, currentRequest.getStore() ?? null, text.length > maxMessageChars ? text.slice(0, maxMessageChars) : text);
}

for (const [method, level] of [["debug", "debug"], ["log", "info"], ["info", "info"], ["warn", "warn"], ["error", "error"]]) {
  console[method] = (...values) => log(level, values);
}
console.trace = (...values) => log("info", [new Error(format(...values)).stack]);

// --- Requests ---------------------------------------------------------------------------------------------------------------------

// The exit code of a process that the system's killer of processes ends.
const OUT_OF_MEMORY = 137;
const REMOTE = { transport: "tcp", hostname: "0.0.0.0", port: 9999 };
let isListening = false;
let pending = 0;

function listening() {
  if (isListening) return false;
  isListening = true;
  exitWithSupervisor();
  report("listening");
  return true;
}

/** Over a unix socket Deno's `url` starts with `http+unix:`. A property on the same object keeps `Deno.upgradeWebSocket` working. */
function withPublicUrl(request) {
  const { pathname, search } = new URL(request.url.replace(/^http\+unix:/, "http:"));
  const host = request.headers.get("x-forwarded-host");
  const origin = host ? `${request.headers.get("x-forwarded-proto") ?? "http"}://${host}` : publicUrl;
  Object.defineProperty(request, "url", { value: `${origin}${pathname}${search}`, configurable: true });
  return request;
}

function control(request) {
  const { pathname } = new URL(request.url.replace(/^http\+unix:/, "http:"));
  if (pathname === "/_worker/drain") {
    dispatchEvent(new CustomEvent("beforeunload", { detail: { reason: request.headers.get("x-worker-reason") ?? "termination" } }));
    return new Response(null, { status: 204 });
  }
  return Response.json({ pending });
}

const isControl = (request) => request.url.includes("/_worker/") && /^http\+unix:\/\/[^/]*\/_worker\//.test(request.url);

/** V8 ends the process when its heap is full, but throws when the system refuses memory for a buffer. Both are the limit's response. */
function exitIfOutOfMemory(error) {
  if (!(error instanceof RangeError && /allocation failed/i.test(error.message))) return;
  console.error(error);
  exit(OUT_OF_MEMORY);
}

/** Starts the worker's server; the first one of a function wins, further ones never get a request. */
function listen(handler, options = {}) {
  const { onError, onListen, signal } = options;
  const answer = async (request, info) => {
    try {
      const response = await handler(request, info);
      if (response instanceof Response) return response;
      console.error(`the function returned ${format("%o", response)} instead of a Response`);
      return new Response("Bad Gateway", { status: 502 });
    } catch (error) {
      exitIfOutOfMemory(error);
      if (onError) return await onError(error);
      console.error(error);
      return new Response("Internal Server Error", { status: 500 });
    }
  };
  const wrapped = (request, info) => {
    if (isControl(request)) return control(request);
    withPublicUrl(request);
    const id = request.headers.get("sb-request-id");
    return currentRequest.run(id, answer, request, { remoteAddr: REMOTE, completed: info.completed });
  };
  if (isListening) return stoppedServer();
  const server = serve({
    path: socket,
    signal,
    onListen: () => {
      if (listening()) onListen?.({ transport: "tcp", hostname: REMOTE.hostname, port: REMOTE.port });
    },
    onError: (error) => {
      console.error(error);
      return new Response("Internal Server Error", { status: 500 });
    },
  }, wrapped);
  Object.defineProperty(server, "addr", { value: { ...REMOTE } });
  return server;
}

function stoppedServer() {
  console.warn("the function starts a second server, which receives no requests");
  return { addr: REMOTE, finished: new Promise(() => {}), shutdown: async () => {}, ref() {}, unref() {} };
}

Deno.serve = (first, second) => {
  if (typeof first === "function") return listen(first, typeof second === "object" ? second : {});
  return listen(typeof second === "function" ? second : first.handler, first);
};

// `Deno.listen` with `Deno.serveHttp`, as std's `serve` uses them: one connection that yields all requests.
Deno.listen = () => {
  let isAccepted = false;
  const addr = { ...REMOTE };
  const never = new Promise(() => {});
  const listener = {
    addr,
    rid: -1,
    accept: () => {
      if (isAccepted) return never;
      isAccepted = true;
      return Promise.resolve({ isWorkerConnection: true, localAddr: addr, remoteAddr: addr, rid: -1, close() {} });
    },
    close() {},
    ref() {},
    unref() {},
    async *[Symbol.asyncIterator]() {
      while (true) yield await listener.accept();
    },
  };
  return listener;
};

Deno.serveHttp = () => {
  const queue = [];
  let waiting;
  listen((request) =>
    new Promise((resolve, reject) => {
      const event = {
        request,
        respondWith: async (response) => {
          try {
            resolve(await response);
          } catch (error) {
            reject(error);
          }
        },
      };
      if (waiting) {
        waiting(event);
        waiting = undefined;
      } else {
        queue.push(event);
      }
    })
  );
  const nextRequest = () => queue.length > 0 ? Promise.resolve(queue.shift()) : new Promise((resolve) => (waiting = resolve));
  return {
    rid: -1,
    nextRequest,
    close() {},
    async *[Symbol.asyncIterator]() {
      while (true) yield await nextRequest();
    },
  };
};

// node:http, and with it express and fastify. Node's handler gets Deno's own request, so that the path needs no repair.
const listenOnPort = http.Server.prototype.listen;
http.Server.prototype.listen = function (...options) {
  const callback = options.findLast((option) => typeof option === "function");
  this.prependListener("request", (request) => {
    currentRequest.enterWith(request.headers["sb-request-id"] ?? null);
  });
  const emit = this.emit;
  this.emit = function (event, request, response, ...rest) {
    if (event === "request" && request.url.startsWith("/_worker/")) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ pending }));
      return true;
    }
    return emit.call(this, event, request, response, ...rest);
  };
  return listenOnPort.call(this, { path: socket }, () => {
    listening();
    callback?.();
  });
};

// --- The platform's own objects ---------------------------------------------------------------------------------------------------

globalThis.EdgeRuntime = {
  waitUntil(promise) {
    if (!(promise instanceof Promise)) return promise;
    pending += 1;
    report("pending", pending);
    promise.catch((error) => console.error(error)).finally(() => {
      pending -= 1;
      report("pending", pending);
    });
    return promise;
  },
};
globalThis.Supabase = {
  ai: {
    Session: class {
      constructor() {
        throw new Error("Supabase.ai is not available on this server: call a model's HTTP API instead");
      }
    },
  },
};

// A function must not end or reconfigure a worker that serves other requests too.
const ignored = () => {};
Deno.exit = ignored;
Deno.kill = ignored;
Deno.addSignalListener = ignored;
Deno.removeSignalListener = ignored;
for (const name of ["exit", "reallyExit", "abort", "kill"]) process[name] = ignored;
delete globalThis.Worker;
globalThis.SharedArrayBuffer = ArrayBuffer;

// --- Declarative functions, and functions that do not listen ------------------------------------------------------------------------

const LISTEN_WITHIN_MS = 5000;

addEventListener("load", async () => {
  if (isListening) return;
  const { default: declared } = await import(Deno.mainModule);
  if (!isListening && typeof declared?.fetch === "function") {
    listen((request, info) => declared.fetch(request, info));
    return;
  }
  setTimeout(() => {
    if (isListening) return;
    console.error("the function does not listen: call Deno.serve, or export default { fetch }");
    exit(1);
  }, LISTEN_WITHIN_MS);
});
