import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { folderOf, type HereOutcome, root, runCli, runHere, runIn } from "../support/cli.ts";

const inputSchema = {
  properties: {
    city: { type: "string", description: "Name of the city" },
    days: { type: "integer", default: 3 },
    unit: { enum: ["C", "F"] },
    near: { type: "array", items: { $ref: "#/$defs/place" } },
  },
  required: ["city"],
  $defs: { place: { anyOf: [{ type: "string", format: "uri" }, { type: "null" }] } },
};

const weather = {
  transport: "mock",
  mock: {
    tools: {
      forecast: {
        description: "Tells the weather.\n\nOf any city.",
        inputSchema,
        responses: [
          { match: { city: "Rome", days: 1 }, return: "It will be sunny." },
          { match: { city: "12" }, return: "A number is a text here." },
          { match: { city: "Paris" }, return: { sky: "grey" } },
          { match: { city: "Oslo" }, error: "There is no such city." },
          { match: { city: "Bonn" }, protocolError: { code: -32000, message: "out of order" } },
          { match: { city: "Cairo" }, return: "\u001b[31mhot\u001b[0m\nand dry" },
          {
            match: { city: "Lima" },
            return: { content: [{ type: "image", mimeType: "image/png", data: "AAAA" }] },
          },
          { match: { city: "Kyiv" }, silence: true },
        ],
      },
    },
    resources: [{ uri: "weather://map", mimeType: "text/plain", text: "a map" }],
    prompts: [
      {
        name: "plan",
        description: "Plans a trip.",
        arguments: [{ name: "city", required: true }],
        messages: [{ role: "user", text: "Plan it." }],
      },
    ],
  },
};

const files = { "mcp-eval.config.json": { servers: { weather } } };

function call(...args: readonly string[]): Promise<HereOutcome> {
  return runIn(files, ["call", ...args]);
}

it.each([["check"], ["tools"], ["call", "forecast", "{}"], ["init"]])(
  "says how a target is written: %s",
  async (...command) => {
    const { code, stderr } = await runIn({}, [...command, "weather"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("there is no file or folder")]);
    expect(stderr).toContain(
      "Name a command after --, a URL with http:// or https://, or a file with servers: npx mcpvals check -- node server.js",
    );
  },
);

it("takes the file with servers of a folder", async () => {
  const folder = { "project/mcp-eval.config.json": files["mcp-eval.config.json"] };
  expect(await runIn(folder, ["tools", "project"])).toMatchObject({ code: 0 });
});

it.each([
  ["server.py", "mcpvals check -- COMMAND server.py"],
  ["server.mjs", "mcpvals check -- node server.mjs"],
])("says how a program is checked that was named like a file with servers: %s", async (name, hint) => {
  const { code, stderr } = await runIn({ [name]: "" }, ["check", name]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(hint)]);
});

