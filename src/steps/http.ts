import { maxCheckedBytes } from "../base/limits.ts";
import { checkText, excerpt } from "../expect/expectations.ts";
import { isNoAnswer } from "../expect/tool-result.ts";
import { codeOf, McpvalsError } from "../base/error.ts";
import { type Json, withoutUndefined } from "../base/json.ts";
import type { HttpExpectation, HttpStep } from "../model/step.ts";
import { shortened } from "../base/visible-text.ts";
import type { Check } from "../model/event.ts";
import { type StepRunner, unlessEmpty } from "./step-runner.ts";

/** Sends one HTTP request and checks the response. */
export const httpStep: StepRunner<HttpStep> = {
  input({ method, url, headers, body }) {
    let sent: Json | undefined;
    if (body !== undefined) sent = "json" in body ? body.json : excerpt(body.text);
    return withoutUndefined({ method, url, headers: unlessEmpty(headers), body: sent });
  },
  async run(step, { signal }) {
    const response = await send(step, signal);
    const { status, headers, body } = response;
    const { expect, outputs = {} } = step;
    const checks = [
      statusCheck(expect, response),
      ...Object.entries(expect.headers ?? {}).flatMap(([name, expectation]) =>
        headerChecks(name, expectation, headers),
      ),
      ...(expect.body === undefined ? [] : checkText("body", expect.body, body)),
    ];
    // Headers by their names in lower case, and as the step's outputs spell them.
    const spelled = Object.values(outputs).flatMap((template) =>
      [...template.matchAll(/\bresponse\.headers\.([\w-]+)/g)].map(([, name = ""]) => name),
    );
    const named = [...headers.keys(), ...spelled].flatMap((name) => {
      const value = headers.get(name);
      return value === null ? [] : [[name, value] as const];
    });
    return {
      kind: "checked",
      checks,
      values: { response: { status, body, headers: Object.fromEntries(named) } },
    };
  },
};

/** Maximum length of the body in a message, in characters. */
const maxShownBody = 300;

/** Checks the status. If headers or the body are checked too, a wrong status means that they could not be checked. */
function statusCheck(
  { status: accepted, ...others }: HttpExpectation,
  { status, body }: HttpResponse,
): Check {
  // In a class such as `2xx`, `x` is any digit.
  const fits = (wanted: string): boolean => {
    const digits = Array.from(String(status), (digit, index) =>
      /x/i.test(wanted[index] ?? "") ? "x" : digit,
    );
    return wanted.toLowerCase() === digits.join("");
  };
  const passed = accepted.length === 0 || accepted.some((each) => fits(String(each)));
  const expected = accepted.length === 0 ? "any" : accepted.join(" or ");
  const message = `the status is ${status}${accepted.length === 0 ? "" : `, expected ${expected}`}`;
  if (passed) return { name: "status", passed, expected, actual: status, message };
  const evidence = body === "" ? "; the body is empty" : `: ${shortened(excerpt(body.trim()), maxShownBody)}`;
  const actual = body === "" ? status : { status, body: excerpt(body) };
  const check = { name: "status", passed, expected, actual, message: `${message}${evidence}` };
  const checksMore = others.headers !== undefined || others.body !== undefined;
  return checksMore || isNoAnswer(status) ? { ...check, evidence: "notRun" } : check;
}

function headerChecks(
  name: string,
  expectation: NonNullable<HttpExpectation["headers"]>[string],
  headers: Headers,
): readonly Check[] {
  const check = { name: `header ${name}`, expected: "a header" };
  const value = headers.get(name);
  if (value === null) {
    const known = [...new Set(headers.keys())].join(", ") || "none";
    const message = `the response has no header ${name}; it has ${known}`;
    return [{ ...check, passed: false, actual: null, message }];
  }
  const checks = checkText(check.name, expectation, value);
  return checks.length > 0
    ? checks
    : [{ ...check, passed: true, actual: excerpt(value), message: "it is there" }];
}

/** A response, its body read as UTF-8 to its end. */
interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends a request and reads the response; redirects are followed, and the connection is closed afterwards. Throws
 * McpvalsError `step/cannot-run` when the response is missing, incomplete or too large, and the signal's reason.
 */
async function send(
  { url, method, headers: given, body }: HttpStep,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const target = `${method} ${url}`;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new McpvalsError("step/cannot-run", `${JSON.stringify(url)} is not an http or https URL`, {
      hint: "Write the whole URL, such as http://127.0.0.1:{random.port}/health.",
    });
  let failed = `no response to ${target}`;
  try {
    const headers = new Headers(given);
    // A kept connection would outlive the step.
    headers.set("connection", "close");
    const isJson = body !== undefined && "json" in body;
    if (isJson && !headers.has("content-type")) headers.set("content-type", "application/json");
    const text = isJson ? JSON.stringify(body.json) : body?.text;
    const init = { method: method.toUpperCase(), headers, signal };
    const response = await fetch(url, text === undefined ? init : { ...init, body: text });
    failed = `the response to ${target} broke off`;
    return { status: response.status, headers: response.headers, body: await readBody(response, target) };
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof McpvalsError) throw cause;
    throw new McpvalsError("step/cannot-run", `${failed}: ${reasonOf(cause)}`, {
      cause,
      hint: "Check that the server runs, and host and port; retry: {for: 30s} waits for one that starts.",
    });
  }
}

async function readBody({ body }: Response, target: string): Promise<string> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  // Leaving the loop early cancels the rest of the body.
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxCheckedBytes) {
      const message = `the response to ${target} is larger than ${maxCheckedBytes} bytes, too large to be checked`;
      const hint = "Ask for less, or read it with a command step that keeps a part.";
      throw new McpvalsError("step/cannot-run", message, { hint });
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** The message of `fetch` for ports that it refuses, as browsers do, such as 6000 and 6667. */
const blockedPort = "bad port";

/** The innermost cause of what `fetch` throws, whose own message is always "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  if (cause instanceof Error) return reasonOf(cause);
  if (error.message === blockedPort) return "fetch refuses this port; let the server listen on another one";
  const code = codeOf(error);
  return code === undefined || error.message.includes(code) ? error.message : `${error.message} (${code})`;
}
