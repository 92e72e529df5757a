/** The server's answers. Errors are thrown as Problem, with every fault that the server listed. */

export class Problem extends Error {
  /** `faults`: [{error, hint, path}]; `status` of the answer, 0 where there is none. */
  constructor(faults, status = 0) {
    super(faults.map((one) => one.error).join("; "));
    this.faults = faults;
    this.status = status;
  }
}

/** This tab, so that it takes turns with others behind the same address. */
const TAB = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** GET or POST `path`; the parsed answer. Raises Problem, or AbortError where `signal` says so. */
export async function ask(path, body, { signal, method, headers } = {}) {
  const options = { method: method ?? (body === undefined ? "GET" : "POST"), signal, headers: { "X-Client": TAB, ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(`/api/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem([{ error: "", hint: "", path: "", offline: true }]);
  }
  const text = await answer.text();
  let found;
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    throw new Problem([{ error: `${answer.status} ${answer.statusText}`, hint: "", path: "" }]);
  }
  if (found.errors?.length) throw new Problem(found.errors, answer.status);
  if (!answer.ok) throw new Problem([{ error: `${answer.status} ${answer.statusText}`, hint: "", path: "" }]);
  return found;
}

/** The answer to the newest question only: one in flight is aborted when the next one comes. */
export function newest(path) {
  let running = null;
  return async (body) => {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      return await ask(path, body, { signal: mine.signal });
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    } finally {
      if (running === mine) running = null;
    }
  };
}

/**
 * Start a job and follow it to its end: `{result, stop}`. `tell` gets each progress event. `result` is a promise, of
 * null once it was stopped; `stop` may be called at any time, before the server has even said which job it is.
 */
export function job(path, body, tell) {
  let id = null;
  let stopped = false;
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const cancel = () => ask(`jobs/${id}`, undefined, { method: "DELETE" }).catch(() => {});
  const run = async () => {
    id = (await ask(path, body)).job;
    if (stopped) return cancel();
    await followed(id, tell, ended);
    for (;;) {
      if (stopped) return null;
      const found = await ask(`jobs/${id}`);
      if (found.state === "done") return found.result ?? (await ask(`jobs/${id}/result`));
      if (found.state === "failed") throw new Problem(found.errors);
      if (found.state === "cancelled") return null;
      await new Promise((resume) => setTimeout(resume, 150));
    }
  };
  const stop = async () => {
    stopped = true;
    end(null);
    if (id) await cancel();
  };
  const running = run();
  running.catch(() => {}); // heard of below, or of nobody's interest once it was stopped
  return { result: Promise.race([ended, running]), stop };
}

function followed(id, tell, stopped) {
  return new Promise((resolve) => {
    const events = new EventSource(`/api/jobs/${id}/events`);
    const end = () => {
      events.close();
      resolve();
    };
    const read = (event) => {
      let told;
      try {
        told = JSON.parse(event.data);
      } catch {
        return;
      }
      tell(told);
    };
    events.onmessage = read;
    events.addEventListener("progress", read);
    for (const name of ["done", "failed", "cancelled", "end"]) events.addEventListener(name, end);
    events.onerror = end; // then the job is asked for directly
    stopped.then(end);
  });
}
