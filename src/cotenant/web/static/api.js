/** The server's answers. Errors are thrown as Problem, with every fault that the server listed. */

export class Problem extends Error {
  /** `faults`: [{error, hint, path}]; `status` of the answer, 0 where there is none. */
  constructor(faults, status = 0) {
    super(faults.map((one) => one.error).join("; "));
    this.faults = faults;
    this.status = status;
  }
}

/** GET or POST `path`; the parsed answer. Raises Problem, or AbortError where `signal` says so. */
export async function ask(path, body, { signal, method, raw, headers } = {}) {
  const options = { method: method ?? (body === undefined ? "GET" : "POST"), signal };
  if (headers) options.headers = headers;
  if (raw) Object.assign(options, { body, headers: raw });
  else if (body !== undefined) Object.assign(options, { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
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
 * Start a job and follow it to its end. `tell` gets each progress event. The promise is of its result; `stop` is
 * set to a function that cancels it on the server.
 */
export async function job(path, body, tell, onStart = () => {}) {
  const { job: id } = await ask(path, body);
  onStart(() => ask(`jobs/${id}`, undefined, { method: "DELETE" }).catch(() => {}));
  await followed(id, tell);
  for (;;) {
    const found = await ask(`jobs/${id}`);
    if (found.state === "done") return found.result ?? (await ask(`jobs/${id}/result`));
    if (found.state === "cancelled") return null;
    await new Promise((resume) => setTimeout(resume, 150));
  }
}

function followed(id, tell) {
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
  });
}
