import { excerpt } from "../core/checks/excerpt.ts";
import { expandTextExpectation } from "../core/checks/expand-expectation.ts";
import { isNoAnswer } from "../core/checks/http-status.ts";
import { checkText } from "../core/checks/text-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { HttpExpectation, HttpStep } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inBody, inUrl } from "../core/templates/places.ts";
import { shortened } from "../core/text/visible-text.ts";
import type { Check } from "../core/trace/events.ts";
import { expandRecord, type StepAttempt, type StepContext, type StepRunner } from "./step-runner.ts";

/** Sends one HTTP request and looks at the response. */
export const httpStep: StepRunner<HttpStep> = {
  type: "http",
  expand: (step, expander) => ({
    ...step,
    url: expander.placed(step.url, inUrl),
    method: expander.text(step.method),
    headers: expandRecord(step.headers, expander),
    ...(step.body === undefined ? {} : { body: expandBody(step, step.body, expander) }),
    expect: expandExpect(step.expect, expander),
  }),
  input: ({ method, url, headers, body }) => ({
    method,
    url,
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(body === undefined ? {} : { body: "json" in body ? body.json : excerpt(body.text) }),
  }),
  run,
};

type Body = NonNullable<HttpStep["body"]>;

function expandBody({ headers }: HttpStep, body: Body, expander: Expander): Body {
  if ("json" in body) return { json: expander.json(body.json) };
  return { text: expander.placed(body.text, inBody(body.text, headers)) };
}

function expandExpect(expect: HttpExpectation, expander: Expander): HttpExpectation {
  const { headers, body } = expect;
  const expanded = Object.entries(headers ?? {}).map(
    ([name, expectation]) => [name, expandTextExpectation(expectation, expander)] as const,
  );
  return {
    ...expect,
    ...(headers === undefined ? {} : { headers: Object.fromEntries(expanded) }),
    ...(body === undefined ? {} : { body: expandTextExpectation(body, expander) }),
  };
}

async function run(step: HttpStep, { signal }: StepContext): Promise<StepAttempt> {
  const answer = await sendHttp(step, signal);
  const { headers, body } = step.expect;
  return {
    kind: "checked",
    checks: [
      statusCheck(step.expect, answer),
      ...Object.entries(headers ?? {}).flatMap(([name, expectation]) => {
        const value = answer.headers.get(name);
        return value === null ? [missingHeader(name, answer)] : headerChecks(name, expectation, value);
      }),
      ...(body === undefined ? [] : checkText("body", body, answer.body)),
    ],
    values: { response: { status: answer.status, body: answer.body, headers: namedHeaders(step, answer) } },
  };
}

/** Where more than the status is checked, a wrong status means only that the rest could not be checked. */
function statusCheck({ status: expected, ...others }: HttpExpectation, { status, body }: HttpAnswer): Check {
  const shown = expected.length === 0 ? "any" : expected.join(" or ");
  const passed = expected.length === 0 || expected.some((each) => fits(status, String(each)));
  const message = `the status is ${status}${expected.length === 0 ? "" : `, expected ${shown}`}`;
  if (passed) return { name: "status", passed, expected: shown, actual: status, message };
  const evidence = body === "" ? "; the body is empty" : `: ${shortened(excerpt(body.trim()), shortBody)}`;
  const actual = body === "" ? status : { status, body: excerpt(body) };
  const check = { name: "status", passed, expected: shown, actual, message: `${message}${evidence}` };
  const isMoreRead = others.headers !== undefined || others.body !== undefined;
  return isMoreRead || isNoAnswer(status) ? { ...check, untried: true } : check;
}

/** Shown of the body in a message, in characters. */
const shortBody = 300;

/** Whether a status is a number, or in a class such as `2xx`, in which `x` is any digit. */
function fits(status: number, expected: string): boolean {
  const digits = Array.from(String(status));
  const wanted = expected.toLowerCase();
  return (
    wanted.length === digits.length &&
    digits.every((digit, index) => wanted[index] === "x" || wanted[index] === digit)
  );
}

function headerChecks(
  name: string,
  expectation: NonNullable<HttpExpectation["headers"]>[string],
  value: string,
): Check[] {
  const checks = checkText(`header ${name}`, expectation, value);
  if (checks.length > 0) return checks;
  const message = "it is there";
  return [{ name: `header ${name}`, passed: true, expected: "a header", actual: excerpt(value), message }];
}

function missingHeader(name: string, { headers }: HttpAnswer): Check {
  const there = [...new Set(headers.keys())].join(", ");
  const message = `the response has no header ${name}; it has ${there === "" ? "none" : there}`;
  return { name: `header ${name}`, passed: false, expected: "a header", actual: null, message };
}

/** Headers by their names in lower case, and as the step's outputs spell them. */
function namedHeaders({ outputs = {} }: HttpStep, { headers }: HttpAnswer): JsonObject {
  const names = Object.values(outputs).flatMap((template) =>
    [...template.matchAll(/\bresponse\.headers\.([\w-]+)/g)].map(([, name = ""]) => name),
  );
  const named = [...headers.keys(), ...names].flatMap((name): [string, string][] => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return Object.fromEntries(named);
}

/** Largest response body that is read, in bytes, after decompression. */
const mostBytes = 10_000_000;

/** A response, its body read as UTF-8 to its end. */
export interface HttpAnswer {
  readonly status: number;
  /** Names ignore case. */
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends a request and reads the response; redirects are followed, and the connection is closed afterwards. Throws
 * McpvalsError `step/cannot-run` when there is no whole response, and the signal's reason.
 */
async function sendHttp(
  request: Pick<HttpStep, "url" | "method" | "headers" | "body">,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { url, method } = request;
  const target = `${method} ${url}`;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new McpvalsError("step/cannot-run", `${JSON.stringify(url)} is not an http or https URL`, {
      hint: "Write it whole, such as http://127.0.0.1:{random.port}/health.",
    });
  let failed = `no response to ${target}`;
  try {
    const response = await fetch(url, initOf(request, signal));
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

function initOf(
  { method, headers: given, body }: Pick<HttpStep, "method" | "headers" | "body">,
  signal: AbortSignal,
): RequestInit {
  const headers = new Headers(given);
  // A connection that is kept for later requests would outlive the step.
  headers.set("connection", "close");
  if (body === undefined) return { method: method.toUpperCase(), headers, signal };
  const isJson = "json" in body;
  if (isJson && !headers.has("content-type")) headers.set("content-type", "application/json");
  return {
    method: method.toUpperCase(),
    headers,
    signal,
    body: isJson ? JSON.stringify(body.json) : body.text,
  };
}

async function readBody({ body }: Response, target: string): Promise<string> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  // Leaving the loop early cancels the rest of the body.
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw tooLarge(target);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(target: string): McpvalsError {
  return new McpvalsError(
    "step/cannot-run",
    `the response to ${target} is larger than ${mostBytes} bytes, too large to look at`,
    { hint: "Ask for less, or read it with a command step that keeps a part." },
  );
}

/** The message of `fetch` for ports that browsers block, such as 6000 and 6667. */
const blocked = "bad port";

/** The innermost cause of what `fetch` throws, whose own message is always "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  if (cause instanceof Error) return reasonOf(cause);
  if (error.message === blocked) return "fetch does not use this port; let the server listen on another one";
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return code === "" || error.message.includes(code) ? error.message : `${error.message} (${code})`;
}