describe("mcpvals tools", () => {
  it("lists what a server offers", async () => {
    const { stdout, code } = await runIn(files, ["tools"]);
    expect(code).toBe(0);
    expect(stdout).toMatchInlineSnapshot(`
      "weather  weather mock · MCP 2025-11-25 · 1 tool · 1 resource · 1 prompt

      Tools
        forecast
          Tells the weather.
          Of any city.
          city  string, required         Name of the city
          days  integer, default 3
          unit  "C" | "F"
          near  (string (uri) | null)[]

      Resources
        weather://map  text/plain

      Prompts
        plan
          Plans a trip.
          city  required
      "
    `);
  });

  it("gives the definitions as JSON", async () => {
    const { stdout } = await runIn(files, ["tools", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      servers: [
        { server: "weather", tools: [{ name: "forecast", inputSchema }], prompts: [{ name: "plan" }] },
      ],
    });
  });

  it("takes the command after --, with its own flags", async () => {
    const { stdout, code } = await runIn({}, ["tools", "-e", "A=1", "--", "mcp-server-everything", "stdio"]);
    expect(code).toBe(0);
    expect(stdout).toContain("server-everything  mcp-servers/everything");
    expect(stdout).toContain("a  number, required  First number");
  });

  it("says what to do where a token is missing", async () => {
    const fixture = await startHttpFixture(({ request, response }) => {
      if (request.headers.authorization === "Bearer t0ken-value") return false;
      response.writeHead(401).end();
      return true;
    });
    onTestFinished(() => fixture.close());
    const refused = await runIn({}, ["tools", fixture.url]);
    expect(refused).toMatchObject({ code: 3, stdout: "" });
    expect(refused.stderr).toMatch(/HTTP 401[^]*--header or --bearer-env/);
    const { stdout } = await runIn({}, ["tools", fixture.url, "--bearer-env", "TOKEN"], {
      TOKEN: "t0ken-value",
    });
    expect(stdout).toContain("echo");
    const given = await runIn({}, ["tools", fixture.url, "--header", "Authorization: Bearer t0ken-value"]);
    expect(given.code).toBe(0);
  });

  it("lists the servers that work, and says why another does not", async () => {
    const broken = { transport: "stdio", command: "there-is-no-such-program" };
    const { code, stdout, stderr } = await runIn(
      { "mcp-eval.config.json": { servers: { broken, weather } } },
      ["tools"],
    );
    expect([code, stderr]).toEqual([3, expect.stringMatching(/command not found: there-is-no-such-program/)]);
    expect(stdout).toMatch(/^weather {2}weather mock/);
  });

  it.each<readonly [readonly string[], RegExp]>([
    [["tools"], /no server is named, and no file with servers is in/],
    [["tools", "a.json", "b.json"], /two targets were given: a\.json and b\.json/],
    [["tools", "--"], /no command was given/],
    [["tools", "--header", "x", "http://x:1"], /Write it as "NAME: VALUE"/],
  ])("%j is refused", async (args, message) => {
    const { code, stderr } = await runIn({}, args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });
});

/** A server that interrupts mcpvals when it is told to end, and then goes on until it is ended. */
const interrupting = `
import { createInterface } from "node:readline";
const tools = [{ name: "word", inputSchema: { type: "object", properties: {} } }];
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } },
  "tools/list": { tools },
  "tools/call": { content: [] },
};
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} }));
});
lines.on("close", () => process.kill(process.ppid, "SIGINT"));
setInterval(() => undefined, 1000);
`;

it.each([[["tools"]], [["call", "word"]], [["check"]]])(
  "%j ends with 130 when it is interrupted",
  async (args) => {
    using folder = folderOf({ "server.mjs": interrupting });
    const command = [...args, "--", process.execPath, "server.mjs"];
    expect(await runCli(command, { cwd: folder.path })).toMatchObject({ code: 130 });
  },
);

describe("mcpvals call", () => {
  it.each([
    ['{"near":', "}"],
    ["near=", ""],
  ])("blames arguments that are nested too deeply, and not the server: %s", async (start, end) => {
    const deep = "[".repeat(20_000) + "]".repeat(20_000);
    const { code, stderr } = await call("forecast", "city=Rome", `${start}${deep}${end}`);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/the arguments are nested more than 200 levels/),
    ]);
  });

  it.each<readonly [readonly string[], string]>([
    [["forecast", '{"city": "Rome", "days": 1}'], "It will be sunny.\n"],
    [["forecast", "city=Rome", "days=1"], "It will be sunny.\n"],
    [["forecast", "city=12"], "A number is a text here.\n"],
    [["forecast", "city=Paris"], '{"sky":"grey"}\n'],
    [["forecast", "city=Cairo"], "\\x1b[31mhot\\x1b[0m\nand dry\n"],
    [["forecast", "city=Lima"], "[image image/png, 3 bytes]\n"],
    [
      ["forecast", "city=Rome", "days=1", "mcp-eval.config.json", "--server", "weather"],
      "It will be sunny.\n",
    ],
  ])("%j prints what the tool says", async (args, stdout) => {
    expect(await call(...args)).toEqual({ code: 0, stdout, stderr: "" });
  });

  it("prints the whole result as JSON", async () => {
    const { stdout } = await call("forecast", "city=Paris", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ structuredContent: { sky: "grey" } });
  });

  it("fails where the tool says that it failed, and where the server answers with an error", async () => {
    expect(await call("forecast", "city=Oslo")).toEqual({
      code: 1,
      stdout: "There is no such city.\n",
      stderr: 'the tool "forecast" says that it failed (isError: true)\n',
    });
    expect(await call("forecast", "city=Bonn", "--json")).toEqual({
      code: 1,
      stdout: `${JSON.stringify({ error: { code: -32000, message: "out of order" } }, undefined, 2)}\n`,
      stderr: 'server "weather" answered with the error -32000: out of order\n',
    });
  });

  it("ends after its time limit", async () => {
    const { code, stderr } = await call("forecast", "city=Kyiv", "--timeout", "50ms");
    expect([code, stderr]).toEqual([3, expect.stringMatching(/did not answer within 50 ms[^]*--timeout/)]);
  });

  it("notes an argument that is misspelt", async () => {
    const { stderr } = await call("forecast", "city=Paris", "dys=1");
    expect(stderr).toContain('note: "dys" is not a parameter of "forecast"; did you mean "days"?');
  });

  it("takes the command after --", async () => {
    const server = join(root, "test/fixtures/servers/fixture-server.mjs");
    const { code, stdout } = await runIn({}, ["call", "echo", "message=hi", "--", process.execPath, server]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "hi\n" });
  });

  it.each<readonly [readonly string[], RegExp]>([
    [
      ["forcast"],
      /server "weather" has no tool "forcast"[^]*Did you mean "forecast"\? Known tools: forecast/,
    ],
    [["forecast", '{"city": '], /the arguments are not JSON: /],
    [["forecast", "[1]"], /the arguments are not a JSON object/],
    [["forecast", "city=Oslo", "city=Rome"], /"city" is given twice[^]*'name=\[1, 2\]'/],
    [["--", "node", "server.js"], /no tool is named/],
    [["forecast", "gone.json"], /there is no file or folder .*gone\.json/],
  ])("%j is refused", async (args, message) => {
    const { code, stderr } = await call(...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });

  it("asks which of several servers is meant", async () => {
    using folder = folderOf({ "mcp-eval.config.json": { servers: { weather, other: weather } } });
    const { code, stderr } = await runHere(["call", "forecast"], { cwd: folder.path });
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/several servers: weather, other[^]*--server NAME/),
    ]);
  });
});
