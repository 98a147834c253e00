import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { HttpExpectation, HttpStep } from "../../src/model/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport } from "../../src/steps/step-runner.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { scopeOf, stepContext } from "../support/step-context.ts";

interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

interface Stub {
  readonly url: string;
  readonly requests: Request[];
  readonly server: Server;
}

const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
});

type Answer = (response: ServerResponse, request: Request) => void;

async function serve(answer: Answer): Promise<Stub> {
  const requests: Request[] = [];
  const server = createServer((incoming, response) => {
    let body = "";
    incoming.setEncoding("utf8").on("data", (text: string) => (body += text));
    incoming.on("end", () => {
      const { method = "", url: path = "", headers } = incoming;
      const request = { method, path, headers, body };
      requests.push(request);
      answer(response, request);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closers.push(
    () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  );
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, requests, server };
}

function text(body: string, status = 200, headers: Record<string, string | string[]> = {}): Answer {
  return (response) => response.writeHead(status, headers).end(body);
}

function stepTo(url: string, parts: Partial<HttpStep> = {}): HttpStep {
  const base = { type: "http", id: "ask", timeoutMs: 20_000, method: "GET", headers: {} } as const;
  return { ...base, url, expect: { status: ["2xx"] }, ...parts };
}

const scope = scopeOf({ env: { TOKEN: "t0", N: "5", VERB: "post" } });

function run(step: HttpStep, signal?: AbortSignal): Promise<StepReport> {
  return runStep(step, stepContext({ scope, ...(signal === undefined ? {} : { signal }) }));
}

/** Name, whether it holds and message of every check on a response. */
async function told(answer: Answer, expect: HttpExpectation): Promise<readonly unknown[]> {
  const { url } = await serve(answer);
  const { checks, error } = await run(stepTo(url, { expect }));
  if (error !== undefined) throw error as Error;
  return checks.map(({ name, passed, message }) => [name, passed, message]);
}

async function failure(step: HttpStep): Promise<McpvalsError> {
  const { outcome, error, checks } = await run(step);
  expect([outcome, checks]).toEqual(["error", []]);
  if (!(error instanceof McpvalsError)) throw new Error("not our error", { cause: error });
  expect(error.code).toBe("step/cannot-run");
  return error;
}

describe("the request", () => {
  it("has the method, the headers and the text, with templates replaced", async () => {
    const { url, requests } = await serve(text("ok"));
    const step = stepTo(`${url}/a?t={env.TOKEN}`, {
      method: "{env.VERB}",
      headers: { Authorization: "Bearer {env.TOKEN}", "Content-Type": "text/x" },
      body: { text: "token {env.TOKEN}" },
    });
    expect(await run(step)).toMatchObject({ outcome: "passed" });
    expect(requests).toMatchObject([
      {
        method: "POST",
        path: "/a?t=t0",
        headers: { authorization: "Bearer t0", "content-type": "text/x" },
        body: "token t0",
      },
    ]);
  });

  it("has a JSON body, with its content type unless another one is given", async () => {
    const { url, requests } = await serve(text("ok"));
    const body = { json: { token: "{env.TOKEN}", n: "{env.N | json}", list: [1, null] } };
    await run(stepTo(url, { method: "PUT", body }));
    await run(
      stepTo(url, { method: "PUT", body, headers: { "content-type": "application/merge-patch+json" } }),
    );
    expect(requests.map(({ headers, body: sent }) => [headers["content-type"], JSON.parse(sent)])).toEqual([
      ["application/json", { token: "t0", n: 5, list: [1, null] }],
      ["application/merge-patch+json", { token: "t0", n: 5, list: [1, null] }],
    ]);
  });

  it("is in the trace as it was sent", async () => {
    const { url } = await serve(text("ok"));
    const context = stepContext({ scope });
    const step = stepTo(`${url}/{env.TOKEN}`, {
      headers: { a: "{env.N}" },
      body: { json: ["{env.N}"] },
      method: "POST",
    });
    await runStep(step, context);
    expect(context.events[0]).toMatchObject({
      type: "step.started",
      stepType: "http",
      input: { method: "POST", url: `${url}/t0`, headers: { a: "5" }, body: ["5"] },
    });
  });

  it("follows redirects", async () => {
    const { url } = await serve((response, { path }) =>
      path === "/old" ? response.writeHead(302, { location: "/new" }).end() : response.end(`at ${path}`),
    );
    const { outcome } = await run(
      stepTo(`${url}/old`, { expect: { status: [200], body: { equals: "at /new" } } }),
    );
    expect(outcome).toBe("passed");
  });
});

describe("the status", () => {
  it.each<[HttpExpectation["status"], number, boolean]>([
    [["2xx"], 200, true],
    [["2xx"], 404, false],
    [[404], 404, true],
    [[200, 201], 201, true],
    [[200, "5XX"], 503, true],
    [["20x"], 210, false],
    [["2"], 200, false],
    [[], 500, true],
  ])("%j fits %i: %j", async (status, actual, passed) => {
    const [check] = await told(text("", actual), { status });
    expect(check).toEqual(["status", passed, expect.stringContaining(`the status is ${actual}`)]);
  });

  it.each([408, 425, 429, 500, 503, 404])(
    "%i, if unexpected, shows whether the server answered",
    async (status) => {
      const { url } = await serve(text("", status));
      const [check] = (await run(stepTo(url))).checks;
      expect(check).toMatchObject({ passed: false });
      expect(check?.evidence).toBe(status === 404 ? undefined : "notRun");
    },
  );

  it("that is not as expected comes with the beginning of the body", async () => {
    const body = `no such table\n${"detail ".repeat(2000)}`;
    const { url } = await serve(text(body, 500));
    const { outcome, checks } = await run(stepTo(url, { expect: { status: [200, "3xx"] } }));
    expect(outcome).toBe("failed");
    expect(checks).toEqual([
      {
        name: "status",
        passed: false,
        expected: "200 or 3xx",
        actual: { status: 500, body: expect.stringMatching(/^no such table\n(detail )+…$/) },
        message: expect.stringMatching(/^the status is 500, expected 200 or 3xx: no such table/),
        evidence: "notRun",
      },
    ]);
    expect(JSON.stringify(checks).length).toBeLessThan(2000);
    expect(await told(text("", 404), { status: ["2xx"] })).toEqual([
      ["status", false, "the status is 404, expected 2xx; the body is empty"],
    ]);
    expect(await told(text("x", 404), { status: [] })).toEqual([["status", true, "the status is 404"]]);
  });
});

describe("headers and body", () => {
  it("are looked at, names of headers in any case", async () => {
    const answer = text('{"ready": true, "n": 3}', 200, { "X-Trace": "abc", "set-cookie": ["a=1", "b=2"] });
    const expected: HttpExpectation = {
      status: [200],
      headers: {
        "x-TRACE": { equals: "abc", matches: ["^x"] },
        "Set-Cookie": { contains: ["b=2"] },
        Date: {},
        "X-None": { equals: "abc" },
      },
      body: { contains: ["ready"], json: [{ path: "$.n", equals: 4 }] },
    };
    const checks = await told(answer, expected);
    expect(checks).toEqual([
      ["status", true, "the status is 200, expected 200"],
      ["header x-TRACE equals", true, "it is as expected"],
      ["header x-TRACE matches", false, 'it does not match "^x"'],
      ["header Set-Cookie contains", true, 'it contains "b=2"'],
      ["header Date", true, "it is there"],
      [
        "header X-None",
        false,
        "the response has no header X-None; it has connection, date, set-cookie, transfer-encoding, x-trace",
      ],
      ["body contains", true, 'it contains "ready"'],
      ["body json $.n equals", false, "$.n is 3, expected 4"],
    ]);
  });

  it("are given to outputs, headers by their own names and as they are called there", async () => {
    const { url } = await serve(text('{"id": 7}', 201, { "X-Custom": "c", Location: "/7" }));
    const { outcome, outputs } = await run(
      stepTo(url, {
        outputs: {
          id: "{response.body | json $.id}",
          status: "{response.status}",
          custom: "{response.headers.X-Custom}",
          odd: "<{ response.headers.LOCATION }>",
          plain: "{response.headers.location}",
        },
      }),
    );
    expect(outcome).toBe("passed");
    expect(outputs).toEqual({ id: "7", status: "201", custom: "c", odd: "</7>", plain: "/7" });
  });

  it("are read through compression and across characters that come in pieces", async () => {
    const zipped: Answer = (response) =>
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("zipped 🦊"));
    const asExpected = ["body equals", true, "it is as expected"];
    expect((await told(zipped, { status: [200], body: { equals: "zipped 🦊" } }))[1]).toEqual(asExpected);
    // Three bytes each: pieces whose length is a power of two end within one.
    const many = "€".repeat(500_000);
    expect((await told(text(many), { status: [200], body: { equals: many } }))[1]).toEqual(asExpected);
  });

  it("of 10 MB are read, of more are an error", async () => {
    const most = "x".repeat(10_000_000);
    expect((await told(text(most), { status: [200], body: { matches: ["x$"] } }))[1]).toEqual([
      "body matches",
      true,
      'it matches "x$"',
    ]);
    const { url } = await serve(text(`${most}x`));
    expect((await failure(stepTo(url))).message).toContain("larger than 10000000 bytes");
  });
});

describe("a step that cannot act is an error, with the cause named:", () => {
  it("nobody listens", async () => {
    const { url, server } = await serve(text(""));
    await new Promise((done) => server.close(done));
    const { port } = new URL(url);
    const refused = `no response to GET ${url}: connect ECONNREFUSED 127.0.0.1:${port}`;
    expect((await failure(stepTo(url))).message).toBe(refused);
    expect((await failure(stepTo(`http://localhost:${port}`))).message).toMatch(/ECONNREFUSED [\d:.]+:\d+$/);
  });

  it.each<[string, Answer, RegExp]>([
    [
      "before the response",
      (response) => response.socket?.destroy(),
      /^no response to .*(other side closed|ECONNRESET)/,
    ],
    [
      "within the body",
      (response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("half", () => response.socket?.destroy());
      },
      /^the response to GET \S+ broke off: (other side closed|.*ECONNRESET|Response body length does not match)/,
    ],
    [
      "with what is not HTTP",
      (response) => response.socket?.end("SSH-2.0-x\r\n"),
      /does not match the HTTP\/1.1 protocol/,
    ],
  ])("the connection ends %s", async (_, answer, message) => {
    const { url } = await serve(answer);
    expect((await failure(stepTo(url))).message).toMatch(message);
  });

  const noUrl = (url: string): [string, RegExp] => [url, /^".*" is not an http or https URL$/];
  it.each<[string, RegExp]>([
    ...["", "/path", "ftp://127.0.0.1/", "data:text/plain,hi", "file:///etc/hosts"].map(noUrl),
    ...["http://", "http://a b/"].map(noUrl),
    ["http://no-such-host.invalid/", /getaddrinfo (ENOTFOUND|EAI_AGAIN) no-such-host\.invalid$/],
    ["http://127.0.0.1:6000/", /: fetch refuses this port; let the server listen on another one$/],
  ])("the URL %j", async (url, message) => {
    expect((await failure(stepTo(url))).message).toMatch(message);
  });

  it.each<[Partial<HttpStep>, RegExp]>([
    [{ body: { text: "x" } }, /cannot have body/],
    [{ method: "A B" }, /A B/],
  ])("what cannot be sent: %j", async (parts, message) => {
    const { url, requests } = await serve(text(""));
    expect((await failure(stepTo(url, parts))).message).toMatch(message);
    expect(requests).toEqual([]);
  });
});

it("takes no longer than its time, also within a body that does not end", async () => {
  const { url } = await serve((response) => void response.writeHead(200).write("begin"));
  const { outcome, error } = await run(stepTo(url, { timeoutMs: 200 }));
  expect([outcome, error]).toMatchObject(["timeout", { code: "step/timeout" }]);
});

it("ends with the signal's reason", async () => {
  const controller = new AbortController();
  const reason = new McpvalsError("run/interrupted", "stop");
  const { url } = await serve(() => controller.abort(reason));
  await expect(run(stepTo(url), controller.signal)).rejects.toBe(reason);
});

it("keeps no connection and nothing else that keeps the process alive", async () => {
  const nothingIsLeft = watchLeftovers();
  const { url, server, requests } = await serve(text("ok"));
  for (let index = 0; index < 5; index += 1)
    await run(stepTo(url, { headers: { Connection: "keep-alive" } }));
  expect(requests.map(({ headers }) => headers.connection)).toEqual(Array(5).fill("close"));
  const open = (): Promise<number> =>
    new Promise((done, fail) => server.getConnections((error, count) => (error ? fail(error) : done(count))));
  await expect.poll(open, { timeout: 60_000, interval: 5 }).toBe(0);
  await Promise.all(closers.splice(0).map((close) => close()));
  await nothingIsLeft();
});
